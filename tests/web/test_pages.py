"""The pages without a browser: who may see which, what they never do, and that fields, SQL and JSON are one question."""

import csv
import html
import json
import re
import shlex
import shutil
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import AccessError
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.pages import datasets
from neartwin.web.pages.ask import MOST_SAVED
from neartwin.web.pages.layout import short
from neartwin.web.service import Settings
from tests.web.conftest import ASK, bearer, registered, released
from tests.web.matrix import EVERYONE, PAGES, STRANGERS
from tests.web.server import without_processes

NAMES = {"curator": "carol", "analyst": "ada", "auditor": "otto"}
FIELDS = {
    "ask_0": "count_distinct_units",
    "ask_1": "mean",
    "column_1": "amount",
    "group": "cds",
    "keys": "declared",
    "max_rows_per_group": "2",
    "max_groups": "1",
    "currency": "epsilon",
    "amount": "0.25",
    "key": "one-page",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory, purchases):
    with registered(tmp_path_factory.mktemp("served") / "house", purchases) as opened:
        yield opened


@pytest.fixture(scope="module")
def tokens(directory):
    return {role: directory.mint(name, role, by="console")[1] for role, name in NAMES.items()}


@pytest.fixture(scope="module")
def client(directory):
    settings = Settings(workers=1, burst=10_000, per_second=10_000, patience=120)
    with without_processes(), TestClient(create_app(directory, settings)) as opened:
        yield opened


