"""PostgreSQL 15 or later. A role that may only read is enough, because nothing is created there.

A stage runs in one read-only snapshot of the database, on a connection of its own. Public keys are parameters. The
answer comes back through a server-side cursor, so neither side holds more than a batch of it.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from neartwin.engines.arrow import ARROW, gathered_rows
from neartwin.engines.duckdb import typed_rows
from neartwin.engines.sql.dialect import POSITION, Dialect, as_bigint, as_double, either, in_calendar, integer, real
from neartwin.engines.sql.joins import Place, sources_of
from neartwin.engines.sql.statement import column_aliases, in_order, salted, statement
from neartwin.planning.stage import Aggregates, Engine, Stage
from neartwin.tables.postgres import PostgresTable, driver, reading
from neartwin.tables.types import ColumnType

_BATCH = 50_000  # rows a round trip
_SIGN = 2**63
_NULL = 0x5A5A_C3C3_9696_0F0F  # the hash of NULL: any number with mixed bits
_WRITTEN = {
    pa.int64(): "bigint",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.float64(): "double precision",
    pa.timestamp("us"): "timestamp without time zone",
}
_TYPES = {ColumnType.INTEGER: "BIGINT", ColumnType.BOOLEAN: "BOOLEAN"}
_SURELY_DOUBLE = {"smallint", "integer", "bigint", "real", "double precision"}
_LARGEST, _SMALLEST = "1.7976931348623158e308", "2.4703282292062329e-324"  # a NUMERIC beyond them has no nearest double


class PostgresDialect(Dialect):
    """PostgreSQL's spelling. Its casts and its arithmetic of doubles fail on values that are too large or too small, so
    they are guarded here. It knows the catalogue's type of each column.
    """

    name: ClassVar[str] = "postgres"
    collates = False
    reads_once: ClassVar[bool] = False  # PostgreSQL does not hash a join by IS NOT DISTINCT FROM

    def __init__(self, types: dict[str, str]) -> None:
        """Keeps the types."""
        self._types = types

    def column(self, name: str, kind: ColumnType, *, declared: bool) -> exp.Expr:  # noqa: ARG002 - casts are sure ones
        """A cast that the catalogue's type makes sure."""
        value: exp.Expr = exp.column(name, quoted=True)
        match kind:
            case ColumnType.NUMBER:
                return as_double(value) if self._types[name] in _SURELY_DOUBLE else _double(value)
            case ColumnType.TEXT:
                return _by_bytes(exp.cast(value, "TEXT", dialect="postgres"))
            case ColumnType.DATE:
                return in_calendar(exp.cast(value, "DATE", dialect="postgres"), kind)
            case ColumnType.TIMESTAMP if self._types[name] == "date":
                return exp.cast(in_calendar(value, ColumnType.DATE), "TIMESTAMP", dialect="postgres")
            case ColumnType.TIMESTAMP:
                return in_calendar(exp.cast(value, "TIMESTAMP", dialect="postgres"), kind)
        return exp.cast(value, _TYPES[kind], dialect="postgres")

    def hash_key(self, salt: exp.Expr, parts: list[tuple[exp.Expr, ColumnType]]) -> exp.Expr:
        """A chain of 64-bit hashes, each seeded by the one before; hashing a row at once favours some groups."""
        chain = salt.copy()
        for part, kind in parts:
            chain = _hashed(part.copy(), kind, chain)
        return chain

    def fingerprint(self, parts: list[exp.Expr]) -> exp.Expr:
        """With an explicit collation, because those of the parts may disagree."""
        return exp.Collate(this=super().fingerprint(parts), expression=exp.to_identifier("C", quoted=True))

    def is_nan(self, value: exp.Expr) -> exp.Expr:
        """NaN equals itself here."""
        return exp.EQ(this=value, expression=real(float("nan")))

    def arithmetic(self, node: exp.Binary) -> exp.Expr:
        """A subquery of one row names each operand once, however deep an expression is nested."""
        x, y = exp.column("x"), exp.column("y")
        if isinstance(node, exp.Div):
            return _named_once(_quotient(x, y), x=node.this, y=node.expression)
        total = _product(x, y) if isinstance(node, exp.Mul) else _sum(type(node), x, y)
        return _named_once(total, x=node.this, y=node.expression)

    def text(self, value: str) -> exp.Expr:
        """With the collation of the columns."""
        return _by_bytes(exp.Literal.string(value))

    def computed(self, value: exp.Expr, kind: ColumnType) -> exp.Expr:
        """Whole numbers have 64 bits here already."""
        number = as_bigint(value) if kind is ColumnType.INTEGER else value
        return _by_bytes(value) if kind is ColumnType.TEXT else number

    def wide(self, value: exp.Expr) -> exp.Expr:
        """A NUMERIC."""
        return _numeric(value)

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr, parts: int = 1) -> exp.Expr:
        """div() of NUMERIC truncates."""
        times = _numeric(cap) * exp.Literal.number(parts) if parts > 1 else _numeric(cap)
        return exp.func("div", _numeric(total) * times, _numeric(number), dialect="postgres")

    def same(self, value: exp.Expr, key: exp.Expr, kind: ColumnType, *, nullable: bool) -> exp.Expr:
        """Equalities alone: IS NOT DISTINCT FROM would compare every row with every key."""
        if not nullable:
            return exp.EQ(this=value, expression=key)
        filled, filled_key = (exp.func("coalesce", side.copy(), _something(kind)) for side in (value, key))
        absent, absent_key = (exp.paren(side.copy().is_(exp.null())) for side in (value, key))
        return exp.and_(exp.EQ(this=filled, expression=filled_key), exp.EQ(this=absent, expression=absent_key))


