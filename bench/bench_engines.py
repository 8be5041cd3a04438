"""What privacy costs a query on DuckDB: the release against the same bounded statement without noise, and against none.

Prints ratios, medians of a few runs in alternation. Data are made here: visits with log-normal activity and Zipf cities.

    python bench/bench_engines.py [million rows, 10]
"""

import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan

RUNS = 5
THREADS = os.cpu_count() or 1
SPEND = nt.approx(1, "1e-6")

# the bounding that a careful analyst would write by hand: 20 rows a user and city by clipping, 10 cities a user, most rows first
MOST_FIRST = "least(n, 20) DESC,"
BY_HAND = (Path(__file__).parent / "peers" / "by_hand.sql").read_text(encoding="utf-8")
# one weight a user, by the length of her rows over her cities, as one writes it by hand; she helps to find all of them, or four
WEIGHTED = """
WITH pairs AS (
  SELECT user_id, city, count(*) AS n, count(amount) AS filled,
    sum(CAST(round(least(greatest(amount, 0), 100) * 100) AS BIGINT)) AS s
  FROM '{path}' WHERE user_id IS NOT NULL GROUP BY user_id, city),
weights AS (SELECT user_id, least(1, 64 / sqrt(sum(n * n))) AS w FROM pairs GROUP BY user_id){ranked}
SELECT city, {users} AS users, sum(w * n) AS n, sum(w * filled) AS filled, sum(w * s) / 100 AS total
FROM {source} JOIN weights USING (user_id) GROUP BY city
"""
KNOWN = {"ranked": "", "users": "count(*)", "source": "pairs"}
RANKED = """,
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY n DESC, hash(hash(7, user_id, city)), city) AS place FROM pairs)"""
FOUND = {"ranked": RANKED, "users": "count(*) FILTER (place <= 4)", "source": "ranked"}
PLAIN = "SELECT city, count(*) AS n, sum(amount) AS total, avg(amount) AS typical FROM '{path}' GROUP BY city"


def make_visits(path: Path, rows: int) -> None:
    """One user to 100 rows; 500 cities: 8 homes a user, and 5 % of the rows anywhere. Rows come in no order."""
    users = rows // 100
    with duckdb.connect() as connection:
        connection.execute("SELECT setseed(0.7)")
        connection.execute(f"""
            CREATE TEMP TABLE users AS SELECT range AS user_id,
              greatest(1, round(exp(3.9 + 1.2 * sqrt(-2 * ln(random() + 1e-12)) * cos(6.283185307 * random()))))::INT AS visits
            FROM range({users})""")
        zipf = "least(499, floor(exp(random() * ln(500)))::INT - 1)"
        connection.execute(f"CREATE TEMP TABLE homes AS SELECT user_id, i, {zipf} AS city FROM users, range(8) t(i)")
        connection.execute(f"""
            COPY (
              SELECT v.user_id, 'city ' || CASE WHEN random() < 0.05 THEN {zipf} ELSE h.city END AS city,
                (random() * 20)::INT AS category, round(exp(2.5 + 0.8 * (random() + random() + random() - 1.5) * 2), 2) AS amount
              FROM (SELECT user_id, (random() * 7.999)::INT AS home FROM users, range(visits)) v
              JOIN homes h ON h.user_id = v.user_id AND h.i = v.home
              ORDER BY random() LIMIT {rows}
            ) TO '{path}' (FORMAT parquet)""")


def seconds(work, clock=time.process_time) -> float:
    """Processor time of all threads: on a shared machine the clock on the wall tells of the neighbours."""
    start = clock()
    work()
    return clock() - start


def by_hand(text: str) -> None:
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.sql(text).to_arrow_table()


