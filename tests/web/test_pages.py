"""The pages without a browser: who may see which, what they never do, and that fields, SQL and JSON are one question."""

import html
import json
import re
import shlex
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from neartwin.cli import main
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.pages.layout import short
from neartwin.web.service import Settings
from tests.web.conftest import registered
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
    "size": "1000",
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
    assert "Hazards of NIST" in certificate
    file = client.get(re.search(r'href="([^"]*)" download="certificate-', certificate)[1])
    assert file.json()["body"]["unit"] == "customer_id"
    assert client.get(f"{first.url.path}/csv").text.startswith('"cds"')
    # sorted and cut when it is shown, for nothing
    ordered = sent | {"order_by": "units DESC", "limit": "2"}
    shown = client.post("/data/purchases/ask", data=ordered)
    assert shown.url.path == first.url.path
    units = [float(found) for found in re.findall(r"<td>([0-9,]+) ±", shown.text.replace(",", ""))]
    assert len(units) == 2
    assert units == sorted(units, reverse=True)
    assert client.get(f"{first.url.path}/csv", params=dict(shown.url.params)).text.count("\n") == 3
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
    account = directory.books.account("purchases")
    spent, left = account.spent, account.remaining["epsilon"]
    answer = client.post(
        "/data/purchases/ask", data=previewed(client, FIELDS | {"csrf": csrf, "amount": "3", "action": "release"})
    )
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
    mended = client.post("/data/purchases/ask", data=FIELDS | {"csrf": csrf, "amount": "3", "action": f"spend:{fits}"})
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
    assert "must be analyst:NAME or project:NAME" in text_of(wrong)
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


def test_sums_over_groups_are_asked_in_fields_and_in_sql(client, directory, signed):
    csrf = signed("analyst")
    alone = {name: value for name, value in FIELDS.items() if not name.endswith("_1")} | {
        "csrf": csrf,
        "ask_0": "count",
    }
    head = directory.books.head()
    for over, words, beside in (
        (
            {"over": "prefixes", "descending": "on"},
            "SUM(COUNT(*)) OVER (ORDER BY cds DESC)",
            'name="descending" checked',
        ),
        ({"over": "moving", "before": "1"}, "ROWS BETWEEN 1 PRECEDING AND 0 FOLLOWING", 'name="behind"'),
        ({"over": "ranges", "lengths": "2"}, "RANGES(COUNT(*), [2])", 'name="lengths" value="2"'),
    ):
        shown = client.post("/data/purchases/ask", data=alone | over)
        assert words in re.sub(r"\s+", " ", html.unescape(shown.text)), over
        assert beside in shown.text, over
        assert f'<option value="{over["over"]}" selected>' in shown.text
        assert "Release for epsilon 0.25" in text_of(shown), over
    text = "SELECT WEIGHTED_SUMS(COUNT(*), MAP {'few': MAP {1: 1, 2: 1}}) AS n FROM purchases GROUP BY cds"
    typed = alone | {"sql": text}
    by_hand = client.post("/data/purchases/ask", data=typed)
    assert "edited by hand" in text_of(by_hand)
    assert "Release for epsilon 0.25" in text_of(by_hand)
    back = client.post("/data/purchases/ask", data=typed | {"action": "fields"})
    assert "edited by hand" not in text_of(back)
    assert "WEIGHTED_SUMS" not in back.text
    wrong = client.post("/data/purchases/ask", data=alone | {"over": "moving", "before": "two"})
    assert "Not yet a question" in text_of(wrong)
    assert directory.books.head() == head
    asked = alone | {"over": "prefixes", "key": "sums", "amount": "0.001", "action": "release"}
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
        assert all(part in answer.text for part in ('role="alert"', 'href="/data"', "ada · analyst", "Sign out")), path
    monkeypatch.setattr("neartwin.web.pages.datasets.api_datasets", lambda *_: 1 / 0)
    failed = client.get("/data")
    assert (failed.status_code, "Our fault" in failed.text, "Division" in failed.text) == (500, True, False)
    assert client.get("/v1/nowhere").json()["error"] == "AccessError"  # programs get data


def test_history_says_what_was_asked_and_finds_it(client, signed):
    csrf = signed("analyst")
    for where in ("amount > 111.5", "amount > 112.5"):
        sent = FIELDS | {"csrf": csrf, "where": where, "amount": "0.01", "key": where[-5:]}
        paid = client.post("/data/purchases/ask", data=previewed(client, sent) | {"action": "release"})
        assert "The numbers" in paid.text
    history = client.get("/data/purchases/history")
    assert "mean(amount), count_distinct_units() by cds where amount &gt; 111.5" in history.text
    for words, found in (("111.5 cds", 1), ("ada 112.5 mean", 1), ("nothing of the kind", 0)):
        page = client.get("/data/purchases/history", params={"q": words}).text
        assert page.count("releases/") == found, words
    older = client.get("/data/purchases/history", params={"before": 2**40, "q": "amount > 111.5"})
    assert older.text.count("releases/") == 1


def test_a_data_set_is_registered_by_answers_and_its_command_does_the_same(
    client, directory, signed, purchases, tmp_path
):
    csrf = signed("curator")
    shutil.copy(purchases, directory.files / "shop.parquet")
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
    shown = client.post("/register", data=sent | {"action": "command"})
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
