"""Servers, workers and databases killed in turn under load: nothing lost, nothing paid twice, nothing unrecorded.

    python bench/bench_replicas.py [KILLS]            two replicas on PostgreSQL behind a proxy; by default 500 kills
    python bench/bench_replicas.py KILLS sqlite       one service on SQLite, which has no server of its own to be killed

Prints the minutes that it took and the share of questions that got an answer. It fails where an answer is missing from the
ledger, a price is paid twice, or the ledger is not whole.
"""

import sys
import tempfile
import time
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
    if sys.argv[2:] == ["sqlite"]:
        answered, asked = service_under_fire("", place, folder, kills=kills)
    else:
        with running(binaries()) as url:
            answered, asked = replicas_under_fire(url, place, folder, kills=kills, analysts=8)
    minutes = (time.monotonic() - start) / 60
    print(f"{kills} kills in {minutes:.1f} minutes, {asked} questions, answered {answered / asked:.2f}")


if __name__ == "__main__":
    main()
