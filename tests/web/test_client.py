"""A notebook changes one line to move from local to served: the same verbs give the same values."""

import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from fractions import Fraction

import pyarrow as pa
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.client.service import ServedAccount
from neartwin.errors import AccessError, BudgetError, ParameterError, QueryError
from neartwin.planning.limits import Limits
from neartwin.releases.accounts import Account
from neartwin.releases.values import Preview
from neartwin.web.schemas import Ask
from tests.web.server import serving, without_processes


@pytest.fixture
def served(directory, tokens):
    with without_processes(), serving(directory) as address:
        yield nt.connect(address, tokens["analyst"])


def notebook(account):
    """What a notebook does with an account, wherever it came from."""
    query = account.rows.where("amount > 5").group_by("cds", keys=[1, 2, 3]).agg(
        orders=nt.count(), people=nt.count_distinct_units(), total=nt.sum("amount", 0, 200), typical=nt.mean("amount")
    )  # fmt: skip
    tuned = {"limits": nt.limits(rows=nt.private_limit(8, share="1/5"), max_groups=3), "importance": {"orders": 2}}
    found = account.plan(query, spend=nt.pure("0.25"), **tuned)
    assert [error.name for error in found.preview().errors] == ["orders", "people", "total", "typical"]
    proposal = account.plan(query, spend=nt.pure("0.25"), limits=nt.limits(max_rows_per_group=5, max_groups=3))
    release = account.release(proposal)
    again = account.release(
        account.plan(query, spend=nt.pure("0.25"), limits=nt.limits(max_rows_per_group=5, max_groups=3))
    )
    assert again == release
    asked = nt.from_sql("SELECT COUNT(DISTINCT customer_id) FROM purchases", account.rows)
    refused = account.plan(asked, spend=nt.pure("0.3"))
    with pytest.raises(BudgetError) as refusal:
        account.release(refused)
    return proposal, release, refusal.value


@pytest.mark.slow
def test_service_gives_a_notebook_the_values_of_its_own_ledger(served, purchases, tmp_path):
    rows = nt.table(str(purchases), unit="customer_id", columns={"amount": nt.bounds(0, 200)})
    with nt.open_ledger(tmp_path / "own.db") as book:
        local, here = book.open(rows, nt.pure("0.5")), served.open("purchases")
        mine, yours = notebook(local), notebook(here)
        assert [type(part) for part in mine[1:]] == [type(part) for part in yours[1:]]
        assert str(mine[0].explain()).splitlines()[2:] == str(yours[0].explain()).splitlines()[2:]
        assert mine[0].price == yours[0].price
        told = mine[0].preview(), yours[0].preview()
        assert all(isinstance(one, Preview) for one in told)
        assert told[0].errors == told[1].errors
        assert (mine[2].requested, mine[2].remaining) == (yours[2].requested, yours[2].remaining)
        assert mine[1].keys == yours[1].keys
        assert local.remaining == here.remaining == {"epsilon": Fraction(1, 4)}
        kinds = [entry.kind for entry in local.history()]
        assert kinds == ["open", "reserve", "settle", "refuse"]
        assert [entry.kind for entry in here.history()] == ["allot", *kinds[1:]]
    release = yours[1]
    assert here.answer(release.provenance.position) == release
    assert here.certificate(release).body["ledger"]["reserved"] == release.provenance.position
    assert here.keys == {"cds": (1, 2, 3)}
    assert served.datasets() == ("purchases",)


def test_served_sql_is_ordered_and_cut_as_it_says(served):
    account = served.open("purchases")
    text = "SELECT cds, COUNT(*) AS n FROM purchases GROUP BY cds HAVING n > -1e9 ORDER BY n DESC LIMIT 2"
    found = {"spend": nt.pure("0.1"), "limits": nt.limits(max_rows_per_group=5, max_groups=3)}
    asked = nt.from_sql(text, account.rows, keys={"cds": [1, 2, 3]})
    (release,) = account.release_series(account.plan_series([asked], **found))
    values = [row["n"] for row in release.to_arrow().to_pylist()]
    assert len(values) == 2
    assert values == sorted(values, reverse=True)
    assert len(account.answer(release.provenance.position)) == 3  # what is stored is whole


@pytest.mark.slow
def test_series_is_served_at_one_price_with_a_certificate_for_each_answer(served):
    account = served.open("purchases")
    by_cds = account.rows.group_by("cds", keys=[1, 2, 3])
    asked = [
        account.rows.agg(n=nt.count()),
        by_cds.agg(total=nt.sum("amount")),
        account.rows.most_common("cds", among=[1, 2, 3]),
    ]
    limits = {"spend": nt.pure("0.3"), "limits": nt.limits(max_rows_per_group=5, max_groups=3)}
    series = account.plan_series(asked, **limits)
    assert series.price == nt.pure("0.3")
    assert [error.name for error in series.preview().errors] == ["1: n", "2: total", "3: cds"]
    with pytest.raises(QueryError, match="release_series"):
        account.release(series)
    releases = account.release_series(series)
    assert [len(release) for release in releases] == [1, 3, 1]
    assert account.release_series(account.plan_series(asked, **limits)) == releases
    assert account.spent == {"epsilon": Fraction(3, 10)}
    position = releases[0].provenance.position
    assert tuple(account.answer(position, part=n) for n in (1, 2, 3)) == releases
    told = [account.certificate(release).body for release in releases]
    assert [body["question"]["statistics"] for body in told] == [
        {"n": "count()"},
        {"total": "sum(amount)"},
        {"most common": "cds"},
    ]
    with pytest.raises(ParameterError, match="from 1 to 3"):
        account.answer(position, part=4)
    with pytest.raises(QueryError, match="at least one question"):
        account.plan_series([], **limits)


