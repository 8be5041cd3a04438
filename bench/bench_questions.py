"""A thousand private counts with distinct predicates in one session, against the same bounded counts without privacy.

    python bench/bench_questions.py [QUESTIONS]

Each private count is planned, reserved durably, asked of DuckDB, noised, settled and handed out. It is held against its own
statement, text and parameters ready, and against the bounded count that an analyst would write, on the same connection. All
take turns, so that a busy machine slows them alike. Printed: the milliseconds that privacy adds to either, by tenth of the
session (processor time, then wall time), the ratio of the last tenth to the first, and how much of the wall time this disk
takes for two durable writes of a record, which no private answer can do without.
"""

import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import neartwin as nt
from neartwin.engines import duckdb as engine

ROWS = 100_000


def table():
    """Visits of ten thousand people, in memory."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT hash(range) % 10000 AS who, (hash(range + 7) % 20000) / 100.0 AS paid, "
        f"(hash(range + 9) % 90)::INT AS age FROM range({ROWS})"
    )
    return connection, nt.table(connection, table="visits", unit="who")


def predicate(i):
    """No two are alike."""
    return f"paid > {i * 37 % 199} AND age BETWEEN {i % 40} AND {40 + i % 50} AND paid <> {i}"


def bounded(asked):
    """The same count, each person's rows cut to three, as an analyst would write it."""
    return f"SELECT sum(least(n, 3)) FROM (SELECT who, count(*) AS n FROM visits WHERE {asked} GROUP BY who)"


def keep_texts():
    """The list to which every statement's text is added from now on."""
    texts, text_of = [], engine.text_of

    def kept(*args, **named):
        texts.append(text_of(*args, **named))
        return texts[-1]

    engine.text_of = kept
    return texts


def timed(work):
    """Processor and wall milliseconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)


def two_writes(folder):
    """Two bare commits of a record's size to SQLite, as durable as the ledger's."""
    store = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for word in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE lines (line TEXT)"):
        store.execute(word)

    def work():
        for size in (600, 4000):
            store.execute("BEGIN IMMEDIATE")
            store.execute("INSERT INTO lines VALUES (?)", ["x" * size])
            store.execute("COMMIT")

    return work


def main(questions):
    connection, rows = table()
    ours, own, plain, disk = [], [], [], []
    texts = keep_texts()
    with tempfile.TemporaryDirectory() as folder, nt.open_ledger(Path(folder) / "budget.db") as book:
        account = book.open(rows, nt.pure(questions))
        write = two_writes(Path(folder))
        for i in range(questions):
            asked = predicate(i)

            def private(asked=asked):
                query = rows.where(asked).agg(n=nt.count())
                account.release(account.plan(query, spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=3)))

            text = bounded(asked)
            plain.append(timed(lambda text=text: connection.execute(text).fetchall()))
            ours.append(timed(private))
            own.append(timed(lambda: connection.execute(texts[-1]).fetchall()))
            disk.append(timed(write))
    tenth = max(1, questions // 10)
    added = [(mine[0] - its[0], mine[1] - its[1]) for mine, its in zip(ours, own, strict=True)]
    to_plain = [(mine[0] - its[0], mine[1] - its[1]) for mine, its in zip(ours, plain, strict=True)]
    for start in range(0, questions, tenth):
        shown = [
            statistics.median(column)
            for parts in (added, to_plain)
            for column in zip(*parts[start : start + tenth], strict=True)
        ]
        print(
            f"questions {start + 1:5}-{start + tenth:5}: privacy adds {shown[0]:6.1f} ms processor, {shown[1]:6.1f} ms wall"
            f" to its statement, and {shown[2]:6.1f}, {shown[3]:6.1f} to a plain bounded count"
        )
    first, last = (statistics.median(one[0] for one in part) for part in (added[:tenth], added[-tenth:]))
    whole = statistics.median(mine[0] for mine in ours) / statistics.median(its[0] for its in plain)
    bare = statistics.median(one[1] for one in disk)
    print(
        f"of the wall time, two durable writes: {bare:.1f} ms; the first question added {added[0][0]:.1f} ms processor"
    )
    print(f"last tenth / first: {last / first:.2f}; private / plain bounded: {whole:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
