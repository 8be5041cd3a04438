"""OpenDP 0.16 on Polars, with what makes it run: the first groups are kept, one more than the cap, whole amounts are summed."""

import json
import time
from pathlib import Path

import opendp.prelude as dp
import polars as pl
from told import main

dp.enable_features("contrib")
USER = dp.unit_of(contributions=1, identifier=pl.col("user_id"))


def context(path, loss, margins=(), queries=1):
    return dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=USER,
        privacy_loss=loss,
        split_evenly_over=queries,
        margins=list(margins),
    )


def visits(path):
    margin = dp.polars.Margin(by=["city"], max_length=20_000_000, max_groups=1000)
    query = context(path, dp.loss_of(epsilon=1.0, delta=1e-6), [margin]).query()
    bounded = query.truncate_per_group(20, by=["city"]).truncate_num_groups(11, by=["city"], keep="first")
    amount = pl.col("amount").cast(pl.Int64).fill_null(0).dp.sum((0, 100)).alias("s")
    found = bounded.group_by("city").agg(dp.len(signed=True).alias("n"), amount).release().collect()
    return {city: [n, total, total / n if n else 0.0] for city, n, total in found.select("city", "n", "s").rows()}


def histogram(path):
    query = context(path, dp.loss_of(epsilon=1.0)).query().truncate_per_group(100)
    keys = pl.LazyFrame({"category": list(range(21))}, schema={"category": pl.Int32})
    found = query.group_by("category").agg(dp.len(signed=True).alias("n")).with_keys(keys).release().collect()
    return {str(category): n for category, n in found.select("category", "n").rows()}


def quantiles(path):
    query = context(path, dp.loss_of(epsilon=1.0), [dp.polars.Margin(max_length=20_000_000)]).query()
    amount, grid = pl.col("amount").fill_null(0.0).fill_nan(0.0), [i / 5 for i in range(501)]
    asked = [amount.dp.quantile(rank, grid).alias(str(rank)) for rank in (0.25, 0.5, 0.75)]
    return list(query.truncate_per_group(100).select(*asked).release().collect().rows()[0])


def keys(path):
    margin = dp.polars.Margin(by=["key"], max_length=20_000_000, max_groups=2_000_000)
    query = context(path, dp.loss_of(epsilon=1.0, delta=1e-6), [margin]).query()
    bounded = query.truncate_per_group(1, by=["key"]).truncate_num_groups(11, by=["key"], keep="first")
    return len(bounded.group_by("key").agg(dp.len(signed=True)).release().collect())


def counts(path):
    """Seconds a question, of ten with distinct predicates; a thousand would take a quarter of an hour."""
    asked = context(path, dp.loss_of(epsilon=10.0), [dp.polars.Margin(max_length=20_000_000)], queries=10)
    begun = time.process_time(), time.perf_counter()
    for i in range(10):
        rows = asked.query().filter(pl.col("amount") > i).truncate_per_group(3)
        rows.select(dp.len(signed=True)).release().collect()
    return [(time.process_time() - begun[0]) / 10, (time.perf_counter() - begun[1]) / 10]


def truth(path):
    """Counts, sums and means by public keys at each cap on a unit's rows, as bench_truth.py asks; sums in hundredths."""
    asked, answers = json.loads(Path(path).read_text()), {}
    who, ends = dp.unit_of(contributions=1, identifier=pl.col("unit")), [round(100 * float(end)) for end in asked["v"]]
    rows = pl.scan_parquet(asked["path"]).select(
        "unit", "g", v=(pl.col("v") * 100).round().fill_nan(0).fill_null(0).cast(pl.Int64)
    )
    keyed = pl.LazyFrame({"g": asked["keys"]}, schema={"g": pl.String})
    n, s = dp.len(signed=True).alias("n"), pl.col("v").dp.sum(ends).alias("s")
    for cap in asked["caps"]:
        for _ in range(asked["times"]):
            found = {}
            for kind, statistics in (("count", [n]), ("sum", [s]), ("mean", [n, s])):
                compositor = dp.Context.compositor(
                    data=rows, privacy_unit=who, privacy_loss=dp.loss_of(epsilon=asked["epsilon"]), split_evenly_over=1,
                    margins=[dp.polars.Margin(by=["g"], max_length=10_000_000)],
                )  # fmt: skip
                bounded = compositor.query().truncate_per_group(cap)
                table = bounded.group_by("g").agg(*statistics).with_keys(keyed).release().collect()
                for one in table.to_dicts():
                    value = one["n"] if kind == "count" else one["s"] / 100 / (1 if kind == "sum" else max(one["n"], 1))
                    found.setdefault(kind, {})[one["g"]] = value
            answers.setdefault(str(cap), []).append(found)
    return answers


main({"visits": visits, "histogram": histogram, "quantiles": quantiles, "keys": keys, "counts": counts, "truth": truth})
