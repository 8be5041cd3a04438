"""Groups of days, periods and whole numbers between two ends that WHERE names: against DuckDB on a row of every kind."""

import itertools
import random
import re
from datetime import date

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from neartwin.queries.query import values_in

TIMES = """
SELECT t AS seen, t::DATE AS day, (epoch(t) / 21600)::BIGINT % 700 - 100 AS age FROM (
    SELECT unnest(generate_series(TIMESTAMP '2019-06-01', TIMESTAMP '2026-06-01', INTERVAL 6 HOUR)) AS t
    UNION ALL SELECT t + INTERVAL 1 MICROSECOND * s FROM (VALUES {edges}) e(t), (VALUES (-1), (0), (1)) s(s))
"""
LITERAL = re.compile(r"'(\d{4}-\d\d-\d\d[^']*)'")


@pytest.fixture(scope="module")
def visits():
    """A table with a column of each kind that has ends."""
    day = date(2024, 5, 1)
    seen = pa.array([day] * 2, pa.date32()).cast(pa.timestamp("us"))
    frame = pa.table({"who": [1, 2], "seen": seen, "day": [day] * 2, "age": [3, 4], "paid": [0.29, 0.5]})
    return nt.table(frame, unit="who", name="visits")


def in_duckdb(text, condition):
    """Every value of an expression in rows that meet a condition, of rows all over the calendar and around each literal."""
    kind = "::DATE" if text.startswith("date_trunc") else ""
    edges = ", ".join(f"(TIMESTAMP '{one}')" for one in {"2024-01-01", *LITERAL.findall(condition)})
    found = duckdb.sql(
        f"SELECT DISTINCT {text}{kind} AS g FROM ({TIMES.format(edges=edges)}) WHERE {condition} ORDER BY g"
    )
    return tuple(value for (value,) in found.fetchall())


def listed(rows, text, condition):
    """What planning lists."""
    asked = rows.with_column("g", text).where(condition)
    return values_in(asked.table, "g", asked.conditions)


UNITS = ("year", "quarter", "month", "week", "day")
GROUPS = [f"date_trunc('{unit}', {column})" for unit in UNITS for column in ("day", "seen")]
ENDS = [
    "{0} >= '2024-01-01' AND {0} < '2024-07-01'",
    "{0} BETWEEN '2023-12-31' AND '2024-02-29'",
    "{0} > '2023-12-31' AND NOT {0} >= '2024-03-01'",
    "'2024-02-10' <= {0} AND {0} <= '2024-02-10' AND age <> 4",
    "year({0}) = 2023",
    "year({0}) BETWEEN 2022 AND 2023 AND {0} >= '2022-12-30'",
    "year({0}) IN (2023, 2024) AND {0} < '2024-01-15'",
    "CAST({0} AS DATE) >= '2024-01-31' AND CAST({0} AS DATE) < '2024-02-02'",
]


TEXTS = [
    "strftime(seen, '%Y-%m')",
    "strftime(seen, '%d.%m.%y')",
    "strftime(day, '%Y')",
    "left(CAST(seen AS TEXT), 7)",
    "substr(CAST(day AS TEXT), 6)",
    "CAST(year(day) AS TEXT) || '-Q' || quarter(day)",
    "'week ' || CAST(week(seen) AS TEXT)",
    "substr(strftime(seen, '%Y-%m-%d'), 3, 5)",
]


@pytest.mark.parametrize("text", [*GROUPS, *TEXTS])
def test_days_between_two_ends_are_those_that_rows_can_have(visits, text):
    column = "seen" if "seen" in text else "day"
    for condition in (one.format(column) for one in ENDS):
        assert listed(visits, text, condition) == in_duckdb(text, condition), condition


@pytest.mark.parametrize(
    "text",
    [
        "strftime(seen, '%Y-%m %H')",  # reads the time of day
        "left(CAST(seen AS TEXT), 13)",
        "CAST(seen AS TEXT)",
        "CAST(year(day) AS TEXT) || month(seen)",  # of two columns
        "CAST(year(day) AS TEXT) || age",
        "upper(strftime(seen, '%Y'))",
    ],
)
def test_texts_that_read_more_than_one_day_are_discovered(visits, text):
    assert listed(visits, text, "year(seen) = 2024 AND year(day) = 2024") is None


def test_times_of_day_at_the_ends_count(visits):
    for first, last in itertools.product(
        ("2024-01-31 23:59:59.999999", "2024-02-01"), ("2024-03-01", "2024-03-01 00:00:01")
    ):
        for low, high in itertools.product((">", ">="), ("<", "<=")):
            condition = f"seen {low} '{first}' AND seen {high} '{last}'"
            assert listed(visits, "date_trunc('month', seen)", condition) == in_duckdb(
                "date_trunc('month', seen)", condition
            )


def test_a_time_within_the_last_day_leaves_that_day(visits):
    condition = "seen > '2024-02-01 12:00:00' AND CAST(seen AS DATE) <= '2024-02-01'"
    for text in ("strftime(seen, '%d.%m.%Y')", "month(seen)", "CAST(seen AS DATE)"):
        assert listed(visits, text, condition) == in_duckdb(text, condition)


