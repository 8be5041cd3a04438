"""What a stage costs on Spark: time and bytes shuffled at three sizes, beside the cost model of docs/engines.md.

Then a release of many groups, written where they are computed: time beside the same statement without noise, and the most
memory that the driver's two processes and the workers held.

python bench/bench_spark.py [million rows of the largest size, 4] [million groups, 10]
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from bench_engines import SPEND, make_visits
from pyspark.sql import SparkSession

import neartwin as nt
from neartwin.engines.spark import SparkEngine, asked
from neartwin.queries.planner import plan


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "8", "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def shuffled(folder: Path, start: float) -> list[tuple[int, int]]:
    """Records and bytes that each stage wrote to a shuffle since then, in order."""
    (log,) = (folder / "events").iterdir()
    written: dict[int, list[int]] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd" and event["Task Info"]["Launch Time"] >= start * 1000:
            metrics = event["Task Metrics"]["Shuffle Write Metrics"]
            total = written.setdefault(event["Stage ID"], [0, 0])
            total[0] += metrics["Shuffle Records Written"]
            total[1] += metrics["Shuffle Bytes Written"]
    return [(records, size) for _, (records, size) in sorted(written.items()) if records]


def peaks() -> dict[str, float]:
    """The most that this process, the JVM and the largest Python worker each held so far, in GB. Linux tells it of processes."""
    parents, found = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        number = int(status.parent.name)
        parents[number] = int(told["PPid"])
        found[number] = told["Name"].strip(), int(told.get("VmHWM", "0 kB").split()[0]) / 2**20
    ours: dict[str, float] = {"driver": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
    for number, (name, size) in found.items():
        above = number
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and number != above:
            kind = "JVM" if name.startswith("java") else "worker"
            ours[kind] = max(ours.get(kind, 0), size)
    return ours


def stream(spark: SparkSession, folder: Path, groups: int) -> None:
    """Groups of 3 rows each, of different users, as in bench_engines.py."""
    rows = spark.range(3 * groups).selectExpr(f"(id * 7919) % {3 * groups} AS user_id", f"id % {groups} AS page")
    source = nt.table(rows, unit="user_id", name="pages", snapshot="bench")
    query = source.group_by("page").agg(people=nt.count_units())
    limits = {"spend": nt.approx(2, "1e-3"), "groups_per_unit": 1}
    begun = time.perf_counter()
    with asked(plan(query, **limits).stage, 7) as frame:
        frame.write.format("noop").mode("overwrite").save()
    alone = time.perf_counter() - begun
    begun = time.perf_counter()
    with nt.open_ledger(folder / "pages.db") as ledger:
        account = ledger.open(source, nt.approx(1000, "1e-2"))
        written = account.release_to_parquet(account.plan(query, **limits), folder / "pages.parquet")
    took = time.perf_counter() - begun
    kept = spark.read.parquet(written.place).count()
    held = ", ".join(f"{kind} {size:.2f} GB" for kind, size in peaks().items())
    print(
        f"{groups:,} groups: the statement alone {alone:.1f} s, the release {took:.1f} s on the wall; {kept:,} groups kept"
    )
    print(f"peak memory: {held}", flush=True)


def main() -> None:
    largest = int(float(sys.argv[1] if len(sys.argv) > 1 else 4) * 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        for rows in (largest // 4, largest // 2, largest) if largest else ():
            path = folder / f"visits-{rows}.parquet"
            make_visits(path, rows)
            source = nt.table(spark.read.parquet(str(path)), unit="user_id", name="visits")
            query = source.group_by("city").agg(
                n=nt.count(), total=nt.sum("amount", 0, 100), typical=nt.mean("amount", 0, 100)
            )
            stage = plan(query, spend=SPEND, rows_per_group=20, groups_per_unit=10).stage
            SparkEngine().aggregate(stage, salt=7)  # warm
            wall = time.time()
            groups = SparkEngine().aggregate(stage, salt=7).groups
            took = time.time() - wall
            time.sleep(1)  # for the log to be written
            found = shuffled(folder, wall)
            text = "; ".join(
                f"{records:,} records, {size / 2**20:.1f} MB, {size / records:.0f} B each" for records, size in found
            )
            print(
                f"{pq.read_metadata(path).num_rows:,} rows, {groups} groups: {took:.1f} s; shuffles: {text}", flush=True
            )
        stream(spark, folder, int(float(sys.argv[2] if len(sys.argv) > 2 else 10) * 1_000_000))
        spark.stop()


if __name__ == "__main__":
    main()
