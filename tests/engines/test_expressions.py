"""Expressions have one meaning: each engine's value of each expression in each row is the oracle's, on hostile rows."""

import os
import subprocess
import sys

import duckdb
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import QueryError
from neartwin.planning.planner import plan
from neartwin.queries.open import table
from neartwin.statistics import count, mean, sum
from tests.engines.test_same_answers import ENGINES, SPEND, answers, hostile_rows

pytestmark = pytest.mark.sweep

VALUES = [
    "paid / 3",
    "paid / -7e-300",
    "paid / 1e300",
    "paid / 0.1 - paid * 10",
    "abs(paid) - abs(year)",
    "least(paid, year, 3.5) + greatest(paid, -1)",
    "greatest(year, 2024)",
    "coalesce(paid, year, 7)",
    "clip(paid, -2.5, 7) * 2",
    "clip(year, 2000, 2030)",
    "CASE WHEN paid > 2 THEN year WHEN open THEN paid ELSE -1 END",
    "CASE year WHEN 2024 THEN 1 WHEN 2025 THEN 2 END",
    "if(open, 1, 0) + if(paid < 0, 0.5, 2)",
    "nullif(paid, 2.5)",
    "nullif(year, 2024)",
    "width_bucket(paid, -50, 50, 7)",
    "year(day) * 100 + month(day)",
    "extract(quarter FROM day) + day(day) - isodow(day)",
    "hour(seen) + 100 * isodow(seen) + 1000 * month(seen)",
    "day - DATE '2000-01-01'",
    "date_diff('day', DATE '1999-12-31', CAST(seen AS DATE))",
    "day - date_trunc('month', seen)",
    "date_trunc('week', day) - DATE '2000-01-03'",
    "day - date_trunc('quarter', day) + (day - date_trunc('year', day))",
    "-(-paid) * -1",
    "CASE WHEN town LIKE '%m' THEN 1 WHEN town LIKE '_l_' THEN 2 WHEN town LIKE '%ö%n' THEN 3 ELSE 4 END",
]
CONDITIONS = [
    "town LIKE '%''%' OR town LIKE '%\"%'",
    "town LIKE 'K_ln' OR town NOT LIKE '%o%'",
    "town LIKE '50%' AND town LIKE '___'",
    "town LIKE '' OR town LIKE '_____________%'",
    "day IN (DATE '2024-02-29', DATE '9999-12-31')",
    "day BETWEEN DATE '0001-01-01' AND DATE '1970-01-01'",
    "seen BETWEEN TIMESTAMP '2000-01-01' AND TIMESTAMP '2024-02-29 23:59:59.999999'",
    "seen >= DATE '2024-02-29' OR seen BETWEEN DATE '1600-01-01' AND TIMESTAMP '2021-01-03 12:00:00' OR DATE '2020-02-29' = seen",
    "day < '2021-01-03' OR seen >= '2024-02-29 12:00:00' OR day IN ('2020-02-29', '2024-02-29')",
    "seen IN (TIMESTAMP '1582-10-10 00:00:00', TIMESTAMP '2021-01-03 12:00:00')",
    "CAST(seen AS DATE) = day OR CAST(seen AS DATE) < DATE '1600-01-01'",
    "greatest(day, DATE '2000-01-01') = DATE '2000-01-01'",
    "coalesce(town, 'Ulm') < coalesce(CASE WHEN open THEN 'V' ELSE 'ulm' END, 'x')",
    "CASE WHEN open THEN paid > 2 ELSE year > 2 END",
    "NOT (paid BETWEEN year AND 3) OR nullif(open, TRUE) IS NULL",
    "coalesce(open, FALSE) = (paid > 3)",
    "year(seen) IN (1, 9999, 2024) AND hour(seen) >= 12",
    "((((((((((paid + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) > 1e300",
]


