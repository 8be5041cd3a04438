"""A ledger as JSON lines: what goes out comes back, and nothing else does."""

import json
from pathlib import Path

import pytest

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError
from neartwin.ledger import Book, Head, Stored, records
from tests.ledger.test_verify import by_hand, sql, tell_a_story

FROZEN = Path(__file__).parent / "data" / "archive-1.jsonl"
FROZEN_HEAD = Head.parse("11:6d5f52a360468976b707f08897da850d45cf0c74f172fa71f54532964183d0de")


@pytest.fixture
def archive(tmp_path, ledger):
    tell_a_story(ledger)
    ledger.export(tmp_path / "ledger.jsonl")
    return tmp_path / "ledger.jsonl"


def test_an_archive_restores_the_same_ledger_on_any_database(tmp_path, ledger, archive, sqlite_place, postgres_url):
    with Book.restored(archive, tmp_path / "restored.db") as restored:
        assert restored.head() == ledger.head()
        assert restored.verify(ledger.head()).whole
        before, after = ledger.account("purchases"), restored.account("purchases")
        assert after.history() == before.history()
        assert (after.spent, after.caps, after.allotments()) == (before.spent, before.caps, before.allotments())
        answer = after.reserve("plan", "monday", pure("0.25"))
        assert isinstance(answer, Stored)
        assert answer.document == b"the release"
        after.settle(after.reserve("plan", "thursday", pure("0.25")), b"settled after the move")
        assert restored.verify(ledger.head()).whole


def test_a_sqlite_ledger_moves_to_postgresql(tmp_path, postgres_place):
    with Book(tmp_path / "budget.db") as ledger:
        tell_a_story(ledger)
        head = ledger.export(tmp_path / "ledger.jsonl")
    with Book.restored(tmp_path / "ledger.jsonl", postgres_place) as moved:
        assert moved.verify(head).whole
        assert moved.head() == head


def test_an_archive_is_new_private_and_never_written_over(ledger, archive):
    assert archive.stat().st_mode & 0o777 == 0o600
    before = archive.read_bytes()
    with pytest.raises(LedgerError, match="never overwritten"):
        ledger.export(archive)
    assert archive.read_bytes() == before
    with pytest.raises(LedgerError, match="No such file or directory"):
        ledger.export(archive.parent / "no" / "ledger.jsonl")


def test_an_archive_is_never_restored_over_a_ledger(archive, ledger, place):
    head = ledger.head()
    with pytest.raises(LedgerError, match="already; restore into a new place"):
        Book.restored(archive, place)
    assert ledger.head() == head


def drop(number):
    return lambda lines: lines[:number] + lines[number + 1 :]


def swap(left, right):
    def change(lines):
        lines[left], lines[right] = lines[right], lines[left]
        return lines

    return change


def replace(number, before, after):
    def change(lines):
        assert before in lines[number]
        lines[number] = lines[number].replace(before, after)
        return lines

    return change


@pytest.mark.parametrize(
    "change",
    [
        drop(0),  # the first line
        drop(1),  # the first record
        drop(5),  # the document
        drop(7),  # a record in the middle
        drop(12),  # the newest record
        drop(13),  # the end
        swap(6, 7),
        replace(3, "250000000000", "150000000000"),
        replace(12, "500000000000", "100000000000"),
        replace(5, "dGhlIHJlbGVhc2U=", "dGhlIHJlbGVhc2Uh"),
        replace(5, "dGhlIHJlbGVhc2U=", "not base 64"),
        replace(0, '"version":1', '"version":2'),
        replace(13, '"11:', '"10:'),
        lambda lines: [*lines, lines[-2]],
        lambda lines: [*lines[:-1], '{"content":"","document":9}', lines[-1]],
        lambda lines: ["[]", *lines],
        lambda lines: lines[:0],
        lambda lines: ["customer_id,amount", *lines],
        lambda lines: [*lines[:3], "[]", *lines[3:]],
    ],
)
def test_changed_archive_is_refused_and_makes_no_ledger(tmp_path, change):
    with Book(tmp_path / "budget.db") as ledger:
        tell_a_story(ledger)
        ledger.export(tmp_path / "ledger.jsonl")
    lines = (tmp_path / "ledger.jsonl").read_text(encoding="ascii").splitlines()
    assert len(lines) == 14
    (tmp_path / "same.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    Book.restored(tmp_path / "same.jsonl", tmp_path / "same.db").close()
    (tmp_path / "changed.jsonl").write_text("".join(f"{line}\n" for line in change(lines)), encoding="ascii")
    with pytest.raises(LedgerError):
        Book.restored(tmp_path / "changed.jsonl", tmp_path / "changed.db")
    with pytest.raises(LedgerError, match="there is no ledger"):
        Book.existing(tmp_path / "changed.db")


def test_broken_ledger_is_not_archived(tmp_path):
    place = str(tmp_path / "budget.db")
    with Book(place) as ledger:
        tell_a_story(ledger)
    with by_hand(place) as connection:
        sql("DELETE FROM neartwin_record WHERE position = 5")(connection)
    with Book.existing(place) as ledger, pytest.raises(LedgerError, match="record 5 is missing"):
        ledger.export(tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_records_written_by_the_first_version_are_readable_for_ever(tmp_path):
    with Book.restored(FROZEN, tmp_path / "budget.db") as ledger:
        assert ledger.verify(FROZEN_HEAD).whole
        kinds = [entry.kind for entry in ledger.account("purchases").history()]
        assert kinds == [
            "open",
            "reserve",
            "settle",
            "reserve",
            "fail",
            "refuse",
            "raise",
            "allot",
            "source",
            "reserve",
        ]
    lines = FROZEN.read_text(encoding="ascii").splitlines()
    versions = {(parts["kind"], parts["version"]) for parts in map(json.loads, lines) if "kind" in parts}
    assert versions >= {(kind, 1) for kind in (*kinds, "begin")}
    for line in lines:
        if '"kind"' in line:
            assert records.write(records.read(line)) == line
