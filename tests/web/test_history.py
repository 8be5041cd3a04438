"""The history of a data set comes in pages, newest first, and no page reads more than it shows."""

import re

import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import pure
from neartwin.client import connect
from neartwin.ledger.store import Reading
from neartwin.web.store import Store
from tests.web.conftest import bearer, sign_in
from tests.web.server import serving, without_processes

HISTORY, ACTS = "/v1/datasets/purchases/history", "/v1/ledger/acts"


def test_pages_of_the_history_are_all_of_it_once(client, directory, tokens, monkeypatch):
    monkeypatch.setattr("neartwin.ledger.store.pages._PAGE", 2)
    account = directory.books.account("purchases")
    for number in range(1, 8):
        account.allot("analyst:ada" if number % 2 else "analyst:bob", pure(f"0.{number}"))
    whole = client.get(HISTORY, headers=bearer(tokens["curator"])).json()
    assert [entry["position"] for entry in whole] == [entry.position for entry in account.history()]
    read = []
    readable = Reading._readable
    monkeypatch.setattr(Reading, "_readable", lambda page, *at: read.append(at) or readable(page, *at))
    pages, before = [], {}
    while page := client.get(HISTORY, params={"limit": 3, **before}, headers=bearer(tokens["curator"])).json():
        assert len(page) <= 3
        assert len(read) <= 3 + 2  # with the record that opened the account
        pages, before = [*page, *pages], {"before": page[0]["position"]}
        read.clear()
    assert pages == whole
    own = client.get(HISTORY, params={"limit": 2}, headers=bearer(tokens["analyst"])).json()
    assert [entry["caps"]["epsilon"] for entry in own] == ["1/2", "7/10"]
    for wrong in ({"limit": 0}, {"limit": 1001}, {"before": 0}):
        assert client.get(HISTORY, params=wrong, headers=bearer(tokens["analyst"])).status_code == 422


def test_a_page_of_the_history_sorts_no_records(directory):
    """A hundred thousand took 0.2 s of the server for each page; PostgreSQL sent all of them."""
    steps, asked = [], []
    account, head = directory.books.account("purchases"), directory.books.head().position

    def planned(_, cursor, text, parameters, *__):
        if "DESC" in text:
            asked.append(text)
            steps.extend(row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall())

    sa.event.listen(sa.Engine, "before_cursor_execute", planned)
    try:
        assert [entry.position for entry in account.newest()] == list(range(head, 1, -1))
        assert list(account.newest(holders={"analyst:ada"})) == []
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", planned)
    assert len(asked) == 2
    assert all("LIMIT" in text for text in asked)
    assert not [step for step in steps if "TEMP B-TREE" in step]


def until_refused(ask, *, most=500):
    """Whether the first request is answered, and one of many is refused for their number."""
    statuses = [ask().status_code]
    while statuses[-1] == 200 and len(statuses) < most:
        statuses.append(ask().status_code)
    return statuses[0] == 200 and statuses[-1] == 429


def test_whoever_searches_again_and_again_waits_and_others_do_not(client, directory, tokens):
    """A search reads every record. The process that does it answers everybody."""
    account, limits = directory.books.account("purchases"), client.app.state.service.authenticator.rates.limits
    for number in range(1, 100):
        account.allot("analyst:ada", pure(f"0.1{number:02}"))
    sign_in(client, tokens["analyst"])
    assert client.get("/data/purchases/history?q=nothing+has+these").status_code == 200  # the first makes templates too
    limits["history"] = 0.6, 1e-6  # seconds: a tenth of one is allowed
    assert until_refused(lambda: client.get("/data/purchases/history?q=nothing+has+these"))
    assert client.get("/v1/datasets/purchases").status_code == 200  # all else goes on
    nobody = bearer(directory.mint("zoe", "analyst", by="console")[1])
    assert client.get(HISTORY, headers=nobody).status_code == 200
    assert until_refused(lambda: client.get(HISTORY, headers=nobody))  # to find no record takes a look at all