@pytest.fixture
def signed(client, tokens):
    """Sign in as a role; the session's secret is in the answer."""

    def sign(role):
        client.cookies.clear()
        client.get("/signin")
        answer = client.post("/signin", data={"token": tokens[role]}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/data")
        assert {"httponly", "samesite=strict"} <= {
            part.strip().lower() for part in answer.headers["set-cookie"].split(";")
        }
        return client.get("/v1/me").json()["csrf"]

    return sign


def text_of(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def previewed(client, sent):
    """The fields with what their preview's page sends along when it is released."""
    shown = client.post("/data/purchases/ask", data={name: value for name, value in sent.items() if name != "action"})
    return sent | {"digest": re.search(r'name="digest" value="([0-9a-f]*)"', shown.text)[1]}


def place(path):
    return path.format(name="purchases", position=3, identity="nobody")


@pytest.mark.slow
def test_a_stranger_is_led_to_the_entrance_from_every_page(client):
    client.cookies.clear()
    for (method, path), allowed in PAGES.items():
        answer = client.request(method, place(path), follow_redirects=False)
        if allowed == STRANGERS:
            assert answer.status_code in {200, 401, 404}, path  # 404 where there is no sign-in server
        else:
            assert (answer.status_code, answer.headers["location"]) == (303, "/signin"), path
    client.cookies.set("neartwin_session", "made up")
    ended = client.get("/data", follow_redirects=False)
    assert ended.headers["location"] == "/signin?ended=1"


@pytest.mark.parametrize("role", sorted(EVERYONE))
def test_every_page_is_for_its_roles_and_no_others(client, signed, role):
    csrf = signed(role)
    for (method, path), allowed in PAGES.items():
        if allowed == STRANGERS or path in {"/", "/signout"}:
            continue
        sent = {"X-CSRF-Token": csrf}
        answer = client.request(method, place(path), headers=sent, follow_redirects=False)
        assert (answer.status_code != 403) == (role in allowed), (method, path, answer.status_code)
        assert answer.status_code < 500, path


def test_nothing_changes_without_the_sessions_secret(client, directory, signed):
    signed("analyst")
    before = directory.books.head()
    answer = client.post("/data/purchases/ask", data=FIELDS | {"action": "release"})
    assert answer.status_code == 403
    answer = client.post("/data/purchases/ask", data=FIELDS | {"action": "release", "csrf": "guessed"})
    assert answer.status_code == 403
    assert directory.books.head() == before


def test_no_page_has_an_inline_script_or_style(client, signed):
    csrf = signed("curator")
    shown = [
        client.get(place) for place in ("/signin", "/data", "/data/purchases", "/data/purchases/history", "/people")
    ]
    shown += [client.get("/data/purchases/office"), client.get("/ledger"), client.get("/data/purchases/ask")]
    shown.append(client.post("/data/purchases/ask", data=FIELDS | {"csrf": csrf}))
    for answer in shown:
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "unsafe-inline" not in policy
        assert "script-src 'self'" in policy
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text)
        for outside in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
            assert outside.startswith(("/", "#")), outside
            if outside.startswith("/static/"):
                assert client.get(outside).status_code == 200


def test_preview_is_free_and_repeated_clicks_pay_once(client, directory, signed):
    csrf = signed("analyst")
    account, before = directory.books.account("purchases"), directory.books.head()
    shown = client.post("/data/purchases/ask", data=FIELDS | {"csrf": csrf})
    assert "Release for epsilon 0.25" in text_of(shown)
    assert directory.books.head() == before
    sent = previewed(client, FIELDS | {"csrf": csrf, "action": "release"})
    for changed in ({"amount": "0.5"}, {"where": "amount > 5"}, {"digest": ""}):
        assert "it changed since" in text_of(client.post("/data/purchases/ask", data=sent | changed))
    assert directory.books.head() == before
    first = client.post("/data/purchases/ask", data=sent)
    again = client.post("/data/purchases/ask", data=sent)
    assert first.url == again.url
    assert "best guess about one customer_id" in text_of(first)
    assert account.spent == {"epsilon": Fraction(1, 4)}
    certificate = client.get(f"{first.url.path}/certificate").text
    assert "Where it stands" in certificate
    file = client.get(re.search(r'href="([^"]*)" download="certificate-', certificate)[1])
    assert file.json()["body"]["unit"] == "customer_id"
    assert client.get(f"{first.url.path}/csv").text.startswith('"cds"')
    # sorted and cut when it is shown, for nothing
    ordered = sent | {"order_by": "units DESC", "limit": "2"}
    shown = client.post("/data/purchases/ask", data=ordered)
    assert shown.url.path == first.url.path
    lines = [*csv.DictReader(client.get(f"{first.url.path}/csv", params=dict(shown.url.params)).text.splitlines())]
    units = [int(line["units"]) for line in lines]
    assert len(units) == 2
    assert units == sorted(units, reverse=True)
    assert all(f"<td>{line['units']} " in shown.text.replace(",", "") for line in lines)
    # and divided
    divided = json.dumps({"computed": {"each": "mean_amount / units"}, "having": "each > 0", "limit": 1})
    assert client.get(f"{first.url.path}/csv", params={"after": divided}).text.splitlines()[0].endswith('"each_upper"')
    for wrong in ({"computed": {"each": "secret / units"}}, {"computed": [1]}, {"monotone": {"units": "up"}}):
        assert client.get(first.url.path, params={"after": json.dumps(wrong)}).status_code == 422
    assert client.get(first.url.path, params={"after": '{"limit": "many"}'}).status_code == 422
    assert client.get(first.url.path, params={"after": '{"order_by": [["secret", true]]}'}).status_code == 422
    assert account.spent == {"epsilon": Fraction(1, 4)}


def test_a_refusal_says_what_remains_and_two_ways_out(client, directory, signed):
    csrf = signed("analyst")
    fields = FIELDS | {"csrf": csrf, "where": "amount > 7.5"}
    account = directory.books.account("purchases")
    spent, left = account.spent, account.remaining["epsilon"]
    answer = client.post("/data/purchases/ask", data=previewed(client, fields | {"amount": "3", "action": "release"}))
    told = text_of(answer)
    assert "The budget does not suffice" in told
    assert f"remaining {short(left)} " in told
    assert f"missing {short(3 - left)} " in told
    assert "ask the curator to raise" in told
    fits = re.search(r'value="spend:([0-9.]+)"', answer.text)[1]
    allotted = [part.remaining["epsilon"] for part in account.allotments() if part.holder == "analyst:ada"]
    assert Fraction(fits) == min(
        left, *(allotted or [Fraction(1, 2)])
    )  # what the analyst may, not what the account has
    assert account.spent == spent
    mended = client.post("/data/purchases/ask", data=fields | {"amount": "3", "action": f"spend:{fits}"})
    assert f"Release for epsilon {fits}" in text_of(mended)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"amount": "a lot"}, "epsilon='a lot'"),
        ({"where": "amount >"}, "amount"),
        ({"where": "amount > 5; DROP TABLE x"}, "amount"),
        ({"column_1": "secret"}, "secret"),
        ({"low_1": "5", "high_1": "1"}, "the lower first"),
        ({"keys": "discover"}, "delta"),
        ({"max_rows_per_group": "many"}, "max_rows_per_group is missing"),
        ({"ask_0": "median_of_all"}, "must ask one of"),
        ({"sql": "DELETE FROM purchases"}, "SELECT"),
        ({"currency": "gold"}, "gold"),
    ],
)
def test_what_cannot_be_asked_is_said_kindly_and_spends_nothing(client, directory, signed, changed, words):
    csrf, before = signed("analyst"), directory.books.head()
    answer = client.post("/data/purchases/ask", data=FIELDS | {"csrf": csrf} | changed)
    assert answer.status_code == 200
    assert words in text_of(answer).replace("&#39;", "'")
    assert "Not yet a question that can be answered" in answer.text
    assert directory.books.head() == before


