"""A quotient has limits chosen for a quotient. With those for two sums, towns here err 15 times the best fixed limit."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from tests.releases.test_bars_of_one_number import ReadOnce

KEYS = list("abcdef")


@pytest.fixture(scope="module")
def visits():
    """30,000 units with up to 400 rows, in six towns."""
    draw = np.random.default_rng(22)
    rows = np.minimum(400, np.ceil(np.exp(draw.normal(0.6, 1.25, 30_000)))).astype(int)
    who, many = np.repeat(np.arange(len(rows)), rows), rows.sum()
    data = {"who": who, "town": draw.choice(KEYS, many, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])}
    data |= {"paid": np.minimum(100, draw.gamma(1.2, 9, many)), "seen": np.minimum(100, draw.gamma(0.8, 7, many))}
    return pa.table(data)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["SUM(paid) / SUM(seen)", "SUM(paid) / COUNT(*)", "1.0 * COUNT(*) / SUM(seen)"])
def test_a_quotient_errs_little_more_than_with_the_best_limit(visits, tmp_path, asked):
    found = dict(duckdb.sql(f"SELECT town, {asked} FROM visits GROUP BY town").fetchall())
    truth, engine = np.array([found[key] for key in KEYS]), ReadOnce()
    table = nt.table(visits, unit="who", name="visits", columns={name: nt.bounds(0, 100) for name in ("paid", "seen")})
    with nt.open_ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open(table, nt.pure(10**4))

        def error(question, **limits):
            """The median error of 60 releases, each of a plan of its own, and the share of bars that hold."""
            off, held = [], []
            for k in range(60):
                made = account.plan(question, spend=nt.pure(f"1.000{k:02}"), **limits)
                one = account.release(made, engine=engine)["y"]
                off.append(np.nan_to_num(one.values) / truth - 1)
                ends = [np.array(end, dtype=float) for end in (one.lower, one.upper)]
                held.append((~(ends[0] > truth) & ~(ends[1] < truth)).mean())
            return np.median(np.abs(off)), np.mean(held)

        query = nt.from_sql(f"SELECT town, {asked} AS y FROM visits GROUP BY town", account.rows, keys=KEYS)
        (chosen, held), best = error(query), min(error(query, limits=nt.limits(rows=c))[0] for c in (4, 8, 16))
        assert chosen < 8 * best
        assert held > 0.95
