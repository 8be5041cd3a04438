"""Ledgers that old code wrote are read for ever, and a question that was paid for in one stays paid for."""

import hashlib
import json
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import ExecutionError, LedgerError
from neartwin.ledger import Book, Head, Population
from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.planning import digests
from neartwin.planning.limits import PrivateLimit
from neartwin.releases.accounts import Account
from neartwin.statistics import Statistic
from neartwin.statistics.measures import Noise
from tests.fixtures import lay_postgres, lay_sqlite, told
from tests.fixtures.questions import (
    ACCOUNTS,
    CHANGED,
    QUESTIONS,
    RECOMPUTED,
    Asked,
    opened,
    proposed,
    proposed_series,
    rows_of,
)


class Unreadable:
    """An engine that no question may reach."""

    def aggregate(self, stage, *, salt):
        raise AssertionError


@pytest.fixture(params=["sqlite", "postgres"])
def old(request, tmp_path):
    """Where an old ledger lies now, and what it held."""
    if request.param == "sqlite":
        return lay_sqlite(tmp_path / "old.db"), told("records")["sqlite"]
    return lay_postgres(request.getfixturevalue("postgres_place")), told("records")["postgres"]


def exact(amounts):
    return {pool: Fraction(amount) for pool, amount in amounts.items()}


def test_old_ledger_verifies_and_has_its_head(old):
    place, held = old
    with Book.existing(place) as ledger:
        head = Head.parse(held["head"])
        assert ledger.verify(head).whole
        assert ledger.head() == head
        assert not ledger.verify(Head(head.position, "0" * 64)).whole


def test_old_accounts_have_their_history_caps_and_spent_amounts(old):
    place, held = old
    with Book.existing(place) as ledger:
        assert {account.name for account in ledger.accounts()} == set(held["accounts"])
        for name, known in held["accounts"].items():
            account = ledger.account(name)
            history = account.history()
            assert [[one.kind, one.state, one.plan_digest, one.position] for one in history] == known["history"]
            assert (account.caps, account.spent) == (exact(known["caps"]), exact(known["spent"]))
            paid = [one.price for one in history if one.kind == "reserve"]
            assert account.spent == {pool: sum(price[pool] for price in paid) for pool in account.caps}
            assert {one.holder: one.spent for one in account.allotments()} == {
                holder: exact(spent) for holder, spent in known["allotments"].items()
            }
        assert [[one.who, one.what, one.body] for one in ledger.acts()] == held["acts"]
        (lost,) = [one for one in ledger.account("pure").history() if one.state == "reserved"]
        assert lost.plan_digest == "a plan whose run was lost"
        source = "parquet:/data/visits-2025.parquet"
        others = Population(name="others", unit="who", relation="add_remove", source=source)
        with pytest.raises(LedgerError, match="belongs to population 'pure'"):
            ledger.open(others, nt.pure(1))


def test_the_old_ledgers_hold_every_kind_of_record(old):
    place, _ = old
    with Book.existing(place) as ledger:
        kinds = {(one.kind, one.state) for account in ledger.accounts() for one in account.history()}
    states = {("reserve", state) for state in ("reserved", "settled", "failed")}
    others = {(kind, "") for kind in ("open", "source", "raise", "allot", "settle", "fail", "act")}
    assert kinds == states | others | {("refuse", "refused")}


@pytest.mark.slow
def test_repeated_question_to_an_old_ledger_is_free_with_its_old_answer(old):
    place, held = old
    with nt.open_ledger(place) as book:
        for name, asked in QUESTIONS.items():
            if name in held["releases"] and name not in RECOMPUTED:
                account = reopened(book, asked.account)
                again = account.release(proposed(account, asked), engine=Unreadable())
                assert again == nt.Release.from_json(text(held["releases"][name])), name
        account = reopened(book, "pure")
        payers = ("analyst:ada", "project:census")
        kept = account.plan(account.rows.agg(held=nt.count_distinct_units()), spend=nt.pure("1/3"))
        again = account.release(kept, payers=payers, key="request 1", engine=Unreadable())
        assert again == nt.Release.from_json(text(held["releases"]["held"]))
        towns = account.rows.group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count())
        written = account.plan(towns, spend=nt.pure("1/2"), limits=nt.limits(max_rows_per_group=1, max_groups=1))
        with pytest.raises(LedgerError, match="answered by a table that was written"):
            account.release(written, engine=Unreadable())
        for name, known in held["accounts"].items():
            assert book.books.account(name).spent == exact(known["spent"])
        with pytest.raises(ExecutionError):  # one of its questions has other weights now, so it is asked anew
            account.release_series(proposed_series(account), engine=Unreadable())
        assert book.books.account("pure").spent != exact(held["accounts"]["pure"]["spent"])


