"""Every page in every state that a role can see: axe finds nothing on it, and a phone shows it on at most three screens."""

import json
import re
from dataclasses import replace
from urllib.parse import quote

import duckdb
import httpx2
import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx, pure
from neartwin.tables.table import bounds
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable, Rule
from neartwin.web.pages import router
from neartwin.web.service import Settings
from neartwin.web.tokens import new_token
from tests.web.browser import chromium, faults_on, faults_on_a_phone, person, sign_in
from tests.web.conftest import bearer
from tests.web.matrix import PAGES, STRANGERS
from tests.web.server import serving
from tests.web.test_access import walked

REFUSALS = ("401", "403", "404", "409", "422", "503")
NAMES = {"curator": "carol", "analyst": "ada", "auditor": "otto"}
OTHERS = [("carl", "curator"), ("bob", "analyst"), ("eve", "analyst"), ("bot", "agent"), ("old", "auditor")]
NO_PAGES = {"/", "/signin/begin", "/data/{name}/releases/{position}/csv"}  # two lead elsewhere, one is a file
SETTINGS = Settings(workers=1, burst=100_000, per_second=100_000, patience=120, plan_seconds=300)
BUYERS = {"ask_0": "count_distinct_units", "group": "cds", "keys": "declared", "currency": "epsilon"}
ORDERS = "SELECT town, COUNT(*) AS orders, AVG(amount) AS typical FROM purchases GROUP BY town"
LONG = {  # every kind of field
    "ask_0": "mean", "column_0": "amount", "low_0": "0", "high_0": "100", "fill_0": "7",
    "ask_1": "correlation", "column_1": "amount", "second_1": "cds",
    "ask_2": "quantile", "column_2": "amount", "rank_2": "0.25, 0.75", "name_2": "middle",
    "group": "town", "keys": "given", "given": "town: Ulm, Bonn", "where": "amount > 5",
    "group_way_0": "bins", "group_of_0": "amount", "group_edges_0": "0, 10, 200", "having": "mean_amount > 1",
    "limit": "3", "max_rows_per_group": "2", "max_groups": "1", "private_range": "on", "currency": "epsilon", "amount": "0.1",
}  # fmt: skip
AMOUNT = {"currency": "epsilon", "amount": "0.1"}
RULE = {
    "who_0": "*",
    "discover_0": "on",
    "all_columns_0": "on",
    "all_group_columns_0": "on",
    "max_spend_0": "epsilon=0.1",
}

