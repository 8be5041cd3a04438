"""SmartNoise SQL 1.0 on pandas: it bounds all rows of a user, and no groups; each mechanism costs the epsilon given."""

import time

import pandas as pd
from snsql import Privacy, from_connection
from told import main

COLUMNS = {
    "user_id": {"name": "user_id", "type": "int", "private_id": True},
    "city": {"name": "city", "type": "string"},
    "category": {"name": "category", "type": "int"},
    "amount": {"name": "amount", "type": "float", "lower": 0.0, "upper": 100.0},
    "key": {"name": "key", "type": "string"},
}


def asker(path, columns, most, epsilon):
    rules = {"row_privacy": False, "max_ids": most, "sample_max_ids": True, "censor_dims": True, "clamp_counts": False}
    told = {"": {"": {"T": {**rules, "clamp_columns": True, **{name: COLUMNS[name] for name in columns}}}}}
    frame = pd.read_parquet(path, columns=columns)
    return from_connection(frame, privacy=Privacy(epsilon=epsilon, delta=1e-6), metadata=told, engine="pandas")


def answered(path, columns, most, epsilon, text):
    return asker(path, columns, most, epsilon).execute(text)[1:]


def visits(path):
    text = "SELECT city, COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS m FROM T GROUP BY city"
    return {row[0]: row[1:] for row in answered(path, ["user_id", "city", "amount"], 200, 0.25, text)}


def histogram(path):
    text = "SELECT category, COUNT(*) AS n FROM T GROUP BY category"
    return {str(category): n for category, n in answered(path, ["user_id", "category"], 100, 0.5, text)}


def keys(path):
    text = "SELECT key, COUNT(DISTINCT user_id) AS n FROM T GROUP BY key"
    return len(answered(path, ["user_id", "key"], 10, 1.0, text))


def counts(path):
    """Seconds a question, of ten with distinct predicates in one session: processor and wall."""
    reader = asker(path, ["user_id", "amount"], 3, 1.0)
    begun = time.process_time(), time.perf_counter()
    for i in range(10):
        ((_,),) = reader.execute(f"SELECT COUNT(*) AS n FROM T WHERE amount > {i}")[1:]
    return [(time.process_time() - begun[0]) / 10, (time.perf_counter() - begun[1]) / 10]


main({"visits": visits, "histogram": histogram, "keys": keys, "counts": counts})
