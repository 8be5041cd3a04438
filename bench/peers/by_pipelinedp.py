"""PipelineDP 0.3 on its local backend."""

import json
import time
from pathlib import Path

import pipeline_dp as pdp
import pyarrow.parquet as pq
from told import main

METRICS = pdp.Metrics


def rows(path, *columns):
    for batch in pq.ParquetFile(path).iter_batches(200_000, columns=list(columns)):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def extractors(group):
    return pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=group, value_extractor=lambda row: row[-1]
    )


def asked(work, group, delta=1e-6):
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=delta)
    parts = extractors(group)
    found = work(pdp.DPEngine(accountant, pdp.LocalBackend()), parts)
    accountant.compute_budgets()
    return list(found)


def aggregated(path, columns, group, public=None, **limits):
    wanted = pdp.AggregateParams(noise_kind=pdp.NoiseKind.LAPLACE, **limits)
    return asked(
        lambda engine, parts: engine.aggregate(rows(path, *columns), wanted, parts, public_partitions=public),
        group,
        1e-6 if public is None else 0,
    )


def visits(path):
    found = aggregated(
        path, ["user_id", "city", "amount"], lambda row: row[1], metrics=[METRICS.COUNT, METRICS.SUM, METRICS.MEAN],
        max_partitions_contributed=10, max_contributions_per_partition=20, min_value=0, max_value=100,
    )  # fmt: skip
    return {city: [answer.count, answer.sum, answer.mean] for city, answer in found}


def histogram(path):
    """100 rows a user as five in each category: it has no cap on all rows over public keys."""
    found = aggregated(
        path, ["user_id", "category"], lambda row: row[1], list(range(21)), metrics=[METRICS.COUNT],
        max_partitions_contributed=20, max_contributions_per_partition=5,
    )  # fmt: skip
    return {str(category): answer.count for category, answer in found}


def quantiles(path):
    ranks = [METRICS.PERCENTILE(25), METRICS.PERCENTILE(50), METRICS.PERCENTILE(75)]
    ((_, answer),) = aggregated(
        path, ["user_id", "amount"], lambda _: 0, [0], metrics=ranks, max_partitions_contributed=1,
        max_contributions_per_partition=100, min_value=0, max_value=100,
    )  # fmt: skip
    return [float(value) for value in answer]


def keys(path):
    wanted = pdp.SelectPartitionsParams(max_partitions_contributed=10)
    found = asked(
        lambda engine, parts: engine.select_partitions(rows(path, "user_id", "key"), wanted, parts), lambda row: row[1]
    )
    return len(found)


def counts(path):
    """Seconds a question, of ten with distinct predicates, of rows that are in memory: processor and wall."""
    held = list(rows(path, "user_id", "amount"))
    wanted = pdp.AggregateParams(
        noise_kind=pdp.NoiseKind.LAPLACE, metrics=[METRICS.COUNT], max_partitions_contributed=1,
        max_contributions_per_partition=3,
    )  # fmt: skip
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=10.0, total_delta=0)
    engine, found = pdp.DPEngine(accountant, pdp.LocalBackend()), []
    begun = time.process_time(), time.perf_counter()
    for i in range(10):
        chosen = [row for row in held if row[1] is not None and row[1] > i]
        found.append(engine.aggregate(chosen, wanted, extractors(lambda _: 0), public_partitions=[0]))
    accountant.compute_budgets()
    for one in found:
        list(one)
    return [(time.process_time() - begun[0]) / 10, (time.perf_counter() - begun[1]) / 10]


def truth(path):
    """Counts, sums and means by public keys at each cap on a unit's rows, as bench_truth.py asks: a cap as groups times rows."""
    asked, answers = json.loads(Path(path).read_text()), {}
    table = pq.read_table(asked["path"], columns=["unit", "g", "v"]).drop_null()
    data, (low, high) = (
        list(zip(*(table[name].to_pylist() for name in ("unit", "g", "v")), strict=True)),
        map(float, asked["v"]),
    )
    metrics = {"count": METRICS.COUNT, "sum": METRICS.SUM, "mean": METRICS.MEAN}
    for cap in asked["caps"]:
        groups = min(cap, len(asked["keys"]), asked["groups"])
        for _ in range(asked["times"]):
            found = {}
            for kind, metric in metrics.items():
                accountant = pdp.NaiveBudgetAccountant(total_epsilon=asked["epsilon"], total_delta=0)
                engine = pdp.DPEngine(accountant, pdp.LocalBackend())
                wanted = pdp.AggregateParams(
                    metrics=[metric], noise_kind=pdp.NoiseKind.LAPLACE, max_partitions_contributed=groups,
                    max_contributions_per_partition=max(1, cap // groups), min_value=low, max_value=high,
                )  # fmt: skip
                result = engine.aggregate(data, wanted, extractors(lambda row: row[1]), public_partitions=asked["keys"])
                accountant.compute_budgets()
                found[kind] = {key: getattr(answer, kind) for key, answer in result}
            answers.setdefault(str(cap), []).append(found)
    return answers


main({"visits": visits, "histogram": histogram, "quantiles": quantiles, "keys": keys, "counts": counts, "truth": truth})
