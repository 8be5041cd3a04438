"""Pairs of tables with and without one row of odd values: how many came out alike, and what one pair took.

A release must be answered for both tables of a pair, or both refused before an account can be opened. `tests/engines`
holds a sample of the same pairs, and the slow tests 1,800 fresh ones.

On 26 November 2026 the slow tests ran 5,000: 4,400 of files, frames and DuckDB, 560 of PostgreSQL and 40 of Spark. All
came out alike, and more than nine of ten were answered.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import postgres_server
from tests.engines.places import PostgresPlace
from tests.engines.test_totality import PAIRS, outcomes, postgres_pair

FILES, SERVER, SEEDS = 4_500, 500, 15


def report(found: Counter[str], seconds: float, where: str) -> None:
    alike = found["answered and answered"] + found["refused and refused"]
    each = seconds / found.total() * 1000
    print(
        f"{where}: {alike:,} of {found.total():,} pairs came out alike; {each:.0f} ms of CPU a pair; {dict(found)}",
        flush=True,
    )


if __name__ == "__main__":
    found, start = Counter(), time.process_time()
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            found += outcomes(1000 + seed, FILES // SEEDS, Path(folder), PAIRS)
        report(found, time.process_time() - start, "files, frames and DuckDB")
    binaries, start = postgres_server.binaries(), time.process_time()
    if binaries is not None:
        with postgres_server.running(binaries) as url, tempfile.TemporaryDirectory() as folder:
            found = outcomes(2000, SERVER, Path(folder), [postgres_pair(PostgresPlace(url))])
        report(found, time.process_time() - start, "PostgreSQL, without its own CPU")
