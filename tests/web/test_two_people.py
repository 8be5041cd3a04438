"""What weakens a promise takes effect when two people want the very same, and not before."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from click.testing import CliRunner

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import AccessError, NeartwinError, ParameterError
from neartwin.ledger import records, wishes
from neartwin.web.data_directory import DataDirectory
from neartwin.web.errors import status_of
from neartwin.web.store import store
from neartwin.web.tokens import new_token
from tests.ledger.conftest import place, postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.ledger.test_races import run_processes
from tests.web.conftest import bearer, registered

CAP = {"target": {"epsilon": "2"}, "reason": "the board"}
TOKEN = {"name": "dora", "role": "curator", "days": 30}


@pytest.fixture
def two(client, directory, tokens):
    """Two curators' headers, in a service that needs both."""
    second = directory.mint("carl", "curator", by="console")[1]
    both = bearer(tokens["curator"]), bearer(second)
    for _ in range(2):
        directory.books.need_two_people(by="console")
    return both


def cap(directory):
    return directory.books.account("purchases").caps["epsilon"]


def raised(client, headers, body=CAP):
    return client.put("/v1/datasets/purchases/cap", json=body, headers=headers).status_code


def test_a_budget_is_raised_by_the_second_curator_alone(client, directory, two):
    carol, carl = two
    assert [raised(client, carol), raised(client, carol), cap(directory)] == [428, 428, 1]  # the same person twice
    other = CAP | {"target": {"epsilon": "3"}}
    assert [raised(client, carl, other), cap(directory)] == [428, 1]  # altered between
    assert [raised(client, carl, CAP | {"reason": "nobody"}), cap(directory)] == [428, 1]
    assert [raised(client, carl), cap(directory)] == [200, 2]
    assert [raised(client, carol, other), cap(directory)] == [200, 3]  # whoever was first
    assert raised(client, carl, CAP | {"target": {"epsilon": "4"}}) == 428
    acts = [(act.who, act.what) for act in directory.books.acts("purchases") if act.what in {"wish", "agree", "cap"}]
    assert acts[0] == ("carol", "wish")
    assert acts.count(("carol", "wish")) == 1
    assert acts[3:5] == [("carl", "agree"), ("carl", "cap")]
    assert directory.verify().whole


def test_a_wish_expires_and_serves_once(client, directory, two, monkeypatch):
    carol, carl = two
    assert raised(client, carol) == 428
    monkeypatch.setattr(wishes, "DAYS", 0)
    assert [raised(client, carl), cap(directory)] == [428, 1]
    monkeypatch.setattr(wishes, "DAYS", 7)
    assert [raised(client, carl), cap(directory)] == [200, 2]  # of two wishes for the same, carol's is taken
    assert client.post("/v1/tokens", json=TOKEN, headers=carol).status_code == 428
    assert client.post("/v1/tokens", json=TOKEN, headers=carl).status_code == 201
    assert client.post("/v1/tokens", json=TOKEN, headers=carl).status_code == 428  # the wish was used


def test_a_curators_token_needs_two_and_others_one(client, directory, two):
    carol, carl = two
    assert client.post("/v1/tokens", json=TOKEN | {"role": "analyst"}, headers=carol).status_code == 201
    before = len(directory.store.tokens())
    for _ in range(2):
        assert client.post("/v1/tokens", json=TOKEN, headers=carol).status_code == 428
    assert client.post("/v1/tokens", json=TOKEN | {"name": "dorah"}, headers=carl).status_code == 428
    assert len(directory.store.tokens()) == before
    made = client.post("/v1/tokens", json=TOKEN, headers=carl).json()
    assert client.get("/v1/me", headers=bearer(made["token"])).json()["role"] == "curator"


@pytest.mark.slow
def test_a_terminal_makes_the_next_curator_where_none_is_left(directory, two, tokens):
    with pytest.raises(AccessError, match="second person"):
        directory.mint("dora", "curator", by="console")
    for token in directory.store.tokens():
        directory.store.revoke(token.id, by="console")
    directory.mint("dora", "curator", by="console")
    with pytest.raises(AccessError, match="second person"):
        directory.mint("emil", "curator", by="dora")


@pytest.mark.slow
def test_the_terminal_is_one_person(client, directory, tokens, two):
    where = ["--data", str(directory.place)]
    make = ["token", "dora", *where, "--role", "curator", "--days", "30"]
    raise_cap = [
        "ledger",
        "raise",
        directory.ledger_place,
        "purchases",
        "--budget",
        "epsilon=2",
        "--reason",
        "the board",
    ]
    for command in (make, make, raise_cap, raise_cap):
        said = CliRunner().invoke(main, command)
        assert (said.exit_code, "second person" in said.output) == (2, True)
    assert cap(directory) == 1
    assert raised(client, two[1]) == 200
    assert client.post("/v1/tokens", json=TOKEN, headers=two[0]).status_code == 201