FUNCTIONS: list[str] = []
TESTS: list[str] = []
FUNCTIONS += [
    "paid / year",
    "year / paid",
    "paid / nullif(paid - 2.5, 0) + 7.25 / (paid * 1e-300)",
    "paid / 1e-300 / paid + paid / (paid / 5e-324)",
    "sqrt(paid) + sqrt(abs(year))",
    "floor(paid) - ceil(paid) + trunc(year / 3)",
    "round(paid) + round(paid, 1) + round(paid, -1) + round(-0.49999999999999994)",
    "power(paid, 3) - power(paid, 0.5) * power(year, 4)",
    "sign(paid) * 3 + sign(year)",
    "year % 7 + mod(year, -3) * 10 + year % -1",
    "year % year + 2024 % year + CAST(round(paid) AS INTEGER) % 5",
    "(paid > 2.5) + (town = 'Ulm') * 2 + 4 * open",
    "length(town) + 3 * length(town || 'ä' || town)",
    "strlen(town) + strpos(town, 'n') * 2 + strpos(town, '%')",
    "length(trim(town, 'Un')) + length(ltrim(' x ')) * 10 + length(rtrim(town, '\\hs')) * 2",
    "length(replace(town, 'o', '')) - length(replace(town, 'n', 'nn'))",
    "week(day) + dayofyear(day) * 100 + dayofweek(seen)",
    "minute(seen) + second(seen) * 100 + extract(doy FROM seen)",
    "CASE upper(town) WHEN 'ULM' THEN 1 WHEN 'KÖLN' THEN 2 WHEN 'O''TOWN' THEN 3 ELSE length(lower(town)) END",
    "CASE left(town, 2) WHEN 'Kö' THEN 1 WHEN 'ba' THEN 2 END + CASE right(town, 2) WHEN 'wn' THEN 10 ELSE 20 END",
]
TESTS += [
    "substr(town, 2, 2) = 'öl' OR substring(town, 3) = 'nn'",
    "town ILIKE 'k_LN' OR town ILIKE '%Slash'",
    "starts_with(town, '50%') OR ends_with(town, 'wn') OR contains(town, '\"')",
    "concat(town, year, day) = 'Ulm2024' OR town || open = 'Bonntrue' OR CAST(day AS TEXT) > '2024'",
    "(paid > 2.5) IS TRUE OR open IS NOT FALSE",
    "paid IS DISTINCT FROM year OR town IS NOT DISTINCT FROM 'Ulm'",
    "year || 'x' || seen < '2'",
]
FUNCTIONS += [
    "CAST(paid AS INTEGER) + CAST(paid > 0 AS INTEGER) * 1000",
    "CAST(replace(town, 'Ulm', '-12') AS BIGINT) + TRY_CAST(left(concat(year), 4) AS DOUBLE)",
    "CAST(replace(town, 'ulm', '1.25e2') AS DOUBLE) + CAST(replace(replace(town, '50%', '+7'), 'Bonn', '8' ) AS DOUBLE)",
    "day(CAST(concat('2023-02-', CAST(20 + abs(paid) AS INTEGER)) AS DATE))",
    "day(CAST(concat(day) AS DATE)) + year(CAST(strftime(seen, '%Y-%m-%dT%H:%M:%S') AS TIMESTAMP))",
    "CAST(replace(concat(CAST(paid AS INTEGER)), '-', '') || ' ' AS INTEGER) * 0 + 1",
    "date_diff('month', day, seen) + date_diff('year', day, seen) * 2 + date_diff('quarter', seen, day)",
    "date_diff('week', day, seen) + date_diff('day', seen, day)",
    "date_diff('hour', seen, TIMESTAMP '2020-01-01 05:06:07') + date_diff('minute', TIMESTAMP '2020-01-01', seen)",
    "date_diff('second', seen, TIMESTAMP '2020-01-01 05:06:07') % 1000",
    "date_diff('second', day, seen) % 1000 + date_diff('minute', seen, day) % 100 + date_diff('hour', day, DATE '2020-01-01')",
    "year // 7 + (year - 2020) // (year - 2024) + (year * 3 - 6070) // -4",
    "CAST(paid AS DECIMAL(10, 1)) + (open = 1) * 10 + abs(-paid)",
    "CASE WHEN date_trunc('minute', seen) = seen THEN 1 WHEN date_trunc('hour', seen) < date_trunc('second', seen) THEN 2 END",
    "day(day + INTERVAL '1' MONTH) + 100 * day(day - INTERVAL 1 DAY) + year(day + INTERVAL 3999 YEARS)",
    "day(seen - INTERVAL '4 months') + minute(seen + INTERVAL 100 MINUTE) + hour(date_add(seen, INTERVAL 5 HOUR))",
    "(day + INTERVAL 3 WEEKS) - day + (day - INTERVAL 2000 YEARS - DATE '2000-01-01')",
    "minute(CAST(day AS TIMESTAMP)) + (CAST(CAST(day AS TIMESTAMP) AS DATE) - DATE '2000-01-01')",
    "length(strftime(seen, '%d.%m.%Y %H') || strftime(day, '%Y%m'))",
    "day(day + INTERVAL (year - 2024) MONTH) + minute(seen - INTERVAL (year * 1000) SECOND)",
    "year(day + INTERVAL (year * 3) QUARTER) + year(seen - INTERVAL (paid * 1e9) WEEK) + hour(day - INTERVAL (year) HOUR)",
    "make_date(year, year % 13, year % 33) - DATE '2024-01-01'",
    "make_date(CAST(paid AS INT), CAST(paid / 7 AS INT), 1) - make_date(2024, year - 2022, 29)",
    "last_day(day) - last_day(seen)",
    "day(day + 7) + day(day - year % 50) + CASE WHEN (town, year) IN (('Ulm', 2024), ('Bonn', 2025)) THEN 1000 END",
    "trunc(paid, 1) + isoyear(day) + length(strftime(seen, '%I %p'))",
    "length(strftime(seen, '%b %B %a %A %Q %G-%V %j %u %w %y %-m %-d %-H'))",
]
TESTS += [
    "strftime(day, '%G-%V %j') = '2020-53 003' OR strftime(seen, '%a %-d %B %y') = 'Sun 3 January 21'",
    "strftime(day, '%Y-%m') = '2024-02' OR strftime(seen, '%d.%m.%Y %H:%M') = '03.01.2021 12:00'",
    "regexp_matches(town, '^[A-Z]l') OR regexp_matches(town, '(?:o|ö).?n$')",
    "regexp_matches(town, '[^a-z ]{2}') OR regexp_matches(town, '\\w\\\\.\\s?')",
    "regexp_replace(town, '^(.)(.?)ln?(.*)$', '<\\2\\1>') = '<öK>' OR regexp_replace(town, '^([a-z]*).*(o).*$', '\\1\\2') = 'oo'",
    "town BETWEEN 'A' AND 'Ulm'",
    "(town, year) IN (('Ulm', 2024)) OR (open, paid) NOT IN ((TRUE, 2.5), (FALSE, 1)) OR strftime(seen, '%I %p') = '12 PM'",
    "town = ANY(['Ulm', 'Bonn']) OR CAST(seen AS TEXT) > '2000-01-01 00:00:01'",
    "CAST(town AS DATE) IS NULL AND CAST(seen + INTERVAL 1 SECOND AS TEXT) LIKE '%:00'",
]