def test_a_policy_judges_every_question_of_a_series(client, tokens):
    fine = {"statistics": {"n": {"ask": "count_distinct_units"}}}
    told = {"question": [fine, {"statistics": {"t": {"ask": "sum", "column": "zzz"}}}], "spend": {"epsilon": "0.1"}}
    head = {"Authorization": f"Bearer {tokens['analyst']}"}
    assert client.post("/v1/datasets/purchases/plan", json=told, headers=head).status_code == 422
    told["question"] = [fine, fine]
    found = client.post("/v1/datasets/purchases/plan", json=told, headers=head)
    assert found.status_code == 200
    assert len(found.json()["questions"]) == 2
    told["question"] = [fine]  # the near miss: a list of one is no series
    assert client.post("/v1/datasets/purchases/plan", json=told, headers=head).status_code == 422


def test_service_refuses_with_the_error_of_a_local_refusal(served):
    account = served.open("purchases")
    query = account.rows.group_by("cds", keys=[1]).agg(n=nt.count())
    with pytest.raises(QueryError, match="max_rows_per_group is missing"):
        account.plan(query, spend=nt.pure("0.1"), limits=nt.limits(max_groups=1))
    with pytest.raises(AccessError, match="is not one that you may ask"):
        served.open("orders")
    with pytest.raises(QueryError, match="cannot be read by one engine"):
        account.rows.join(nt.public_table(pa.table({"who": [1], "town": ["Ulm"]})), on={"customer_id": "who"})
    with pytest.raises(AccessError, match="must be a live token"):
        nt.connect(served.http.address, "nt_0_0").datasets()
    with pytest.raises(AccessError, match="does not answer"):
        nt.connect("http://127.0.0.1:9", "nt_0_0").datasets()
    with pytest.raises(ParameterError, match="url"):
        nt.connect("file:///etc/passwd", "nt_0_0")


@pytest.mark.parametrize("status", ["200 OK", "503 Service Unavailable"])
def test_an_answer_that_breaks_off_is_a_service_that_does_not_answer(status):
    """As when a server is killed after it sent the headers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 2579\r\n\r\n{{".encode())

        server = threading.Thread(target=cut)
        server.start()
        with pytest.raises(AccessError, match="does not answer"):
            nt.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", "nt_0_0").datasets()
        server.join()


@contextmanager
def listening(cut, unanswered=()):
    """The address of a server with an empty list for every request, and the connections that it accepted.

    Args:
        cut: An event after which each answer ends its connection without a word, as a server that ends.
        unanswered: A list. A request takes one part of it, and its connection ends without an answer.
    """
    accepted, heads, closing = [], [], threading.Event()

    def answer(connection):
        with connection:
            while head := connection.recv(4096):
                heads.append(head)
                if unanswered:
                    unanswered.pop()
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
                if cut.is_set():
                    return

    def accept():
        while not closing.is_set():
            accepted.append(listener.accept()[0])
            threading.Thread(target=answer, args=(accepted[-1],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=accept, daemon=True)
        server.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", accepted, heads
        closing.set()
        socket.create_connection(listener.getsockname()).close()
        server.join()


def test_a_thread_asks_again_on_its_connection_while_that_is_open():
    cut = threading.Event()
    with listening(cut) as (address, accepted, _):
        service = nt.connect(address, "nt_0_0")
        assert [service.datasets() for _ in range(3)] == [()] * 3
        assert len(accepted) == 1
        other = threading.Thread(target=service.datasets)
        other.start()
        other.join()
        assert len(accepted) == 2  # an answer is never read by another thread
        cut.set()
        service.datasets()
        assert service.datasets() == ()
        assert len(accepted) == 3


def test_a_connection_that_ends_while_it_is_asked_is_replaced_once():
    unanswered = []
    with listening(threading.Event(), unanswered) as (address, accepted, heads):
        service = nt.connect(address, "nt_0_0")
        service.datasets()
        unanswered.append("the kept one")
        assert service.datasets() == ()
        assert (len(accepted), len(heads)) == (2, 3)
        unanswered.extend(["the kept one", "the new one"])
        with pytest.raises(AccessError, match="asking again is safe"):
            service.datasets()
        assert (len(accepted), len(heads)) == (3, 5)


FORKED = """
import os, sys, neartwin as nt
service = nt.connect(sys.argv[1], "nt_0_0")
service.datasets()
child = os.fork()
assert service.datasets() == ()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
def test_a_forked_process_asks_on_a_connection_of_its_own():
    with listening(threading.Event()) as (address, accepted, heads):
        subprocess.run([sys.executable, "-c", FORKED, address], check=True, timeout=60)
        assert (len(accepted), len(heads)) == (2, 3)


