"""The 22 questions of TPC-H as they are written: which are answered, how far off, and at what cost.

The customer is the unit. Texts that read no customers are asked with suppliers as units. Prints a line for each text.
A refused one says why. An answered one is released with a very large epsilon and its own groups as public keys, so that what is
left of its error is the grid of sums. Then come the relative errors at epsilon 1 with limits that the plan chooses privately:
the median over the values, and the mean. Then come processor seconds of a release over the same bounded statements
without noise, and over the text itself. A text with a statistic in WHERE has two bounded statements.

    pip install tpchgen-cli
    python bench/bench_tpch_sql.py TEXTS [--scale 1] [--folder DIR] [--only 22]     # TEXTS holds 01.sql to 22.sql
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Any

import duckdb
from bench_tpch import generated, spent

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import NeartwinError
from neartwin.noise import SYSTEM
from neartwin.planning.planner import plan
from neartwin.queries.query import Rows
from neartwin.queries.sql.parse import statement_of
from neartwin.releases.accounts import Account

TABLES = ("customer", "orders", "lineitem", "part", "supplier", "partsupp", "nation", "region")
BOUNDS = {
    "customer": {"c_acctbal": nt.bounds(-1000, 10_000)},
    "orders": {"o_totalprice": nt.bounds(0, 600_000)},
    "lineitem": {
        "l_quantity": nt.bounds(0, 50, 1), "l_extendedprice": nt.bounds(0, 105_000), "l_discount": nt.bounds(0, "0.1"),
        "l_tax": nt.bounds(0, "0.08"),
    },
    "partsupp": {"ps_supplycost": nt.bounds(0, 1000), "ps_availqty": nt.bounds(0, 10_000, 1)},
}  # fmt: skip
EPSILONS = count(10**11)  # no two questions are the same
LIMITS = {"max_rows_per_group": 2000}
RUNS = 5  # at epsilon 1


def opened(place: Path) -> dict[str, tuple[Rows, dict[str, Any]]]:
    """By unit, its rows and the tables beside them: rows of the same units, owned ones and public ones."""
    files = {name: place / f"{name}.parquet" for name in TABLES}
    people = {"name": "customer", "columns": BOUNDS["customer"]}
    customer = nt.table(files["customer"], unit="c_custkey", **people)
    orders = nt.table(files["orders"], unit="o_custkey", **people | {"columns": BOUNDS["orders"]})
    owner = nt.owned_by(orders, on={"o_orderkey": "l_orderkey"})
    lines = nt.table(files["lineitem"], unit=owner, name="lineitem", columns=BOUNDS["lineitem"])
    public = {name: nt.public_table(files[name], name=name, columns=BOUNDS.get(name)) for name in TABLES[3:]}
    partsupp = nt.table(files["partsupp"], unit="ps_suppkey", name="partsupp", columns=BOUNDS["partsupp"])
    supplier = nt.table(files["supplier"], unit="s_suppkey", name="partsupp")
    of_suppliers = {name: public[name] for name in ("part", "nation", "region")} | {"supplier": supplier}
    return {
        "customer": (customer, {"orders": orders, "lineitem": lines, **public}),
        "supplier": (partsupp, of_suppliers),
    }


def errors(found: list[dict[str, Any]], truth: list[dict[str, Any]], groups: tuple[str, ...]) -> Iterator[float]:
    """The relative error of each value. Groups that HAVING left out count as 0."""
    by_group = {tuple(str(row[name]) for name in groups): row for row in found}
    for row in truth:
        own = by_group.get(tuple(str(row[name]) for name in groups), {})
        for name in row.keys() - set(groups):
            yield abs(float(own.get(name, 0)) - float(row[name])) / max(1.0, abs(float(row[name])))


def answered(account: Account, text: str, rows: Rows, tables: dict[str, Any], plain: Any) -> str:
    """The line of an answered text."""
    truth = plain.sql(text).to_arrow_table().to_pylist()
    groups = tuple(statement_of(text, rows, tables=tables).groups)
    keys = [tuple(row[name] for name in groups) for row in truth]
    given = {"tables": tables, "keys": ([key[0] for key in keys] if len(groups) == 1 else keys) if groups else None}
    limits = nt.limits(**LIMITS, max_groups=max(1, len(keys)))
    release = lambda: account.sql(text, spend=nt.pure(next(EPSILONS)), limits=limits, **given)  # noqa: E731
    worst = max(errors(release().to_arrow().to_pylist(), truth, groups))
    off = [list(errors(_private(account, text, run, given), truth, groups)) for run in range(RUNS)]
    engine, asked = DuckdbEngine(), plan(nt.from_sql(text, rows, **given), spend=nt.pure(10**11), limits=limits)
    chosen, first = asked.resolve(engine, SYSTEM)[0], [one for stage in asked.first_stages for one in stage.plans]
    stages = [chosen.stage, *(one.stage for one in first)]
    private, bounded, bare = (
        spent(work, process_time, 3)
        for work in (
            release,
            lambda: [engine.aggregate(stage, salt=7) for stage in stages],
            lambda: plain.execute(text).fetchall(),
        )
    )
    return (
        f"{len(keys):6} groups, off by {worst:.1e}; at epsilon 1 median {median(map(median, off)):.2%}, mean "
        f"{median(map(fmean, off)):.2%}; {private:.2f} s, over bounded {private / bounded:.2f}, over text {private / bare:.1f}"
    )


def _private(account: Account, text: str, run: int, given: dict[str, Any]) -> list[dict[str, Any]]:
    """A release at epsilon 1, with private limits."""
    return account.sql(text, spend=nt.pure(f"1.00000{run}"), **given).to_arrow().to_pylist()


def main() -> None:
    """Print a line for each text, and how many are answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where generated tables are kept; a fresh one by default")
    parser.add_argument("--only", type=int, nargs="*", default=range(1, 23))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = generated(asked.folder or Path(name), asked.scale, TABLES)
        units, plain, good = opened(place), duckdb.connect(), 0
        accounts = {
            unit: nt.open_ledger(Path(name) / f"{unit}.db").open(rows, nt.pure(10**15))
            for unit, (rows, _) in units.items()
        }
        for table in TABLES:
            plain.execute(f"CREATE VIEW {table} AS SELECT * FROM '{place / table}.parquet'")
        for number in asked.only:
            text = (asked.texts / f"{number:02}.sql").read_text(encoding="utf-8").strip().removesuffix(";")
            unit = "customer" if any(table in text for table in ("customer", "orders", "lineitem")) else "supplier"
            work = partial(answered, accounts[unit], text, *units[unit], plain)
            try:
                line = f"{work()}; unit {unit}"
                good += 1
            except NeartwinError as refused:
                line = f"refused: {str(refused)[:160]}"
            sys.stdout.write(f"{number:3} {line}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{good} of 22 are answered\n")


if __name__ == "__main__":
    main()
