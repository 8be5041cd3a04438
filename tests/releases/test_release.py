"""A release is a frozen value that other tools can read, and reads back the same."""

import csv
import dataclasses
import io
import json
import re
from html import escape

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import ParameterError
from neartwin.releases.release import shown
from neartwin.releases.values import Statistic
from neartwin.tables.types import ColumnType


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    rows = nt.table(
        pa.table({"who": range(500), "town": ["Ulm", None] * 250, "paid": [5.0] * 500}), unit="who", name="visits"
    )
    with nt.open_ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        query = rows.group_by("town", keys=[None, "Ulm", "<script>"]).agg(n=nt.count(), typical=nt.mean("paid", 0, 10))
        return account.release(
            account.plan(query, spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=1, max_groups=1))
        )


def test_every_library_reads_the_same_table(release):
    columns = ["town", "n", "n_lower", "n_upper", "typical", "typical_lower", "typical_upper"]
    arrow, pandas, polars = release.to_arrow(), release.to_pandas(), release.to_polars()
    assert arrow.column_names == columns == list(pandas.columns) == polars.columns
    assert arrow["n"].to_pylist() == list(pandas.n) == polars["n"].to_list() == list(release["n"].values)
    assert pa.table(release) == arrow  # the Arrow stream protocol
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert duckdb.sql("SELECT count(*) FROM arrow").fetchall() == [(3,)]


def test_json_csv_and_parquet_keep_it_whole(release, tmp_path):
    assert nt.Release.from_json(release.to_json()) == release
    assert pq.read_table(release.write(tmp_path / "r.parquet")).num_rows == 3
    told = pq.read_schema(tmp_path / "r.parquet").metadata[b"neartwin.guarantee"]
    assert told == b"epsilon = 0.5 for adding or removing one who"
    assert release.write(tmp_path / "r.csv").read_text().count("\n") == 4
    assert json.loads(release.write(tmp_path / "r.json").read_text())["guarantee"]["epsilon"] == "1/2"
    with pytest.raises(ParameterError, match=r"must end in"):
        release.write(tmp_path / "r.png")
    newer = json.dumps(json.loads(release.to_json()) | {"format": 99})
    with pytest.raises(ParameterError, match="newer neartwin"):
        nt.Release.from_json(newer)


def test_release_is_frozen_and_states_the_odds(release):
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.confidence = 1
    assert release.guarantee.describe().startswith(
        "Someone betting on whether one who is in the data, who starts at 50 %"
    )
    assert "62.25 %" in release.guarantee.describe()  # e^0.5 / (1 + e^0.5) = 0.622459..., rounded up
    assert release.provenance.budget_before == {"epsilon": "1"}
    assert release.provenance.budget_after == {"epsilon": "1/2"}


def test_the_notebook_view_and_the_page_escape_what_data_brings(release, tmp_path):
    page = nt.save(release, tmp_path / "r.html").read_text()
    for note in release.notes:
        assert escape(note) in release._repr_html_()
    for text in (release._repr_html_(), page):
        assert "<script>" not in text
        assert "&lt;script&gt;" in text
        assert "62.25 %" in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)  # it loads nothing from anywhere
    assert "@import" not in page
    assert "url(http" not in page
    assert page.count("<svg") == 3  # a chart for each statistic, and what an attacker can do with the release


