"""What only PostgreSQL can get wrong: catalogue types, casts and settings, secrets in text."""

import math
from decimal import Decimal

import numpy as np
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx
from neartwin.errors import ParameterError, SchemaError
from neartwin.planning.limit_choice import plan_within
from neartwin.planning.planner import plan
from neartwin.queries.open import table
from neartwin.statistics import count, count_distinct_units, sum
from neartwin.tables.postgres import postgres_table, reading
from neartwin.tables.types import ColumnType
from tests.engines.places import SALT
from tests.oracles.memory import MemoryEngine, on_grid

SPEND = approx(10**9, "1e-6")
TYPES = """
CREATE DOMAIN {0}.age AS integer CHECK (value >= 0);
CREATE DOMAIN {0}.old_age AS {0}.age;
CREATE TYPE {0}.colour AS ENUM ('red', 'blue');
CREATE TABLE {0}."Odd name" (
  who text, "Small" smallint, wide numeric, money_like numeric(12, 2), narrow numeric(3, 400), age {0}.old_age, tint {0}.colour,
  code char(5), id uuid, at timestamptz, wall timestamp, day date, list integer[], span int4range, days daterange, doc jsonb,
  gone integer, "we""ird" real);
ALTER TABLE {0}."Odd name" DROP COLUMN gone;
"""


@pytest.fixture(scope="module")
def odd(postgres_place):
    with postgres_place.writing() as connection:
        connection.execute("CREATE SCHEMA clinic")
        connection.execute(TYPES.format("clinic"))
    return table(postgres_place.url, table="clinic.Odd name", unit="who").table


def test_postgres_types_follow_the_catalogue(odd):
    kinds = {name: kind.value for name, kind in odd.schema.items()}
    assert kinds == {
        "who": "text", "Small": "integer", "wide": "number", "money_like": "number", "narrow": "number", "age": "integer",
        "tint": "text", "code": "text", "id": "text", "at": "timestamp", "wall": "timestamp", "day": "date", "list": "other",
        "span": "other", "days": "other", "doc": "other", 'we"ird': "number",
    }  # fmt: skip


NUMERICS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "-1e-400", "1.7976931348623157e308", "1.7976931348623158e308",
    "1.8e308", "5e-324", "2.5e-324", "2.4e-324", "0", "0.1", "99.995", "-3",
]  # fmt: skip


def test_no_numeric_value_makes_a_statement_fail(postgres_place, odd):
    with postgres_place.writing() as connection:
        for number in NUMERICS:
            connection.execute('INSERT INTO clinic."Odd name" (who, wide) VALUES (%s, %s::numeric)', [number, number])
        connection.execute(
            "INSERT INTO clinic.\"Odd name\" (who, narrow, day, at) VALUES ('n', '1e-399', 'infinity', '-infinity')"
        )
        connection.execute(
            "INSERT INTO clinic.\"Odd name\" (who, day) VALUES ('o', '4000-01-01 BC'), ('p', '10000-01-01')"
        )
    rows = table(postgres_place.url, table="clinic.Odd name", unit="who")
    query = rows.agg(n=count(), total=sum("wide", -50, 50, "0.01"), tiny=sum("narrow", -1, 1))
    found = postgres_place.engine.aggregate(
        plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3)).stage, salt=SALT
    )
    column = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3)).stage.grid["wide[-50,50,1/100]-0"]
    expected = [on_grid(float(Decimal(number)), column) for number in NUMERICS]
    made, name = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3)), "total:wide[-50,50,1/100]-0"
    assert found.values[name][0] == made.stage.parts[name] * np.sum([value for value in expected if value is not None])
    by_day = (
        rows.where("wide * wide > 1 OR wide IS NULL OR at < TIMESTAMP '1970-01-01 00:00:00'")
        .group_by("day")
        .agg(n=count())
    )
    days = postgres_place.engine.aggregate(
        plan(by_day, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=9)).stage, salt=SALT
    )
    assert tuple(days.keys) == ((None,),)  # days outside the years 1 to 9999 are none, and none of them an error


def first_come(_unit, _key):
    """No order: for units that are in no more groups than they may be."""
    return 0


