"""Whatever one line or value holds, the owner hears of it before an account is opened, and no release fails by it."""

import csv
import gzip
import io
import json
import random
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import LedgerError, SchemaError
from neartwin.tables import ingestion, readers
from neartwin.tables.types import ColumnType

TYPES = {"who": "integer", "paid": "number", "day": "date"}
GOOD = [f"{who},{who % 7},2024-01-{who % 28 + 1:02}\n" for who in range(40)]
HEADER = "who,paid,day\n"
IN_ORDER = {
    "quoted newline": '90,"5\n",2024-01-01\n',
    "quoted CR": '90,"5\r",2024-01-01\n',
    "quoted comma": '90,5,"2024-01-01"\n',
    "doubled quote": '90,5,""\n',
    "empty": "90,,\n",
    "empty line": "\n",
}
ODD = {  # and the columns that are lost, or None for the whole line
    "stray CR": ("90,5\r,2024-01-01\n", None),
    "malformed quote": ('90,"5"6,2024-01-01\n', None),
    "open quote": ('90,"5,2024-01-01\n', None),
    "few": ("90,5\n", None),
    "many": ("90,5,2024-01-01,7\n", None),
    "no number": ("90,five,2024-01-01\n", ["paid"]),
    "no UTF-8": (b"90,\xff,2024-01-01\n", ["paid"]),
    "far day": ("90,5,300000-01-01\n", ["day"]),
    "before": ("90,5,0044-03-15 (BC)\n", ["day"]),
    "no unit": ("you,5,2024-01-01\n", ["who"]),
    "large": (f"{2**70},5,2024-01-01\n", ["who"]),
}


def written(place, *lines):
    place.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in (HEADER, *lines)))
    return place


def opened(place, **more):
    return nt.table(place, unit="who", name="visits", types=TYPES, **more)


def held(rows):
    return pq.read_table(rows.table.source.copy).to_pylist()


def total(rows, folder):
    with nt.open_ledger(folder / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        asked = rows.agg(n=nt.count(), paid=nt.sum("paid", 0, 10, 1), days=nt.count("day"))
        plan = account.plan(asked, spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1))
        release = account.release(plan)
        return [round(release[name].values[0]) for name in ("n", "paid", "days")]


@pytest.mark.parametrize("at", [20, *(pytest.param(at, marks=pytest.mark.slow) for at in (0, 40))])
@pytest.mark.parametrize("name", ODD)
def test_odd_line_of_a_csv_is_told_and_changes_no_other(tmp_path, name, at):
    line, lost = ODD[name]
    place = written(tmp_path / "v.csv", *GOOD[:at], line, *GOOD[at:])
    with pytest.raises(SchemaError, match=f"v.csv, line {at + 2}: "):
        opened(place)
    rows = opened(place, accept_odd=True)
    without = held(opened(written(tmp_path / "w.csv", *GOOD)))
    kept = held(rows)
    assert [row for row in kept if row["who"] not in {90, None}] == without
    others = [row for row in kept if row["who"] in {90, None}]
    whole = {"who": 90, "paid": 5, "day": "2024-01-01"}
    assert [{key: row[key] is None for key in row} for row in others] == (
        [] if lost is None else [{key: key in lost for key in whole}]
    )
    if at == 20 and name in {"open quote", "no number"}:
        counted = total(rows, tmp_path)
        assert counted == [40 + len(others), sum(row["paid"] or 0 for row in kept), 40 + len(others)]


@pytest.mark.parametrize("name", IN_ORDER)
def test_line_in_order_is_read_alike_whatever_the_others_are(tmp_path, name):
    """A file with an odd line is read in blocks, and one without it by DuckDB."""
    fast = opened(written(tmp_path / "v.csv", *GOOD, IN_ORDER[name], *GOOD))
    slow = opened(written(tmp_path / "w.csv", *GOOD, IN_ORDER[name], *GOOD, "x\n"), accept_odd=True)
    assert held(fast) == held(slow)
    assert len(held(fast)) == 2 * len(GOOD) + (name != "empty line")