# the pages of each role, with something in them and without
PLACES = {
    "curator": [
        "/data", "/data/purchases", "/data/patients", "/data/fresh", "/data/lost",
        "/data/purchases/history", "/data/purchases/history?q=nobody", "/data/fresh/history",
        "/data/purchases/ask", "/data/fresh/ask", "/data/lost/ask", "/data/purchases/dashboard", "/data/fresh/dashboard",
        "/data/purchases/budget", "/data/fresh/budget", "/data/purchases/office", "/data/fresh/office",
        "/data/purchases/releases/ONE", "/data/purchases/releases/ONE/certificate",
        "/data/purchases/policy", "/data/fresh/policy", "/register", "/people", "/ledger", "/ledger?before=3", "/nowhere",
    ],
    "analyst": [
        "/data", "/data/purchases", "/data/patients", "/data/lost", "/data/fresh",
        "/data/purchases/history", "/data/purchases/history?q=nobody", "/data/fresh/history",
        "/data/purchases/ask", "/data/purchases/ask?saved=SAVED", "/data/patients/ask", "/data/fresh/ask",
        "/data/purchases/dashboard", "/data/fresh/dashboard", "/data/purchases/budget", "/data/fresh/budget",
        "/data/purchases/releases/ONE", "/data/purchases/releases/ONE/certificate",
        "/data/purchases/releases/ONE?after=AFTER", "/data/purchases/releases/SERIES?part=2", "/data/purchases/releases/WIDE",
        "/jobs/waiting", "/people", "/data/nothing", "/data/purchases/releases/1",
    ],
    "auditor": [
        "/data", "/data/purchases", "/data/fresh", "/data/lost", "/data/purchases/history", "/data/fresh/history",
        "/data/purchases/dashboard", "/data/fresh/dashboard", "/data/purchases/budget",
        "/data/purchases/office", "/data/fresh/office",
        "/data/purchases/releases/ONE", "/data/purchases/releases/ONE/certificate",
        "/people", "/ledger", "/data/purchases/policy",
    ],
    "nobody": ["/signin", "/signin?ended=1", "/signin/back"],
}  # fmt: skip
EMPTY = {
    "curator": ["/data", "/register", "/people", "/ledger", "/nowhere"],
    "analyst": ["/data", "/data/nothing"],
    "auditor": ["/data", "/people", "/ledger"],
    "nobody": ["/signin", "/signin/begin"],
}
# the pages that answer a form, those of refusals among them
ASK = "/data/purchases/ask"
FORMS = {
    "curator": [
        (ASK, LONG),
        ("/data/purchases/policy", RULE | {"action": "review"}),
        ("/data/purchases/policy", {"who_0": "nobody:x", "action": "review"}),
        ("/data/purchases/cap", {"target": "epsilon=9"}),
        ("/register", {"file": "people.csv", "budget": "epsilon=1", "bounds": "age = 0:120"}),
        ("/register", {"file": "people.csv", "budget": "much", "action": "register"}),
        ("/people", {"name": "fred", "role": "analyst", "days": "9"}),
        ("/ledger", {}),
        ("/ledger", {"head": f"3:{'0' * 64}"}),
    ],
    "analyst": [
        (ASK, LONG),
        (ASK, BUYERS | {"amount": "7"}),
        (ASK, BUYERS | {"amount": "0.1"}),
        (ASK, AMOUNT | {"sql": "DROP TABLE purchases", "view": "sql"}),
        (ASK, AMOUNT | {"sql": ORDERS, "view": "sql"}),
        (ASK, AMOUNT | {"sql": f"SELECT AVG({'long' * 20}) AS n FROM purchases", "view": "sql"}),
        (ASK, BUYERS | {"ask_0": "most_common", "column_0": "town", "k_0": "2", "amount": "0.1"}),
        (ASK, BUYERS | {"amount": "0.1", "view": "python"}),
        (ASK, BUYERS | {"amount": "0.1", "view": "json"}),
        ("/data/purchases/budget", {"target": "much", "reason": "x"}),
    ],
    "nobody": [("/signin", {"token": "nt_0_mistyped"})],
}


class Organisation:
    """A sign-in server that lets in whoever comes."""

    async def start(self, back):
        return back, "begun"

    async def person(self, *_):
        return replace(new_token("gina", "analyst")[0], id="gina")


