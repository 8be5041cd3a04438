"""What a stage costs on Spark: time and bytes shuffled at three sizes, beside the cost model of docs/engines.md.

Then a release of many groups, written where they are computed: processor time of all processes beside that of the same statement
without noise, and the most memory that the driver, the JVM and a worker held. Linux tells of other processes, so it needs one.

python bench/bench_spark.py [million rows of the largest size, 4] [million groups, 10]
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from bench_engines import SPEND, make_visits
from pyspark.sql import SparkSession

import neartwin as nt
from neartwin.engines.spark import SparkEngine, asked
from neartwin.planning.planner import plan


def session(folder: Path, memory: str = "3g") -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory, "spark.sql.shuffle.partitions": "8", "spark.eventLog.enabled": "true",
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


def family() -> dict[int, tuple[str, Path]]:
    """The processes that this one started, and those that they did: names and where Linux tells of them."""
    parents, found = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        number = int(status.parent.name)
        parents[number], found[number] = int(told["PPid"]), (told["Name"].strip(), status.parent)
    ours = {os.getpid()}
    for _ in parents:
        more = {number for number, above in parents.items() if above in ours} - ours
        if not more:
            break
        ours |= more
    return {number: found[number] for number in ours if number in found}


def processor_time() -> float:
    """Seconds of this process, the JVM and the workers, those that ended included."""
    ticks = 0
    for _, place in family().values():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            ticks += sum(map(int, (place / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peaks() -> dict[str, float]:
    """The most that this process, the JVM and the largest Python worker each held so far, in GB."""
    held: dict[str, float] = {}
    for number, (name, place) in family().items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            kind = "driver" if number == os.getpid() else "JVM" if name.startswith("java") else "worker"
            for line in (place / "status").read_text().splitlines():
                if line.startswith("VmHWM"):  # one that has ended tells of none
                    held[kind] = max(held.get(kind, 0), int(line.split()[1]) / 2**20)
    return held


def stream(spark: SparkSession, folder: Path, groups: int) -> None:
    """Groups of 3 rows each, of different users, as in bench_engines.py."""
    rows = spark.range(3 * groups).selectExpr(f"(id * 7919) % {3 * groups} AS user_id", f"id % {groups} AS page")
    source = nt.table(rows, unit="user_id", name="pages", snapshot="bench")
    query = source.group_by("page").agg(people=nt.count_distinct_units())
    limits = {"spend": nt.approx(2, "1e-3"), "limits": nt.limits(max_groups=1)}
    begun, wall = processor_time(), time.time()
    with nt.open_ledger(folder / "pages.db") as ledger:
        account = ledger.open(source, nt.approx(1000, "1e-2"))
        written = account.release_to_parquet(account.plan(query, **limits), folder / "pages.parquet")
    took, wall = processor_time() - begun, time.time() - wall
    kept = spark.read.parquet(written.place).count()
    held = ", ".join(f"{kind} {size:.2f} GB" for kind, size in peaks().items())
    print(
        f"{groups:,} groups: the release {took:.1f} s of processors, {wall:.0f} on the wall; {kept:,} groups kept; peaks {held}"
    )
    sys.stdout.flush()
    begun = processor_time()
    with asked(plan(query, **limits).stage, 7) as frame:
        frame.write.format("noop").mode("overwrite").save()
    print(f"over the statement without noise: {took / (processor_time() - begun):.2f}", flush=True)


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
            stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=20, max_groups=10)).stage
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
        groups = int(float(sys.argv[2] if len(sys.argv) > 2 else 10) * 1_000_000)
        if groups:
            stream(spark, folder, groups)
        spark.stop()


if __name__ == "__main__":
    main()