def test_line_ends_and_a_byte_order_mark_are_read_alike(tmp_path):
    plain = held(opened(written(tmp_path / "y.csv", *GOOD)))
    for encoded, end in (("\ufeff", "\n"), ("", "\r\n"), ("", "\r")):
        text = (encoded + HEADER + "".join(GOOD)).replace("\n", end)
        (tmp_path / "x.csv").write_bytes(text.encode())
        assert held(opened(tmp_path / "x.csv", refresh=True)) == plain


def test_space_before_a_quote_is_odd_beside_other_odd_lines(tmp_path):
    """DuckDB reads it alone. Line by line it would be another text, so it is told."""
    spaced = '90, "5",2024-01-01\n'
    assert held(opened(written(tmp_path / "v.csv", *GOOD, spaced)))[-1]["paid"] == 5
    for types in (TYPES, {}):
        with pytest.raises(
            SchemaError, match=r"2 lines .* line 42: 'paid' is ' \"5\"', and no .* line 43: has 1 values"
        ):
            nt.table(written(tmp_path / "w.csv", *GOOD, spaced, "x\n"), unit="who", types=types)


def alone(lines, wanted):
    """The oracle: each line by the reader of Python, which goes on with the next line after a fault."""
    number = 0
    while lines:
        try:
            row = next(reader := csv.reader(lines, strict=True)) or [""]
            fault, taken = "", reader.line_num
        except csv.Error as error:
            row, fault, taken = [], f"cannot be read: {error}", 1
        number += taken
        blank = "".join(lines[:taken]).strip("\r\n") == "" and wanted > 1
        lines = lines[taken:]
        if len(row) == wanted + 1 and not row[-1]:
            row.pop()
        if not fault and len(row) != wanted:
            fault = f"has {len(row)} values, and the header {wanted}"
        if number > taken and not blank:  # no header
            yield number - taken + 1, None if fault else [value or None for value in row], fault