def entered(directory):
    return {role: directory.mint(name, role, by="console")[1] for role, name in NAMES.items()}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A service without a data set, where an organisation signs people in."""
    with DataDirectory(tmp_path_factory.mktemp("empty") / "house") as directory:
        tokens = entered(directory)
        with serving(directory, replace(SETTINGS, oidc=Organisation())) as address:
            yield directory, address, tokens, {}


@pytest.fixture(scope="module")
def full(tmp_path_factory, purchases):
    """A service with everything in it, and the names of what the pages show."""
    folder = tmp_path_factory.mktemp("full")
    with DataDirectory(folder / "house") as directory:
        tokens = entered(directory)
        minted = {name: directory.mint(name, role, by="console", project="census") for name, role in OTHERS}
        for number in range(40):
            directory.mint(f"guest{number}", "analyst", by="console", project="")
        directory.store.revoke(minted["old"][0].id, by="carol")
        register(directory, purchases)
        with serving(directory, SETTINGS) as address:
            names = asked(directory, address, tokens | {"second": minted["carl"][1]})
            yield directory, address, tokens, names


def register(directory, purchases):
    files = {
        "fresh.parquet": "SELECT i AS id, i % 7 AS age FROM range(80) t(i)",
        "people.csv": "SELECT i AS id, 20 + i % 60 AS age FROM range(90) t(i)",
        "patients.parquet": "SELECT i AS id, 20 + i % 60 AS age, ['Ulm', 'Bonn'][1 + i % 2] AS town FROM range(900) t(i)",
        "towns.parquet": "SELECT * FROM (VALUES ('Ulm', 'BW'), ('Bonn', 'NW')) t(town, state)",
        "lost.parquet": "SELECT i AS id, i % 60 AS age FROM range(90) t(i)",
    }
    place, more = str(directory.files), [f"fresh{i}" for i in range(1, 7)]
    files |= {f"fresh{i}.parquet": f"SELECT i + {i} AS id, i % 7 AS age FROM range(80) t(i)" for i in range(1, 7)}
    for name, text in files.items():
        shown = duckdb.sql(text)
        shown.write_csv(f"{place}/{name}") if name.endswith("csv") else shown.write_parquet(f"{place}/{name}")
    sets = [
        Dataset(
            name="purchases", place=str(purchases), unit="customer_id", bounds={"amount": bounds(0, 200), "cds": bounds(1, 3)},
            keys={"cds": (1, 2, 3), "town": ("Ulm", "Bonn")}, budget=approx(4, "1e-5"),
            about="Purchases of CDs in a shop.",
            policy=(
                *(Rule(who=f"analyst:guest{i}", columns=("cds",)) for i in range(9)),
                Rule(who="project:census", max_spend=approx("0.1", "1e-7"), columns=("cds", "amount"), discover=False),
                Rule(allotment=approx(2, "1e-6")),
            ),
        ),
        Dataset(
            name="patients", place=str(directory.files / "patients.parquet"), unit="id", bounds={"age": bounds(18, 100)},
            budget=pure(1), policy=(Rule(allotment=pure("0.5")),),
            tables=(JoinableTable(name="towns", place=str(directory.files / "towns.parquet"), kind="public"),),
        ),
        Dataset(name="fresh", place=str(directory.files / "fresh.parquet"), unit="id", budget=pure(1), policy=(Rule(),)),
        *(Dataset(name=name, place=f"{place}/{name}.parquet", unit="id", budget=pure(1), policy=(Rule(),)) for name in more),
        Dataset(name="lost", place=str(directory.files / "lost.parquet"), unit="id", budget=pure(1), policy=(Rule(),)),
    ]  # fmt: skip
    for one in sets:
        directory.register(one, by="carol")
    (directory.files / "lost.parquet").unlink()


def asked(directory, address, tokens):
    """Ask, save and wish; the positions of answers."""
    account = nt.connect(address, tokens["analyst"]).open("purchases")
    limits = {"limits": nt.limits(max_rows_per_group=2, max_groups=2)}
    one = account.rows.group_by("cds", keys=[1, 2]).agg(n=nt.count(), typical=nt.mean("amount"))
    several = {"n": nt.count(), "total": nt.sum("amount"), "typical": nt.mean("amount"), "middle": nt.median("amount")}
    wide = account.rows.group_by("cds", keys=list(range(1, 60))).agg(**several)
    buyers = account.rows.group_by("cds", keys=[1, 2, 3]).agg(units=nt.count_distinct_units())
    positions = {
        "ONE": account.release(account.plan(one, spend=nt.pure("0.1"), **limits)).provenance.position,
        "WIDE": account.release(account.plan(wide, spend=nt.pure("0.1"), **limits)).provenance.position,
    }
    series = account.plan_series([one, buyers], spend=nt.pure("0.1"), **limits)
    positions["SERIES"] = account.release_series(series)[0].provenance.position
    for number in range(30):
        account.release(account.plan(buyers, spend=nt.pure(f"0.01{number:02}"), **limits))
    with httpx2.Client(base_url=f"{address}/v1") as client:

        def send(role, method, path, body):
            said = client.request(method, path, json=body, headers=bearer(tokens[role]))
            assert said.is_success or said.status_code == 428, said.text
            return said

        for number, approve in enumerate((True, False, None)):
            wish = {"target": {"epsilon": f"2.{number + 1}", "delta": "1e-6"}, "reason": "the yearly report, by month"}
            (request, *_) = send("analyst", "POST", "/datasets/purchases/requests", wish).json()
            if approve is not None:
                reply = {"approve": approve, "reason": "" if approve else "the board declined"}
                send("curator", "PUT", f"/datasets/purchases/requests/{request['position']}", reply)
        for holder in ("analyst:bob", "analyst:eve", "analyst:bot", "project:census"):
            directory.allot("purchases", holder, approx("0.5", "1e-7"), by="carol")
        directory.books.need_two_people(by="console")
        cap = {"target": {"epsilon": "5", "delta": "1e-5"}, "reason": "the board"}
        send("curator", "PUT", "/datasets/purchases/cap", cap)
        send("second", "PUT", "/datasets/purchases/cap", cap | {"reason": "the board, in March"})
        for role in ("curator", "second"):
            send(role, "POST", "/tokens", {"name": f"dora of {role}", "role": "curator", "days": 30})
    for title, fields in (
        ("Buyers", BUYERS | {"amount": "0.0115", "max_rows_per_group": "2", "max_groups": "2"}),
        ("Orders", {"sql": ORDERS} | AMOUNT),
        *((f"Renters of month {month}", BUYERS | AMOUNT) for month in range(1, 10)),
    ):
        sent = {name: [value] for name, value in fields.items()}
        values = {"dataset": "purchases", "owner": "ada", "project": "", "title": title, "fields": json.dumps(sent)}
        assert directory.store.save(values, most=24)
    positions["SAVED"] = directory.store.saved("purchases")[0]["id"]
    positions["AFTER"] = json.dumps({"limit": 1})
    return positions


def send(page, path, fields):
    """Send a form with fields, and the session's secret, as a page's own form does."""
    page.evaluate(
        """([path, fields]) => {
        const form = document.createElement("form");
        const csrf = document.querySelector("[name=csrf]");
        for (const [name, value] of Object.entries({...(csrf ? {csrf: csrf.value} : {}), ...fields})) {
            const field = document.createElement("input");
            [field.type, field.name, field.value] = ["hidden", name, value];
            form.append(field);
        }
        [form.method, form.action] = ["post", path];
        document.body.append(form);
        HTMLFormElement.prototype.submit.call(form);
    }""",
        [path, fields],
    )


def hold(route):
    """Answer that there is nothing, so that the browser stays where it is."""
    route.fulfill(status=204)


def opened(page, place, names):
    """Open a page, or send a form to an address from the page that is open."""
    path, fields = (place, None) if isinstance(place, str) else place
    for name, value in names.items():
        path = path.replace(name, quote(str(value)))
    page.unroute_all()
    if path.startswith("/signin/"):
        page.route("**/data", hold)  # where it leads to by itself
    if fields is None:
        page.goto(path)
    else:
        with page.expect_navigation():
            send(page, path, fields)
    page.route("**/*", hold)  # a page that loads itself anew stays


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def faults(browser, service, role, places):
    """What is wrong on pages and on those that answer forms, by place."""
    directory, address, tokens, names = service
    found = []
    with person(browser, address, refusals=REFUSALS) as page:
        page.goto("/signin")
        if role in tokens:
            sign_in(page, tokens[role])
        for place in places:
            if place == "/jobs/waiting":
                directory.store.put_job("waiting", "analyst:ada")
            opened(page, place, names)
            found += [(place, fault) for fault in (*faults_on_a_phone(page), *faults_on(page))]
    return found


@pytest.mark.slow  # each opens every page in a browser
@pytest.mark.parametrize("role", EMPTY)
def test_axe_finds_nothing_on_the_pages_of_an_empty_service(browser, empty, role):
    assert faults(browser, empty, role, EMPTY[role]) == []


@pytest.mark.slow
@pytest.mark.parametrize("role", PLACES)
def test_axe_finds_nothing_on_any_page_and_a_phone_shows_it_whole(browser, full, role):
    assert faults(browser, full, role, PLACES[role]) == []


@pytest.mark.slow
@pytest.mark.parametrize("role", FORMS)
def test_axe_finds_nothing_on_any_page_that_answers_a_form(browser, full, role):
    assert faults(browser, full, role, FORMS[role]) == []


def pages_of(role):
    """The paths of the pages with a route that the matrix opens to a role, or to nobody."""
    paths = {path for method, path in walked(router.routes) if method == "GET"} - NO_PAGES
    return {
        path for path in paths if (PAGES["GET", path] == STRANGERS if role == "nobody" else role in PAGES["GET", path])
    }


def unwalked(role, places):
    """The pages of a role that no place is of."""
    shown = [place.partition("?")[0] for place in places]
    return {
        path for path in pages_of(role) if not any(re.fullmatch(re.sub("{.*?}", "[^/]+", path), one) for one in shown)
    }


def test_the_walk_is_over_every_page_of_every_role():
    for role, places in PLACES.items():
        assert unwalked(role, places) == set()
        for path in pages_of(role):
            others = [place for place in places if path not in pages_of(role) - unwalked(role, [place])]
            assert path in unwalked(role, others)