def logic(conditions):
    """Numbers for true, false and NULL."""
    return [f"CASE WHEN ({it}) THEN 1 WHEN NOT ({it}) THEN 2 ELSE 4 END" for it in conditions]


SOME = 7  # at once: a statement each would take long
LOTS = [VALUES + logic(CONDITIONS), FUNCTIONS + logic(TESTS)]


@pytest.mark.slow
@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize(
    ("lot", "start"),
    [
        pytest.param(lot, start, marks=[pytest.mark.slow] * lot)
        for lot in (0, 1)
        for start in range(0, len(LOTS[lot]), SOME)
    ],
)
def test_a_value_and_a_condition_are_the_same_everywhere(request, place, lot, start):
    place = request.getfixturevalue(place)
    rows = hostile_rows(start, 250)
    statistics = {}
    for i, value in enumerate(LOTS[lot][start : start + SOME]):
        statistics |= {f"fine{i}": sum(value, -60, 60, "1/256"), f"coarse{i}": mean(value, -(10**7), 10**7, 1)}
    query = place.visits(rows).group_by("open", "town").agg(n=count(), **statistics)
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=5))
    )
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("place", ENGINES)
def test_all_values_and_conditions_together_are_the_same_everywhere(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("together", 700)
    asked = place.visits(rows).where(" OR ".join(f"({condition})" for condition in CONDITIONS))
    statistics = {f"v{i}": sum(value, -5000, 5000, "1/256") for i, value in enumerate(VALUES)}
    query = asked.group_by("town").agg(n=count(), **statistics)
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=2, max_groups=2))
    )
    assert found == expected