def test_names_from_people_are_escaped_everywhere(client, directory, signed):
    directory.mint("<b>eve</b>", "analyst", by="console")
    csrf = signed("curator")
    evil = {"where": "'<script>' = '</textarea><img src=x>'", "name_0": '"><script>alert(1)</script>', "csrf": csrf}
    shown = [client.get("/people"), client.get("/ledger"), client.post("/data/purchases/ask", data=FIELDS | evil)]
    shown.append(client.post("/data/purchases/allot", data={"csrf": csrf, "holder": "<b>x", "target": "epsilon=1"}))
    for answer in shown:
        assert "<b>eve" not in answer.text
        assert "<b>x" not in answer.text
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text


def test_a_curator_allots_raises_and_sees_who_spent(client, directory, signed):
    csrf = signed("curator")
    allot = {"csrf": csrf, "holder": "analyst:ada", "target": "epsilon=0.75"}
    assert "of 0.75 spent" in text_of(client.post("/data/purchases/allot", data=allot))
    wrong = client.post("/data/purchases/allot", data=allot | {"holder": "everyone"})
    assert "must be analyst:NAME, agent:NAME or project:NAME" in text_of(wrong)
    for holder in ("*", "analyst:", "everyone"):  # programs are told the same
        sent = {"json": {"target": {"epsilon": "0.5"}}, "headers": {"X-CSRF-Token": csrf}}
        assert client.put(f"/v1/datasets/purchases/allotments/{holder}", **sent).status_code == 422
    unexplained = client.post("/data/purchases/cap", data={"csrf": csrf, "target": "epsilon=2", "reason": ""})
    assert "reason" in text_of(unexplained)
    assert directory.books.account("purchases").caps == {"epsilon": 1}
    client.post("/data/purchases/cap", data={"csrf": csrf, "target": "epsilon=2", "reason": "the board said so"})
    assert directory.books.account("purchases").caps == {"epsilon": 2}
    shown = client.post("/people", data={"csrf": csrf, "name": "bob", "role": "analyst", "project": "", "days": "5"})
    token = re.search(r"nt_[0-9a-f]+_[0-9a-f]+", shown.text)[0]
    assert token not in client.get("/people").text
    csrf = signed("analyst")
    client.post("/data/purchases/ask", data=previewed(client, FIELDS | {"csrf": csrf, "action": "release"}))
    signed("auditor")
    spending = client.get("/data/purchases/office").text
    assert "Spending by analyst: ada 12.5%" in spending
    assert "Set the allotment" not in spending


@pytest.mark.slow
def test_the_chart_of_spending_reads_the_newest_releases_alone(tmp_path, purchases, monkeypatch):
    stack = ExitStack()
    directory = stack.enter_context(registered(tmp_path / "house", purchases))
    stack.enter_context(without_processes())
    client = stack.enter_context(TestClient(create_app(directory, Settings(workers=1, plan_seconds=300))))
    for who, spend in (("ada", "0.1"), ("eve", "0.05"), ("ada", "0.2"), ("eve", "0.25")):
        headers = bearer(directory.mint(who, "analyst", by="console")[1])
        assert released(client, ASK | {"spend": {"epsilon": spend}}, headers)["release"]
    account = directory.books.account("purchases")
    said, points = [], []
    for drawn in (1_000, 2):
        monkeypatch.setattr(datasets, "_DRAWN", drawn)
        monkeypatch.setattr(
            datasets.Figure, "draw", lambda figure, **words: points.append(figure.lines) or words["spoken"]
        )
        said.append(datasets._spending(account))
    assert said == ["Spending by analyst: ada 30.0%; eve 30.0%"] * 2
    starts = [[line.y[0] for line in lines[:-1]] for lines in points]
    assert starts == [[0, 0], [pytest.approx(0.1), pytest.approx(0.05)]]  # spent before the two that are drawn
    assert released(
        client, ASK | {"spend": {"epsilon": "0.3"}}, bearer(directory.mint("zoe", "analyst", by="console")[1])
    )
    monkeypatch.setattr(datasets, "_LINES", 1)
    assert datasets._spending(account) == "Spending by analyst: others 60.0%; ada 30.0%"  # a line and a colour for each
    assert points[-1][0].y[0] == pytest.approx(0.05)  # what eve spent before the two that are drawn
    stack.close()


