"""Typical mistakes of people who know pandas, SQL or another privacy library.

Each refusal names what was written, and shows what to write in the language of the question. Each shown line is run
here, and no refusal spends.
"""

import json
import re
import shlex
import sqlite3
from datetime import date
from html import escape
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import NeartwinError
from neartwin.queries.wire.parse import question_of

SIZE = 200
PURCHASES = pa.table(
    {
        "customer_id": [place % 40 for place in range(SIZE)],
        "cds": [1 + place % 5 for place in range(SIZE)],
        "parcels": [place % 3 for place in range(SIZE)],
        "amount": [float(place) for place in range(SIZE)],
        "town": ["Ulm" if place % 3 else "Bonn" for place in range(SIZE)],
        "day": [date(2024, 1 + place % 12, 1) for place in range(SIZE)],
    }
)
QUESTION = "SELECT COUNT(*) FROM purchases"
WORDS = {
    "QUESTION": f'"{QUESTION}"',
    "TOWNS": '"SELECT town, COUNT(*) FROM purchases GROUP BY town"',
    "ASKED": "--unit customer_id --ledger t.db --spend epsilon=0.01",
}
KEYS = {"town": ["Bonn", "Ulm"], "m": [date(2024, 1, 1)]}


class Desk:
    """The README's variables, on one table and one ledger."""

    def __init__(self, folder):
        pq.write_table(PURCHASES, folder / "purchases.parquet")
        pacsv.write_csv(PURCHASES, folder / "purchases.csv")
        (folder / "comma.csv").write_text("customer_id;amount\n1;3,5\n2;4,25\n")
        (folder / "german.csv").write_text("customer_id;town;day;paid\n1;Köln;31.01.2026;ja\n", encoding="cp1252")
        (folder / "nested.jsonl").write_text('{"customer_id": 1, "place": {"town": "Ulm"}}\n')
        (folder / "double.csv").write_text("customer_id;town;town\n1;Ulm;Bonn\n")
        (folder / "visits.txt").write_text("customer_id;amount\n1;3\n2;4\n")
        (folder / "visits.csv").write_text("1,3\n2,4\n")
        (folder / "list.json").write_text('[{"customer_id": 1}]')
        connection = sqlite3.connect(folder / "visits.sqlite")
        connection.execute("CREATE TABLE visits (customer_id INTEGER)")
        titled = openpyxl.Workbook()
        for line in (["Visits"], ["customer_id", "amount"], [1, 3.5]):
            titled.active.append(line)
        titled.save(folder / "title.xlsx")
        rows = nt.table(
            "purchases.parquet", unit="customer_id", columns={"amount": nt.bounds(0, 200), "cds": nt.bounds(1, 5)}
        )
        ledger = nt.open_ledger("budget.db")
        account = ledger.open(rows, nt.pure(epsilon=1))
        groups = rows.group_by("town", keys=["Bonn", "Ulm"])
        query = groups.agg(orders=nt.count())
        proposal = account.plan(query, spend=nt.pure(epsilon="0.01"), limits=nt.limits(rows=2))
        release = account.release(proposal)
        pq.write_table(PURCHASES.slice(0, 20), folder / "others.parquet")
        others = nt.table("others.parquet", unit="customer_id")
        towns = pa.table({"town": ["Bonn", "Ulm"], "people": [330_000, 127_000]})
        frame = pd.DataFrame({"customer_id": [1, 2], "amount": [3.0, 4.0]})
        dataframe = frame.set_index("customer_id")
        series = frame["customer_id"]
        messy = pa.table({"Patient Nr.": [1], "Preis (EUR)": ["3.5"]})
        self.names = {
            name: value for name, value in locals().items() if name not in {"self", "folder", "titled", "line"}
        }
        self.names |= {"nt": nt, "pa": pa, "pyarrow": pa, "pandas": pd}
        self.account = account

        assert self.command("query purchases.parquet QUESTION ASKED --budget epsilon=1.5").exit_code == 0

    def command(self, line):
        for word, text in WORDS.items():
            line = line.replace(word, text)
        return CliRunner().invoke(main, shlex.split(line))

    def spent_at_terminal(self):
        return [account["pools"] for account in json.loads(self.command("ledger show t.db --json").output)]

    def sql(self, text):
        found = re.search(r"GROUP BY (\w+)", text)
        keys = None if found is None else {found[1]: KEYS.get(found[1])}
        limits = nt.limits(rows=2)
        return self.account.sql(text, spend=nt.pure("0.005"), limits=limits, keys=keys)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made = Desk(folder)
        yield made
        made.names["ledger"].close()


def read(section):
    """The mistakes in one language: what was written, what the message says to write, and the line that then works."""
    text = (Path(__file__).parent / "fixtures" / "mistakes.txt").read_text(encoding="utf-8")
    lines = text.partition(f"[{section}]\n")[2].partition("\n\n")[0].splitlines()
    parts = [line.split(" | ") for line in lines]
    return [(asked, shown, *(line or [shown])) for asked, shown, *line in parts]


