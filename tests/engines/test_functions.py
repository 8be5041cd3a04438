"""Functions of texts give the oracle's value on each engine, letter by letter, for texts that casts and patterns may fail on."""

import math
import random

import duckdb
import pyarrow as pa
import pytest

from neartwin.engines.duckdb import DuckdbDialect
from neartwin.engines.postgres import PostgresDialect
from neartwin.engines.spark import SparkDialect
from neartwin.engines.sql.rendering import translated
from neartwin.tables.expressions import RowExpression
from neartwin.tables.functions import regular
from neartwin.tables.types import ColumnType
from tests.oracles.memory import evaluate

TEXTS = [
    None, "", " ", "12", "+5", "-0", "007", "12\n", "\n12", " 12", "1 2", "9" * 18, "9" * 19, "9" * 400, "1.5", "-1e5",
    "1e-99", "1e400", ".5", "5.", "1_000", "0x1F", "nan", "inf", "\u0663", "\uff11", "2024-02-29", "2023-02-29",
    "0000-01-01", "0001-01-01", "9999-12-31", "2024-13-01", "2024-00-10", "2024-01-32", "2024-1-1", "2024-02-29 BC",
    "infinity", "epoch", "2024-02-29 23:59:59", "2024-02-29T00:00:00.123456", "2024-02-29 24:00:00",
    "2024-02-29 23:59:60", "2023-02-29 00:00:00", "2024-02-29 12:00:00+02",
    "\u00df\u0130\u0131\u0149\u00b5\u00ff\u01c5", "\u0391\u03c3\u03c2\u0416\u0436\u1e9e", "\U0001f926\U0001f3fc\u200d",
    "a\u0301", "%_\\", "'\"", "$1\\1", "https://www.example.org/a/b?c", "http://x/", "https://y.org", "aaaaab",
    "ab\nba", "abcabc", "x" * 70_000 + "y",
]  # fmt: skip
FUNCTIONS = [
    "CAST(t AS INTEGER)", "CAST(t AS DOUBLE)", "CAST(t AS DATE)", "CAST(t AS TIMESTAMP)", "CAST(trim(t) AS INTEGER)",
    "upper(t)", "lower(t)", "length(t)", "strlen(t)", "substr(t, 2, 3)", "left(t, 2)", "right(t, 3)", "ltrim(t, '01 ')",
    "rtrim(t, '12')", "replace(t, 'aa', 'b')", "strpos(t, '-')", "contains(t, '%')", "starts_with(t, 'a')",
    "split_part(t, '-', 2)", "split_part(t, 'aa', 1)", "ends_with(t, '1')", "t || 'a' || t", "concat(t, 5, NULL, t)",
    "t ILIKE '%STRASSE%' OR t ILIKE '\u00df%'",
    "t LIKE '%_\n%'", "t LIKE '!%!_\\' ESCAPE '!'", "t NOT LIKE '%''\\\"' ESCAPE '\\'", "t LIKE '\\%' OR t LIKE '$1\\1'",
    "t ILIKE 'A__S%' ESCAPE 'S'", "t LIKE '1_5' ESCAPE ''", "mid(t, 2, 3)",
    "regexp_replace(t, '^https?://(?:www\\.)?([^/]+)/.*$', '<\\1>')", "regexp_matches(t, '^.+$')",
    "lpad(t, 7, 'xy')", "rpad(t, 7, 'xy')", "lpad(t, 0, 'a')", "rpad(t, 1000, 'ä')",
    "concat_ws('-', t, NULL, 5, t)",
    "regexp_extract(t, '([^:]+):', 1)", "regexp_extract(t, 'a+b')", "regexp_extract(t, '(x)?y$', 1)",
    "regexp_extract(t, '^.{3}')",
    "regexp_replace(t, '[^0-9]+', '#', 'g')", "regexp_replace(t, '(.)a', '\\1<', 'g')",
    "regexp_replace(t, '\\s+$', '', 'g')",
    "regexp_matches(t, '\\s')", "regexp_matches(t, '^$')", "regexp_matches(t, '^(a|ab)?(c|bcd?)')",
]  # fmt: skip
SCHEMA = {"t": ColumnType.TEXT}


