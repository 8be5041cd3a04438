"""The table of SQL that is read, written from the code: each example is read, and its meaning for privacy follows from that.

| meaning | found by |
|---|---|
| same question | the question equals that of the example in its last column |
| free | it differs from that in steps on the released values alone |
| bounded anew | its rows are computed of each unit's own rows, and limits hold for them |
| paid | it is a question of its own, and its statistics share its price |
| refused | it is not read; the refusal says why, and what to write |
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import neartwin as nt
from neartwin.errors import NeartwinError
from neartwin.queries.query import NOTHING, Query, Rows
from neartwin.queries.sql.parse import statement_of
from neartwin.statistics.sql import SPELLINGS
from neartwin.tables.table import JoinKind

MOST_WORDS = 22  # of a refusal
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "sql.md"
ALL_OF = "SELECT COUNT(*) AS n FROM"
ALL = f"{ALL_OF} visits"
TOWNS = "SELECT town, COUNT(*) AS n FROM visits GROUP BY town"
SUMS = "SELECT town, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY town"
ROWS = {
    "comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL": "x > 5 AND (k IN (1, 2) OR NOT y BETWEEN 1 AND 3) AND town IS NOT NULL",
    "equal also where both are NULL": "k IS NOT DISTINCT FROM 3",
    "patterns: LIKE, ILIKE, ESCAPE": "town LIKE 'U%' OR town ILIKE '%bonn' OR town LIKE '100!%' ESCAPE '!'",
    "rows in a list": "(k, town) IN ((1, 'Ulm'), (2, 'Bonn'))",
    "text: CONCAT_WS, LPAD, RPAD": "CONCAT_WS('-', LPAD(CAST(k AS TEXT), 3, '0'), town) = '001-Ulm'",
    "parts of texts: REGEXP_EXTRACT, SPLIT_PART": "REGEXP_EXTRACT(town, '^([A-Z])', 1) = 'U' OR SPLIT_PART(town, ' ', 1) = 'Bad'",
    "single parts of a list: SPLIT, STRING_TO_ARRAY": "STRING_SPLIT(town, ' ')[2] = 'Bad'",
    "every part of a text: REGEXP_REPLACE with 'g'": "REGEXP_REPLACE(town, '[^a-z]+', '', 'g') = 'lm'",
    "text: ||, CONCAT, REGEXP_REPLACE": "REGEXP_REPLACE(town || '1', '^([A-Z]+)[0-9]$', '\\1') = CONCAT('Ul', 'm')",
    "numbers: + - * / POW ABS ROUND": "ROUND(POW(ABS(-x), 2) / 3 + y * 2) > 10",
    "whole numbers: // %": "(k + 1) // 3 % 2 = 0",
    "the least and the largest: LEAST, GREATEST": "GREATEST(x, y) > LEAST(3, k)",
    "choices: CASE, IF, COALESCE, NULLIF": "CASE WHEN ok THEN COALESCE(x, 0) ELSE IF(k = 1, 2, NULLIF(y, 3)) END > 1",
    "casts, which give NULL where they cannot": "TRY_CAST(town AS INTEGER) > 3 OR CAST(k AS DOUBLE) > 3",
    "bins: WIDTH_BUCKET": "WIDTH_BUCKET(x, 0, 100, 10) = 3",
    "parts of dates": "EXTRACT(month FROM at) = 3 OR DATE_TRUNC('month', at) = DATE_TRUNC('year', CAST(at AS DATE))",
    "distances of dates": "DATE_DIFF('day', day, DATE '2024-01-31') > 3",
    "days later": "day + 7 > DATE '2024-01-31'",
    "intervals": "at - INTERVAL '1' DAY > TIMESTAMP '2024-01-31 12:00:00'",
    "dates as text: STRFTIME": "STRFTIME(day, '%Y-%m') = '2024-01'",
}
SAME = {
    "qualified and quoted names, in any case": (
        'SELECT "public"."visits"."TOWN", Count(*) AS n FROM PUBLIC.VISITS GROUP BY Town', TOWNS,
    ),
    "positions, GROUP BY ALL": ("SELECT town, COUNT(*) AS n FROM visits GROUP BY 1", TOWNS),
    "statistics of a constant": ("SELECT SUM(1) AS n FROM visits", ALL),
    "constants, in decimals": (f"{ALL} WHERE x < 0.06 + 0.01", f"{ALL} WHERE x < 0.07"),
    "constant dates": (
        "SELECT COUNT(*) AS n FROM visits WHERE day < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "SELECT COUNT(*) AS n FROM visits WHERE day < DATE '1995-01-01'",
    ),
    "conditions that are always true": ("SELECT COUNT(*) AS n FROM visits WHERE 1 = 1", ALL),
    "subqueries that only name columns": ("SELECT COUNT(*) AS n FROM (SELECT town, who FROM visits) AS t", ALL),
    "subqueries of statistics, read row by row": (
        f"SELECT town, n FROM ({TOWNS}) AS t WHERE n > 5", f"{TOWNS} HAVING COUNT(*) > 5",
    ),
    "WITH": ("WITH t AS (SELECT * FROM visits) SELECT COUNT(*) AS n FROM t", ALL),
    "tables joined in parentheses": (
        f"{ALL_OF} ((SELECT * FROM visits) AS v LEFT JOIN towns AS t ON v.town = t.name)",
        f"{ALL} AS v LEFT JOIN towns AS t ON v.town = t.name",
    ),
    "constants in WITH": ("WITH p AS (SELECT 5 AS top) SELECT COUNT(*) AS n FROM visits, p WHERE x < top", f"{ALL} WHERE x < 5"),
    "WITH inside": (f"{ALL_OF} (WITH v AS (SELECT * FROM visits) SELECT * FROM v) AS t", ALL),
    "a total inside SUM": (
        "SELECT SUM(x / (SELECT SUM(x) FROM visits)) AS s FROM visits",
        "SELECT SUM(x) / (SELECT SUM(x) FROM visits) AS s FROM visits",
    ),
    "seconds between times": (
        f"{ALL} WHERE EXTRACT(EPOCH FROM (at - CAST(day AS TIMESTAMP))) > 60",
        f"{ALL} WHERE CAST(date_diff('second', CAST(day AS TIMESTAMP), at) AS DOUBLE) > 60",
    ),
    "buckets from a midnight": (
        "SELECT DATE_BIN('6 hours', at, TIMESTAMP '2000-01-01') AS t, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT TIME_BUCKET(INTERVAL '6 hours', at) AS t, COUNT(*) AS n FROM visits GROUP BY 1",
    ),
    "commas, and conditions in ON": (f"{ALL}, towns WHERE town = name", f"{ALL} JOIN towns ON town = name"),
    "a difference of times below an interval": (
        f"{ALL} WHERE at - CAST(day AS TIMESTAMP) < INTERVAL '3' DAY",
        f"{ALL} WHERE at < CAST(day AS TIMESTAMP) + INTERVAL '3' DAY",
    ),
    "approximate numbers of distinct values": (
        "SELECT APPROX_COUNT_DISTINCT(town) AS n FROM visits", "SELECT COUNT(DISTINCT town) AS n FROM visits",
    ),
    "equal units, or both NULL": (
        f"{ALL} AS v JOIN (SELECT who FROM visits) AS w ON v.who = w.who OR (v.who IS NULL AND w.who IS NULL)",
        f"{ALL} AS v JOIN (SELECT who FROM visits) AS w ON v.who = w.who",
    ),
    "FILTER, COUNT_IF": (
        "SELECT COUNT_IF(x > 5) AS n FROM visits", "SELECT COUNT(CASE WHEN x > 5 THEN 1 END) AS n FROM visits",
    ),
    "a share written as a ratio": (
        "SELECT SUM(CASE WHEN x > 5 THEN 1 ELSE 0 END) / COUNT(*) AS s FROM visits",
        "SELECT AVG(CASE WHEN x > 5 THEN 1 ELSE 0 END) AS s FROM visits",
    ),
    "a mean written as a ratio": ("SELECT SUM(x) / COUNT(x) AS s FROM visits", "SELECT AVG(x) AS s FROM visits"),
    "names of earlier columns": (
        "SELECT COUNT(*) AS n, SUM(x) AS s, s / n AS each FROM visits",
        "SELECT COUNT(*) AS n, SUM(x) AS s, SUM(x) / COUNT(*) AS each FROM visits",
    ),
}  # fmt: skip
FREE = {
    "HAVING, ORDER BY, LIMIT, OFFSET": (f"{TOWNS} HAVING COUNT(*) > 5 ORDER BY 2 DESC LIMIT 3 OFFSET 1", TOWNS),
    "FETCH FIRST": (f"{TOWNS} ORDER BY 2 DESC OFFSET 1 ROWS FETCH NEXT 3 ROWS ONLY", TOWNS),
    "arithmetic on statistics": (
        "SELECT town, COUNT(*) AS n, SUM(x) AS s, ROUND(100.0 * SUM(x) / COUNT(*), 2) AS each FROM visits GROUP BY town",
        SUMS,
    ),
    "choices between statistics: CASE": (
        "SELECT town, COUNT(*) n, SUM(x) s, CASE WHEN COUNT(*) > 0 THEN SUM(x) / COUNT(*) END AS each FROM visits GROUP BY town",
        SUMS,
    ),
    "a share of the total": (
        "SELECT town, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM visits GROUP BY town", TOWNS,
    ),
    "comparisons of statistics, as 1 and 0": (
        "SELECT town, COUNT(*) AS n, COUNT(*) > 5 AS many FROM visits GROUP BY town", TOWNS,
    ),
    "ORDER BY ALL": (f"{TOWNS} ORDER BY ALL DESC", TOWNS),
    "an order by expressions of groups": (f"{TOWNS} ORDER BY CASE town WHEN 'Ulm' THEN 1 ELSE 2 END, LENGTH(town)", TOWNS),
    "an order by names of SELECT": (
        "SELECT town, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY town ORDER BY n + s DESC", SUMS,
    ),
    "constants beside statistics": (
        "SELECT 'all' AS label, town, COUNT(*) AS n, 7 AS seven FROM visits GROUP BY 1, 2", TOWNS,
    ),
    "numbers of groups": ("SELECT k, COUNT(*) AS n, 1000.0 * COUNT(*) / k AS rate FROM visits GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"),
    "values cut at 0": ("SELECT town, COUNT(*) AS n, GREATEST(COUNT(*), 0) AS cut FROM visits GROUP BY town", TOWNS),
    "places of groups: RANK, DENSE_RANK, ROW_NUMBER": (
        "SELECT town, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY town", TOWNS,
    ),
    "another group: LAG, LEAD": (
        "SELECT k, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY k) AS more FROM visits GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k",
    ),
    "a default of these": (
        "SELECT k, COUNT(*) AS n, LAG(COUNT(*), 1, 0) OVER (ORDER BY k) AS before FROM visits GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k",
    ),
    "the first and the last group: FIRST_VALUE, LAST_VALUE": (
        "SELECT k, COUNT(*) AS n, COUNT(*) / FIRST_VALUE(COUNT(*)) OVER (ORDER BY k) AS grown FROM visits GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k",
    ),
    "means of groups: AVG OVER (), ROWS 6 PRECEDING": (
        "SELECT k, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY k ROWS 6 PRECEDING) AS m FROM visits GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k",
    ),
    "conditions on places: QUALIFY": (f"{TOWNS} QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 2", TOWNS),
}  # fmt: skip
PAID = {
    "the first and last day, and the first letters of the least text": (
        "SELECT MIN(day) AS a, MAX(at) AS b, MIN(town) AS c FROM visits"
    ),
    "a date in WHERE, asked first": f"{ALL} WHERE day > (SELECT MAX(day) FROM visits) - INTERVAL '30' DAY",
    "people with a row that meets a condition": (
        "SELECT town, COUNT(DISTINCT CASE WHEN x > 5 THEN who END) AS n FROM visits GROUP BY town"
    ),
    "bounds of a condition, in WHERE, FILTER and CASE": (
        "SELECT AVG(at - day) AS days FROM (SELECT CAST(at AS DATE) AS at, day FROM visits) AS t WHERE at - day BETWEEN 0 AND 90"
    ),
    "computed groups": "SELECT DATE_TRUNC('month', at) AS m, COUNT(*) AS n FROM visits GROUP BY m",
    "buckets of time": "SELECT TIME_BUCKET(INTERVAL '15' MINUTE, at) AS t, COUNT(*) AS n FROM visits GROUP BY 1",
    "margins: GROUPING SETS, CUBE, ROLLUP": "SELECT town, k, COUNT(*) AS n FROM visits GROUP BY ROLLUP (town, k)",
    "running and moving sums of groups": "SELECT k, SUM(COUNT(*)) OVER (ORDER BY k) AS n FROM visits GROUP BY k",
    "runs of groups": "SELECT RANGES(COUNT(*), [2]) AS n FROM visits GROUP BY k",
    "weighted sums of groups": "SELECT WEIGHTED_SUMS(COUNT(*), MAP {'first': MAP {1: 1, 2: 1}}) AS n FROM visits GROUP BY k",
    "joins on equalities, LEFT too": "SELECT state, COUNT(*) AS n FROM visits LEFT JOIN towns ON town = name GROUP BY state",
    "further conditions on the table of a LEFT JOIN": (
        "SELECT state, COUNT(*) AS n FROM visits LEFT JOIN towns ON town = name AND state <> 'BW' GROUP BY state"
    ),
    "IN, NOT IN and = ANY over a public table": f"{ALL} WHERE town NOT IN (SELECT name FROM towns WHERE state = 'BW')",
    "whether a public table has a row: EXISTS": f"{ALL} WHERE EXISTS (SELECT 1 FROM towns WHERE state = 'BW')",
    "a statistic of a public table in WHERE": f"{ALL} WHERE k > (SELECT COUNT(*) FROM towns WHERE state = 'BW')",
    "rows that a LEFT JOIN leaves unmatched": f"{ALL} AS v LEFT JOIN towns AS t ON v.town = t.name WHERE t.name IS NULL",
    "a total beside statistics, asked first": (
        "SELECT town, COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY town"
    ),
    "the same, written as a JOIN": (
        "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT town, COUNT(*) / t.n AS share FROM visits CROSS JOIN t "
        "GROUP BY town, t.n"
    ),
    "a statistic in WHERE, asked first for a fifth of the spend": f"{ALL} WHERE x > 0.5 * (SELECT AVG(x) FROM visits)",
}
BY_UNIT = {
    "a subquery by person: GROUP BY the unit": f"{ALL_OF} (SELECT who, MAX(x) AS m FROM visits GROUP BY who) AS t WHERE m > 5",
    "windows of one person: ROW_NUMBER, RANK, LAG, LEAD, FIRST_VALUE, sums": (
        f"{ALL_OF} (SELECT who, ROW_NUMBER() OVER (PARTITION BY who ORDER BY at) AS r FROM visits) AS t WHERE r = 2"
    ),
    "the value of the first or last row: ARG_MIN, ARG_MAX, MIN_BY, MAX_BY": (
        f"{ALL_OF} (SELECT who, ARG_MIN(town, at) AS t FROM visits GROUP BY who) AS v WHERE t = 'Ulm'"
    ),
    "a default of LAG and LEAD": (
        f"{ALL_OF} (SELECT LAG(x, 1, 0) OVER (PARTITION BY who ORDER BY at) AS l, x FROM visits) AS t WHERE x > l"
    ),
    "frames of these: ROWS BETWEEN": (
        f"{ALL_OF} (SELECT SUM(x) OVER (PARTITION BY who ORDER BY at ROWS UNBOUNDED PRECEDING) AS s FROM visits) AS t WHERE s > 9"
    ),
    "a statistic of the person's other rows: LATERAL": (
        f"{ALL} AS v, LATERAL (SELECT MAX(x) AS m FROM visits AS w WHERE w.who = v.who) AS t WHERE m > 5"
    ),
    "EXISTS over the person's other rows": f"{ALL} AS v WHERE EXISTS (SELECT 1 FROM visits AS w WHERE w.who = v.who AND w.x > 5)",
    "one comparison with these rows": (
        f"{ALL} AS v WHERE NOT EXISTS (SELECT 1 FROM visits AS w WHERE w.who = v.who AND w.at < v.at)"
    ),
    "the first row of a person: DISTINCT ON": (
        f"{ALL_OF} (SELECT DISTINCT ON (who) who, town FROM visits ORDER BY who, at) AS t WHERE town = 'Ulm'"
    ),
    "IN over the people of a subquery": f"{ALL} WHERE who IN (SELECT who FROM visits WHERE x > 5)",
    "NOT IN over the person's other rows, NULL as in SQL": (
        f"{ALL} AS v WHERE town NOT IN (SELECT w.town FROM visits AS w WHERE w.who = v.who AND w.x > 5)"
    ),
}
REFUSED = {
    "rows": "SELECT * FROM visits",
    "UNION and others": f"{ALL} UNION SELECT COUNT(*) FROM visits",
    "DISTINCT": "SELECT DISTINCT town FROM visits",
    "a number for each row, over many people": f"{ALL} AS v WHERE x > (SELECT AVG(x) FROM visits AS w WHERE w.town = v.town)",
    "a LIMIT within": "SELECT COUNT(*) AS n FROM (SELECT * FROM visits LIMIT 5) AS t",
    "PIVOT": "SELECT * FROM (SELECT town, k, x FROM visits) PIVOT (SUM(x) FOR k IN (1, 2))",
    "samples": "SELECT COUNT(*) AS n FROM (SELECT * FROM visits) TABLESAMPLE 10%",
    "a running mean of equal keys": "SELECT k, town, AVG(COUNT(*)) OVER (ORDER BY k) AS m FROM visits GROUP BY k, town",
    "a duration without bounds": "SELECT AVG(DATE_DIFF('day', day, CAST(at AS DATE))) AS days FROM visits",
    "windows across people": "SELECT ROW_NUMBER() OVER (ORDER BY x) AS r FROM visits",
    "joins on inequalities": f"{ALL} JOIN towns ON town > name",
    "FULL, RIGHT and CROSS JOIN": f"{ALL} FULL JOIN towns ON town = name",
    "time zones": f"{ALL} WHERE at AT TIME ZONE 'Europe/Berlin' > TIMESTAMP '2024-01-31 12:00:00'",
    "the current time": f"{ALL} WHERE day = CURRENT_DATE",
    "one row's value": "SELECT ANY_VALUE(town) FROM visits",
    "IN over values of other people": f"{ALL} WHERE town IN (SELECT town FROM visits WHERE x > 5)",
    "a condition on others in ON of a LEFT JOIN": f"{ALL} LEFT JOIN towns ON town = name AND visits.x > 5",
}


def rows() -> tuple[Rows, dict[str, Any]]:
    """The table of the examples, and the table that they join."""
    whole, number = pa.array([1], pa.int64()), pa.array([1.0])
    data = {"who": whole, "town": ["Ulm"], "x": number, "y": number, "z": number, "k": whole, "ok": [True]}
    data |= {"at": pa.array([0], pa.timestamp("us")), "day": pa.array([0], pa.date32())}
    bounded = {name: nt.bounds(0, 100) for name in ("x", "y", "z", "k")}
    towns = nt.public_table(pa.table({"name": ["Ulm"], "state": ["BW"]}), name="towns")
    return nt.table(pa.table(data), unit="who", name="visits", columns=bounded), {"towns": towns}


def read(text: str) -> Query:
    """The question of an example, with keys where a workload needs them."""
    visits, tables = rows()
    keys = {"town": ["Bonn", "Ulm"], "k": [1, 2, 3], "state": ["BW", "NRW"]}
    statement = statement_of(text, visits, tables=tables)
    return statement.question({name: keys[name] for name in statement.groups if name in keys} or None)


def meaning(text: str, beside: str = "") -> str:
    """The meaning of an example for privacy, found by reading it."""
    try:
        found = read(text)
    except NeartwinError as refused:
        words = re.split(r"is not (?:understood|allowed in a row expression): ", str(refused))[-1].split()
        return f"refused: {' '.join(words[:MOST_WORDS])}{' ...' if len(words) > MOST_WORDS else ''}"
    known = read(beside) if beside else None
    if known == found:
        return "same question"
    if (
        known is not None
        and isinstance(found, Query)
        and replace(found, after=NOTHING) == replace(known, after=NOTHING)
    ):
        return "free"
    inside = [found.table.per_unit, *(join.per_unit for join in found.table.joins if join.kind is not JoinKind.PUBLIC)]
    return "bounded anew" if any(inside) else "paid"


def grammar_page() -> str:
    """The page of the table."""
    parts = [
        "# SQL\n",
        "Every construct, and its meaning for privacy. The table is written from the code, by reading each example.",
        "[Row functions](../how-to/compute-columns.md) have a table of their own.\n",
        "- *same question*: another spelling. It has the digest of the other, and is free once that is answered.",
        "- *free*: steps on released values.",
        "- *bounded anew*: a function of each unit's own rows. Limits hold for the rows that come out.",
        "- *paid*: a question of its own. All its statistics share one price.",
        "- *refused*: nothing is spent, and the message says what to write.\n",
        "| construct | example | meaning |\n|---|---|---|",
    ]
    statistics = [
        one.strip()
        for spelled in SPELLINGS
        for one in spelled.format(unit="who")
        .replace("condition", "x > 5")
        .replace("DISTINCT x", "DISTINCT town")
        .split("), ")
    ]
    lines = [
        ("statistics", f"SELECT {one}{')' * (one.count('(') - one.count(')'))} FROM visits", "") for one in statistics
    ]
    lines += [(name, f"{ALL} WHERE {text}", "") for name, text in ROWS.items()]
    lines += [(name, text, "") for name, text in (PAID | BY_UNIT).items()]
    lines += [(name, *texts) for name, texts in (SAME | FREE).items()]
    lines += [(name, text, "") for name, text in REFUSED.items()]
    parts += [f"| {name} | `{_cell(text)}` | {_cell(meaning(text, beside))} |" for name, text, beside in lines]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(grammar_page(), encoding="utf-8")
