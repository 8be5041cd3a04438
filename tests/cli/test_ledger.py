"""`neartwin ledger verify, export, import`: what was done to a ledger is named, from the terminal alone."""

import json
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.ledger import Book
from tests.ledger.conftest import PEOPLE

SWAP = ((3, 9), (4, 3), (9, 4))  # records 3 and 4


def terminal(*arguments):
    done = CliRunner().invoke(main, ["ledger", *map(str, arguments)])
    return done.exit_code, done.stdout


@pytest.fixture
def book(tmp_path):
    """A ledger of five records, and the head that was kept."""
    with Book(tmp_path / "budget.db") as ledger:
        account = ledger.open(PEOPLE, pure(1))
        account.settle(account.reserve("plan", "monday", pure("0.25")), b"the release")
        account.reserve("plan", "tuesday", pure("0.25"))
        return tmp_path / "budget.db", str(ledger.head())


def tampered(path, statement):
    with sqlite3.connect(path) as connection:
        for table, verb in (("record", "update"), ("record", "delete"), ("document", "delete")):
            connection.execute(f"DROP TRIGGER neartwin_{table}_no_{verb}")
        connection.executescript(statement)
    connection.close()


def test_a_whole_ledger_is_whole_with_and_without_its_head(book):
    path, head = book
    assert terminal("verify", path) == (0, f"whole: 5 records, head {head}\n")
    code, out = terminal("verify", path, "--head", head, "--json")
    assert (code, json.loads(out)) == (0, {"whole": True, "head": head, "faults": []})


@pytest.mark.parametrize(
    ("statement", "kind", "position"),
    [
        ("UPDATE neartwin_record SET line = replace(line, 'monday', 'sunday') WHERE position = 3", "changed", 3),
        ("DELETE FROM neartwin_record WHERE position = 4", "removed", 4),
        (
            "".join(f"UPDATE neartwin_record SET position = {new} WHERE position = {old};" for old, new in SWAP),
            "moved",
            3,
        ),
        ("DELETE FROM neartwin_document", "document", 4),
    ],
)
def test_what_was_changed_removed_or_reordered_is_named_with_its_place(book, statement, kind, position):
    path, _ = book
    tampered(path, statement)
    code, out = terminal("verify", path, "--json")
    assert code == 4
    faults = json.loads(out)["faults"]
    assert (kind, position) in {(fault["kind"], fault["position"]) for fault in faults}


def test_a_restored_backup_is_found_by_the_head_and_by_nothing_else(book, tmp_path):
    path, _ = book
    shutil.copy(path, tmp_path / "backup.db")
    with Book(path) as ledger:
        ledger.account("purchases").reserve("plan", "wednesday", pure("0.25"))
        newest = str(ledger.head())
    assert terminal("verify", path, "--head", newest)[0] == 0
    shutil.copy(tmp_path / "backup.db", path)
    for name in ("budget.db-wal", "budget.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert terminal("verify", path)[0] == 0
    code, out = terminal("verify", path, "--head", newest)
    assert code == 4
    assert "rollback" in out
    assert "records 6 to 6" in out


def test_an_archive_makes_the_same_ledger_again_and_a_cut_one_makes_none(book, tmp_path):
    path, head = book
    assert terminal("export", path, tmp_path / "ledger.jsonl") == (0, head + "\n")
    assert terminal("export", path, tmp_path / "ledger.jsonl")[0] == 2  # never written over
    assert terminal("import", tmp_path / "ledger.jsonl", tmp_path / "again.db", "--head", head) == (0, head + "\n")
    with Book.existing(tmp_path / "again.db") as ledger:
        assert ledger.account("purchases").answer(3).document == b"the release"
    lines = (tmp_path / "ledger.jsonl").read_text(encoding="ascii").splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:-2]), encoding="ascii")
    assert terminal("import", tmp_path / "cut.jsonl", tmp_path / "third.db")[0] == 2
