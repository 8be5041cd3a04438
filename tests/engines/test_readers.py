"""JSON lines, SQLite, Excel and other encodings are read once, as their own libraries read them; what no column holds is odd."""

import gzip
import json
import sqlite3
from datetime import datetime

import openpyxl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import ParameterError, SchemaError

TYPES = {"who": "integer", "paid": "number", "day": "date"}
ROWS = [(who, who * 1.25, f"2024-01-{who + 1:02}", ["Ulm", "Köln", None][who % 3]) for who in range(20)]
NAMES = ("who", "paid", "day", "town")


def json_file(place, *more):
    lines = [json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False).encode() for row in ROWS]
    place.write_bytes(
        b"\n".join([*lines, *(line.encode() if isinstance(line, str) else line for line in more)]) + b"\n"
    )
    return place


def sqlite_file(place, *more, kinds="who INTEGER, paid REAL, day DATE, town TEXT"):
    with sqlite3.connect(place) as connection:
        connection.execute(f"CREATE TABLE visits ({kinds})")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [*ROWS, *more])
    connection.close()
    return place


def excel_file(place, *more):
    book = openpyxl.Workbook()
    book.active.title = "visits"
    for row in (NAMES, *((who, paid, datetime.fromisoformat(day), town) for who, paid, day, town in ROWS), *more):
        book.active.append(row)
    book.create_sheet("notes")
    book.save(place)
    return place


def opened(place, **more):
    table = "visits" if place.suffix in {".sqlite", ".db", ".xlsx"} else ""
    return nt.table(place, unit="who", name="visits", table=table, **({"types": TYPES} | more))


def held(rows):
    return [(r["who"], r["paid"], str(r["day"]), r["town"]) for r in pq.read_table(rows.table.source.copy).to_pylist()]


@pytest.mark.parametrize("make", [json_file, sqlite_file, excel_file])
def test_each_format_gives_the_rows_that_were_written(tmp_path, make):
    ending = {json_file: "v.jsonl", sqlite_file: "v.db", excel_file: "v.xlsx"}[make]
    rows = opened(make(tmp_path / ending))
    assert held(rows) == ROWS
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        asked = rows.agg(n=nt.count(), paid=nt.sum("paid", 0, 25, "1/4"), towns=nt.count("town"))
        plan = account.plan(asked, spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1))
        release = account.release(plan)
        assert [round(release[name].values[0], 2) for name in ("n", "paid", "towns")] == [20, 237.5, 14]


ODD_JSON = {
    '{"who": 90, "paid": [1]}': "'paid' is nested",
    '{"who": 90, "paid": {"a": 1}}': "'paid' is nested",
    '{"who": 90, "paid": "five"}': "'paid' is 'five', and no number",
    '{"who": 90, "where": 1}': "has the key 'where', which is no column",
    '{"who": 90, "who": 91}': "a key is there twice",
    '{"who": 90': "is no JSON object",
    "[90]": "is no JSON object",
    "[" * 100_000: "is no JSON object",
    '{"who": 90, "town": "\\ud800"}': "'town' is no valid Unicode",
    b'{"who": 90, "town": "\xff"}': "'town' is no valid Unicode",
    f'{{"who": {"9" * 5000}}}': "and no integer",
}


@pytest.mark.parametrize("line", ODD_JSON)
def test_odd_json_line_is_listed_and_changes_no_other(tmp_path, line):
    place = json_file(tmp_path / "v.jsonl", line)
    if "where" in str(line):  # among the first lines it would name a column
        place.write_bytes(place.read_bytes().splitlines(keepends=True)[0] * 1000 + place.read_bytes())
    with pytest.raises(SchemaError, match="1 line or value is odd") as refused:
        opened(place)
    assert ODD_JSON[line] in str(refused.value)
    kept = held(opened(place, accept_odd=True))
    assert [row for row in kept if row[0] in range(20)][-20:] == ROWS