def _by_bytes(value: exp.Expr) -> exp.Expr:
    return exp.Collate(this=exp.paren(value), expression=exp.to_identifier("C", quoted=True))


def _named_once(total: exp.Expr, **parts: exp.Expr) -> exp.Expr:
    """A subquery of one row with a total of named parts.

    Nothing is copied: copies at each level of a deep expression took 45 s for the largest that is allowed.
    """
    inner = exp.select(*(exp.alias_(part, name, copy=False) for name, part in parts.items()), copy=False)
    rows = inner.offset(0, copy=False).subquery("o", copy=False)
    return exp.select(total, copy=False).from_(rows, copy=False).subquery(copy=False)


def _numeric(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "NUMERIC", dialect="postgres")


def _number(text: str) -> exp.Expr:
    return _numeric(exp.Literal.string(text))


def _double(value: exp.Expr) -> exp.Expr:
    """A NUMERIC as the nearest double: it has values too large and too small for one, whose cast fails."""
    return (
        exp.case()
        .when(value.eq(_number("NaN")), real(float("nan")))
        .when(value >= _number(_LARGEST), real(float("inf")))
        .when(value <= _number("-" + _LARGEST), real(float("-inf")))
        .when(exp.Abs(this=value.copy()) <= _number(_SMALLEST), real(0.0))
        .else_(as_double(value.copy()))
    )