def assert_shown(refusal, shown, line):
    """The message says to write it, the line has it, and the message is no wall of text."""
    assert re.search(f"(write|or) {re.escape(shown)}", str(refusal))
    assert shown in line
    assert len(str(refusal)) < 400


@pytest.mark.parametrize(("asked", "shown", "line"), read("python"))
def test_refused_line_of_python_shows_the_line_that_works(desk, asked, shown, line):
    before = desk.account.spent
    with pytest.raises(NeartwinError) as refused:
        eval(asked, desk.names)  # noqa: S307 - a table of this file
    assert_shown(refused.value, shown, line)
    assert desk.account.spent == before
    eval(line, desk.names)  # noqa: S307


@pytest.mark.parametrize(("asked", "shown", "line"), read("sql"))
def test_refused_sql_shows_the_sql_that_works(desk, asked, shown, line):
    before = desk.account.spent
    with pytest.raises(NeartwinError) as refused:
        desk.sql(asked)
    assert_shown(refused.value, shown, line)
    assert desk.account.spent == before
    if ";" not in line:  # several are one series
        desk.sql(line)


@pytest.mark.parametrize(("asked", "shown", "line"), read("json"))
def test_refused_json_shows_the_json_that_works(desk, asked, shown, line):
    with pytest.raises(NeartwinError) as refused:
        question_of(json.loads(asked), desk.names["rows"])
    assert_shown(refused.value, shown, line)
    question = question_of(json.loads(line), desk.names["rows"])
    desk.account.plan(question, spend=nt.pure("0.005"), limits=nt.limits(rows=2))


@pytest.mark.parametrize(("asked", "shown", "line"), read("terminal"))
def test_refused_command_shows_the_command_that_works(desk, asked, shown, line):
    before = desk.spent_at_terminal()
    refused = desk.command(asked)
    assert refused.exit_code == 2, refused.output
    assert_shown(refused.output, shown, line)
    assert desk.spent_at_terminal() == before
    done = desk.command(line)
    assert done.exit_code == 0, done.output


def test_names_that_python_looks_for_are_still_not_there(desk):
    for value in (nt, desk.names["rows"], desk.names["account"]):
        assert not hasattr(value, "_repr_mimebundle_")
        assert not hasattr(value, "no_such_name")
    assert desk.names["rows"]  # although its length is refused


def test_values_of_a_first_hour_show_as_text_in_a_notebook(desk):
    for name in ("rows", "groups", "query", "proposal", "account", "ledger"):
        value = desk.names[name]
        assert value._repr_html_() == f"<pre>{escape(repr(value))}</pre>"
        assert len(repr(value)) < 150


def test_history_shows_as_a_table(desk):
    history = desk.account.history()
    assert isinstance(history, tuple)
    header, *lines = repr(history).splitlines()
    assert header.split() == ["when", "(UTC)", "kind", "account", "question", "or", "place", "amounts", "state"]
    assert len(lines) == len(history) <= 60
    assert [line.split()[3] for line in lines] == [entry.kind for entry in history]
    assert len({line.index(entry.kind) for line, entry in zip(lines, history, strict=True)}) == 1
    html = history._repr_html_()
    assert html.count("<tr>") == len(history) + 1
    assert all(f">{entry.kind}</td>" in html for entry in history)
    many = type(history)(history[:1] * 70)
    assert len(repr(many).splitlines()) == many._repr_html_().count("<tr>") == 61  # the newest


def test_limits_and_margins_that_a_release_lacks_are_refused(desk):
    release = desk.names["release"]
    for asked in (lambda: release.limit("3"), lambda: release.limit(-1), lambda: release.margin("month")):
        with pytest.raises(NeartwinError):
            asked()
    assert len(release.limit(1)) == 1


FRAME = pd.DataFrame({"who": [1, 2, 3], "score": [1, 7731, 5]})


@pytest.mark.parametrize(
    "rows", [FRAME["score"], FRAME, FRAME["score"].to_numpy(), pa.array([7731]), pa.table({"a": [7731]})], ids=type
)
def test_no_error_shows_the_values_of_a_frame_or_an_array(rows):
    table = nt.table(FRAME, unit="who", name="people")
    calls = (
        lambda: table.where(rows),
        lambda: table.group_by(rows),
        lambda: table.agg(n=rows),
        lambda: nt.table(FRAME, unit=rows),
        lambda: nt.limits(rows=rows),
        lambda: nt.pure(rows),
        lambda: nt.bounds(0, rows),
    )
    for call in calls:
        with pytest.raises(NeartwinError) as told:
            call()
        assert "7731" not in str(told.value)
        assert "7731" not in str(told.value.as_dict())