def medians(works, of: str = "") -> dict[str, float]:
    """The median time of each work, in turns, printed."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(RUNS):
        for name, work in works.items():
            times[name].append(seconds(work))
    found = {name: statistics.median(measured) for name, measured in times.items()}
    for name, measured in found.items():
        print(f"{of}{name:34} {measured:7.2f} s of processor time (median of {RUNS})")
    return found


def compare(path: Path, folder: Path) -> None:
    rows = nt.table(path, unit="user_id", name="visits")
    asked = rows.group_by("city").agg(n=nt.count(), total=nt.sum("amount", 0, 100), typical=nt.mean("amount", 0, 100))
    limits = {"limits": nt.limits(max_rows_per_group=20, max_groups=10)}
    stage = plan(asked, spend=SPEND, **limits).stage
    engine = DuckdbEngine(threads=THREADS)
    with nt.open_ledger(folder / "budget.db") as ledger:
        account = ledger.open(rows, nt.approx(1000, "1e-2"))
        spends = iter(range(1, 1000))

        def release() -> None:
            account.release(
                account.plan(asked, spend=nt.approx(f"1.{next(spends):03d}", "1e-6"), **limits), engine=engine
            )

        works = {
            "plain": lambda: by_hand(PLAIN.format(path=path)),
            "by hand, not private": lambda: by_hand(BY_HAND.format(path=path, first=MOST_FIRST)),
            "ours, not private": lambda: engine.aggregate(stage, salt=7),
            "release": release,
        }
        found = medians(works)
    release, ours, hand, plain = (
        found[name] for name in ("release", "ours, not private", "by hand, not private", "plain")
    )
    print(f"release / ours, not private:    {release / ours:.2f}")
    print(f"release / by hand, not private: {release / hand:.2f}  (target 1.20)")
    print(f"by hand, not private / plain:   {hand / plain:.2f}")


def compare_chosen(path: Path, folder: Path) -> None:
    """Nothing is said of limits: they are chosen, and what they take is measured, by the same reading of the rows."""
    rows = nt.table(path, unit="user_id", name="visits")
    engine = DuckdbEngine(threads=THREADS)
    cities = [f"city {i}" for i in range(500)]
    with nt.open_ledger(folder / "chosen.db") as ledger:
        account = ledger.open(rows, nt.approx(1000, "1e-2"))
        spends = iter(range(1, 1000))
        for what, keys, hand in (("public cities", cities, KNOWN), ("unknown cities", None, FOUND)):
            statistics_of = {"n": nt.count(), "total": nt.sum("amount", 0, 100), "typical": nt.mean("amount", 0, 100)}
            asked, text = rows.group_by("city", keys=keys).agg(**statistics_of), WEIGHTED.format(path=path, **hand)

            def release(asked=asked) -> None:
                account.release(account.plan(asked, spend=nt.approx(f"1.{next(spends):03d}", "1e-6")), engine=engine)

            works = {
                "weighted by hand, not private": lambda text=text: by_hand(text),
                "release, limits chosen": release,
            }
            hand_time, own = medians(works, f"{what}: ").values()
            print(f"{what}: release, limits chosen / weighted by hand: {own / hand_time:.2f}  (target 1.30)")


def stream(folder: Path, groups: int) -> None:
    """Groups of 3 rows each, of different users: how much this process holds beyond what the engine alone does."""
    path = folder / "many.parquet"
    text = f"SELECT (range * 7919) % {3 * groups} AS user_id, range % {groups} AS page FROM range({3 * groups})"
    duckdb.sql(f"COPY ({text}) TO '{path}' (FORMAT parquet)")
    rows = nt.table(path, unit="user_id", name="pages")
    asked = rows.group_by("page").agg(people=nt.count_distinct_units())
    stage = plan(asked, spend=SPEND, limits=nt.limits(max_groups=1)).stage
    engine = DuckdbEngine(memory_limit="2GB", threads=THREADS)
    alone = seconds(lambda: [None for _ in engine.batches(stage, salt=7, groups=2**17)], time.perf_counter)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with nt.open_ledger(folder / "pages.db") as ledger:
        account = ledger.open(rows, nt.approx(1000, "1e-2"))
        proposal = account.plan(asked, spend=nt.approx(2, "1e-3"), limits=nt.limits(max_groups=1))
        took = seconds(
            lambda: account.release_to_parquet(proposal, folder / "pages.parquet", engine=engine), time.perf_counter
        )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = duckdb.sql(f"SELECT count(*) FROM '{folder / 'pages.parquet'}'").fetchall()[0][0]
    print(f"{groups:,} groups: engine alone {alone:.1f} s, release to Parquet {took:.1f} s; {kept:,} groups kept")
    print(f"peak memory: engine alone {before / 2**20:.2f} GB, with the release {after / 2**20:.2f} GB")


def main() -> None:
    rows = int(float(sys.argv[1] if len(sys.argv) > 1 else 10) * 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_visits(folder / "visits.parquet", rows)
        made = duckdb.sql(f"SELECT count(*) FROM '{folder / 'visits.parquet'}'").fetchall()[0][0]
        print(f"{made:,} visits, {THREADS} threads, DuckDB {duckdb.__version__}")
        compare(folder / "visits.parquet", folder)
        compare_chosen(folder / "visits.parquet", folder)
        stream(folder, rows)


if __name__ == "__main__":
    main()