def test_sums_over_groups_are_asked_in_fields_and_in_sql(client, directory, signed):
    csrf = signed("analyst")
    alone = {name: value for name, value in FIELDS.items() if not name.endswith("_1")} | {
        "csrf": csrf,
        "ask_0": "count",
    }
    head = directory.books.head()
    shown = client.post("/data/purchases/ask", data=alone | {"running": "on"})
    assert "SUM(COUNT(*)) OVER (ORDER BY cds)" in re.sub(r"\s+", " ", html.unescape(shown.text))
    assert 'name="running" checked' in shown.text
    assert "Release for epsilon 0.25" in text_of(shown)
    for windowed in (
        "SUM(COUNT(*)) OVER (ORDER BY cds DESC ROWS BETWEEN 1 PRECEDING AND 0 FOLLOWING)",
        "RANGES(COUNT(*), [2])",
    ):
        in_sql = {"sql": f"SELECT {windowed} AS n FROM purchases GROUP BY cds"}
        assert "Release for epsilon 0.25" in text_of(client.post("/data/purchases/ask", data=alone | in_sql)), windowed
    text = "SELECT WEIGHTED_SUMS(COUNT(*), MAP {'few': MAP {1: 1, 2: 1}}) AS n FROM purchases GROUP BY cds"
    typed = alone | {"sql": text}
    by_hand = client.post("/data/purchases/ask", data=typed)
    assert "edited by hand" in text_of(by_hand)
    assert "Release for epsilon 0.25" in text_of(by_hand)
    back = client.post("/data/purchases/ask", data=typed | {"action": "fields"})
    assert "edited by hand" not in text_of(back)
    assert "WEIGHTED_SUMS" not in back.text
    assert directory.books.head() == head
    asked = alone | {"running": "on", "key": "sums", "amount": "0.001", "action": "release"}
    released = client.post("/data/purchases/ask", data=previewed(client, asked))
    assert "cds_to" in released.text


def test_every_refusal_of_a_page_is_a_page_with_navigation(client, signed, monkeypatch):
    csrf = signed("analyst")
    large = {"csrf": csrf, "sql": "x" * 2**21}
    for status, method, path, sent in (
        (404, "GET", "/nowhere", None),
        (404, "GET", "/data/secrets", None),
        (405, "DELETE", "/data", None),
        (403, "GET", "/people", None),
        (413, "POST", "/data/purchases/ask", large),
        (422, "GET", "/data/purchases/releases/first", None),
    ):
        answer = client.request(method, path, data=sent)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
        assert all(
            part in answer.text
            for part in ('role="alert"', 'href="/data"', 'ada<span class="role"> · analyst', "Sign out")
        ), path
        assert "/openapi.json" not in answer.text, path  # which is for programs
    monkeypatch.setattr("neartwin.web.pages.datasets.api.datasets", lambda *_: 1 / 0)
    failed = client.get("/data")
    assert (failed.status_code, "Our fault" in failed.text, "Division" in failed.text) == (500, True, False)
    assert client.get("/v1/nowhere").json()["error"] == "AccessError"  # programs get data
    assert client.get("/v1/nowhere").json()["remedy"] == "see /openapi.json"


@pytest.mark.slow
def test_history_says_what_was_asked_and_finds_it(client, signed):
    csrf = signed("analyst")
    for where in ("amount > 111.5", "amount > 112.5"):
        sent = FIELDS | {"csrf": csrf, "where": where, "amount": "0.01", "key": where[-5:]}
        paid = client.post("/data/purchases/ask", data=previewed(client, sent) | {"action": "release"})
        assert "The numbers" in paid.text
    history = client.get("/data/purchases/history")
    assert "count_distinct_units(), mean(amount) by cds where amount &gt; 111.5" in history.text
    sent = FIELDS | {"csrf": csrf, "where": "amount > 113.5", "amount": "90", "key": "refused"}
    client.post("/data/purchases/ask", data=previewed(client, sent) | {"action": "release"})
    refused = client.get("/data/purchases/history", params={"q": "refused 113.5"}).text
    assert "question refused: count_distinct_units(), mean(amount) by cds where amount &gt; 113.5" in refused
    for words, found in (("111.5 cds", 1), ("ada 112.5 mean", 1), ("nothing of the kind", 0)):
        page = client.get("/data/purchases/history", params={"q": words}).text
        assert page.count("releases/") == found, words
    older = client.get("/data/purchases/history", params={"before": 2**40, "q": "amount > 111.5"})
    assert older.text.count("releases/") == 1


