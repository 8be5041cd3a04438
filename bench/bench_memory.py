"""Resident memory of a service over 20,000 requests of all kinds, large answers among them.

    python bench/bench_memory.py [REQUESTS]      by default 20,000

Prints one ratio: the median over the last tenth of the requests, over the median of the second tenth; of the server and its
workers, whichever grew more. Its bar is 1.1. Of 200 requests two replay an answer of 20,000 groups, one asks for a new one,
ten are new releases, and the rest plans, histories, stored answers, lists, and pages.
"""

import itertools
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import duckdb
import psutil

sys.path.insert(0, str(Path(__file__).parent))

from bench_service import minted, served

from neartwin.client.http import HttpClient

ANALYSTS, GROUPS = 8, 20_000
LIMITS = {"max_rows_per_group": 2, "max_groups": 2}


def large(number):
    """A question with an answer for each town."""
    sql = f"SELECT town, COUNT(*) AS n FROM purchases WHERE amount < {100 + number} GROUP BY town"
    keys = {"town": list(range(GROUPS))}
    return {"question": {"sql": sql, "keys": keys}, "spend": {"epsilon": "0.01"}, "limits": LIMITS}


def small(number):
    """A question with one number."""
    sql = f"SELECT COUNT(*) AS n FROM purchases WHERE amount < {number / 100}"
    return {"question": {"sql": sql}, "spend": {"epsilon": "0.01"}, "limits": {"rows": 8}}


def released(wire, ask):
    """The position of a release, once it is done."""
    job = wire.post("datasets", "purchases", "releases", body=ask, wait=30)
    while job["state"] != "done":
        job = wire.get("jobs", job["job"], wait=30)
    if job.get("error"):
        raise SystemExit(job["error"])
    return job["position"]


def analyst(address, token, numbers, most):
    """Send requests until the number is reached."""
    wire, position = HttpClient(address, token, 120), 1
    for number in iter(lambda: next(numbers), most):
        if number > most:
            return
        match number % 200:
            case 50 | 150:
                released(wire, large(0))
            case 100:
                released(wire, large(number))
            case kind if kind % 20 == 1:
                position = released(wire, small(number))
            case kind if kind % 4 == 0:
                wire.post("datasets", "purchases", "plan", body=small(number))
            case kind if kind % 4 == 1:
                wire.get("datasets", "purchases", "history", limit=100)
            case kind if kind % 4 == 2 and position > 1:
                wire.get("datasets", "purchases", "releases", str(position))
            case kind if kind % 8 == 3:
                wire.get("datasets")
            case _:
                page = Request(f"{address}/data/purchases", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
                urlopen(page).read()  # noqa: S310 - its own


def resident(server):
    """MiB of the server and of its largest worker."""
    sizes = [one.memory_info().rss / 2**20 for one in psutil.Process(server).children()]
    return psutil.Process(server).memory_info().rss / 2**20, max(sizes, default=0)


def main():
    """Serve, and look at the memory every half a second."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    folder = Path(tempfile.mkdtemp(prefix="neartwin-bench-"))
    place = folder / "purchases.parquet"
    rows = (
        f"SELECT i % 5000 AS customer_id, i % {GROUPS} AS town, (i * 37 % 20000) / 100 AS amount FROM range(40000) t(i)"
    )
    duckdb.sql(rows).write_parquet(str(place))
    tokens = minted(folder / "house", place, ANALYSTS)
    with served(folder / "house") as (address, server):
        released(HttpClient(address, tokens[0], 120), large(0))
        numbers, samples = itertools.count(1), []
        threads = [threading.Thread(target=analyst, args=(address, token, numbers, most)) for token in tokens]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            sent = int(repr(numbers)[6:-1])
            samples.append((sent, *resident(server.pid)))
            time.sleep(0.5)
    parts = [[one for one in samples if low * most < one[0] <= high * most] for low, high in ((0.1, 0.2), (0.9, 1))]
    ratios = []
    for at, name in ((1, "server"), (2, "largest worker")):
        first, last = (statistics.median(one[at] for one in part) for part in parts)
        ratios.append(last / first)
        most_ever = max(one[at] for one in samples)
        print(f"{name}: {first:.0f} MiB in the second tenth, {last:.0f} in the last, {most_ever:.0f} at most")
    print(f"ratio {max(ratios):.2f}")


if __name__ == "__main__":
    main()
