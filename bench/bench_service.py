"""Releases a second of a whole service under many analysts, beside the library's own in as many processes.

    python bench/bench_service.py [ANALYSTS [SECONDS]]      by default 200 analysts for 300 s

Prints one ratio: the service's rate over the library's, both on a new SQLite ledger. The library is measured before and
after, because the pace of a shared machine changes within minutes. Bars: the ratio is at least 0.6; the
slowest twentieth of the releases takes at most twice the median; that of previews beside them at most 300 ms; and nothing
fails but refusals. The analysts are threads of one process, which takes processor time from the service.

One more analyst previews a question, thinks for a second, and previews the next. Without that second she asked for half
as many previews as there were releases, which no person does, and releases were charged with their processor time.
"""

import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import duckdb
import psutil

import neartwin as nt
from neartwin.accounting.budgets import pure
from neartwin.client.http import HttpClient
from neartwin.errors import NeartwinError
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule

PARTS = ("server", "workers", "analysts")
WORKERS, BUDGET = 2, pure(10**6)


def question(who, number):
    """A question that nobody else asks."""
    statistics = {"n": {"ask": "count_distinct_units"}}
    where = [f"amount > {who % 100}", f"amount < {100 + number + who / 1000}"]
    return {"question": {"where": where, "statistics": statistics}, "spend": {"epsilon": "0.01"}}


def library(place, ledger, seconds, counts, who):
    """Releases of one process, without a service."""
    with nt.open_ledger(ledger) as opened:
        account = opened.open(nt.table(str(place), unit="customer_id", name="purchases"), BUDGET)
        rows, ends, number = account.rows, time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            asked = rows.where(f"amount > {who}").where(f"amount < {100 + number}").agg(n=nt.count_distinct_units())
            account.release(account.plan(asked, spend=nt.pure("0.01")))
            number += 1
        counts.put((number, time.process_time()))


def library_rate(place, folder, seconds, name):
    """Releases a second of as many processes as the service has workers, and seconds of processor for each."""
    counts = multiprocessing.Queue()
    with nt.open_ledger(folder / name) as opened:
        opened.open(nt.table(str(place), unit="customer_id", name="purchases"), BUDGET)
    arguments = [(place, folder / name, seconds, counts, who) for who in range(WORKERS)]
    processes = [multiprocessing.Process(target=library, args=one) for one in arguments]
    for process in processes:
        process.start()
    total, used = map(sum, zip(*(counts.get() for _ in processes), strict=True))
    for process in processes:
        process.join()
    return total / seconds, used / total


def analyst(address, token, who, ends, lists, *, pause=0):
    """One question after another until the end, each `pause` seconds after the last answer; how long each took."""
    wire, number, (path, took, failed) = HttpClient(address, token, 120), 0, lists
    while time.monotonic() < ends:
        start = time.monotonic()
        try:
            job = wire.post("datasets", "purchases", path, body=question(who, number), wait=30)
            while job.get("state") in {"queued", "running"}:
                job = wire.get("jobs", job["job"], wait=30)
            if job.get("error"):
                failed.append(job["error"]["code"])
        except NeartwinError as refusal:
            failed.append(refusal.as_dict()["message"][:80])
        took.append(time.monotonic() - start)
        number += 1
        time.sleep(pause)


def ready(address):
    """Wait for the service."""
    while True:
        try:
            with urlopen(f"{address}/readyz"):  # noqa: S310 - its own
                return
        except (URLError, ConnectionError):
            time.sleep(0.1)


def minted(house, place, analysts):
    """The tokens of so many analysts of a new service on one table."""
    with DataDirectory(house) as directory:
        policy = (Rule(allotment=BUDGET),)
        dataset = Dataset(name="purchases", place=str(place), unit="customer_id", budget=BUDGET, policy=policy)
        directory.register(dataset, by="bench")
        return [directory.mint(f"a{who}", "analyst", by="bench")[1] for who in range(analysts)]


@contextmanager
def served(house):
    """The address of a service in a process of its own, and the process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "neartwin", "serve", "--data", str(house), "--port", port]
    server = subprocess.Popen([*command, "--workers", str(WORKERS)], stderr=subprocess.DEVNULL)
    try:
        ready(address)
        yield address, server
    finally:
        server.terminate()
        server.wait()


def processor(server):
    """Seconds of processor that the server, its workers and this process have used."""
    server = psutil.Process(server)
    times = [[one.cpu_times()[:2] for one in part] for part in ([server], server.children(), [psutil.Process()])]
    return [sum(map(sum, part)) for part in times]


def main():
    """Measure the library, the service, and the library again."""
    analysts = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300
    folder = Path(tempfile.mkdtemp(prefix="neartwin-bench-"))
    place = folder / "purchases.parquet"
    rows = "SELECT i % 5000 AS customer_id, 1 + i % 3 AS cds, (i * 37 % 20000) / 100 AS amount FROM range(40000) t(i)"
    duckdb.sql(rows).write_parquet(str(place))
    before_it, each = library_rate(place, folder, min(seconds, 60), "before.db")
    print(f"library, {WORKERS} processes: {before_it:.1f} releases a second, each {1000 * each:.1f} ms of processor")
    tokens = minted(folder / "house", place, analysts + 1)
    with DataDirectory(folder / "house") as directory:
        for who in range(analysts + 1):
            directory.allot("purchases", f"analyst:a{who}", BUDGET, by="bench")
    with served(folder / "house") as (address, server):
        for warm in range(2 * WORKERS):  # whose processes start meanwhile
            analyst(address, tokens[-1], analysts + warm, time.monotonic() + 1, ("releases", [], []))
        took, previews, failed, ends = [], [], [], time.monotonic() + seconds
        before = psutil.Process(server.pid).memory_info().rss
        threads = [
            threading.Thread(target=analyst, args=(address, tokens[who], who, ends, ("releases", took, failed)))
            for who in range(analysts)
        ]
        previewing = (address, tokens[-1], analysts, ends, ("plan", previews, failed))
        threads.append(threading.Thread(target=analyst, args=previewing, kwargs={"pause": 1}))
        started = processor(server.pid)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used = [now - then for now, then in zip(processor(server.pid), started, strict=True)]
        after = psutil.Process(server.pid).memory_info().rss
    rate = (len(took) - len(failed)) / seconds
    middle, slow = statistics.median(took), statistics.quantiles(took, n=20)[-1]
    print(f"service, {analysts} analysts: {rate:.1f} releases a second; median {middle:.2f} s, p95 {slow:.2f} s")
    parts = ", ".join(f"{part} {1000 * one / len(took):.1f}" for part, one in zip(PARTS, used, strict=True))
    print(f"processor a release, ms: {parts}")
    preview = statistics.quantiles(previews, n=20)[-1]
    print(f"previews beside them: p95 {preview * 1000:.0f} ms of {len(previews)}")
    print(f"failed: {len(failed)} {sorted(set(failed))[:3]}; memory {before / 2**20:.0f} to {after / 2**20:.0f} MiB")
    after_it, each = library_rate(place, folder, min(seconds, 60), "after.db")
    print(f"library once more: {after_it:.1f} releases a second, each {1000 * each:.1f} ms of processor")
    ratio = rate / statistics.mean((before_it, after_it))
    print(f"ratio {ratio:.2f}")
    bars = {"ratio": ratio >= 0.6, "p95": slow <= 2 * middle, "previews": preview <= 0.3, "failed": not failed}
    sys.exit(", ".join(f"missed: {name}" for name, holds in bars.items() if not holds) or 0)


if __name__ == "__main__":
    main()