def test_a_data_set_is_registered_by_answers_and_its_command_does_the_same(
    client, directory, signed, purchases, tmp_path
):
    csrf = signed("curator")
    pq.write_table(pq.read_table(purchases).slice(1), directory.files / "shop.parquet")  # no copy of it
    sent = {
        "csrf": csrf,
        "file": "shop.parquet",
        "unit": "customer_id",
        "bounds": "amount = 0:200",
        "keys": "cds = 1:3",
    }
    sent |= {"budget": "epsilon=1", "each_analyst": "epsilon=0.5", "about": "CDs"}
    for part, wrong in (
        ("unit", "nobody"),
        ("bounds", "amount = 5"),
        ("keys", "cds = x"),
        ("budget", "1"),
        ("file", "/etc/passwd"),
    ):
        refused = client.post("/register", data=sent | {part: wrong, "action": "register"})
        assert (refused.status_code, "That did not work" in refused.text) == (422, True), part
    assert "register data/shop.parquet --data ." in html.unescape(client.get("/register").text)
    typed = client.post(
        "/register", data=sent | {"unit": "not yet", "action": "typed"}
    )  # read as it stands, not checked
    assert (typed.status_code, "--unit &#39;not yet&#39; --bounds" in typed.text) == (200, True)
    assert "It fits the file" not in typed.text
    shown = client.post("/register", data=sent | {"action": "command"})
    assert "It fits the file" in shown.text
    command = html.unescape(re.search(r'id="command">([^<]*)<', shown.text)[1])
    assert directory.store.dataset("shop") is None
    done = client.post("/register", data=sent | {"action": "register"}, follow_redirects=False)
    assert done.headers["location"] == "/data/shop"
    with DataDirectory(tmp_path / "house") as other:
        shutil.copy(purchases, other.files / "shop.parquet")
    words = shlex.split(command.replace("data/shop", str(tmp_path / "house/data/shop")))[1:]
    words[words.index(".")] = str(tmp_path / "house")
    assert CliRunner().invoke(main, words).exit_code == 0
    with DataDirectory(tmp_path / "house") as other:
        assert replace(other.dataset("shop"), place="") == replace(directory.dataset("shop"), place="")


def test_more_budget_is_asked_for_read_in_words_and_approved_once(client, directory, signed):
    account, budget = directory.books.account("purchases"), "/data/purchases/budget"
    csrf = signed("analyst")
    wish = {"csrf": csrf, "holder": "analyst:ada", "target": "epsilon=2.5", "reason": "<b>the yearly</b> report"}
    for part, wrong, words in (
        ("holder", "analyst:bob", "must be you"),
        ("reason", "", "must be text of 1 to 1000"),
        ("target", "epsilon=0.1", "must be more than the present"),
        ("target", "mu=1", "kind"),
    ):
        refused = client.post(budget, data=wish | {part: wrong})
        assert (refused.status_code >= 400, words in text_of(refused)) == (True, True), part
    assert client.post(budget, data=wish | {"csrf": "guessed"}).status_code == 403
    assert "It waits for a curator" in text_of(client.post(budget, data=wish))
    assert client.post(budget, data=wish).status_code == 409  # one waits already
    position = next(act.position for act in directory.books.acts("purchases") if act.what == "request")
    before = next(part for part in account.allotments() if part.holder == "analyst:ada")
    own = client.post(f"{budget}/{position}", data={"csrf": csrf, "action": "approve"})
    assert own.status_code == 403  # an analyst approves nothing
    csrf = signed("curator")
    assert "1 request for budget" in text_of(client.get("/data"))
    shown = client.get(budget)
    assert "<b>the yearly" not in shown.text
    more = short(Fraction("2.5") - before.caps["epsilon"])
    for words in (f"epsilon=2.5 in all, epsilon {more} more than now", "in at most 92.42 % of bets", "still promise"):
        assert words in text_of(shown), words
    assert "Everybody together has only" in text_of(shown)  # the whole budget is smaller
    command = shlex.split(html.unescape(re.search(r'id="code-[0-9]+">([^<]*)<', shown.text)[1]).replace("\\\n", ""))
    assert (command[3], json.loads(command[-1])) == (
        "http://testserver/v1/datasets/purchases/allotments/analyst%3Aada",
        {"target": {"epsilon": "5/2"}},
    )
    assert client.post(f"{budget}/{position}", data={"csrf": "guessed", "action": "approve"}).status_code == 403
    assert client.post(f"{budget}/{position}", data={"csrf": csrf, "action": "decline"}).status_code == 422  # no reason
    assert client.post(f"{budget}/{position + 1}", data={"csrf": csrf, "action": "approve"}).status_code == 409
    assert "carol set the allotment to epsilon" in text_of(
        client.post(f"{budget}/{position}", data={"csrf": csrf, "action": "approve"})
    )
    assert next(part for part in account.allotments() if part.holder == "analyst:ada").caps == {
        "epsilon": Fraction(5, 2)
    }
    directory.allot("purchases", "analyst:ada", pure(1), by="carol")
    for action in ("approve", "decline"):  # sent again, it changes nothing
        again = client.post(f"{budget}/{position}", data={"csrf": csrf, "action": action, "reason": "no"})
        assert (again.status_code, "waits no more" in text_of(again)) == (409, True)
    assert next(part for part in account.allotments() if part.holder == "analyst:ada").caps == {"epsilon": 1}
    csrf = signed("analyst")
    client.post(budget, data=wish | {"csrf": csrf})
    csrf = signed("curator")
    position = [act.position for act in directory.books.acts("purchases") if act.what == "request"][-1]
    client.post(f"{budget}/{position}", data={"csrf": csrf, "action": "decline", "reason": "too much"})
    signed("analyst")
    assert "carol declined: too much" in text_of(client.get(budget))
    assert directory.verify().whole