@pytest.mark.slow
def test_a_proxy_gets_the_whole_address_on_a_connection_for_each_request():
    twice = "import sys, neartwin as nt; service = nt.connect('http://far.example', 'nt_0_0'); "
    twice += "assert service.datasets() == service.datasets() == ()"
    with listening(threading.Event()) as (address, accepted, heads):
        environment = os.environ | {"http_proxy": address, "no_proxy": ""}
        subprocess.run([sys.executable, "-c", twice], check=True, timeout=60, env=environment)
        assert (len(accepted), len(heads)) == (2, 2)
        assert heads[0].startswith(b"GET http://far.example/v1/datasets HTTP/1.1")


@pytest.mark.parametrize("verb", ["plan", "plan_series"])
def test_a_served_account_takes_every_limit_that_a_local_one_takes(verb):
    served, local = (inspect.signature(getattr(kind, verb)).parameters for kind in (ServedAccount, Account))
    assert [*served] == [*local]
    assert [one.annotation for one in served.values()] == [one.annotation for one in local.values()]


@pytest.mark.parametrize(
    "limits",
    [
        nt.limits(rows=nt.private_limit(8, share="1/5"), max_groups=nt.private_limit(16, groups=400)),
        nt.limits(norm=nt.private_limit(256)),
        nt.limits(norm=Fraction(7, 2), max_discovered_groups=8),
        nt.limits(rows=9, max_groups=2),
    ],
    ids=str,
)
def test_limits_arrive_as_they_were_sent(limits):
    sent = json.loads(json.dumps({"question": {"sql": "SELECT 1"}, "spend": {"mu": "1"}, "limits": limits.as_dict()}))
    task = Ask.model_validate(sent).model_dump(exclude_none=True)
    arrived = Limits.from_dict(task["limits"])
    assert arrived.as_dict() == limits.as_dict()
    assert arrived.private == limits.private


@pytest.mark.parametrize(
    ("more", "limit"), [({"group_size": 2}, None), ({}, nt.private_range())], ids=["group", "range"]
)
def test_series_with_impossible_arguments_is_refused_as_a_callers_error(served, more, limit):
    account = served.open("purchases")
    asked = [account.rows.agg(n=nt.count()), account.rows.agg(total=nt.sum("amount", clip=limit))]
    with pytest.raises(QueryError, match="one at a time"):
        account.plan_series(asked, spend=nt.pure("0.1"), limits=nt.limits(max_rows_per_group=5), **more)


def test_a_terminal_asks_for_budget_answers_and_withdraws(directory, tokens, served, monkeypatch):
    def request(who, *options):
        monkeypatch.setenv("NEARTWIN_TOKEN", who)
        done = CliRunner().invoke(main, ["request", served.http.address, "purchases", *options])
        return done.exit_code, " ".join(done.output.split())

    ada, carol, account = tokens["analyst"], tokens["curator"], directory.books.account("purchases")
    bert, eve = (directory.mint(name, "analyst", by="console")[1] for name in ("bert", "eve"))
    also_eve = directory.mint("eve", "curator", by="console")[1]
    more = ("--budget", "epsilon=0.75", "--reason", "the yearly report")
    assert request(ada) == (0, "")
    for wrong, words in (
        (("--budget", "epsilon=0.75"), "reason='' must be text"),
        (("--budget", "epsilon=0.5", "--reason", "as now"), "must be more than the present allotment"),
        ((*more, "--holder", "analyst:bert"), "must be you or your project"),
        (("--withdraw", "1"), "is not one of yours"),
        (("--approve", "1"), "may not do this"),
    ):
        code, said = request(ada, *wrong)
        assert (code, words in said) == (2, True), said
    code, said = request(ada, *more)
    first = said.split()[0]
    assert (code, said) == (0, f"{first} 'analyst:ada' epsilon=0.75 'the yearly report': 'waits for a curator'")
    assert "waits for an answer already" in request(ada, *more)[1]
    assert request(bert) == (0, "")  # of others nothing
    assert "is not one of yours" in request(bert, "--withdraw", first)[1]
    assert "ada withdrew it" in request(ada, "--withdraw", first)[1]
    assert "waits no more" in request(carol, "--approve", first)[1]
    second = request(ada, *more)[1].split()[0]
    assert "reason='' must be text" in request(carol, "--decline", second)[1]
    assert "carol declined: ask for less" in request(carol, "--decline", second, "--reason", "ask for less")[1]
    third = request(ada, *more)[1].split()[0]
    assert account.allotment("analyst:ada").caps == {"epsilon": Fraction(1, 2)}
    assert "carol set the allotment to epsilon=" in request(carol, "--approve", third)[1]
    assert account.allotment("analyst:ada").caps == {"epsilon": Fraction(3, 4)}
    assert "waits no more" in request(carol, "--approve", third)[1]
    own = request(eve, *more)[1].split()[0]
    assert "somebody else" in request(also_eve, "--approve", own)[1]
    assert directory.verify().whole
