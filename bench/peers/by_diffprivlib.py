"""diffprivlib 0.6: it protects rows. Users are bounded by hand in pandas, noise is scaled by hand, and cities are not hidden.

Counts and sums take its mechanisms. Its tools `count_nonzero` and `sum` take the number of rows as public: the noisy count of a
city's rows is cut at that very number, so that half of the answers are exact, and a user more or less is told for certain.
"""

import json
from pathlib import Path

import pandas as pd
from diffprivlib import mechanisms, tools
from told import main


def first_rows(frame, by, most):
    return frame[frame.groupby(by).cumcount() < most]


def visits(path):
    rows = pd.read_parquet(path, columns=["user_id", "city", "amount"]).sample(frac=1)
    rows = first_rows(rows, ["user_id", "city"], 20)
    rows = rows.merge(first_rows(rows[["user_id", "city"]].drop_duplicates(), "user_id", 10), on=["user_id", "city"])
    counting = mechanisms.Geometric(epsilon=1 / 2, sensitivity=200)
    summing, answers = mechanisms.Laplace(epsilon=1 / 2, delta=0, sensitivity=20_000), {}
    for city, group in rows.groupby("city")["amount"]:
        n = int(counting.randomise(len(group)))
        total = float(summing.randomise(float(group.clip(0, 100).sum())))
        answers[city] = [n, total, total / max(n, 1)]
    return answers


def histogram(path):
    rows = first_rows(pd.read_parquet(path, columns=["user_id", "category"]).sample(frac=1), "user_id", 100)
    found, _ = tools.histogram(rows.category.to_numpy(), epsilon=1 / 100, bins=21, range=(-0.5, 20.5))
    return {str(category): int(n) for category, n in enumerate(found)}


def quantiles(path):
    rows = first_rows(pd.read_parquet(path, columns=["user_id", "amount"]).sample(frac=1), "user_id", 100)
    ranks = [0.25, 0.5, 0.75]
    return [float(value) for value in tools.quantile(rows.amount.to_numpy(), ranks, epsilon=1 / 100, bounds=(0, 100))]


def truth(path):
    """Counts, sums and means by public keys at each cap on a unit's rows, as bench_truth.py asks."""
    asked, answers = json.loads(Path(path).read_text()), {}
    frame, (low, high) = pd.read_parquet(asked["path"]), map(float, asked["v"])
    most = max(abs(low), abs(high))
    for cap in asked["caps"]:
        for _ in range(asked["times"]):
            rows = first_rows(frame.sample(frac=1), "unit", cap)
            groups = {key: group["v"].dropna() for key, group in rows.groupby("g")}
            sizes = rows.groupby("g").size()
            found = {"count": {}, "sum": {}, "mean": {}}
            for key in asked["keys"]:
                values, epsilon = groups.get(key, pd.Series([], dtype=float)).clip(low, high), asked["epsilon"]
                count = mechanisms.Geometric(epsilon=epsilon, sensitivity=cap)
                half = mechanisms.Geometric(epsilon=epsilon / 2, sensitivity=cap)
                total = mechanisms.Laplace(epsilon=epsilon, delta=0, sensitivity=cap * most)
                middle = mechanisms.Laplace(epsilon=epsilon / 2, delta=0, sensitivity=cap * (high - low) / 2)
                found["count"][key] = int(count.randomise(int(sizes.get(key, 0))))
                found["sum"][key] = float(total.randomise(float(values.sum())))
                around = float(middle.randomise(float((values - (low + high) / 2).sum())))
                found["mean"][key] = around / max(int(half.randomise(len(values))), 1) + (low + high) / 2
            answers.setdefault(str(cap), []).append(found)
    return answers


main({"visits": visits, "histogram": histogram, "quantiles": quantiles, "truth": truth})