def test_json_keeps_digits_and_columns_of_the_first_reading(tmp_path):
    place = json_file(tmp_path / "v.jsonl")
    assert held(opened(place, types={"who": "integer"}))[1][1] == "1.25"
    with place.open("a") as file:
        file.write('{"who": 21, "added": 1}\n\n{"who": 22}\n')
    with pytest.raises(SchemaError, match="has the key 'added', which is no column"):
        opened(place, types={"who": "integer"}, refresh=True)
    with gzip.open(tmp_path / "w.jsonl.gz", "wb") as file:
        file.write(place.read_bytes())
    assert "added" in opened(tmp_path / "w.jsonl.gz").table.schema
    (tmp_path / "x.json").write_text(json.dumps([{"who": 1}], indent=1))
    with pytest.raises(SchemaError, match="must hold one JSON object a line"):
        opened(tmp_path / "x.json")


def test_sqlite_types_hold_for_each_value_and_no_other_table(tmp_path):
    place = sqlite_file(tmp_path / "v.sqlite", ("x", b"\xff", "2024-02-30", b"blob"))
    with sqlite3.connect(place) as connection:  # text that is no UTF-8
        connection.execute("INSERT INTO visits VALUES (30, 1, NULL, CAST(x'ff' AS TEXT))")
    connection.close()
    with pytest.raises(SchemaError, match="5 lines or values are odd") as refused:
        opened(place, types={})
    for words in (
        "row 21: 'who' is 'x', and no integer",
        "'day' is '2024-02-30', and no date",
        "'paid' is a blob",
        "is no valid",
    ):
        assert words in str(refused.value)
    rows = opened(place, types={}, accept_odd=True)
    assert held(rows)[:20] == ROWS
    assert {name: str(kind) for name, kind in rows.table.schema.items()} == {**TYPES, "town": "text"}
    with pytest.raises(SchemaError, match=r"must name a table or view of .*; it has 'visits'"):
        nt.table(place, unit="who", table="people")
    assert rows.table.source.location() == f"sqlite:{place}#visits"


def test_sqlite_rows_that_wait_in_its_journal_are_another_state(tmp_path):
    place = sqlite_file(tmp_path / "v.sqlite")
    opened(place)
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO visits VALUES (20, 1, '2024-01-01', 'Ulm')")
    connection.commit()
    with pytest.raises(SchemaError, match="was written since it was read"):
        opened(place)
    assert len(held(opened(place, refresh=True))) == 21
    connection.close()


def test_errors_of_excel_are_odd_and_a_sheet_is_named(tmp_path):
    place = excel_file(tmp_path / "v.xlsx", (), (30, "#N/A"), (31, "five"), (32, 1, None, None, "more"))
    with pytest.raises(SchemaError, match="3 lines or values are odd") as refused:
        opened(place)
    for words in (
        "row 23: 'paid' is the error #N/A",
        "row 24: 'paid' is 'five'",
        "row 25: has 5 values, and the header 4",
    ):
        assert words in str(refused.value)
    assert held(opened(place, accept_odd=True))[:20] == ROWS
    with pytest.raises(
        SchemaError, match=r"must name a sheet of .*, which has 'visits', 'notes'; write table='visits'"
    ):
        nt.table(place, unit="who", name="v")


def test_other_encodings_are_declared_and_remembered(tmp_path):
    text = "who;town\n1;Köln\n2;Zürich\n"
    for encoding in ("latin-1", "utf-16", "cp1250"):
        place = tmp_path / f"{encoding}.csv"
        place.write_bytes(text.encode(encoding))
        with pytest.raises(SchemaError, match=r"latin-1|utf-16|odd"):
            nt.table(place, unit="who", types={"who": "integer"})
        given = nt.table(place, unit="who", types={"who": "integer"}, encoding=encoding)
        again = nt.table(place, unit="who", types={"who": "integer"})
        assert pq.read_table(given.table.source.copy)["town"].to_pylist() == ["Köln", "Zürich"]
        assert given.table.source == again.table.source
    place.write_bytes(text.encode("utf-16")[:-1])
    with pytest.raises(SchemaError, match="odd"):
        nt.table(place, unit="who", types={"who": "integer"}, encoding="utf-16", refresh=True)
    with pytest.raises(ParameterError, match="must be an encoding of Python"):
        nt.table(place, unit="who", encoding="klingon", refresh=True)
    (tmp_path / "late.csv").write_bytes(b"who,town\n" + b"1,Ulm\n" * 3000 + "2,Köln\n".encode("latin-1"))
    with pytest.raises(SchemaError, match=r"line 3002: 'town' is no valid Unicode.*write encoding='cp1252'"):
        nt.table(tmp_path / "late.csv", unit="who")