def test_keys_stand_left_and_numbers_right_in_the_notebook_and_on_the_page(tmp_path):
    """Text to the right, and a headline of ten lines on a phone, were hard to read."""
    rows = {"who": range(40), "std": ["<b>"] * 40, "town": ["Ulm"] * 40, "paid": [float(i) for i in range(40)]}
    visits = nt.table(pa.table(rows), unit="who", name="visits")
    asked = visits.group_by("std", "town", keys=[("<b>", "Ulm")]).agg(n=nt.count(), total=nt.sum("paid", 0, 9))
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(visits, nt.pure(1))
        release = account.release(account.plan(asked, spend=nt.pure(1), limits=nt.limits(rows=2)))
    page, notebook = nt.save(release, tmp_path / "r.html").read_text(), release._repr_html_()
    for key in ("std", "town"):
        assert f'<th style="text-align:left">{key}</th>' in notebook
        assert f'<th scope="col" class="key">{key}</th>' in page
    assert '<td style="text-align:left">&lt;b&gt;</td><td style="text-align:left">Ulm</td>' in notebook
    assert '<th scope="row" class="key">&lt;b&gt;</th><th scope="row" class="key">Ulm</th><td>' in page
    for number in ("n", "total"):
        assert f'<th style="text-align:right;white-space:nowrap">{number}</th>' in notebook
        assert f'<th scope="col">{number}</th>' in page
    first, _, rest = release.headline.partition(". ")
    assert len(first) < 100 < len(rest)
    assert f"<p><b>{first}.</b> {rest}</p>" in page
    assert f"<p><b>{first}. </b>{rest}</p>" in notebook


def test_release_prints_as_a_table_with_its_promise_and_repr_is_one_line(release):
    headline, header, *rows = str(release).splitlines()
    assert headline == release.headline
    assert header.split() == ["town", "n", "typical"]
    key, number = rows[0].split()[:2]
    assert (key, float(number)) == ("(none)", pytest.approx(release["n"].values[0], abs=0.5))
    assert shown(release["n"], 0) in rows[0]
    below = [note for note in release.notes if note not in headline]  # a draw may put a median at its bound
    assert rows[3:] == [str(release.guarantee), *below]
    assert repr(release) == f"<Release of 'visits': 3 groups by town, n, typical; {release.guarantee}>"
    many = dataclasses.replace(
        release,
        keys=tuple((f"town {i}",) for i in range(100)),
        statistics=tuple(
            dataclasses.replace(
                one, noise=None, **{end: getattr(one, end)[:1] * 100 for end in ("values", "lower", "upper")}
            )
            for one in release.statistics
        ),
    )
    assert "... 40 more groups" in str(many).splitlines()
    assert len(str(many).splitlines()) == 2 + 60 + 1 + 1 + len(below)


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [
        (2935, 2919, 2950, "2,935 ± 16"),  # the wider side, which holds too
        (2935, 2920, 2950, "2,935 ± 15"),
        (2935, 2918, 2950, "2,935 (2,918 to 2,950)"),  # the near miss: two apart
        (7, 0, 17, "7 (0 to 17)"),
        (38.8, 28.9, 48.2, "38.8 (28.9 to 48.2)"),
        (3.25, 2.2, 4.31, "3.2 ± 1.1"),
        (0.5, 0.495, 0.505, "0.5 ± 0.005"),
        (1995.69, 1995.652, 1995.728, "1,995.690 ± 0.038"),  # four digits would lie outside
        (67.1046, 67.10425, 67.10495, "67.10460 ± 0.00035"),
        (0.9998, 0.9996, 1.0004, "0.99980 (0.99960 to 1.00040)"),
        (-1995.69, -1995.728, -1995.652, "-1,995.690 ± 0.038"),
        (2.0, 2.0, 2.0, "2 ± 0"),
        (0.0, 0.0, 0.0, "0 ± 0"),
    ],
)
def test_symmetric_bar_prints_as_one_number(value, low, high, told):
    one = Statistic(name="n", what="", values=(value,), lower=(low,), upper=(high,))
    assert shown(one, 0) == told


def test_csv_text_is_no_formula_to_a_spreadsheet(release):
    wide = [f"{chr(ord(sign) + 0xFEE0)}1" for sign in "=+-@"]  # of full width, as Japanese keyboards write them
    words = ["=1+1", "+49", "-1 day", "@SUM(A1)", "\tx", *wide, "Ulm", "a=b", "\uff1c1", None]
    keys = tuple((word,) for word in words)
    statistics = tuple(
        dataclasses.replace(one, **{name: (getattr(one, name) * 13)[:13] for name in ("values", "lower", "upper")})
        for one in release.statistics
    )
    odd = dataclasses.replace(release, group_columns=("=town",), keys=keys, statistics=statistics)
    header, *rows = csv.reader(io.StringIO(odd.to_csv()))
    assert header[0] == "'=town"
    guarded = [f"'{word}" for word in words[:9]]
    assert [row[0] for row in rows] == [*guarded, "Ulm", "a=b", "\uff1c1", ""]
    assert float(rows[0][1]) == statistics[0].values[0]