def _sum(kind: type, x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """X + y or x - y. Where an operand is large, half the sum is taken first, in which less than 1 does not count."""
    safe = exp.and_(*(exp.Abs(this=side.copy()) < real(2.0**1022) for side in (x, y)))
    half_x, half_y = (either(exp.Abs(this=side.copy()) < real(1.0), real(0.0), side * real(0.5)) for side in (x, y))
    half = exp.paren(kind(this=half_x, expression=half_y))
    direct = kind(this=x.copy(), expression=y.copy())
    large = exp.Abs(this=half.copy()) >= real(2.0**1023)
    return exp.case().when(safe, direct).when(large, half * real(float("inf"))).else_(direct.copy())


def _product(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """X * y. Factors of at least 1 are scaled down to see whether they overflow, tiny ones up to see an underflow."""
    down, up = (
        exp.paren((x.copy() * real(scale)) * exp.paren(y.copy() * real(scale))) for scale in (2.0**-513, 2.0**537)
    )
    size_x, size_y = (exp.Abs(this=side.copy()) for side in (x, y))
    tiny = exp.or_(size_x < real(2.0**-500), size_y < real(2.0**-500))
    large = exp.and_(size_x >= real(1.0), size_y >= real(1.0))
    small = exp.and_(tiny, size_x < real(1.0), size_y < real(1.0), x.neq(real(0.0)), y.neq(real(0.0)))
    infinite = exp.Abs(this=down.copy()) >= real(0.25)  # 2**1024 of the product itself
    nothing = exp.Abs(this=up) <= real(0.5)  # half the least double
    direct = x.copy() * y.copy()
    of_large = either(infinite, down * real(float("inf")), direct)
    of_small = either(nothing, real(0.0), direct.copy())
    return exp.case().when(large, of_large).when(small, of_small).else_(direct.copy())


def _quotient(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """X / y, y not 0. Both cases are rounded as the quotient is: no ratio of doubles is nearer than 2**-53 to a midpoint.

    By a smaller divisor below 1 the quotient may overflow, which 2**-1074 of it shows. Of a tiny x it may vanish, which
    2**1074 of it shows.
    """
    up, down = 2.0**537, 2.0**-537
    shrunk, grown = (
        exp.paren(exp.Div(this=exp.paren(x * real(a)), expression=exp.paren(y * real(b)), typed=True))
        for a, b in ((down, up), (up, down))
    )
    size_x, size_y = (exp.Abs(this=side.copy()) for side in (x, y))
    large = exp.and_(size_x >= real(2.0**-51), size_x >= size_y, size_y < real(1.0))
    small = exp.and_(size_x < real(2.0**-51), size_y >= real(1.0))
    infinite, nothing = exp.Abs(this=shrunk.copy()) >= real(2.0**-50), exp.Abs(this=grown) <= real(0.5)
    direct = exp.Div(this=x.copy(), expression=y.copy(), typed=True)
    of_large = either(infinite, shrunk * real(float("inf")), direct)
    of_small = either(nothing, real(0.0), direct.copy())
    return exp.case().when(large, of_large).when(small, of_small).else_(direct.copy())


def _hashed(part: exp.Expr, kind: ColumnType, seed: exp.Expr) -> exp.Expr:
    """A hash in which NULL is a value of its own."""
    value: exp.Expr = exp.func("coalesce", part.copy(), _something(kind))
    match kind:
        case ColumnType.BOOLEAN:
            value = exp.cast(value, "INT", dialect="postgres")
        case ColumnType.DATE:
            value = exp.paren(value - _something(kind))
    if kind is ColumnType.TEXT:
        digest = exp.Anonymous(this="hashtextextended", expressions=[value, seed])
    else:
        digest = exp.Anonymous(this="hashint8extended", expressions=[as_bigint(value), seed])
    mark = either(part.is_(exp.null()), as_bigint(integer(_NULL)), integer(0))
    return exp.paren(exp.BitwiseXor(this=digest, expression=mark))


def _something(kind: ColumnType) -> exp.Expr:
    """Any value of a type."""
    match kind:
        case ColumnType.TEXT:
            return exp.Literal.string("")
        case ColumnType.BOOLEAN:
            return exp.false()
        case ColumnType.DATE:
            return exp.cast(exp.Literal.string("2000-01-01"), "DATE")
    return exp.Literal.number(0)


@dataclass(frozen=True, slots=True)
class PostgresEngine:
    """Runs a stage on a connection of its own, or several on one.

    Attributes:
        connection: A connection in a read-only snapshot; None for one of its own for each stage.
    """

    connection: Any = None

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly, in one read-only snapshot.

        Args:
            stage: The stage.
            salt: The salt of the hash that chooses a unit's groups.

        Returns:
            The groups and their exact whole numbers.
        """
        with _answers(stage, salt, self.connection) as parts:
            return gathered_rows(stage, list(chain.from_iterable(parts)))

    @contextmanager
    def reading(self, stages: Sequence[Stage]) -> Iterator[Engine]:
        """Answer some stages from one snapshot, as `SharesRows.reading` does. A role that may only read has no temporary table.

        Args:
            stages: The stages.

        Yields:
            The engine that answers them.
        """
        with _connected(stages[0], self.connection) as connection:
            yield PostgresEngine(connection)

    def batches(self, stage: Stage, *, salt: int, groups: int) -> Iterator[Aggregates]:
        """Yield the answers in parts from the server's cursor, as `Streaming.batches` does."""
        if stage.keys is not None and stage.split is None:
            yield self.aggregate(stage, salt=salt)
            return
        with _answers(stage, salt, self.connection, ordered=True, rows=groups) as parts:
            for part in parts:
                yield gathered_rows(stage, part)


def _connected(stage: Stage, connection: Any) -> AbstractContextManager[Any]:
    source = stage.table.source
    if not isinstance(source, PostgresTable):
        raise TypeError(f"PostgreSQL cannot read a {type(source).__name__}")
    return reading(source.url) if connection is None else nullcontext(connection)


@contextmanager
def _answers(
    stage: Stage, salt: int, own: Any, *, ordered: bool = False, rows: int = _BATCH
) -> Iterator[Iterator[list[tuple[Any, ...]]]]:
    """The statement's rows in parts, from a server-side cursor that lives as long as the context.

    Neither the salt nor a key is in its text: they are parameters, each used, because a server refuses one that is not.
    """
    with _connected(stage, own) as connection:
        parameters: list[Any] = []
        drawn = _parameter((salt ^ _SIGN) - _SIGN, "bigint", parameters) if salted(stage) else exp.null()
        keys = _public_keys(stage, parameters)
        query = statement(stage, _places(stage, connection, parameters), drawn, keys)
        text = (in_order(query, stage) if ordered else query).sql(dialect="postgres")
        with driver().RawServerCursor(connection, f"neartwin_{secrets.token_hex(8)}") as cursor:
            cursor.execute(text, parameters)
            yield iter(lambda: cursor.fetchmany(rows), [])


def _places(stage: Stage, connection: Any, parameters: list[Any]) -> list[Place]:
    """The server's own tables by name; rows of public ones that are elsewhere become parameters."""
    places = []
    for number, (source, needed, join, _) in enumerate(sources_of(stage.table, tuple(column_aliases(stage)))):
        if isinstance(source, PostgresTable):
            rows = exp.table_(source.table, db=source.namespace, quoted=True)
            places.append(Place(rows, PostgresDialect(source.types(connection))))
        elif join is not None:
            table = typed_rows(join, needed)
            types = {column.name: _WRITTEN[column.type] for column in table.schema}
            values = ([None if _has_zero(one) else one for one in column.to_pylist()] for column in table.columns)
            literals = _unnested(types, values, f"given{number}", parameters)
            places.append(Place(literals, PostgresDialect(types)))
    return places


def _public_keys(stage: Stage, parameters: list[Any]) -> exp.Select | None:
    if stage.keys is None or not stage.group_columns:
        return None
    rows = [(place, *key) for place, key in enumerate(stage.keys) if not any(map(_has_zero, key))]
    kinds = [_WRITTEN[ARROW[stage.table.schema[name]]] for name in stage.group_columns]
    types = {POSITION: "bigint"} | {f"k{i}": kind for i, kind in enumerate(kinds)}
    values = ([row[i] for row in rows] for i in range(len(types)))
    return exp.select(*types).from_(_unnested(types, values, "a", parameters))


def _unnested(types: Mapping[str, str], values: Iterable[list[Any]], name: str, parameters: list[Any]) -> exp.Table:
    """A table of values that go along as parameters, one array a column."""
    arrays = [_parameter(column, f"{kind}[]", parameters) for column, kind in zip(values, types.values(), strict=True)]
    columns = [exp.to_identifier(column, quoted=True) for column in types]
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=columns)
    return exp.Table(this=exp.Anonymous(this="unnest", expressions=arrays), alias=alias)


def _parameter(value: object, kind: str, parameters: list[Any]) -> exp.Expr:
    """The next one, numbered from $1."""
    parameters.append(value)
    return exp.cast(exp.Parameter(this=exp.Literal.number(len(parameters))), kind, dialect="postgres")


def _has_zero(value: object) -> bool:
    """No text of PostgreSQL has this character, and it would refuse one: such a key is an empty group."""
    return isinstance(value, str) and "\0" in value
