"""Servers, workers and databases killed in turn under load: nothing lost, nothing paid twice, nothing unrecorded.

    python bench/bench_replicas.py [KILLS]            by default 500 kills

Two of three kills are of two replicas on PostgreSQL behind a proxy, of their workers and of the database. The others are of a
service on SQLite and its workers, at the same time.

Prints the minutes that it took and how many questions got an answer. It fails where an answer is missing from the
ledger, a price is paid twice, or the ledger is not whole.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.postgres_server import binaries, running
from tests.web.test_kills import service_under_fire
from tests.web.test_replicas import replicas_under_fire


def main():
    """Kill, and look at the books."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    folder, start = Path(tempfile.mkdtemp(prefix="neartwin-bench-")), time.monotonic()
    place = folder / "purchases.parquet"
    rows = "SELECT i % 5000 AS customer_id, 1 + i % 3 AS cds, (i * 37 % 20000) / 100 AS amount, 'Ulm' AS town "
    duckdb.sql(rows + "FROM range(40000) t(i)").write_parquet(str(place))

    def told(name, fire, where, most, **more):
        answered, asked = fire(where, place, folder / name, kills=most, **more)
        minutes = (time.monotonic() - start) / 60
        print(f"{name}: {most} kills in {minutes:.1f} minutes, {answered} of {asked} questions answered", flush=True)

    with running(binaries()) as url, ThreadPoolExecutor(2) as stores:
        both = [
            stores.submit(told, "PostgreSQL", replicas_under_fire, url, kills - kills // 3, analysts=8),
            stores.submit(told, "SQLite", service_under_fire, "", kills // 3),
        ]
        for one in both:
            one.result()


if __name__ == "__main__":
    main()