@pytest.mark.slow
def test_postgres_arithmetic_equals_the_oracle(postgres_place):
    edges = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-537, 2.0**-538, 2.0**511, 2.0**512, -(2.0**513), 2.0**970,
             2.0**1022, 2.0**1023, 1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.5, 0.9,
             1e-160,             1.5e-162, None]  # fmt: skip
    with postgres_place.writing() as connection:
        connection.execute("CREATE TABLE pairs (who int, a float8, b float8)")
        pairs = [(i, a, b) for i, (a, b) in enumerate((a, b) for a in edges for b in edges)]
        connection.cursor().executemany("INSERT INTO pairs VALUES (%s, %s, %s)", pairs)
    data = [{"who": who, "a": a, "b": b} for who, a, b in pairs]
    rows = table(postgres_place.url, table="pairs", unit="who")
    by_literals = ("a / 5e-324", "a / 0.3", "a / 3", "a / -1e-310", "a / 1.7976931348623157e308")
    for calculation in ("a * b", "a + b", "a - b", "(a - b) * (a + b) * a", "a / b", *by_literals):
        for comparison in (
            f"{calculation} > 0",
            f"{calculation} < 0",
            f"{calculation} = {calculation}",
            f"{calculation} >= 1e308",
        ):
            query = rows.where(comparison).group_by("who").agg(n=count_distinct_units())
            stage = plan_within(query, spend=SPEND, limits=nt.limits(max_groups=10), importance=None).stage
            found = set(postgres_place.engine.aggregate(stage, salt=SALT).keys)
            assert found == set(MemoryEngine(data, order=first_come).aggregate(stage, salt=SALT).keys), comparison


@pytest.mark.parametrize(
    ("column", "kind"), [("who", "integer"), ("wide", "integer"), ("list", "text"), ("who", "date")]
)
def test_a_declared_type_whose_cast_could_fail_is_refused(postgres_place, odd, column, kind):
    with pytest.raises(SchemaError, match="could fail on some row"):
        table(postgres_place.url, table="clinic.Odd name", unit="who", types={column: kind})


def test_a_declared_type_whose_cast_cannot_fail_is_taken(postgres_place, odd):
    kinds = {"Small": "number", "age": "text", "day": "timestamp", "at": "date", "who": "text"}
    rows = table(postgres_place.url, table="clinic.Odd name", unit="age", types=kinds)
    query = rows.where("day > TIMESTAMP '2000-01-01 00:00:00' OR at < DATE '2000-01-01' OR age = '3'").agg(
        n=count(), total=sum("Small", 0, 9)
    )
    assert (
        postgres_place.engine.aggregate(
            plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=1)).stage, salt=SALT
        ).groups
        == 1
    )


def test_no_text_of_ours_holds_the_password(postgres_place, odd):
    assert postgres_place.password in postgres_place.url
    for text in (repr(odd), repr(odd.source), odd.source.location(), str(odd.source)):
        assert postgres_place.password not in text
        assert postgres_place.name + ":" not in text
    assert odd.source.location().endswith(f"/{postgres_place.name}#clinic.Odd name")
    wrong = postgres_place.url.replace(postgres_place.password, "hunter2")
    cut = [
        "postgresql://zoe:hun@ter2@127.0.0.1/x",
        "postgresql://zoe:hun/ter2@127.0.0.1/x",
        "postgresql://zoe:hunter2@[::1/x",
    ]
    for url in (wrong, wrong + "?hunter2=1", *cut):
        with pytest.raises(SchemaError) as refused:
            table(url, table="visits", unit="who")
        for part in ("hunter2", "ter2", "zoe"):  # no hexadecimal digits, of which the database's name is made
            assert part not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_missing_or_unreadable_table_is_refused_before_any_spend(postgres_place):
    for name in ("nowhere", "nowhere.visits", "pg_catalog.pg_authid", "x'; DROP TABLE pairs; --"):
        with pytest.raises(SchemaError, match=r"role can see|may select"):
            table(postgres_place.url, table=name, unit="who")
    with pytest.raises(SchemaError, match="must name a table"):
        table(postgres_place.url, unit="who")


def test_a_stage_sees_one_snapshot_and_can_write_nothing(postgres_place):
    import psycopg

    with reading(postgres_place.owner) as connection:  # the owner may write; a stage's transaction may not
        level, mode, path = (
            connection.execute(f"SHOW {name}").fetchone()[0]
            for name in ("transaction_isolation", "transaction_read_only", "search_path")
        )
        assert (level, mode, path) == ("repeatable read", "on", "pg_catalog")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE public.mine (a int)")


def test_a_function_that_others_put_in_the_way_is_not_called(postgres_place):
    with postgres_place.writing() as connection:
        for name, kind in (("div", "numeric"), ("least", "bigint"), ("hashint8extended", "bigint")):
            body = "BEGIN RAISE EXCEPTION 'called'; END"
            connection.execute(
                f'CREATE FUNCTION public."{name}"({kind}, {kind}) RETURNS {kind} LANGUAGE plpgsql AS $$ {body} $$'
            )
        connection.execute(f"ALTER ROLE {postgres_place.name} SET search_path = public, pg_catalog")
    rows = [{"who": "a", "town": "Ulm", "year": 5, "paid": 5.0, "open": True, "day": None}] * 9
    try:
        query = postgres_place.visits(rows).group_by("town").agg(total=sum("paid", 0, 9, "0.01"))
        stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=4, max_groups=1)).stage
        found, name = postgres_place.engine.aggregate(stage, salt=SALT), "total:paid[0,9,1/100]-0"
        assert list(found.values[name]) == [2000 * stage.parts[name]]
    finally:
        with postgres_place.writing() as connection:
            connection.execute(f"ALTER ROLE {postgres_place.name} RESET search_path")