def in_blocks(content, wanted, letters):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "_LETTERS", letters)
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="neartwin.odd", newline="")
        for numbers, columns, others in readers.blocks(text, ",", wanted):
            values = [[value for part in column for value in part.to_pylist()] for column in columns]
            yield from others
            yield from ((number, list(row), "") for number, row in zip(numbers, zip(*values, strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("number", [100, 4_000])
def test_blocks_of_a_csv_are_read_as_python_reads_each_line(number):
    draw, odd = random.Random(number), 0
    pieces = [
        b'"',
        b'"',
        b'""',
        b",",
        b",",
        b"\n",
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"bc",
        b" ",
        b"\xff",
        b"\xed\x95\x9c",
        b"\0",
    ]
    pieces += ["ä\ufeff".encode(), b"'", b"\\"]
    fields = [b"x", b'"x"', b"", b'"a,b"', b'"a""b"', b'"l\nm"', b'"l\r\nm"', b'""']
    for _ in range(number):
        wanted, letters = draw.choice([1, 2, 3]), draw.choice([2, 17, 40, 2**20])
        parts = [
            b",".join(draw.choices(fields, k=wanted)) + draw.choice([b"\n", b"\r\n"]) for _ in range(draw.randrange(9))
        ]
        parts += [b"".join(draw.choices(pieces, k=draw.randint(1, 9))) for _ in range(draw.randrange(5))]
        draw.shuffle(parts)
        content = b",".join([b"a", b"b", b'"c\n"'][:wanted]) + b"\n" + b"".join(parts)
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="neartwin.odd", newline="")
        expected = list(alone(list(text), wanted))
        assert sorted(in_blocks(content, wanted, letters), key=lambda row: row[0]) == expected, (content, letters)
        odd += sum(fault != "" for *_, fault in expected)
    assert odd > number / 2


def test_both_readers_of_a_csv_agree_on_every_dialect(tmp_path):
    for number, delimiter in enumerate(",;\t|"):
        text = 'who,note\n1,"a""b"\n2,plain\n3,\n'.replace(",", delimiter)
        place = tmp_path / f"v{number}.csv"
        place.write_text(text)
        files = [readers.reader_of(str(place), "", "utf-8", [])]
        columns = {"who": ColumnType.INTEGER, "note": ColumnType.TEXT}
        with ingestion.duckdb.connect() as connection:
            connection.execute(ingestion._copy(files, columns, tmp_path / "fast.parquet", ()))
            ingestion._by_blocks(connection, files, columns, tmp_path / "slow.parquet", (), seen=print)
        fast, slow = (pq.read_table(tmp_path / f"{name}.parquet").to_pylist() for name in ("fast", "slow"))
        assert fast == slow == [{"who": 1, "note": 'a"b'}, {"who": 2, "note": "plain"}, {"who": 3, "note": None}]


def test_columns_of_several_files_are_matched_by_name(tmp_path):
    """By position 500 rows of one person were 500 units."""
    (tmp_path / "a.csv").write_text("who,paid\n" + "1,5\n" * 20)
    (tmp_path / "b.csv").write_text("paid,who\n" + "".join(f"{paid},1\n" for paid in range(20)))
    rows = nt.table(tmp_path / "*.csv", unit="who", types={"who": "integer", "paid": "number"}, name="v")
    assert {row["who"] for row in held(rows)} == {1}
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("who,cost\n1,2\n")
    with pytest.raises(SchemaError, match="column 'cost' is in this file or in"):
        nt.table(tmp_path / "*.csv*", unit="who", types={"who": "integer"}, name="v")


def test_accepted_lines_of_a_refresh_are_listed_to_their_owner(tmp_path):
    place = written(tmp_path / "v.csv", *GOOD, "90,five,2024-01-01\n")
    assert opened(place, accept_odd=True).table.source.odd == ("v.csv, line 42: 'paid' is 'five', and no number",)
    written(place, *GOOD, "90,5\n")
    assert opened(place, refresh=True).table.source.odd == ("v.csv, line 42: has 2 values, and the header 3",)
    written(place, *GOOD)
    assert opened(place, refresh=True).table.source.odd == ()


def test_snapshot_of_a_csv_moves_by_a_declared_refresh_alone(tmp_path):
    place = written(tmp_path / "v.csv", *GOOD)
    first = opened(place).table.source
    assert opened(place).table.source == first
    written(place, *GOOD)  # a cell of the owner's notebook was run again, and wrote the same rows
    assert opened(place).table.source == first
    assert pq.read_table(first.copy).num_rows == len(GOOD)
    written(place, *GOOD, GOOD[0])
    with pytest.raises(SchemaError, match=r"refresh=True"):
        opened(place)
    assert opened(place, refresh=False).table.source == first
    written(place, *GOOD)
    ingestion._opened.clear()  # as in a process that starts
    with pytest.raises(
        SchemaError, match=r"refresh=True"
    ):  # the same rows: "free" must not tell that they are the same
        opened(place)
    with pytest.raises(SchemaError, match=r"refresh=True"):
        opened(place)
    second = opened(place, refresh=True).table.source
    assert (first.label[:4], second.label[:4]) == ("1 of", "2 of")
    assert pq.read_table(first.copy) == pq.read_table(second.copy)
    third = written(place, *GOOD, GOOD[0]) and opened(place, refresh=True).table.source
    assert [ingestion.Path(source.copy).exists() for source in (first, second, third)] == [False, True, True]


def test_the_typed_copy_is_its_owners_alone(tmp_path):
    place = written(tmp_path / "v.csv", *GOOD)
    copy = ingestion.Path(opened(place, into=tmp_path / "kept").table.source.copy)
    assert copy.is_relative_to(tmp_path / "kept")
    assert [oct(one.stat().st_mode)[-3:] for one in (copy, copy.parent)] == ["600", "700"]


def test_typed_copy_is_no_second_account_and_no_public_table(tmp_path):
    rows = opened(written(tmp_path / "v.csv", *GOOD))
    copy = rows.table.source.copy
    with nt.open_ledger(tmp_path / "budget.db") as book:
        book.open(rows, nt.pure(1))
        book.open(opened(tmp_path / "v.csv"), nt.pure(1))  # the near miss
        with pytest.raises(LedgerError, match="belongs to population 'visits'"):
            book.open(nt.table(copy, unit="who", name="others"), nt.pure(1))


LATE = 10_413_792_000_000  # 330,000 years
FRAMES = {
    "pd.NA": (pd.Series(["a", pd.NA], dtype=object), 0),
    "surrogate": (pd.Series(["a", "\ud800"], dtype=object), 1),
    "array": (pd.Series(["a", np.array([1, 2])], dtype=object), 0),
    "signalling": (pd.Series([1, Decimal("sNaN")], dtype=object), 0),
    "digits": (pd.Series([1, 10**5000], dtype=object), 1),
    "mixed category": (pd.Series(pd.Categorical([1, "a"])), 0),
    "Decimal NaN": (pd.Series([Decimal(1), Decimal("NaN")], dtype=object), 0),
    "late": (pa.array([0, LATE], pa.timestamp("s")), 1),
    "late, zoned": (pa.array([0, LATE * 1000], pa.timestamp("ms", "UTC")), 1),
    "date32": (pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()), 1),
    "date64": (pa.array([0, LATE * 1000], pa.int64()).cast(pa.date64(), safe=False), 1),
    "text": (pa.array([b"a", b"\xff"]).view(pa.string()), 1),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), 0),
    "float16": (pa.array(np.array([1, 2], np.float16)), 0),
    "decimal": (pa.array([Decimal("1.5"), None]), 0),
    "wide decimal": (pa.array([Decimal("1.5"), Decimal("1E60")], pa.decimal256(76, 5)), 0),
    "decimal of millions": (pa.array([Decimal("1E6"), Decimal("2E6")], pa.decimal128(38, -5)), 0),
    "JSON": (pa.array(["{}", "no JSON"], pa.json_()), 0),
    "polars": (pl.Series(["a", None], dtype=pl.Categorical), 0),
    "object of polars": (pl.Series([1, {"a"}], dtype=pl.Object), 0),
    "milliseconds": (pl.Series([0, LATE * 1000]).cast(pl.Datetime("ms", "UTC")), 1),
}


