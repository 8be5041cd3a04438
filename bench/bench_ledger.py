"""Durable reservations a second, and whether the last of thousands costs as little as the first.

    python bench/bench_ledger.py [PLACE]      PLACE: a path or a postgresql:// URL; a new file by default

Peer: the same two durable commits by bare sqlite3, which check, chain and index nothing. Both take turns, so that a
busy disk slows them alike. Processor time is given beside wall time, for a disk's own pauses hide what grows.
"""

import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from neartwin.accounting.budgets import pure
from neartwin.ledger import Book, Population

PAIRS, WINDOW = 2000, 200
PEOPLE = Population(name="bench", unit="person", relation="add_remove")
DOCUMENT = b"a release of two kilobytes " * 75


class Bare:
    """Two durable inserts into one table of a file of its own."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE record (position INTEGER PRIMARY KEY, line TEXT, document BLOB)")

    def pair(self, _):
        """What a reserve and a settle write, without what they check."""
        self.connection.execute("INSERT INTO record (line) VALUES (?)", ("x" * 400,))
        self.connection.execute("INSERT INTO record (line, document) VALUES (?, ?)", ("x" * 300, DOCUMENT))


def timed(work, *arguments):
    """Seconds of wall and of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    work(*arguments)
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "budget.db"
        bare = Bare(Path(folder) / "bare.db")
        with Book(place) as ledger:
            account = ledger.open(PEOPLE, pure(1000))

            def pair(count):
                account.settle(account.reserve("plan", f"day {count}", pure("0.001"), "count by region"), DOCUMENT)

            times = [(timed(pair, count), timed(bare.pair, count)) for count in range(PAIRS)]
            replay = [timed(account.reserve, "plan", f"day {count}", pure("0.001"))[0] for count in range(WINDOW)]
            (verify, _), records = timed(ledger.verify), ledger.head().position
        bare.connection.close()
    ours, theirs = [mine for mine, _ in times], [other for _, other in times]
    middle = statistics.median(wall for wall, _ in ours)
    print(f"reserve + settle: {PAIRS / sum(wall for wall, _ in ours):.0f} pairs/s, median {middle * 1e3:.2f} ms")
    print(f"  of it processor: {statistics.median(busy for _, busy in ours) * 1e3:.2f} ms")
    print(f"stored answer again: {statistics.median(replay) * 1e3:.2f} ms; verify of {records} records: {verify:.2f} s")
    for name, which in (("wall", 0), ("processor", 1)):
        first = statistics.median(spent[which] for spent in ours[:WINDOW])
        last = statistics.median(spent[which] for spent in ours[-WINDOW:])
        print(f"ratio of the last {WINDOW} of {PAIRS} pairs to the first, {name} time: {last / first:.2f}")
    print(f"ratio ledger / two bare durable inserts: {middle / statistics.median(wall for wall, _ in theirs):.2f}")


if __name__ == "__main__":
    main()
