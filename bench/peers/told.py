"""What every peer's script tells bench_peers.py, as one line of JSON: answers, and the time of the work without imports.

Needs nothing but Python: each script runs in its own environment, as `python bench/peers/by_NAME.py JOB PATH`.
"""

import json
import sys
import time


def main(jobs):
    """Run the job that was asked for. jobs: by name, functions of the data's path that give answers ready for JSON."""
    job, path = sys.argv[1:3]
    if job not in jobs:
        sys.exit(f"has no {job}")
    wall, processor = time.perf_counter(), time.process_time()
    answers = jobs[job](path)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print("\n" + json.dumps({"seconds": wall, "processor": processor, "answers": answers}))
