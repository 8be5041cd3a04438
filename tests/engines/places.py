"""Where a test puts its rows: one class an engine, all with `visits(rows)`, `order(stage)` and `engine`."""

import contextlib
import secrets

import duckdb
import pyarrow as pa
from sqlglot import exp

from neartwin.engines.duckdb import DuckdbDialect, DuckdbEngine
from neartwin.engines.postgres import PostgresDialect, PostgresEngine
from neartwin.engines.spark import SparkDialect, SparkEngine
from neartwin.queries.open import table
from neartwin.tables.types import ColumnType

SALT = 0x9E3779B97F4A7C15
SIGNED = SALT - 2**64
SCHEMA = {
    "who": (pa.string(), "TEXT"),
    "town": (pa.string(), "TEXT"),
    "year": (pa.int64(), "BIGINT"),
    "paid": (pa.float64(), "DOUBLE PRECISION"),
    "open": (pa.bool_(), "BOOLEAN"),
    "day": (pa.date32(), "DATE"),
    "seen": (pa.timestamp("us"), "TIMESTAMP"),
}
ARROW = pa.schema([(name, kind) for name, (kind, _) in SCHEMA.items()])


def sort_key(hashed, key):
    """A unit's groups by hash, then by key with NULL last, as the statement sorts them."""
    return hashed, tuple((value is None, "" if value is None else value) for value in key)


class _Ordered:
    """The order that an engine's own hash of salt, unit and group gives, asked of the engine for all pairs at once."""

    def order(self, stage, rows):
        """stage: of the plan; rows: that were given to `visits`."""
        positions = None if stage.keys is None else {key: place for place, key in enumerate(stage.keys)}
        kinds = [stage.table.schema[stage.table.unit], *(stage.table.schema[name] for name in stage.group_columns)]
        pairs = sorted(
            {(row[stage.table.unit], *(row[name] for name in stage.group_columns)) for row in rows}, key=repr
        )
        pairs = [pair for pair in pairs if pair[0] is not None and (positions is None or pair[1:] in positions)]
        hashed = [(pair[0], positions[pair[1:]]) for pair in pairs] if positions is not None else pairs
        if positions is not None:
            kinds = [kinds[0], ColumnType.INTEGER]
        found = dict(zip(pairs, self.hashes(hashed, kinds) if pairs else [], strict=True))
        return lambda unit, key: sort_key(found[unit, *key], key)


class DuckdbPlace(_Ordered):
    engine = DuckdbEngine()

    def visits(self, rows, **more):
        connection = duckdb.connect()
        connection.register("given", pa.Table.from_pylist(rows, schema=ARROW))
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
        return table(connection, table="visits", **({"unit": "who"} | more))

    def hashes(self, pairs, kinds):
        connection = duckdb.connect()
        columns = {f"c{i}": pa.array([pair[i] for pair in pairs], _arrow(kind)) for i, kind in enumerate(kinds)}
        connection.register("pairs", pa.table(columns))
        salt = exp.cast(exp.Literal.number(SALT), "UBIGINT", dialect="duckdb")
        text = DuckdbDialect().hash_key(salt, _parts(kinds)).sql(dialect="duckdb")
        return [row[0] for row in connection.execute(f"SELECT {text} FROM pairs").fetchall()]


class PostgresPlace(_Ordered):
    """A database of its own, read by a role that may select and nothing else."""

    engine = PostgresEngine()

    def __init__(self, url):
        import psycopg

        self.name, self.password = f"people_{secrets.token_hex(8)}", secrets.token_hex(16)
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {self.name}")
            server.execute(f"CREATE ROLE {self.name} LOGIN PASSWORD '{self.password}'")
            server.execute(f"ALTER ROLE {self.name} SET default_transaction_read_only = on")
        parts = psycopg.conninfo.conninfo_to_dict(url)
        self.owner = psycopg.conninfo.make_conninfo(url, dbname=self.name)
        with self.writing() as connection:
            for right in ("SELECT ON TABLES", "USAGE ON SCHEMAS"):
                connection.execute(f"ALTER DEFAULT PRIVILEGES GRANT {right} TO {self.name}")
        self.url = f"postgresql://{self.name}:{self.password}@{parts['host']}:{parts['port']}/{self.name}"

    @contextlib.contextmanager
    def writing(self):
        import psycopg

        with psycopg.connect(self.owner) as connection:
            yield connection

    def visits(self, rows, **more):
        name = f"visits_{secrets.token_hex(8)}"
        with self.writing() as connection:
            connection.execute(
                f"CREATE TABLE {name} (" + ", ".join(f"{n} {kind}" for n, (_, kind) in SCHEMA.items()) + ")"
            )
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([row.get(column) for column in SCHEMA])
        return table(self.url, table=name, **({"unit": "who"} | more))

    def hashes(self, pairs, kinds):
        written = {
            ColumnType.TEXT: "TEXT",
            ColumnType.INTEGER: "BIGINT",
            ColumnType.BOOLEAN: "BOOLEAN",
            ColumnType.DATE: "DATE",
        }
        salt = exp.cast(exp.Literal.number(SIGNED), "BIGINT")
        text = PostgresDialect({}).hash_key(salt, _parts(kinds)).sql(dialect="postgres")
        arrays = ", ".join(f"%s::{written[kind]}[]" for kind in kinds)
        names = ", ".join(f"c{i}" for i in range(len(kinds)))
        values = [[pair[i] for pair in pairs] for i in range(len(kinds))]
        with self.writing() as connection:
            query = f"SELECT {text} FROM unnest({arrays}) WITH ORDINALITY AS pairs({names}, place) ORDER BY place"
            return [row[0] for row in connection.execute(query, values).fetchall()]


class SparkPlace(_Ordered):
    engine = SparkEngine()

    def __init__(self, session):
        self.session = session

    def visits(self, rows, **more):
        frame = self.session.createDataFrame(pa.Table.from_pylist(rows, schema=ARROW))
        return table(frame, **({"unit": "who", "name": "visits"} | more))

    def hashes(self, pairs, kinds):
        columns = {f"c{i}": pa.array([pair[i] for pair in pairs], _arrow(kind)) for i, kind in enumerate(kinds)}
        salt = exp.cast(exp.Literal.number(SIGNED), "BIGINT")
        text = SparkDialect().hash_key(salt, _parts(kinds)).sql(dialect="spark")
        frame = self.session.createDataFrame(pa.table(columns | {"place": pa.array(range(len(pairs)))}))
        return frame.selectExpr("place", f"{text} AS h").orderBy("place").toArrow()["h"].to_pylist()


def _parts(kinds):
    return [(exp.column(f"c{i}"), kind) for i, kind in enumerate(kinds)]


def _arrow(kind):
    return {
        ColumnType.TEXT: pa.string(),
        ColumnType.INTEGER: pa.int64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.DATE: pa.date32(),
    }[kind]
