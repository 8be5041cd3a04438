"""Tumult Analytics 0.21 on a local Spark 3.5 of two cores; keys are found with a quarter of the budget."""

import os
import sys
import time

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)
from told import main

OPEN = " ".join(
    f"--add-opens=java.base/{part}=ALL-UNNAMED" for part in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
)


def session(path, budget):
    settings = {
        "spark.driver.memory": "6g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraJavaOptions": OPEN, "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return Session.from_dataframe(
        privacy_budget=budget,
        source_id="t",
        dataframe=spark.read.parquet(path),
        protected_change=AddRowsWithID("user_id"),
    )


def visits(path):
    asked = session(path, ApproxDPBudget(1, 1e-6))
    rows = QueryBuilder("t").enforce(MaxRowsPerGroupPerID("city", 20)).enforce(MaxGroupsPerID("city", 10))
    found = KeySet.from_dataframe(asked.evaluate(rows.get_groups(["city"]), ApproxDPBudget(0.25, 1e-6)))
    cities, each = rows.groupby(found), ApproxDPBudget(0.2499999, 0)
    queries = [
        cities.count(name="n"),
        cities.sum("amount", 0, 100, name="s"),
        cities.average("amount", 0, 100, name="m"),
    ]
    tables = [asked.evaluate(query, each).toPandas().set_index("city") for query in queries]
    whole = tables[0].join(tables[1]).join(tables[2])
    return {city: [int(row.n), float(row.s), float(row.m)] for city, row in whole.iterrows()}


def histogram(path):
    rows = QueryBuilder("t").enforce(MaxRowsPerID(100)).groupby(KeySet.from_dict({"category": list(range(21))}))
    found = session(path, PureDPBudget(1)).evaluate(rows.count(name="n"), PureDPBudget(1)).toPandas()
    return {str(row.category): int(row.n) for row in found.itertuples()}


def quantiles(path):
    asked, rows = session(path, PureDPBudget(1)), QueryBuilder("t").enforce(MaxRowsPerID(100))
    queries = [rows.quantile("amount", rank, 0, 100) for rank in (0.25, 0.5, 0.75)]
    return [float(asked.evaluate(query, PureDPBudget(0.33333)).toPandas().iloc[0, 0]) for query in queries]


def keys(path):
    asked = session(path, ApproxDPBudget(1, 1e-6))
    rows = QueryBuilder("t").enforce(MaxRowsPerGroupPerID("key", 1)).enforce(MaxGroupsPerID("key", 10))
    return asked.evaluate(rows.get_groups(["key"]), ApproxDPBudget(1, 1e-6)).count()


def counts(path):
    """Seconds a question, of ten with distinct predicates in one session: processor of this process alone, and wall."""
    asked = session(path, PureDPBudget(11))
    begun = 0.0, 0.0
    for i in range(11):
        rows = QueryBuilder("t").filter(f"amount > {i}").enforce(MaxRowsPerID(3))
        asked.evaluate(rows.count(), PureDPBudget(1)).toPandas()
        if not i:
            begun = time.process_time(), time.perf_counter()
    return [(time.process_time() - begun[0]) / 10, (time.perf_counter() - begun[1]) / 10]


main({"visits": visits, "histogram": histogram, "quantiles": quantiles, "keys": keys, "counts": counts})