@pytest.mark.parametrize("kind", [pa.decimal256(50, 0), pa.decimal256(76, 38), pa.decimal128(38, -1)], ids=str)
@pytest.mark.parametrize("types", [{}, {"who": "integer"}], ids=["as it is", "integer"])
def test_ids_in_wide_decimals_stay_apart(tmp_path, kind, types):
    """As doubles all four would be one unit, with the bound of one."""
    ids = pa.array([Decimal(2**60 // 10 * 10 + 10 * place) for place in range(4)], kind)
    rows = nt.table(pa.table({"who": ids}), unit="who", name="v", types=types)
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**4))
        plan = account.plan(rows.agg(people=nt.count_distinct_units()), spend=nt.pure(10**3))
        assert account.release(plan)["people"].values == (4,)


@pytest.mark.parametrize("name", FRAMES)
def test_odd_value_of_a_frame_fails_no_release(tmp_path, name):
    column, odd = FRAMES[name]
    if isinstance(column, pd.Series):
        frame = pd.DataFrame({"who": [1, 2], "odd": column})
    else:
        frame = (pl.DataFrame if isinstance(column, pl.Series) else pa.table)({"who": [1, 2], "odd": column})
    if odd:
        with pytest.raises(SchemaError, match="row 1: 'odd' is"):
            nt.table(frame, unit="who", name="v")
    rows = nt.table(frame, unit="who", name="v", accept_odd=True)
    assert len(rows.table.source.odd) == odd
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        plan = account.plan(
            rows.agg(n=nt.count(), odd=nt.count("odd")), spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1)
        )
        answer = account.release(plan)
        assert round(answer["n"].values[0]) == 2
        assert round(answer["odd"].values[0]) == 2 - odd - (name in {"pd.NA", "Decimal NaN", "decimal", "polars"})


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_text_of_a_frame_that_is_no_value_of_its_declared_type_is_told(make):
    """A sheet that pandas read has its notes below the rows; each would be a NULL, without a word."""
    frame = make({"who": ["1", "2", "source: clinic"], "paid": ["2.5", None, ' "a"']})
    types = {"who": "integer", "paid": "text"}
    with pytest.raises(SchemaError, match="1 line or value is odd: row 2: 'who' is 'source: clinic', and no integer"):
        nt.table(frame, unit="who", name="v", types=types)
    rows = nt.table(frame, unit="who", name="v", types=types, accept_odd=True)
    assert rows.table.source.odd == ("row 2: 'who' is 'source: clinic', and no integer",)
    assert nt.table(frame, unit="who", name="v").table.source.odd == ()


