"""One number over all rows has a short bar: it holds the raw truth though few units with many rows are another kind of unit."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.limit_choice import LimitChoice

RELEASES = 99


class ReadOnce:
    """The exact numbers of each stage, which a table gives once."""

    def __init__(self):
        """Nothing is known yet."""
        self.engine, self.known = DuckdbEngine(), {}

    def aggregate(self, stage, *, salt):
        """The stage's own answer; no test here chooses among groups by a salt."""
        key = repr(stage)
        if key not in self.known:
            self.known[key] = self.engine.aggregate(stage, salt=salt)
        return self.known[key]


@pytest.fixture(scope="module")
def visits():
    """30,000 units with up to 400 rows. Whoever has many is paid more, and more often late."""
    draw = np.random.default_rng(15)
    rows = np.minimum(400, np.ceil(np.exp(draw.normal(0.6, 1.25, 30_000)))).astype(int)
    who = np.repeat(np.arange(len(rows)), rows)
    level = np.log(rows)[who]
    paid = np.round(np.exp(0.8 + 0.35 * level + draw.normal(0, 0.7, len(who))), 1)
    late = draw.random(len(who)) < np.clip(0.05 + 0.13 * level, 0, 0.9)
    return pa.table({"who": who, "paid": paid, "late": late, "kind": np.minimum(draw.zipf(1.6, len(who)), 150)})


def held(visits, tmp_path, asked, truth, spend, **named):
    """The share of releases whose bars hold the raw truth, open ones beside."""
    raw = duckdb.sql(f"SELECT {truth} FROM visits").fetchall()[0][0]
    table, engine = nt.table(visits, unit="who", name="visits", columns={"paid": nt.bounds(0, 60)}), ReadOnce()
    whole, about = (nt.gdp(1000), "0.4") if spend is nt.gdp else (nt.pure(1000), "1.0")
    ends = []
    with nt.open_ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open(table, whole)
        query = nt.from_sql(f"SELECT {asked} FROM visits", account.rows)
        for k in range(RELEASES):
            made = account.plan(query, spend=spend(f"{about}000{k:02}"), **named)
            one = account.release(made, engine=engine).statistics[-1]
            ends.append((one.lower[0], one.upper[0]))
    return np.mean([(low is None or low <= raw) and (high is None or raw <= high) for low, high in ends])


QUESTIONS = {
    "AVG(late) AS y": "avg(late::INT)",
    "AVG(paid) AS y": "avg(paid)",
    "COUNT_IF(late) / COUNT(*) AS y": "avg(late::INT)",
    "COUNT(DISTINCT kind) AS k, COUNT(*) AS y": "count(*)",
}


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_bar_of_one_number_holds_all_rows_where_limits_are_chosen(visits, tmp_path, asked):
    assert held(visits, tmp_path, asked, QUESTIONS[asked], nt.pure) >= 0.9


def test_so_it_does_under_normal_noise(visits, tmp_path):
    assert held(visits, tmp_path, "COUNT(*) AS y", "count(*)", nt.gdp) >= 0.9


def test_a_limit_that_surely_cuts_many_units_has_a_longer_bar(visits, tmp_path):
    assert held(visits, tmp_path, "COUNT(*) AS y", "count(*)", nt.pure, limits=nt.limits(rows=16)) >= 0.9


def test_a_bar_without_a_least_reach_misses(visits, tmp_path, monkeypatch):  # a near miss
    chosen = LimitChoice.chosen

    def short(self, plan, limits):
        choice = chosen(self, plan, limits)
        return replace(choice, plan=replace(choice.plan, loss=replace(choice.plan.loss, least=0.0)))

    monkeypatch.setattr(LimitChoice, "chosen", short)
    assert held(visits, tmp_path, "COUNT(*) AS y", "count(*)", nt.pure) < 0.9