def test_whole_numbers_between_two_ends_are_those_that_rows_can_have(visits):
    pick = random.Random(7)
    asked = [
        ("age", "age >= 3 AND age < 9"),
        ("age", "age > 2.5 AND age <= 8.5"),
        ("age", "age BETWEEN -3 AND 0"),
        ("age", "NOT age < 5 AND NOT age > 7"),
        ("age % 5", "age BETWEEN 0 AND 40"),
        ("month(day)", "day >= '2023-11-01' AND day < '2024-02-01'"),
        ("quarter(day)", "day >= '2023-11-01' AND day < '2024-02-01'"),
        ("week(seen)", "seen >= '2023-12-28 12:00:00' AND seen < '2024-02-01'"),
        ("day(seen)", "seen > '2024-02-27 23:59:59.999999' AND seen <= '2024-03-02'"),
        ("dayofyear(day)", "day BETWEEN '2023-12-28' AND '2024-01-04'"),
        ("month(seen)", "year(seen) = 2024 AND seen > '2024-10-31'"),
        ("month(seen)", "year(seen) = 2024 AND seen > '2024-12-31 12:00:00'"),
        ("month(day)", "day > '2024-01-01'"),
        ("year(day)", "day BETWEEN '2021-02-03' AND '2023-04-05'"),
        ("year(seen)", "seen > '2020-12-31 23:59:59.999999' AND seen < '2023-01-01'"),
        ("year(day)", "day BETWEEN '2021-02-03' AND '2023-04-05' AND year(day) > 2021"),
    ]
    for _ in range(12):
        low = pick.randint(-20, 300)
        rises, high = pick.choice([">", ">="]), low + pick.randint(2, 60)
        asked.append(("age", f"age {rises} {low} AND {high} {pick.choice(['>', '>='])} age"))
    for text, condition in asked:
        assert listed(visits, text, condition) == in_duckdb(text, condition), condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("floor(age / 10) * 10", "age >= 20 AND age < 60"),
        ("floor(age / 10) * 10", "age BETWEEN -15 AND 35"),
        ("3 * age", "age BETWEEN -1 AND 300"),
        ("CAST(age / 4 AS INTEGER)", "age > 2 AND age < 30"),
    ],
)
def test_rounded_numbers_are_listed_in_their_own_steps(visits, text, condition):
    """Every whole number between the ends was listed, most of which no row can have."""
    sql = f"SELECT {text} AS g, COUNT(*) AS n FROM visits WHERE {condition} GROUP BY g"
    assert [key for (key,) in nt.from_sql(sql, visits).groups.keys] == [
        int(value) for value in in_duckdb(text, condition)
    ]


def test_whole_numbers_beyond_2_to_the_53_may_be_null(visits):
    """A rounded number of that size is NULL. Every list of rounded numbers had a group for it, which no row can have."""
    tens = "CAST(floor(age / 10) * 10 AS INTEGER)"
    assert listed(visits, tens, "age >= 20 AND age < 60") == (20, 30, 40, 50)
    assert listed(visits, tens, "coalesce(age, 20) BETWEEN 20 AND 59") is None  # an age of NULL is in no ten
    far = "CAST(age * 4503599627370496.0 AS INTEGER)"
    assert listed(visits, far, "age BETWEEN 0 AND 2") == (0, 2**52, 2**53)
    assert listed(visits, far, "age BETWEEN 0 AND 3")[-1] is None


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("date_trunc('month', day)", "day >= '2024-01-01'"),
        ("date_trunc('month', day)", "day < '2024-01-01' AND seen >= '2023-01-01'"),
        ("date_trunc('month', day)", "day >= '2023-01-01' AND day < '2024-01-01' OR age = 3"),
        ("date_trunc('month', day + INTERVAL 3 MONTH)", "year(day) = 2023"),  # the first are of 2024
        ("day", "day >= '2020-01-01' AND day < '2022-01-01'"),  # of more than a year
        ("age", "age >= 0 AND age < 401"),
        ("age", "age > day - DATE '2024-01-01' AND age < 5"),
        ("CAST(age * 1.15 AS INTEGER)", "age BETWEEN 10 AND 20"),  # 10 * 1.15 is less than 11.5 in floats
        ("CAST(floor(100 * paid) AS INTEGER)", "paid >= 0.29 AND paid < 0.35"),  # floor(100 * 0.29) is 28
        ("CAST(floor(age / 100 * 100) AS INTEGER)", "age BETWEEN 57 AND 60"),  # floor(57 / 100 * 100) is 56
        ("CAST(floor(log10(age)) AS INTEGER)", "age BETWEEN 1000 AND 9999"),
    ],
)
def test_without_two_near_ends_groups_are_discovered(visits, text, condition):
    assert listed(visits, text, condition) is None


def test_rounded_quotients_that_need_no_ends_keep_every_whole_number(visits):
    """In exact arithmetic these are multiples of 10; in floats 6 / 0.1 may lie below 60."""
    assert len(listed(visits, "CAST(floor(month(day) / 0.1) AS INTEGER)", "age > 3")) >= 111


def test_a_null_is_listed_only_where_a_row_may_have_one(visits):
    months = "date_trunc('month', day)"
    asked = visits.with_column("g", f"CASE WHEN age > 3 THEN {months} END").where(
        "day BETWEEN '2024-01-01' AND '2024-02-01'"
    )
    assert values_in(asked.table, "g", asked.conditions) is None
    assert None not in listed(visits, months, "day BETWEEN '2024-01-01' AND '2024-02-01'")


def test_months_of_a_year_need_no_delta_and_have_closed_bars(visits):
    """They were discovered: 730 (662 to 858) where it is 724 ± 38 now, and the change to the last month had no bar."""
    sql = "SELECT date_trunc('month', day) AS m, COUNT(*) AS n FROM visits WHERE year(day) = 2024 GROUP BY m"
    made = plan(nt.from_sql(sql, visits), spend=nt.pure(1))
    assert [key for (key,) in made.stage.keys] == [date(2024, month, 1) for month in range(1, 13)]