def test_frame_that_cannot_be_held_is_refused_and_others_count_rows(tmp_path):
    with pytest.raises(SchemaError, match="column 'x' cannot be held: Int128"):
        nt.table(pl.DataFrame({"who": [1], "x": pl.Series([2], dtype=pl.Int128)}), unit="who", name="v")
    frames = [
        pa.table({"who": [1, 2]}), pd.DataFrame({"who": [1, 2]}), pl.LazyFrame({"who": [1, 2]}),
        ds.dataset(pa.table({"who": [1, 2]})),
    ]  # fmt: skip
    for number, frame in enumerate(frames):
        rows = nt.table(frame, unit=nt.ROW, name=f"v{number}")
        with nt.open_ledger(tmp_path / "budget.db") as book:
            account = book.open(rows, nt.pure(10**9))
            assert account.release(account.plan(rows.agg(n=nt.count()), spend=nt.pure(10**6)))["n"].values == (2.0,)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2**62], pa.duration("s")),
        pa.StructArray.from_arrays([pa.array([0, 2**61]).cast(pa.timestamp("s"))], ["at"]),
        pa.array([[Decimal("1.5")], None], pa.list_(pa.decimal256(76, 5))),
    ],
    ids=["duration", "struct", "list"],
)
def test_column_that_a_value_makes_unreadable_has_no_declared_type(column, tmp_path):
    frame = pa.table({"who": [1, 2], "x": column})
    for kind in sorted(set(ColumnType) - {ColumnType.OTHER}):
        with pytest.raises(SchemaError, match=rf"column 'x' of .* is not read as {kind}; convert it"):
            nt.table(frame, unit="who", name="v", types={"x": kind})
    rows = nt.table(frame, unit="who", name="v")  # the near miss
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        plan = account.plan(rows.agg(n=nt.count()), spend=nt.pure(10**6), limits=nt.limits(rows=1))
        assert round(account.release(plan)["n"].values[0]) == 2


def test_equal_frames_are_one_snapshot_in_this_process(tmp_path):
    def frame(last):
        return pd.DataFrame({"who": [1, 2, 3], "town": ["Ulm", "Bonn", last]})

    first, again, other = (nt.table(frame(last), unit="who", name="v") for last in ("Hof", "Hof", "Ulm"))
    assert first.table.source == again.table.source != other.table.source
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(first, nt.pure(1))
        answers = [
            account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure("0.5")))
            for rows in (first, again)
        ]
        assert answers[0] == answers[1]
        assert account.spent == {"epsilon": 1 / 2}


def test_owner_imports_and_checks_from_a_terminal(tmp_path):
    place = written(tmp_path / "v.csv", *GOOD, "x,1,2024-01-01\n")
    line = ["import", str(place), "--types", "who=integer"]
    refused = CliRunner().invoke(main, line)
    assert refused.exit_code == 2
    assert "v.csv, line 42: 'who' is 'x', and no integer" in refused.stderr
    done = CliRunner().invoke(main, [*line, "--accept-odd"])
    assert done.exit_code == 0
    assert "snapshot 1: 41 rows" in done.stdout
    assert "public from now on: who integer, paid text, day text" in done.stderr
    assert "--types paid=integer --types day=date" in done.stderr
    assert json.loads(CliRunner().invoke(main, [*line, "--json"]).stdout)["odd"] == 1
    assert nt.table(place, unit="who", types={"who": "integer"}).table.source.label.startswith("1 of")
    pq.write_table(
        pa.table({"who": [1, 2], "town": pa.array([b"a", b"\xff"]).view(pa.string())}), tmp_path / "v.parquet"
    )
    wrong = CliRunner().invoke(main, ["check", str(tmp_path / "v.parquet")])
    assert wrong.exit_code == 2
    assert "town: " in wrong.stderr
    pq.write_table(pa.table({"who": [1, 2], "town": ["a", "b"]}), tmp_path / "v.parquet")
    assert "every value can be read" in CliRunner().invoke(main, ["check", str(tmp_path / "v.parquet")]).stdout