def signed(client, headers):
    """Sign in; the session's secret."""
    client.cookies.clear()
    client.get("/signin")
    client.post("/signin", data={"token": headers["Authorization"].removeprefix("Bearer ")})
    return client.get("/v1/me").json()["csrf"]


@pytest.mark.slow
def test_pages_show_a_wish_and_let_the_other_curator_agree(client, directory, two):
    carol, carl = two
    office, people = "/data/purchases/office", "/people"
    csrf = signed(client, carol)
    said = client.post("/data/purchases/cap", data={"csrf": csrf, "target": "epsilon=2.5", "reason": "why not"})
    assert (said.status_code, "it waits for a second curator" in said.text) == (428, True)
    client.post(people, data={"csrf": csrf, "name": "dora", "role": "curator", "days": "30"})
    assert all("It waits for another curator." in client.get(page).text for page in (office, people))
    signed(client, carl)
    for page in (office, people):
        text = client.get(page).text
        (action, hidden) = re.search(
            r'<form method="post" action="([^"]+)">((?:<input type="hidden"[^>]+>)+)\s*<p[^>]*><button class="main">Agree',
            text,
        ).groups()
        fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', hidden))
        assert client.post(action, data=fields).status_code == 200
    assert cap(directory) == 2.5
    assert [token.name for token in directory.store.tokens() if token.role == "curator"].count("dora") == 1
    assert directory.books.wishes() == ()


@pytest.mark.slow
def test_whoever_received_a_curators_token_is_not_a_second_person(client, directory, two):
    carol, carl = two
    assert client.post("/v1/tokens", json=TOKEN, headers=carol).status_code == 428
    dora = bearer(client.post("/v1/tokens", json=TOKEN, headers=carl).json()["token"])  # which carl has read
    for first, second in ((carl, dora), (dora, carl)):
        assert [raised(client, first), raised(client, second), cap(directory)] == [428, 428, 1]
    again = TOKEN | {"name": "emil"}
    assert client.post("/v1/tokens", json=again, headers=carol).status_code == 428
    emil = bearer(client.post("/v1/tokens", json=again, headers=carl).json()["token"])
    fresh = CAP | {"target": {"epsilon": "5/2"}}
    assert [raised(client, dora, fresh), raised(client, emil, fresh), cap(directory)] == [
        428,
        428,
        1,
    ]  # both are carl's
    assert [raised(client, carol, fresh), cap(directory)] == [200, Fraction(5, 2)]


def test_who_received_a_token_is_one_person_with_whom_it_makes(directory, two):
    def made(name, first, second):
        with pytest.raises(AccessError, match="second person"):
            directory.mint(name, "curator", by=first)
        directory.mint(name, "curator", by=second)

    made("dora", "carol", "carl")  # carl has read dora's token
    made("emil", "carol", "dora")  # and so, as dora, emil's
    raise_cap = partial(directory.books.raise_cap, "purchases", pure(2), "the board")
    for who in ("carl", "emil", "dora", "carl"):
        with pytest.raises(AccessError, match="second person"):
            raise_cap(by=who)
    raise_cap(by="carol")
    assert cap(directory) == 2
    assert directory.verify().whole


def test_nobody_has_the_name_of_the_terminal(client, directory, two):
    before = directory.store.tokens()
    for role in ("curator", "analyst"):
        body = {"name": "console", "role": role, "days": 30}
        answers = [client.post("/v1/tokens", json=body, headers=one) for one in two]
        assert answers[-1].status_code == 422
        assert "terminal" in answers[-1].json()["rule"]
    with pytest.raises(ParameterError, match="terminal"):
        directory.store.admit(replace(new_token("console", "analyst")[0], id="c" * 32))
    assert directory.store.tokens() == before
    directory.mint("consoles", "analyst", by="console")


def test_a_curator_whose_own_token_was_revoked_meanwhile_makes_no_other(directory, two):
    for token in directory.store.tokens():
        directory.store.revoke(token.id, by="carol")
    with pytest.raises(AccessError, match="second person"):
        directory.mint("dora", "curator", by="carol")
    directory.mint("dora", "curator", by=wishes.CONSOLE)


