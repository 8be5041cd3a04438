"""TPC-H revenue, the customer as unit: per part (a public catalogue of 200,000 a scale factor) and per ship mode (seven).

Prints, for each scale factor, what a release costs over the same bounded statement without noise and over the plain unbounded
one, and how cost grows from one size to the next. Processor time: of all threads on DuckDB, of all processes on Spark, where what
a release shuffled and the most memory of each process are told too. Large releases are written to Parquet.

    pip install tpchgen-cli
    python bench/bench_tpch.py [--scales 1 10] [--spark-scales 1 10] [--spark-memory 6g] [--by mode] [--folder DIR]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import duckdb

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan
from neartwin.planning.stage import Engine, Stage
from neartwin.queries.query import Query, Rows
from neartwin.releases.accounts import Account

MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
REVENUE = """
SELECT o_custkey AS customer, l_partkey AS part, l_shipmode AS mode, l_extendedprice * (1 - l_discount) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey
"""
LIMITS = {
    "part": {"limits": nt.limits(max_rows_per_group=1, max_groups=40)},
    "mode": {"limits": nt.limits(max_rows_per_group=10, max_groups=7)},
}
SPEND = nt.approx(2, "1e-6")
LARGE = 400_000  # groups; a release of more is written to Parquet
SPENDS = count(1)  # no two questions are the same


def generated(folder: Path, scale: int, tables: Sequence[str] = ("orders", "lineitem")) -> Path:
    """The tables of a scale factor, made once."""
    place = folder / f"sf{scale}"
    if not all((place / f"{name}.parquet").exists() for name in tables):
        place.mkdir(parents=True, exist_ok=True)
        program = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(program), "parquet", "-s", str(scale), "-T", ",".join(tables), "-o", str(place)]
        subprocess.run(command, check=True, capture_output=True)
    return place


def question(rows: Rows, by: str, scale: int) -> Query:
    """Orders' lines, revenue and customers by part or by ship mode; the lists of both are public."""
    keys = range(1, 200_000 * scale + 1) if by == "part" else MODES
    groups = rows.group_by(by, keys=keys)
    return groups.agg(lines=nt.count(), revenue=nt.sum("revenue", 0, 100_000, 1), customers=nt.count_distinct_units())


def released(account: Account, asked: Query, limits: dict[str, int], folder: Path, engine: Engine | None) -> int:
    """One release; the number of its groups."""
    number = next(SPENDS)
    proposal = account.plan(asked, spend=nt.approx(f"2.{number:03d}", "1e-6"), **limits)
    groups = len(proposal.plan.stage.keys or ())
    if groups <= LARGE:
        return len(account.release(proposal, engine=engine))
    account.release_to_parquet(proposal, folder / f"release-{number}.parquet", engine=engine)
    return groups


def spent(work: Callable[[], object], clock: Callable[[], float], runs: int) -> float:
    times = []
    for _ in range(runs):
        begun = clock()
        work()
        times.append(clock() - begun)
    return statistics.median(times)


def on_duckdb(place: Path, folder: Path, runs: int) -> dict[str, float]:
    """Seconds by question; prints ratios."""
    connection = duckdb.connect()
    for name in ("orders", "lineitem"):
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{place / name}.parquet'")
    connection.execute(f"CREATE VIEW revenue AS {REVENUE}")
    rows = nt.table(connection, table="revenue", unit="customer", name=f"customers-{place.name}", snapshot="bench")
    engine, found = DuckdbEngine(threads=os.cpu_count() or 1), {}
    with nt.open_ledger(folder / f"{place.name}.db") as ledger:
        account = ledger.open(rows, nt.approx(1000, "1e-2"))
        for by, limits in LIMITS.items():
            asked = question(rows, by, int(place.name[2:]))
            stage = plan(asked, spend=SPEND, **limits).stage
            plain = f"SELECT {by}, count(*), sum(revenue), count(DISTINCT customer) FROM revenue GROUP BY {by}"
            release = partial(released, account, asked, limits, folder, engine)
            private = spent(release, time.process_time, runs)
            bounded = spent(lambda stage=stage: engine.aggregate(stage, salt=7), time.process_time, runs)
            bare = spent(lambda plain=plain: connection.execute(plain).fetchall(), time.process_time, runs)
            found[by] = private
            print(f"  DuckDB by {by}: {private:.2f} s, {len(stage.keys or ()):,} groups; ", end="")
            print(
                f"over bounded, no noise {private / bounded:.2f}; over plain, unbounded {private / bare:.2f}",
                flush=True,
            )
    connection.close()
    return found