def test_an_analyst_s_history_reads_no_record_of_others(client, directory, tokens, monkeypatch):
    account = directory.books.account("purchases")
    for who in ("bob", "a_a", "ad%", 'a"da', "ada", "ada2"):  # names that a pattern could confuse
        account.allot(f"analyst:{who}", pure("0.5"))
    ticket = account.reserve("plan", "now", pure("0.1"), "analyst:bob", payers=["analyst:ada"])
    account.settle(ticket, b"{}")
    account.settle(account.reserve("plan", "then", pure("0.1"), "analyst:ada", payers=["analyst:bob"]), b"{}")
    for number in range(20):
        account.allot("analyst:bob", pure(f"0.5{number}"))
    read, asked = [], []
    readable, record = Reading._readable, Reading.record
    monkeypatch.setattr(Reading, "_readable", lambda page, *at: read.append(at) or readable(page, *at))
    monkeypatch.setattr(Reading, "record", lambda page, at: asked.append(at) or record(page, at))
    own = client.get(HISTORY, headers=bearer(tokens["analyst"])).json()
    assert [entry["kind"] for entry in own] == ["allot", "reserve", "settle"]
    assert len(read) < 10  # with what looks like hers
    assert len(asked) <= 1  # the record that opened the account: none for each settled question
    for who, kinds in (
        ("a_a", ["allot"]),
        ('a"da', ["allot"]),
        ("a", []),
        ("bob", ["allot", "reserve", "settle", *["allot"] * 20]),
    ):
        assert [one.kind for one in account.newest(holders={f"analyst:{who}"})][::-1] == kinds


def test_list_of_data_sets_counts_requests_for_overseers_alone(client, directory, tokens, monkeypatch):
    asked, requests = [], Store.requests
    monkeypatch.setattr(Store, "requests", lambda store, *at: asked.append(at) or requests(store, *at))
    for role, times in (("analyst", 0), ("curator", 1)):
        sign_in(client, tokens[role])
        assert client.get("/data").status_code == 200
        assert len(asked) == times  # each reads all acts of a data set


@pytest.mark.slow
def test_pages_of_the_acts_are_all_of_them_once(client, directory, tokens, monkeypatch):
    for number in range(55):
        directory.allot("purchases", f"analyst:{number}", pure("0.1"), by="carol" if number % 2 else "console")
    headers = bearer(tokens["auditor"])
    whole = client.get(ACTS, headers=headers).json()
    assert [act["position"] for act in whole] == [act.position for act in directory.books.acts()]
    read = []
    readable = Reading._readable
    monkeypatch.setattr(Reading, "_readable", lambda page, *at: read.append(at) or readable(page, *at))
    pages, before = [], {}
    while page := client.get(ACTS, params={"limit": 20, **before}, headers=headers).json():
        assert len(read) == len(page) <= 20
        pages, before = [*page, *pages], {"before": page[0]["position"]}
        read.clear()
    assert pages == whole
    for wrong in ({"limit": 0}, {"limit": 1001}, {"before": 0}):
        assert client.get(ACTS, params=wrong, headers=headers).status_code == 422
    sign_in(client, tokens["auditor"])
    newest = client.get("/ledger").text
    (link,) = re.findall(r'href="([?]before=[0-9]+)">Older acts', newest)
    oldest = client.get(f"/ledger{link}").text
    assert "Older acts" not in oldest
    assert [f"analyst:{n}<" in page for n in (0, 54) for page in (newest, oldest)] == [False, True, True, False]


@pytest.mark.slow
def test_a_client_reads_all_pages(directory, tokens):
    account = directory.books.account("purchases")
    for number in range(1, 1_004):
        account.allot("analyst:ada", pure(f"{number}/2000"))
    with without_processes(), serving(directory) as address:
        found = connect(address, tokens["analyst"]).open("purchases").history()
    assert [entry.caps["epsilon"] * 2000 for entry in found] == list(range(1, 1_004))