@pytest.mark.parametrize(
    ("texts", "narrow", "wide", "values"),
    [
        (["12.0", "3e2", "-7"], "integer", None, [12, 300, -7]),
        (["12.5", "3"], "integer", "number", None),
        (["2026-01-02", "2026-01-03 00:00:00"], "date", None, [date(2026, 1, 2), date(2026, 1, 3)]),
        (["2026-01-02 10:00:00", "2026-01-03"], "date", "timestamp", None),
    ],
)
def test_no_fraction_and_no_hour_is_lost_to_a_narrower_type(texts, narrow, wide, values, tmp_path):
    """DuckDB's own casts would round an amount and drop the hour, and propose such types."""
    path = tmp_path / "t.csv"
    path.write_text("who,n\n" + "".join(f"a,{text}\n" for text in texts), encoding="utf-8")
    found = ingestion.imported([str(path)], {}, ingestion.NO_TERMS)
    assert str(ingestion.fitting_types(found, {})["n"]) == (wide or narrow)
    declared = {"n": ColumnType(narrow)}
    if wide is None:
        read = ingestion.imported([str(path)], declared, ingestion.NO_TERMS)
        assert pq.read_table(read.copy)["n"].to_pylist() == values
    else:
        with pytest.raises(SchemaError, match=rf"line 2: 'n' is '{texts[0]}', and no {narrow}"):
            ingestion.imported([str(path)], declared, ingestion.NO_TERMS)
        assert ingestion.imported([str(path)], declared, ingestion.Terms(accept_odd=True)).odd == 1


INSTANT = [
    "2025-01-31T23:30:00+00:00", "2025-02-01T00:30:00+01:00", "2025-01-31 18:30:00-05", "2025-01-31T23:30:00Z",
    "2025-01-31 23:30:00",  # without an offset: as it is written
]  # fmt: skip


def texts_of_times(folder, how):
    """The same five texts in a file or a frame, the column declared a timestamp."""
    frame = pa.table({"who": range(5), "at": INSTANT})
    match how:
        case "csv":
            (folder / "at.csv").write_text("who,at\n" + "".join(f"{who},{at}\n" for who, at in enumerate(INSTANT)))
        case "odd.csv":  # whose lines are read one by one
            (folder / "at.odd.csv").write_text(
                "who,at\n" + "".join(f"{i},{at}\n" for i, at in enumerate(INSTANT)) + "\n9,x\n"
            )
        case "jsonl":
            rows = (json.dumps({"who": who, "at": at}) + "\n" for who, at in enumerate(INSTANT))
            (folder / "at.jsonl").write_text("".join(rows))
        case "parquet":
            pq.write_table(frame, folder / "at.parquet")
        case _:
            return frame
    return folder / f"at.{how}"


@pytest.mark.parametrize("how", ["csv", "odd.csv", "jsonl", "parquet", "frame"])
def test_times_with_an_offset_are_those_of_utc(tmp_path, monkeypatch, how):
    monkeypatch.setenv("TZ", "America/New_York")
    kinds = {"who": "integer", "at": "timestamp"}
    rows = nt.table(texts_of_times(tmp_path, how), unit="who", name="v", types=kinds, accept_odd=how == "odd.csv")
    with nt.open_ledger(tmp_path / "b.db") as book:
        hours = rows.group_by(nt.date_part("hour", "at"))
        account = book.open(rows, nt.pure(10**6))
        answer = account.release(account.plan(hours.agg(n=nt.count()), spend=nt.pure(10**5), limits=nt.limits(rows=1)))
    found = {
        key: round(n) for (key,), n in zip(answer.keys, answer["n"].values, strict=True) if key is not None and round(n)
    }
    assert found == {23: 5}


def test_a_day_with_an_offset_that_moves_it_is_odd(tmp_path):
    (tmp_path / "v.csv").write_text("who,day\n1,2024-01-05\n2,2024-01-05T00:00:00Z\n3,2024-01-05T00:00:00+01:00\n")
    with pytest.raises(SchemaError, match=r"1 line or value is odd: v\.csv, line 4"):
        nt.table(tmp_path / "v.csv", unit="who", types={"day": "date"})
