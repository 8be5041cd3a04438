"""SmartNoise SQL 1.0 on pandas: it bounds all rows of a user, and no groups; each mechanism costs the epsilon given."""

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


def answered(path, columns, most, epsilon, text):
    rules = {"row_privacy": False, "max_ids": most, "sample_max_ids": True, "censor_dims": True, "clamp_counts": False}
    told = {"": {"": {"T": {**rules, "clamp_columns": True, **{name: COLUMNS[name] for name in columns}}}}}
    frame = pd.read_parquet(path, columns=columns)
    reader = from_connection(frame, privacy=Privacy(epsilon=epsilon, delta=1e-6), metadata=told, engine="pandas")
    return reader.execute(text)[1:]


def visits(path):
    text = "SELECT city, COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS m FROM T GROUP BY city"
    return {row[0]: row[1:] for row in answered(path, ["user_id", "city", "amount"], 200, 0.25, text)}


def histogram(path):
    text = "SELECT category, COUNT(*) AS n FROM T GROUP BY category"
    return {str(category): n for category, n in answered(path, ["user_id", "category"], 100, 0.5, text)}


def keys(path):
    text = "SELECT key, COUNT(DISTINCT user_id) AS n FROM T GROUP BY key"
    return len(answered(path, ["user_id", "key"], 10, 1.0, text))


main({"visits": visits, "histogram": histogram, "keys": keys})