def test_whoever_asked_for_budget_withdraws_it_and_nobody_else(client, directory, signed):
    account, budget = directory.books.account("purchases"), "/data/purchases/budget"
    bert = bearer(directory.mint("bert", "analyst", by="console")[1])
    before, csrf = account.allotment("analyst:ada"), signed("analyst")
    wish = {"csrf": csrf, "holder": "analyst:ada", "target": "epsilon=2", "reason": "the report"}
    assert "Withdraw it" in client.post(budget, data=wish).text
    position = directory.store.requests("purchases")[0]["position"]
    withdraw = f"{budget}/{position}/withdraw"
    assert client.post(withdraw, data={"csrf": "guessed"}).status_code == 403
    assert client.post(f"{budget}/{position + 1}/withdraw", data={"csrf": csrf}).status_code == 404
    assert client.post(withdraw, headers=bert).status_code == 404
    csrf = signed("curator")
    assert "Withdraw it" not in client.get(budget).text
    csrf = signed("analyst")
    gone = client.post(withdraw, data={"csrf": csrf})
    assert ("ada withdrew it" in text_of(gone), "It waits for a curator" in text_of(gone)) == (True, False)
    assert client.post(withdraw, data={"csrf": csrf}).status_code == 409
    csrf = signed("curator")
    for action in ("approve", "decline"):  # it is gone
        sent = {"csrf": csrf, "action": action, "reason": "no"}
        assert client.post(f"{budget}/{position}", data=sent).status_code == 409
    with pytest.raises(AccessError, match="waits no more"):  # as from a page that was read before
        directory.allot("purchases", "analyst:ada", pure(2), by="carol", answers=position)
    assert account.allotment("analyst:ada") == before
    assert [act.what for act in directory.books.acts("purchases")][-2:] == ["request", "withdraw"]
    assert directory.verify().whole


def test_nobody_answers_her_own_request(client, directory, signed):
    both = {role: directory.mint("eve", role, by="console")[1] for role in ("analyst", "curator")}
    for role, path, sent in (
        ("analyst", "/data/purchases/budget", {"holder": "analyst:eve", "target": "epsilon=0.75", "reason": "why not"}),
        ("curator", "", {"action": "approve"}),
    ):
        client.cookies.clear()
        client.get("/signin")
        client.post("/signin", data={"token": both[role]})
        newest = [act.position for act in directory.books.acts("purchases") if act.what == "request"][-1:]
        place = path or f"/data/purchases/budget/{newest[0]}"
        answer = client.post(place, data=sent | {"csrf": client.get("/v1/me").json()["csrf"]})
    assert (answer.status_code, "somebody else" in text_of(answer)) == (403, True)