def test_parts_of_times_are_of_utc_wherever_the_machine_is():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.execute("CREATE TABLE visits AS SELECT 1 AS who, TIMESTAMPTZ '2024-01-01 00:30:00+00' AS seen")
    rows = table(connection, table="visits", unit="who").group_by(
        "hour(seen)", "year(seen)", keys=[(0, 2024), (19, 2023)]
    )
    asked = plan(rows.agg(n=count()), spend=SPEND, limits=nt.limits(max_rows_per_group=1, max_groups=1))
    (counts,) = DuckdbEngine().aggregate(asked.stage, salt=1).values.values()
    assert list(counts) == [1, 0]
    assert connection.sql("SELECT current_setting('TimeZone')").fetchall() == [
        ("America/New_York",)
    ]  # stays its owner's


@pytest.mark.slow
def test_files_are_read_in_utc_wherever_the_machine_is():
    script = """
from neartwin.engines.duckdb_connections import memory_connection
for _ in range(2):
    with memory_connection({}) as connection:
        print(*connection.execute("SELECT current_setting('TimeZone'), hour(TIMESTAMPTZ '2024-01-01 00:30:00+00')").fetchone())
"""
    machine = {**os.environ, "TZ": "America/New_York"}
    told = subprocess.run(
        [sys.executable, "-c", script], env=machine, capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == ["UTC", "0"] * 2
    without = script.replace(
        "with memory_connection({}) as connection", "with __import__('duckdb').connect() as connection"
    )
    told = subprocess.run(
        [sys.executable, "-c", without], env=machine, capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == ["America/New_York", "19"] * 2


def test_times_beyond_the_calendar_have_no_parts_on_postgresql(postgres_place):
    name = "odd_times"
    with postgres_place.writing() as owner:
        owner.execute(f"CREATE TABLE {name} (who BIGINT, seen TIMESTAMP, zoned TIMESTAMPTZ)")
        owner.execute(
            f"INSERT INTO {name} VALUES (1, 'infinity', '-infinity'), (2, '-infinity', 'infinity'), "
            "(3, '4000-01-01 BC', '20000-01-01+00'), (4, '2024-05-06 07:00', '2024-05-06 07:00+00')"
        )
    rows = table(postgres_place.url, table=name, unit="who")
    keys = [(7, 5), (None, None)]
    asked = rows.group_by("hour(seen)", "month(zoned)", keys=keys).agg(n=count())
    made = plan(asked, spend=SPEND, limits=nt.limits(max_rows_per_group=1, max_groups=1))
    (counts,) = postgres_place.engine.aggregate(made.stage, salt=1).values.values()
    assert list(counts) == [1, 3]


@pytest.mark.parametrize("place", ENGINES)
def test_every_engine_reads_the_largest_allowed_expressions(request, place):
    place = request.getfixturevalue(place)
    deep, wide = "paid", " + ".join(["abs(paid)"] * 25)
    for level in range(17):
        deep = f"({deep}) * 0.5 + {level}"
    with pytest.raises(QueryError, match="too large"):
        place.visits([]).where(f"((({deep}) * 0.5 + 1) * 0.5 + 2) * 0.5 + 3 > {wide}")
    rows = hostile_rows("deep", 60)
    many = " OR ".join(f"year = {year}" for year in range(300))
    query = place.visits(rows).where(f"({deep}) > 3 OR {wide} > 7 OR {many}").agg(n=count(), total=sum(deep, 0, 90))
    found, expected = answers(place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=2)))
    assert found == expected