def on_spark(memory: str, questions: list[str], place: Path, folder: Path, runs: int) -> dict[str, float]:
    """The same on a local Spark of two cores, whose JVM may hold so much."""
    from bench_spark import peaks, processor_time, session, shuffled

    here = folder / f"spark-{place.name}"
    here.mkdir()
    spark, found = session(here, memory), {}
    for name in ("orders", "lineitem"):
        spark.read.parquet(str(place / f"{name}.parquet")).createOrReplaceTempView(name)
    _discarded(spark.sql("SELECT o_orderpriority, count(DISTINCT o_custkey) FROM orders GROUP BY 1"))  # warm
    rows = nt.table(spark.sql(REVENUE), unit="customer", name=f"spark-{place.name}", snapshot="bench")
    with nt.open_ledger(here / "budget.db") as ledger:
        account = ledger.open(rows, nt.approx(1000, "1e-2"))
        for by in questions:
            limits = LIMITS[by]
            query = question(rows, by, int(place.name[2:]))
            stage = plan(query, spend=SPEND, **limits).stage
            plain = f"SELECT {by}, count(*), sum(revenue), count(DISTINCT customer) FROM ({REVENUE}) GROUP BY {by}"
            begun = time.time()
            found[by] = spent(partial(released, account, query, limits, here, None), processor_time, runs)
            wall = (time.time() - begun) / runs
            time.sleep(1)  # for the log to be written
            told = "; ".join(f"{records:,} records, {size / 2**20:.1f} MB" for records, size in shuffled(here, begun))
            held = ", ".join(f"{kind} {size:.2f} GB" for kind, size in peaks().items())
            print(
                f"  Spark by {by}: {found[by]:.1f} s, {wall:.0f} on the wall; shuffles: {told}; peak memory so far: {held}"
            )
            sys.stdout.flush()
            bounded = spent(partial(_without_noise, stage), processor_time, runs)
            print(f"    over bounded, no noise {found[by] / bounded:.2f}", flush=True)
            bare = spent(partial(_discarded, spark.sql(plain)), processor_time, runs)
            print(f"    over plain, unbounded {found[by] / bare:.2f}", flush=True)
    spark.stop()
    return found


def _discarded(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _without_noise(stage: Stage) -> None:
    from neartwin.engines.spark import asked

    with asked(stage, 7) as frame:
        _discarded(frame)


def growth(engine: str, sizes: dict[int, dict[str, float]]) -> None:
    scales = sorted(sizes)
    for small, large in pairwise(scales):
        for by in sizes[small]:
            ratio = sizes[large][by] / sizes[small][by]
            print(
                f"{engine} by {by}: from SF{small} to SF{large}, {large / small:.0f} times the rows, {ratio:.1f} times the cost"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", type=int, nargs="*", default=[1])
    parser.add_argument("--spark-scales", type=int, nargs="*", default=[])
    parser.add_argument("--by", nargs="+", choices=list(LIMITS), default=list(LIMITS), help="on Spark")
    parser.add_argument("--spark-memory", default="3g", help="of the JVM")
    parser.add_argument("--folder", type=Path, help="where generated tables are kept; a fresh one by default")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), asked.folder or Path(name)
        spark = partial(on_spark, asked.spark_memory, asked.by)
        for engine, scales, run in (("DuckDB", asked.scales, on_duckdb), ("Spark", asked.spark_scales, spark)):
            sizes = {}
            for scale in scales:
                print(f"TPC-H scale factor {scale}")
                sizes[scale] = run(generated(kept, scale), folder, asked.runs)
            growth(engine, sizes)


if __name__ == "__main__":
    main()