def test_groups_of_a_sign_in_server_make_no_curator_where_two_are_needed(directory, tokens):
    def person(name, role):
        return replace(new_token(name, role)[0], id=records.digest(name)[:32])

    directory.store.admit(person("anna", "curator"))
    directory.store.admit(person("berta", "analyst"))
    directory.books.need_two_people(by=wishes.CONSOLE)
    assert directory.store.admit(person("anna", "curator")).role == "curator"  # who was one before
    assert directory.store.admit(person("emma", "analyst")).role == "analyst"
    for name in ("berta", "dora"):
        with pytest.raises(AccessError, match="two people"):
            directory.store.admit(person(name, "curator"))
    assert directory.verify().whole


@pytest.mark.parametrize("agreed_by", ["", "carol"])
def test_verification_finds_what_one_person_did_alone(directory, two, agreed_by):
    account = directory.books.account("purchases")
    act = records.canonical({"do": "cap", "dataset": "purchases", "target": "epsilon=2", "reason": ""})
    with account.database.write() as page:
        wish, _ = page.append(records.Acted(account="purchases", who="carol", what="wish", body=act))
        if agreed_by:
            body = records.canonical({"wish": wish.position})
            page.append(records.Acted(account="purchases", who=agreed_by, what="agree", body=body))
        page.append(records.Raised(account="purchases", caps=account.rule.caps(pure(2)), reason=""))
    assert [fault.kind for fault in directory.verify().faults] == ["rule"]
    token, token_hash, _ = new_token("dora", "curator")
    with account.database.write() as page:
        store._put_token(page, token, token_hash, "carol")
    assert [fault.kind for fault in directory.verify().faults] == ["rule", "rule"]


@pytest.mark.slow
def test_a_wish_waits_in_a_backup_too(client, directory, two, tmp_path):
    assert raised(client, two[0]) == 428
    directory.backup(tmp_path / "backup")
    with DataDirectory.restored(tmp_path / "backup", tmp_path / "new") as again:
        with pytest.raises(AccessError, match="second person"):
            again.books.raise_cap("purchases", pure(2), "the board", by="carol")
        again.books.raise_cap("purchases", pure(2), "the board", by="carl")
        assert again.books.account("purchases").caps["epsilon"] == 2
        assert again.verify().whole


ROUNDS = 8


def tried(act):
    """The error's status, or 0 where the act was done."""
    try:
        act()
    except NeartwinError as refusal:
        return status_of(refusal)
    return 0


def approve(folder, ledger, who, start, results):
    """Do all that another process does at the same moment: wish or agree, agree with carol, answer a request."""
    said = []
    with DataDirectory(folder / who, ledger) as directory:
        waiting = {one["holder"]: one["position"] for one in directory.store.requests("purchases")}
        raised, allot = partial(directory.books.raise_cap, "purchases", by=who), partial(directory.allot, "purchases")
        for number in range(ROUNDS):
            holder = f"analyst:{number}"
            acts = (
                partial(raised, pure(2 + 2 * number)),
                partial(raised, pure(3 + 2 * number), "of carol"),
                partial(allot, holder, pure("0.1"), by=who, answers=waiting[holder]),
            )
            for act in acts:
                start.wait(60)
                said.append(tried(act))
    results.put((who, said))


@pytest.mark.slow  # processes start
def test_two_who_approve_at_one_moment_do_it_once_and_both_are_recorded(tmp_path, purchases, place):  # noqa: F811
    with registered(tmp_path / "house", purchases, ledger=place) as directory:
        directory.books.need_two_people(by="console")
        for number in range(ROUNDS):
            with pytest.raises(AccessError, match="second person"):
                directory.books.raise_cap("purchases", pure(3 + 2 * number), "of carol", by="carol")
            body = {"dataset": "purchases", "holder": f"analyst:{number}", "target": "epsilon=0.1", "reason": "more"}
            directory.store.request(str(number), "request", body)
        said = dict(run_processes(2, partial(approve, tmp_path), place))
        for first, second, expected in zip(*said.values(), [(0, 428), (0, 409), (0, 409)] * ROUNDS, strict=True):
            assert tuple(sorted((first, second))) == expected
        acts = directory.books.acts("purchases")
        assert [act.what for act in acts].count("cap") == 2 * ROUNDS
        assert [act.what for act in acts].count("allot") == ROUNDS
        history = directory.books.account("purchases").history()
        assert [entry.kind for entry in history].count("raise") == 2 * ROUNDS
        assert [entry.kind for entry in history].count("allot") == ROUNDS
        for number in range(ROUNDS):
            both = [(act.who, act.what) for act in acts if f'"epsilon={2 + 2 * number}"' in act.body]
            (wished, wish), (raised, cap_) = both
            assert {wished, raised} == set(said)
            assert (wish, cap_) == ("wish", "cap")
        assert len([act for act in acts if act.what == "agree" and act.who in said]) == 2 * ROUNDS
        assert cap(directory) == 1 + 2 * ROUNDS
        assert directory.verify().whole
