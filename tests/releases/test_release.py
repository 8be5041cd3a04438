"""A release is a frozen value that other tools can read, and reads back the same."""

import dataclasses
import json
import re

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import ParameterError


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    rows = nt.table(
        pa.table({"who": range(500), "town": ["Ulm", None] * 250, "paid": [5.0] * 500}), unit="who", name="visits"
    )
    with nt.open_ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        query = rows.group_by("town", keys=[None, "Ulm", "<script>"]).agg(n=nt.count(), typical=nt.mean("paid", 0, 10))
        return account.release(account.plan(query, spend=nt.pure("0.5"), rows_per_group=1, groups_per_unit=1))


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
        release.write(tmp_path / "r.xlsx")
    newer = json.dumps(json.loads(release.to_json()) | {"format": 99})
    with pytest.raises(ParameterError, match="newer neartwin"):
        nt.Release.from_json(newer)


def test_it_is_frozen_and_tells_the_odds(release):
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.confidence = 1
    assert release.guarantee.words().startswith("Someone betting on whether one who is in the data, who starts at 50 %")
    assert "62.25 %" in release.guarantee.words()  # e^0.5 / (1 + e^0.5) = 0.622459..., rounded up
    assert release.provenance.budget_before == {"epsilon": "1"}
    assert release.provenance.budget_after == {"epsilon": "1/2"}


def test_the_notebook_view_and_the_page_escape_what_data_brings(release, tmp_path):
    page = nt.save(release, tmp_path / "r.html").read_text()
    for text in (release._repr_html_(), page):
        assert "<script>" not in text
        assert "&lt;script&gt;" in text
        assert "62.25 %" in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)  # it loads nothing from anywhere
    assert "@import" not in page
    assert "url(http" not in page
    assert page.count("<svg") == 2  # the chart, and what an attacker can do with it
