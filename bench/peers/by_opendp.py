"""OpenDP 0.16 on Polars, with what makes it run: the first groups are kept, one more than the cap, whole amounts are summed."""

import time

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


main({"visits": visits, "histogram": histogram, "quantiles": quantiles, "keys": keys, "counts": counts})