def test_a_dashboard_shows_stored_answers_and_prices_and_pays_nothing(client, directory, signed):
    account, dashboard = directory.books.account("purchases"), "/data/purchases/dashboard"
    csrf = signed("analyst")
    sent = FIELDS | {
        "csrf": csrf,
        "where": "amount > 3.25",
        "amount": "0.02",
        "key": "saved",
        "title": "<i>Typical</i>",
    }
    assert client.post(dashboard, data=sent | {"column_1": "secret"}).status_code == 422
    assert client.post(dashboard, data=sent | {"csrf": "guessed"}).status_code == 403
    before = account.spent
    saved = client.post(dashboard, data=sent)
    assert "&lt;i&gt;Typical" in saved.text
    assert "epsilon 0.02 This is the price" in text_of(saved)
    opened = client.get(re.search(r'href="(/data/purchases/ask\?saved=[^"]+)"', saved.text)[1])
    assert 'value="amount &gt; 3.25"' in opened.text
    assert account.spent == before
    client.post("/data/purchases/ask", data=previewed(client, sent | {"action": "release"}))
    paid = account.spent["epsilon"]
    assert paid == before["epsilon"] + Fraction("0.02")
    free = client.post("/data/purchases/ask", data=sent)
    assert "Show the answer: it is free" in text_of(free)
    assert "Release for" not in free.text
    mallory = directory.mint("mallory", "analyst", by="console")[1]
    client.cookies.clear()
    client.get("/signin")
    client.post("/signin", data={"token": mallory})  # another analyst, who has paid nothing
    shown = client.get(dashboard)
    assert "95 %" in shown.text or "<svg" in shown.text
    place = re.search(r'<h2 id="saved-[^"]+"><a href="([^"]+)"', shown.text)[1]
    assert "The numbers" in client.get(html.unescape(place)).text
    own = {"csrf": client.get("/v1/me").json()["csrf"]}
    assert client.post("/data/purchases/ask", data=sent | own | {"action": "show"}).url.path == place
    identity = re.search(r'id="saved-([^"]+)"', shown.text)[1]
    assert client.post(dashboard, data=own | {"remove": identity}).status_code == 404  # not hers
    assert account.spent["epsilon"] == paid
    other = client.post("/data/purchases/ask", data=sent | own | {"action": "show", "amount": "0.021"})
    assert "Release for epsilon 0.021" in text_of(other)  # which is not stored: nothing is paid before it is released
    assert account.spent["epsilon"] == paid
    csrf = signed("analyst")
    assert "Nothing is saved yet" in client.post(dashboard, data={"csrf": csrf, "remove": identity}).text


def test_a_dashboard_has_no_title_that_a_database_would_not_store(client, directory, signed):
    sent = FIELDS | {"csrf": signed("analyst"), "amount": "0.05"}
    before = directory.store.saved("purchases")
    titles = [client.post("/data/purchases/dashboard", data=sent | {"title": title}) for title in ("a\x00b", "a b")]
    assert [answer.status_code for answer in titles] == [422, 200]
    (new,) = [row for row in directory.store.saved("purchases") if row not in before]
    assert new["title"] == "a b"
    directory.store.forget(new["id"])


def test_a_full_dashboard_and_a_long_question_are_refused_in_words(client, directory, signed):
    sent, rows = FIELDS | {"csrf": signed("analyst"), "amount": "0.05"}, directory.store.saved("purchases")
    values = {"dataset": "purchases", "owner": "ada", "project": "", "title": "one of many", "fields": "{}"}
    while directory.store.save(values, most=MOST_SAVED):
        pass
    full = client.post("/data/purchases/dashboard", data=sent)
    for row in directory.store.saved("purchases"):
        directory.store.forget(row["id"]) if row not in rows else None
    long = client.post("/data/purchases/dashboard", data=sent | {"more": "x" * 20_000})
    for answer in (full, long):
        assert answer.status_code == 422
        assert "at most 24 questions of 20,000 letters" in text_of(answer)
    assert directory.store.saved("purchases") == rows


def test_texts_too_long_for_a_schema_are_refused_in_words(client, directory, signed):
    """The pages call what the routes call, and not their schemas, whose refusals are no page's."""
    long, account = "9" * 40, directory.books.account("purchases")
    caps, csrf = account.caps, signed("curator")
    pages = [
        ("cap", {"target": "epsilon=2", "reason": "x" * 5_000}, 422),
        ("cap", {"target": f"epsilon=0.{long}", "reason": "why"}, 409),  # it would lower the cap
        ("allot", {"holder": "analyst:" + "x" * 300, "target": "epsilon=0.1"}, 422),
        ("allot", {"holder": "ada", "target": "epsilon=0.1"}, 422),
        ("allot", {"holder": "analyst:zed", "target": f"epsilon=0.{long}"}, 200),
    ]
    for page, sent, status in pages:
        assert client.post(f"/data/purchases/{page}", data=sent | {"csrf": csrf}).status_code == status, sent
    assert account.caps == caps
    sent = {"csrf": signed("analyst"), "holder": "analyst:ada", "reason": "more", "target": f"epsilon=77.{long}"}
    assert client.post("/data/purchases/budget", data=sent).status_code == 200
    (asked,) = [one for one in directory.store.requests("purchases") if not one["answer"] and one["who"] == "ada"]
    directory.store.request("ada", "withdraw", {"dataset": "purchases", "holder": "analyst:ada"}, asked["position"])


