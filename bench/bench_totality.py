"""Pairs of tables with and without one row of odd values: how many came out alike, and what one pair took.

A release must be answered for both tables of a pair, or both refused before an account can be opened. `tests/engines`
holds a sample of the same pairs.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.engines.test_totality import outcomes

PAIRS, SEEDS = 5_000, 10

if __name__ == "__main__":
    found, start = Counter(), time.perf_counter()
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            found += outcomes(1000 + seed, PAIRS // SEEDS, Path(folder))
    alike = found["answered and answered"] + found["refused and refused"]
    each = (time.perf_counter() - start) / PAIRS
    print(f"{alike:,} of {found.total():,} pairs came out alike; {each * 1000:.0f} ms a pair; {dict(found)}")
