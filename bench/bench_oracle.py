"""Random wholes at hostile parameters: does a truth lie outside of an interval? It asks an oracle that shares nothing.

    python bench/bench_oracle.py [SEED [COUNT]]    # 5,000 if nothing is said

Rates from 1e-17, deltas from 1e-300 to 0.9, negative epsilons, pairs that reveal, degenerate ones, all directions. It prints
the ratio of intervals without a fault to those whose truth is known, and ends with 1 for any fault.
"""

import secrets
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.losses.test_random_wholes import Findings, swept

PART = 250


def main(seed: int, count: int) -> int:
    whole, start = Findings(), time.process_time()
    for part, left in enumerate(range(count, 0, -PART)):
        found = swept(seed + part, min(PART, left))
        whole.counts += found.counts
        whole.faults += found.faults
        for fault in found.faults:
            print("fault:", *fault)
        print(f"seeds {seed} to {seed + part}, {time.process_time() - start:.0f} s of CPU: {whole}", flush=True)
    known = sum(whole.counts[name] for name in ("epsilon", "delta", "tradeoff")) - whole.counts["without a truth"]
    print(f"true / known: {known - len(whole.faults)} / {known} = {1 - len(whole.faults) / max(known, 1):.6f}")
    return int(bool(whole.faults))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(given[0] if given else secrets.randbits(32), given[1] if len(given) > 1 else 5000))