def test_charts_over_time_have_titles_of_their_own_on_an_answers_page(client, directory, tokens, signed):
    days = [date(2024, 1 + place % 4, 1) for place in range(240)]
    towns = ["Ulm", "Bonn", "Trier"]
    visits = pa.table({"who": range(240), "day": days, "town": [towns[place % 3] for place in range(240)]})
    pq.write_table(visits, directory.files / "visits.parquet")
    place = str(directory.files / "visits.parquet")
    dataset = Dataset(name="visits", place=place, unit="who", budget=pure(9), policy=(Rule(allotment=pure(9)),))
    directory.register(dataset, by="console")
    keys = [[str(day), town] for day in sorted(set(days)) for town in towns]
    question = {"group_by": ["day", "town"], "keys": keys, "statistics": {"n": {"ask": "count_distinct_units"}}}
    ask = {"question": question, "spend": {"epsilon": "8"}, "limits": {"max_groups": 1}}
    paid = released(client, ask, bearer(tokens["analyst"]), name="visits")
    signed("analyst")
    shown = client.get(f"/data/visits/releases/{paid['position']}")
    assert shown.status_code == 200
    titles = re.findall(r"<figcaption>([^<]*)</figcaption>", shown.text)
    drawn = [f"n (count_distinct_units()), {town}" for town in towns]  # three charts of one statistic
    assert titles[:-1] == drawn  # the last is of an attacker's chances


@pytest.mark.slow
def test_a_dashboard_is_shared_within_a_project_and_keeps_to_each_policy(client, directory, signed):
    names = {name: directory.mint(name, "analyst", project=project, by="console")[1] for name, project in
             (("amy", "census"), ("ben", "census"), ("cyd", "tax"))}  # fmt: skip

    def as_one(name):
        client.cookies.clear()
        client.get("/signin")
        client.post("/signin", data={"token": names[name]})
        return client.get("/v1/me").json()["csrf"]

    sent = FIELDS | {"csrf": as_one("amy"), "title": "Ours alone", "amount": "0.03"}
    client.post("/data/purchases/dashboard", data=sent)
    as_one("ben")
    assert "Ours alone" in client.get("/data/purchases/dashboard").text
    policy = directory.dataset("purchases").policy
    directory.set_policy("purchases", (Rule(who="analyst:ben", columns=("cds",)), *policy), by="console")
    assert "is not one that the policy lets you use" in client.get("/data/purchases/dashboard").text
    directory.set_policy("purchases", policy, by="console")
    as_one("cyd")
    assert "Ours alone" not in client.get("/data/purchases/dashboard").text
    refused, budget = (text_of(client.get(f"/data/purchases/{page}")) for page in ("ask", "budget"))
    assert "remaining 0 " in refused  # for her project has none, which the page says
    assert "Your project tax pays beside you, from an allotment of its own." in refused
    assert "project tax has no allotment yet: a curator gives one, and without it you cannot spend." in budget
    signed("auditor")
    assert "Ours alone" in client.get("/data/purchases/dashboard").text


def test_release_button_is_off_while_answers_take_all_their_room(client, directory, monkeypatch):
    fields = FIELDS | {"amount": "0.01", "where": "amount > 1.25"}
    client.cookies.clear()
    client.get("/signin")
    client.post("/signin", data={"token": directory.mint("zora", "analyst", by="console")[1]})
    fields["csrf"] = client.get("/v1/me").json()["csrf"]
    sent, head = previewed(client, fields | {"action": "release"}), directory.books.head()
    on = '<button class="main big" name="action" value="release">'
    rates = client.app.state.service.authenticator.rates
    with monkeypatch.context() as full:
        full.setitem(rates.limits, "kept", (0.0, 1.0))
        for one in (fields, sent):  # and whoever presses it all the same
            page = client.post("/data/purchases/ask", data=one)
            assert (on in page.text, 'value="release" disabled' in page.text) == (False, True)
            assert "1 MiB a minute afterwards" in text_of(page)
            assert "more than you have left" not in text_of(page)
            assert "The budget does not suffice" not in page.text
        assert directory.books.head() == head
    assert on in client.post("/data/purchases/ask", data=fields).text
    client.post("/data/purchases/ask", data=previewed(client, fields | {"action": "release", "key": "roomy"}))
    monkeypatch.setitem(rates.limits, "kept", (0.0, 1.0))
    again = client.post("/data/purchases/ask", data=fields)
    assert "Show the answer: it is free" in text_of(again)
    assert "1 MiB a minute" not in again.text