@pytest.mark.parametrize(
    ("name", "header"),
    [("v.csv", 'who,"a;b;c"'), ("v.tsv", "who\ta, b, c"), *(("v.csv", f"who{one}a b") for one in ",;\t|^~:\x01\x1f")],
)
def test_separator_is_the_headers_whatever_stands_in_quotes(tmp_path, name, header):
    separator = header[3]
    (tmp_path / name).write_text(f"{header}\n1{separator}Ulm\n2{separator}\n")
    rows = nt.table(tmp_path / name, unit="who", types={"who": "integer"})
    assert pq.read_table(rows.table.source.copy).to_pylist() == [
        {"who": 1, header[4:].strip('"'): "Ulm"}, {"who": 2, header[4:].strip('"'): None}
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["v.csv.gz", "v.jsonl.gz", "v.xlsx"])
def test_damaged_file_is_a_fault_of_the_schema(tmp_path, name):
    """What is read to its end without a fault is whole. Libraries raise errors of their own for the rest."""
    lines = {"v.csv.gz": "who\n" + "1\n" * 9000, "v.jsonl.gz": '{"who": 1}\n' * 9000}
    whole = gzip.compress(lines[name].encode()) if name in lines else excel_file(tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(SchemaError, match=r"is damaged|cannot be read as"):
        nt.table(tmp_path / name, unit="who", table="visits" if name == "v.xlsx" else "", accept_odd=True)


@pytest.mark.parametrize("last", ["4,x,3", "4,x,odd"], ids=["in order", "odd"])
def test_texts_that_mean_no_value_are_declared_and_remembered(tmp_path, last):
    place = tmp_path / "v.csv"
    place.write_text(f'who,town,paid\n1,NA,2\nNA,Bonn,NA\n3,"-",\n{last}\n')
    types = {"who": "integer", "paid": "number"}
    with pytest.raises(SchemaError, match=r"'paid' is 'NA', and no number.*null='NA', or --null NA"):
        nt.table(place, unit="who", types=types)
    given = nt.table(place, unit="who", types=types, null=["NA", "-"], accept_odd=True).table.source
    assert pq.read_table(given.copy).to_pydict() == {
        "who": [1, None, 3, 4], "town": [None, "Bonn", None, "x"], "paid": [2, None, None, 3 if last == "4,x,3" else None]
    }  # fmt: skip
    assert nt.table(place, unit="who", types=types).table.source == given
    with pytest.raises(SchemaError, match="had another encoding= or null= when it was read"):
        nt.table(place, unit="who", types=types, null="NA")
    other = tmp_path / "w.jsonl"
    other.write_text('{"who": "NA", "n": "\\\\N"}\n{"who": "b", "n": 3}\n')
    said = CliRunner().invoke(main, ["import", str(other), "--types", "n=integer", "--null", "NA", "--null", r"\N"])
    assert said.exit_code == 0, said.stderr
    source = nt.table(other, unit="who", types={"n": "integer"}).table.source
    assert pq.read_table(source.copy).to_pydict() == {"who": [None, "b"], "n": [None, 3]}


def test_owner_imports_every_format_from_a_terminal(tmp_path):
    place = sqlite_file(tmp_path / "v.sqlite")
    done = CliRunner().invoke(main, ["import", str(place), "--table", "visits", "--into", str(tmp_path / "kept")])
    assert (done.exit_code, done.stdout.split(" in ")[0]) == (0, "snapshot 1: 20 rows")
    assert "kept" in done.stdout
    asked = [
        "query",
        str(place),
        "SELECT COUNT(*) AS n FROM visits",
        "--table",
        "visits",
        "--into",
        str(tmp_path / "kept"),
    ]
    asked += [
        "--unit",
        "who",
        "--budget",
        "epsilon=1000000",
        "--spend",
        "epsilon=1000000",
        "--ledger",
        str(tmp_path / "b.db"),
        "--max-rows-per-group",
        "1",
    ]
    assert "20" in CliRunner().invoke(main, asked).stdout
    assert not (tmp_path / ".neartwin").exists()
