"""What a stage costs on Spark: time and bytes shuffled at three sizes, beside the cost model of docs/engines.md.

python bench/bench_spark.py [million rows of the largest size, 4]
"""

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
from neartwin.engines.spark import SparkEngine
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


def main() -> None:
    largest = int(float(sys.argv[1] if len(sys.argv) > 1 else 4) * 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        for rows in (largest // 4, largest // 2, largest):
            path = folder / f"visits-{rows}.parquet"
            make_visits(path, rows)
            source = nt.table(spark.read.parquet(str(path)), unit="user_id", name="visits")
            asked = source.group_by("city").agg(
                n=nt.count(), total=nt.sum("amount", 0, 100), typical=nt.mean("amount", 0, 100)
            )
            stage = plan(asked, spend=SPEND, rows_per_group=20, groups_per_unit=10).stage
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
        spark.stop()


if __name__ == "__main__":
    main()