def test_excel_file_has_the_numbers_the_notes_and_no_formula(release, tmp_path):
    formula = ("=1+1",)
    keys = (formula, *release.keys[1:]) if len(release.group_columns) == 1 else release.keys
    book = openpyxl.load_workbook(dataclasses.replace(release, keys=keys).write(tmp_path / "x.xlsx"))
    header, *rows = book["release"].iter_rows(values_only=True)
    assert list(header) == release.to_arrow().column_names
    wanted = np.array([tuple(row.values())[1:] for row in release.to_arrow().to_pylist()], dtype=float)
    found = np.array([row[1:] for row in rows], dtype=float)  # an open end is an empty cell
    assert np.allclose(found, wanted, rtol=1e-12, equal_nan=True)  # Excel keeps 15 digits
    assert book["release"]["A2"].data_type == "s"
    assert [row[0] for row in book["notes"].iter_rows(values_only=True)][-1] == release.notes[-1]


def test_a_histogram_is_drawn_as_bars_and_long_titles_are_cut(tmp_path):
    rows = nt.table(pa.table({"who": range(100), "paid": [float(i) for i in range(100)]}), unit="who", name="visits")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**6))
        asked = rows.agg(h=nt.histogram("paid", [0, 10, 25, 50, 75, 90, 95, 100]))
        drawn = nt.plot(
            account.release(account.plan(asked, spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1)))
        )
    columns = [float(width) for width in re.findall(r'class="column"[^>]* width="([\d.]+)"', drawn.__html__())]
    assert np.allclose(np.array(columns) / sum(columns), np.array([10, 15, 25, 25, 15, 5, 5]) / 100, atol=1e-3)
    assert drawn.title.startswith("visits: histogram(paid")


@pytest.mark.slow
def test_a_note_names_the_answers_that_lie_at_a_clip_bound(tmp_path):
    data = pa.table({"who": range(600), "town": ["Ulm", "Bonn"] * 300, "paid": [90.0, 20.0] * 300})
    rows = nt.table(data, unit="who", name="visits")
    asked = rows.group_by("town", keys=["Bonn", "Ulm"]).agg(
        narrow=nt.mean("paid", 0, 50),
        wide=nt.mean("paid", 0, 100),
        most=nt.maximum("paid", 0, 50),
        rich=nt.share("paid > 50"),
    )
    found, limits = [], nt.limits(max_groups=1, max_rows_per_group=1)
    for place in range(4):  # a bar that just misses its bound, one in forty, says nothing
        with nt.open_ledger(tmp_path / f"{place}.db") as book:
            account = book.open(rows, nt.pure(10**6))
            notes = account.release(account.plan(asked, spend=nt.pure(10**6), limits=limits)).notes
        found.append([note.split(" lie at a bound")[0] for note in notes if "lie at a bound" in note])
    assert ["narrow: 1 of 2 answers", "most: 1 of 2 answers"] in found
    assert not any("wide" in note or "rich" in note for notes in found for note in notes)


def test_a_headline_says_that_bars_exceed_values_where_they_reach_to_0(release):
    def told(value, low, high, kind=ColumnType.NUMBER):
        one = Statistic(name="n", what="", values=(value,), lower=(low,), upper=(high,), kind=kind)
        return "exceed the values" in dataclasses.replace(release, statistics=(one,)).headline

    assert told(3, -4, 9)
    assert told(-3, -9, 4)
    assert not told(15, 10, 320)  # far off, but not drowned
    assert not told(300, 280, 310)
    assert not told(20_000, -25_567, 40_000, ColumnType.DATE)  # days, whose 0 is one of many