def test_the_salt_is_in_no_statement(postgres_place, monkeypatch):
    import psycopg

    texts = []
    original = psycopg.RawServerCursor.execute

    def recorded(self, query, params=None, **more):
        texts.append(query)
        return original(self, query, params, **more)

    monkeypatch.setattr(psycopg.RawServerCursor, "execute", recorded)
    rows = postgres_place.visits([{"who": "a", "town": "Ulm", "year": 5, "paid": 5.0, "open": True, "day": None}])
    stage = plan(rows.group_by("town").agg(n=count_distinct_units()), spend=SPEND, limits=nt.limits(max_groups=1)).stage
    postgres_place.engine.aggregate(stage, salt=SALT)
    assert len(texts) == 1
    assert "hashtextextended" in texts[0].lower()
    assert str(SALT) not in texts[0]
    assert str(SALT - 2**64) not in texts[0]


def test_types_are_read_again_when_a_plan_runs(postgres_place):
    with postgres_place.writing() as connection:
        connection.execute("CREATE TABLE typed (who int, a float8, b text)")
    source = postgres_table(postgres_place.url, "typed", "now")
    assert source.schema() == {"who": ColumnType.INTEGER, "a": ColumnType.NUMBER, "b": ColumnType.TEXT}
    with postgres_place.writing() as connection:
        connection.execute("ALTER TABLE typed ALTER COLUMN a TYPE text USING a::text")
    assert source.schema()["a"] is ColumnType.TEXT


def test_a_step_so_small_or_large_that_doubles_overflow_is_refused(postgres_place):
    with pytest.raises(ParameterError, match="step"):
        sum("paid", 0, 1, f"1/{10**308}")
    with pytest.raises(ParameterError, match="step"):
        sum("paid", 0, 10**308 * 3, f"{10**308}")


@pytest.fixture
def narrow(postgres_place):
    """A role that may read two columns of one table, can write nowhere and can make no temporary table; and its address."""
    role = f"narrow_{postgres_place.name}"
    with postgres_place.writing() as connection:
        connection.execute("CREATE TABLE narrow (who int, town text, paid float8, hidden text)")
        connection.execute(
            "INSERT INTO narrow SELECT i % 50, 't' || i % 3, i, 'secret' FROM generate_series(1, 300) t(i)"
        )
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{postgres_place.password}'")
        connection.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        connection.execute(f"REVOKE ALL ON DATABASE {postgres_place.name} FROM PUBLIC")
        connection.execute(f"GRANT CONNECT ON DATABASE {postgres_place.name} TO {role}, {postgres_place.name}")
        connection.execute(f"GRANT SELECT (who, town) ON narrow TO {role}")
    yield postgres_place.url.replace(f"//{postgres_place.name}:", f"//{role}:")
    with postgres_place.writing() as connection:
        connection.execute("DROP TABLE narrow")
        connection.execute(f"GRANT TEMPORARY, CONNECT ON DATABASE {postgres_place.name} TO PUBLIC")


def test_right_to_select_a_questions_columns_suffices(narrow, tmp_path):
    rows = table(narrow, table="narrow", unit="who", name="narrow")
    public = rows.group_by("town", keys=["t0", "t1", "t2"]).agg(n=count(), people=count_distinct_units())
    found = rows.group_by("town").agg(people=count_distinct_units())
    caps = {"limits": nt.limits(max_rows_per_group=9, max_groups=3)}
    with nt.open_ledger(tmp_path / "b.db") as ledger:
        account = ledger.open(rows, approx(10**10, "1e-3"))
        release = account.release(account.plan(public, spend=SPEND, **caps))
        written = account.release_to_parquet(account.plan(found, spend=SPEND, **caps), tmp_path / "t.parquet")
        assert release["n"].values == (100, 100, 100)
        assert pq.read_table(written.place)["people"].to_pylist() == [50, 50, 50]
        before = account.spent
        with pytest.raises(SchemaError, match="not in the table"):  # the near miss: a column beyond its rights
            account.release(
                account.plan(rows.agg(s=sum("paid", 0, 9)), spend=SPEND, limits=nt.limits(max_rows_per_group=1))
            )
        assert account.spent == before