def test_a_question_whose_rows_weigh_otherwise_now_is_paid_anew(tmp_path):
    """Its old answer is of another quantity: to serve it for nothing would be wrong."""
    with nt.open_ledger(lay_sqlite(tmp_path / "old.db")) as book:
        for name in ("sums and means", "quantiles", "norm", "rows per unit"):
            account = reopened(book, QUESTIONS[name].account)
            before = account.spent
            with pytest.raises(ExecutionError):
                account.release(proposed(account, QUESTIONS[name]), engine=Unreadable())
            assert account.spent != before, name


def test_a_changed_question_or_newer_rows_are_not_free(tmp_path):
    held = told("records")["sqlite"]
    with nt.open_ledger(lay_sqlite(tmp_path / "old.db")) as book:
        for name, asked in [
            *CHANGED.items(),
            ("fresh", Asked("pure", QUESTIONS["units"].query, {"spend": nt.pure(1)})),
        ]:
            account = reopened(book, asked.account)
            query = asked.query(rows_of(asked.account, state="tuesday") if name == "fresh" else account.rows)
            made = account.plan(query, **asked.limits)
            before = account.spent
            with pytest.raises(ExecutionError):  # it is paid, and the engine is asked
                account.release(made, engine=Unreadable())
            assert account.spent != before, name
            if name != "fresh":
                assert made.plan.digest != held["releases"][name]["provenance"]["plan"]


@pytest.mark.slow
def test_no_rename_of_a_class_or_a_printed_word_changes_a_digest(tmp_path, monkeypatch):
    held = told("records")["sqlite"]
    known = {name: held["releases"][name]["provenance"]["plan"] for name in QUESTIONS}
    with nt.open_ledger(tmp_path / "before.db") as book:
        accounts = {name: opened(book, name) for name in ACCOUNTS}
        before = {name: proposed(accounts[asked.account], asked).plan.digest for name, asked in QUESTIONS.items()}
    kinds = [*below(Statistic), *get_args(Noise), *below(Selection), *digests.TARGETS]
    printed = {kind for kind in kinds if "__str__" in vars(kind)}
    for kind in {*kinds, PrivateLimit}:
        monkeypatch.setattr(kind, "__repr__", lambda _: "renamed")
        if kind in printed:
            monkeypatch.setattr(kind, "__str__", lambda _: "renamed")
    with nt.open_ledger(tmp_path / "new.db") as book, renamed([*kinds, PrivateLimit]):
        accounts = {name: opened(book, name) for name in ACCOUNTS}
        found = {name: proposed(accounts[asked.account], asked).plan.digest for name, asked in QUESTIONS.items()}
    assert found == before
    assert {name for name in known if found[name] != known[name]} == RECOMPUTED
    assert len(set(known.values())) == len(known)


def test_the_ledger_knows_files_by_the_words_and_facts_of_old_code(tmp_path):
    place = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": [1, 2, 3]}), place)
    (tmp_path / "visits.csv").write_text("who\n1\n")
    source = nt.table(place, unit="who").table.source
    facts = Path(place).stat()
    state = [(str(place.resolve()), facts.st_size, facts.st_mtime_ns, facts.st_ino)]
    assert source.location() == f"parquet:{place.resolve()}"
    assert source.snapshot() == hashlib.sha256(repr(state).encode()).hexdigest()
    lines = nt.table(tmp_path / "visits.csv", unit="who", types={"who": "integer"}).table.source
    assert lines.location() == f"csv:{(tmp_path / 'visits.csv').resolve()}"


def below(kind):
    """A class and all that are made from it."""
    return {kind}.union(*map(below, kind.__subclasses__()))


@contextmanager
def renamed(kinds):
    """Classes under other names."""
    names = {kind: kind.__name__ for kind in kinds}
    try:
        for kind in names:
            kind.__name__ = "Renamed"
        yield
    finally:
        for kind, name in names.items():
            kind.__name__ = name


def reopened(book, name):
    """The account of a name with its rows, whatever its caps were raised to since."""
    return Account(book.books.account(name), rows_of(name, **ACCOUNTS[name][1]).table)


def text(release):
    """The document of a release."""
    return json.dumps(release, sort_keys=True)
