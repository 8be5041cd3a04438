"""PyDP 1.1, Google's library: noise and choice of groups. Users are bounded by hand in pandas."""

import pandas as pd
from pydp.algorithms.laplacian import BoundedSum, Count
from pydp.algorithms.partition_selection import create_partition_strategy
from told import main


def first_rows(frame, by, most):
    return frame[frame.groupby(by).cumcount() < most]


def visits(path):
    rows = pd.read_parquet(path, columns=["user_id", "city", "amount"]).sample(frac=1)
    rows = first_rows(rows, ["user_id", "city"], 20)
    pairs = first_rows(rows[["user_id", "city"]].drop_duplicates(), "user_id", 10)
    rows, users = rows.merge(pairs, on=["user_id", "city"]), pairs.groupby("city").size()
    chooses, answers = create_partition_strategy("truncated_geometric", 1 / 3, 1e-6, 10), {}
    for city, group in rows.groupby("city")["amount"]:
        if chooses.should_keep(int(users[city])):
            amounts = group.tolist()
            n = Count(1 / 3, l0_sensitivity=10, linf_sensitivity=20, dtype="float").quick_result(amounts)
            summed = BoundedSum(1 / 3, 0, 0.0, 100.0, l0_sensitivity=10, linf_sensitivity=20, dtype="float")
            total = summed.quick_result(amounts)
            answers[city] = [n, total, total / max(n, 1)]
    return answers


def histogram(path):
    rows = first_rows(pd.read_parquet(path, columns=["user_id", "category"]).sample(frac=1), "user_id", 100)
    counting = {"l0_sensitivity": 1, "linf_sensitivity": 100, "dtype": "int"}
    groups = rows.groupby("category")["user_id"]
    return {str(category): Count(1.0, **counting).quick_result(group.tolist()) for category, group in groups}


def keys(path):
    rows = first_rows(pd.read_parquet(path, columns=["user_id", "key"]).drop_duplicates().sample(frac=1), "user_id", 10)
    chooses = create_partition_strategy("truncated_geometric", 1.0, 1e-6, 10)
    return sum(chooses.should_keep(int(users)) for users in rows.groupby("key").size())


main({"visits": visits, "histogram": histogram, "keys": keys})