def on_duckdb(terms, texts, _):
    connection = duckdb.connect()
    connection.register("given", pa.table({"n": range(len(texts)), "t": pa.array(texts, pa.string())}))
    return connection.execute(f"SELECT {_columns(terms, DuckdbDialect())} FROM given ORDER BY n").fetchall()


def on_postgresql(terms, texts, place):
    with place.writing() as connection:
        connection.execute("CREATE TEMPORARY TABLE given (n INT, t TEXT)")
        with connection.cursor().copy("COPY given FROM STDIN") as copy:
            for row in enumerate(texts):
                copy.write_row(row)
        columns = _columns(terms, PostgresDialect({"t": "text"}))
        found = connection.execute(f"SELECT {columns} FROM given ORDER BY n".replace("%", "%%"), ()).fetchall()
        connection.rollback()
        return found


def on_spark(terms, texts, place):
    session = place.session.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    frame = session.createDataFrame(pa.table({"n": range(len(texts)), "t": pa.array(texts, pa.string())}))
    frame.createOrReplaceTempView("given")
    text = f"SELECT {_columns(terms, SparkDialect())} FROM given ORDER BY n"
    return [tuple(row) for row in session.sql(text).collect()]


ASKED = [
    (on_duckdb, "duckdb_place"),
    pytest.param(on_postgresql, "postgres_place", marks=pytest.mark.slow),
    pytest.param(on_spark, "spark_place", marks=pytest.mark.slow),
]


def _columns(terms, dialect):
    given = {"t": dialect.column("t", ColumnType.TEXT, declared=False)}
    return ", ".join(f"{translated(term, given, dialect).sql(dialect.name)} AS c{i}" for i, term in enumerate(terms))


def differences(asked, place, expressions, texts):
    terms = [RowExpression.parse(text, SCHEMA).term for text in expressions]
    for text, row in zip(texts, asked(terms, texts, place), strict=True):
        for expression, term, found in zip(expressions, terms, row, strict=True):
            expected = evaluate(term, {"t": text})
            same = found == expected or (isinstance(found, float) and math.isnan(found) and math.isnan(expected))
            if not same or type(found) is not type(expected):
                yield expression, (text or "")[:60], found, expected


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "place"), ASKED)
def test_functions_of_hostile_texts_are_the_same_everywhere(request, asked, place):
    assert not list(differences(asked, request.getfixturevalue(place), FUNCTIONS, TEXTS))


def random_pattern(pick):
    atoms = ["a", "b", "\u00e4", ".", "[ab]", "[^a]", "[a-c]", "\\w", "\\s", "\\.", " "]
    pieces = [
        pick.choice(atoms) + pick.choice(["", "", "?", "*", "+", "{2}", "{1,2}"]) for _ in range(pick.randint(1, 4))
    ]
    if pick.random() < 0.6:
        pieces[pick.randrange(len(pieces))] = pick.choice(["(a|ab)", "(?:b|a.)?", "(a*b)", "(.+)", "(\\w?)?"])
    return pick.choice(["", "^"]) + "".join(pieces) + pick.choice(["", "$"])


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "place"), ASKED)
def test_random_patterns_mean_the_same_everywhere(request, asked, place):
    pick = random.Random(5)
    texts = ["".join(pick.choices("aab\u00e4c. \n", k=pick.randint(0, 9))) for _ in range(300)]
    patterns = [one for one in (random_pattern(pick) for _ in range(300)) if regular(one)]
    whole = [f"^{one.strip('^$')}$" for one in patterns if "|" not in one and "(" in one and "(?:" not in one]
    expressions = [f"regexp_matches(t, '{one}')" for one in patterns]
    expressions += [f"regexp_replace(t, '{one}', '<\\1>')" for one in whole]
    assert len(patterns) > 200
    assert len(whole) > 30
    for start in range(0, len(expressions), 60):
        assert not list(differences(asked, request.getfixturevalue(place), expressions[start : start + 60], texts))
