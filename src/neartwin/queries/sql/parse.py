"""SQL as a spelling of questions. It is parsed to a `Query` through an allow-list, and never passed to an engine.

A statement is one SELECT from a table. It may have:

- WITH, and subqueries in FROM and JOIN (see `subqueries`);
- [LEFT] JOIN ... USING, or ON equalities, with tables given beside it;
- WHERE with a row expression;
- GROUP BY with columns, row expressions, or names from SELECT, and GROUPING SETS, CUBE or ROLLUP for margins;
- COUNT(*), COUNT(expression), COUNT(DISTINCT expression), SUM(expression), AVG(expression), and other statistics of
  their room;
- FILTER (WHERE ...) and COUNT_IF, which become a CASE, because a statistic passes over NULL;
- sums over the groups, and arithmetic and shapes of the noisy result (see `derived`);
- HAVING, ORDER BY, LIMIT and OFFSET.

It may be written in another dialect, with positions and qualified names (see `spelling`). Other SQL is refused, and the
error says what to write instead.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from typing import cast

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.interactive import instead, suggested
from neartwin.queries.arithmetic import PLACES
from neartwin.queries.query import PostProcessing, Query, Rows, TopK, completed, table_of
from neartwin.queries.sql.derived import (
    CLAUSES,
    Asked,
    Named,
    after_of,
    derived,
    number_of,
    statistics_in,
    text_of,
    without_derived,
    without_workload,
)
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.spelling import plain, shortened, trees
from neartwin.queries.sql.subqueries import rows_of
from neartwin.statistics.base import Statistic
from neartwin.statistics.counts import AVG_OR_0
from neartwin.statistics.sql import SPELLINGS, statistic_of
from neartwin.tables.expressions import COMPARED, not_understood, written_parts
from neartwin.tables.per_unit import units_of
from neartwin.tables.table import Table
from neartwin.tables.types import ColumnType

_MOST_SETS = 64
_ZERO = ("0", "0.0")


def sets_of(group: exp.Group) -> tuple[tuple[exp.Expr, ...], ...] | None:
    """The grouping sets of a GROUP BY. Expressions beside GROUPING SETS, CUBE or ROLLUP are in every set.

    Args:
        group: The clause.

    Returns:
        The sets of expressions, or None for an ordinary GROUP BY.

    Raises:
        QueryError: There are several of these, or too many sets.
    """
    several = [item for item in group.expressions if isinstance(item, exp.GroupingSets | exp.Cube | exp.Rollup)]
    if not several:
        return None
    if len(several) > 1:
        raise QueryError("GROUP BY takes one of GROUPING SETS, CUBE and ROLLUP; write all sets as GROUPING SETS")
    always = [item for item in group.expressions if item is not several[0]]
    parts: list[exp.Expr] = several[0].expressions
    match several[0]:
        case exp.GroupingSets():
            sets = [part.expressions if isinstance(part, exp.Tuple) else [part.unnest()] for part in parts]
        case exp.Rollup():
            sets = [parts[:size] for size in range(len(parts), -1, -1)]
        case _:
            chosen = (list(one) for size in range(len(parts), -1, -1) for one in combinations(parts, size))
            sets = list(islice(chosen, _MOST_SETS + 1))
    if any(isinstance(member, exp.Tuple | exp.GroupingSets | exp.Cube | exp.Rollup) for one in sets for member in one):
        raise QueryError("GROUPING SETS, CUBE and ROLLUP take columns and expressions, and cannot be nested")
    if len(sets) > _MOST_SETS:
        raise QueryError(f"GROUP BY has too many grouping sets; at most {_MOST_SETS} are allowed")
    return tuple((*always, *one) for one in sets)


def _as_case(node: exp.Expr) -> exp.Expr:
    """FILTER and COUNT_IF as a statistic of a CASE."""
    match node:
        case exp.CountIf(this=condition):
            return exp.Count(this=exp.case().when(condition, "1"))
        case exp.Filter(this=exp.AggFunc(this=exp.Expr()) as inner, expression=exp.Where(this=condition)):
            value = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
            value.replace(exp.case().when(condition, "1" if isinstance(value, exp.Star) else value.copy()))
            return inner
        case exp.Filter():
            raise not_understood(node, instead("clauses", "filter"))
    return node


def _expand(select: exp.Select, schema: Mapping[str, ColumnType]) -> None:
    """Put in place of the name of an earlier column of the SELECT what it stands for, as DuckDB does where no column has it."""
    known, where = dict[str, exp.Expr](), select.args.get("where")
    windows = (select.args.get("qualify") or exp.Null()).find_all(exp.Window)
    for item in [*select.expressions, where or exp.Null(), *windows]:
        for column in list(item.find_all(exp.Column)):
            of = None if column.table or column.name in schema else known.get(column.name.lower())
            sums = of is not None and of.find(exp.AggFunc)
            beside = not sums and item.find(exp.AggFunc) and not column.find_ancestor(exp.AggFunc)  # it names a group
            if of is not None and not beside and not (item is where and sums):
                column.replace(of.copy())
        if isinstance(item, exp.Alias):
            known[item.alias.lower()] = (
                item.this if isinstance(item.this, exp.Column | exp.Func) else exp.paren(item.this)
            )


def _counted(many: exp.Expr, schema: Mapping[str, ColumnType]) -> exp.Expr | None:
    """The condition c whose rows it counts, as COUNT_IF(c), SUM(c::INT), SUM(CASE WHEN c THEN 1 ELSE 0 END) and COUNT(x) do."""
    if isinstance(many, exp.Sum):
        value: exp.Expr = (many.this.this if isinstance(many.this, exp.Cast) else many.this).unnest()
        flag = isinstance(value, exp.Column) and schema.get(value.name) is ColumnType.BOOLEAN
        if flag or isinstance(value, exp.Predicate | exp.Connector | exp.Not):
            return value
    match many.this:
        case exp.Column() if isinstance(many, exp.Count):
            return exp.Not(this=exp.Is(this=many.this, expression=exp.null()))
        case exp.Case(this=None, args={"ifs": [arm], **more}):
            rest = more.get("default")
        case exp.If() as arm:
            rest = arm.args.get("false")
        case _:
            return None
    one, none = arm.args["true"], rest is None or rest.name in {"0", "0.0"}
    ones = isinstance(many, exp.Sum) and one.name in {"1", "1.0"} and none
    return arm.this if ones or (isinstance(many, exp.Count) and one.is_number and rest is None) else None


def _as_mean(division: exp.Div, select: exp.Select, schema: Mapping[str, ColumnType]) -> None:
    """COUNT_IF(c) / COUNT(*), in place, as AVG of a condition, and SUM(x) / COUNT(*) as the mean of x or 0: bars are shorter.

    So are COUNT_IF(x > 3) / COUNT(x) and SUM(x) / COUNT(x), among the rows in which x has a value. A selected sum stays one.
    """
    name, selected = division.sql(dialect="duckdb"), [_spelled(item.unalias()) for item in select.expressions]
    for real in division.find_all(exp.Cast):
        if real.is_type(*exp.DataType.REAL_TYPES) and isinstance(real.this, exp.Count | exp.Sum | exp.Nullif):
            real.replace(real.this)
    top, whole = division.this.unnest(), division.expression.unnest()
    while isinstance(whole, exp.Nullif):
        whole = whole.this.unnest()
    parts = list(top.flatten()) if isinstance(top, exp.Mul) else [top]
    match [one for one in parts if not one.is_number], whole:
        case [exp.Count() | exp.Sum() as many], exp.Count(this=counted) if _spelled(many) not in selected:
            condition, of_all = _counted(many, schema), isinstance(counted, exp.Star | exp.Literal)
            if condition is not None and (condition == counted or _compares(condition, counted)):
                mean: exp.Expr = exp.Avg(this=condition)
            elif condition is not None and of_all:
                mean = exp.Avg(this=exp.case().when(condition, "1").else_("0"))
            elif isinstance(many, exp.Sum) and not isinstance(many.this, exp.Distinct) and of_all:
                mean = exp.func(AVG_OR_0, many.this.unnest())
            elif isinstance(many, exp.Sum) and _spelled(many.this.unnest()) == _spelled(counted):
                mean = exp.Avg(this=counted)
            else:
                return
            if any(one.is_number and one.to_py() != 1 for one in parts):
                many.replace(mean)
                mean = division.this.unnest()
            division.replace(exp.alias_(mean, name, quoted=True) if division.parent is select else mean)


def _spelled(node: exp.Expr) -> str:
    return node.sql(dialect="duckdb", identify=True)


def _compares(condition: exp.Expr, value: exp.Expr) -> bool:
    """Whether it compares the value with constants alone, so that it is NULL where the value is."""
    constant = (one.is_number or one.is_string for one in condition.iter_expressions() if one is not condition.this)
    return isinstance(condition, (*COMPARED, exp.Between, exp.In)) and condition.this == value and all(constant)


_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "group", "with_", "qualify"} | CLAUSES


Keys = object | Callable[[Mapping[str, ColumnType]], object]
Written = str | exp.Expr


def from_sql(
    text: str, rows: Rows, *, keys: Keys = None, tables: Others | None = None, dialect: str = "duckdb"
) -> Query | TopK:
    """The question of a SQL text. Bounds come from the table's declared columns.

    Args:
        text: One SELECT.
        rows: The rows of the table in FROM.
        keys: Public keys of the GROUP BY columns, as for `Rows.group_by`. Or a function that returns them from the
            types of the columns, joined and computed ones included.
        tables: The tables that JOIN may name, as for `Rows.join`.
        dialect: The SQL that the text is written in: duckdb, postgres, spark, bigquery, snowflake, tsql and others.

    Returns:
        The question.

    Raises:
        QueryError: Something is not understood; the message says what to write instead.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2], "town": ["Ulm", "Bonn"]}), unit="who", name="visits")
    >>> nt.from_sql("SELECT town, COUNT(*) AS n FROM visits GROUP BY town", rows, keys=["Bonn", "Ulm"])
    <Query of 'visits' by town: n = count()>
    """
    return statement_of(text, rows, tables=tables, dialect=dialect).question(keys)


def series_from_sql(
    text: str, rows: Rows, *, keys: Keys = None, tables: Others | None = None, dialect: str = "duckdb"
) -> tuple[Query | TopK, ...]:
    """The questions of all statements of a text, in their order.

    Args:
        text: SELECT statements with semicolons between them.
        rows: The rows of the table in FROM.
        keys: A mapping from columns, of which each statement takes those that it groups by. Other forms go to every
            statement that groups.
        tables: The tables that JOIN may name.
        dialect: The SQL that the text is written in, as for `from_sql`.

    Returns:
        The questions.

    Raises:
        QueryError: As for `from_sql`, or no statement groups by a column of the keys.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2]}), unit="who", name="visits")
    >>> len(nt.series_from_sql("SELECT COUNT(*) FROM visits; SELECT COUNT(DISTINCT who) FROM visits", rows))
    2
    """
    read = [statement_of(tree, rows, tables=tables) for tree in trees(text, dialect, rows.table.name)]
    if not read:
        raise QueryError("the text must have at least one SELECT statement")
    chosen = [keys(one.rows.table.schema) if callable(keys) else keys for one in read]
    key_names = {name for each in chosen if isinstance(each, Mapping) for name in each}
    if spare := key_names.difference(*(one.groups for one in read)):
        near = suggested(min(spare), {name for one in read for name in one.groups})
        raise QueryError(f"keys: no statement groups by {min(spare)!r}" + (f"; write {near}" if near else ""))
    return tuple(one.question(one.own(each)) for one, each in zip(read, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT, read up to the keys of its groups.

    Attributes:
        select: The statement, with statistics alone in SELECT.
        rows: The rows that it groups, computed columns included.
        groups: The group columns, with what they stand for.
        margins: The margins of GROUPING SETS, by their columns.
        over: The question over the groups, or None.
        computed: The columns that are computed from statistics: their names, and their expressions.
        items: The columns of SELECT, as written.
    """

    select: exp.Select
    rows: Rows
    groups: Mapping[str, str]
    margins: tuple[tuple[str, ...], ...]
    over: Asked | None
    computed: tuple[tuple[str, exp.Expr], ...]
    items: tuple[exp.Expr, ...]

    def own(self, keys: object) -> object:
        """The keys that the statement takes, of keys for several."""
        if isinstance(keys, Mapping):
            return {name: values for name, values in keys.items() if name in self.groups} or None
        return keys if self.groups else None

    def question(self, keys: Keys = None) -> Query | TopK:
        """The question with these keys.

        Args:
            keys: As for `from_sql`.

        Returns:
            The question.

        Raises:
            QueryError: Something is not understood.
        """
        select, rows, groups, over = self.select, self.rows, self.groups, self.over
        chosen = keys(rows.table.schema) if callable(keys) else keys
        if not any(_is_statistic(item, groups) for item in select.expressions):
            return _most_common(select, rows, groups, chosen)
        aggregates = _aggregates(select, groups, rows.table)
        if not groups:
            if over is not None:
                raise QueryError("sums over groups need GROUP BY and public keys")
            query = rows.agg(**aggregates)
        else:
            grouped = rows.group_by(*groups, keys=chosen)
            final = grouped if over is None else over.of(grouped, groups)
            query = (final.marginals(*self.margins) if self.margins else final).agg(**aggregates)
        return replace(query, after=_after(self, query))


def statement_of(text: Written, rows: Rows, *, tables: Others | None = None, dialect: str = "duckdb") -> Statement:
    """Read a SQL text without keys.

    Args:
        text: One SELECT; or its tree of `trees`, which is changed.
        rows: The rows of the table in FROM.
        tables: The tables that JOIN may name.
        dialect: The SQL that the text is written in.

    Returns:
        The statement.

    Raises:
        QueryError: Something is not understood.
    """
    select, rows = _select(text, rows, tables or {}, dialect)
    _expand(select, rows.table.schema)
    _qualify(select)
    for node in [item.unalias() for item in select.expressions]:
        if type(node) in COMPARED and statistics_in(node):
            node.replace(exp.case().when(node.copy(), "1").else_("0"))
    for division in list(select.find_all(exp.Div)):
        if division.parent_select is select:
            _as_mean(division, select, rows.table.schema)
    items = tuple(select.expressions)
    select, over = without_workload(select)
    computed = without_derived(select, clauses=over is None)
    return Statement(select, *_grouped(select, rows), over, computed, items)


def _qualify(select: exp.Select) -> None:
    """QUALIFY as HAVING, in place: the windows that HAVING names go over all groups."""
    qualify = select.args.pop("qualify", None)
    if qualify is None:
        return
    read = {one.name or one for one in qualify.find_all(exp.Column, exp.Window)}
    windows = [one for one in select.expressions if one.find(exp.Window)]
    spare = [one for one in windows if read.isdisjoint({one.alias, *one.find_all(exp.Window)})]
    if spare or select.args.get("having"):
        raise not_understood(qualify, "it stands beside HAVING, or windows that it does not read; ask them apart")
    select.set("having", exp.Having(this=qualify.this))
    select.meta["late"] = True


def _grouped(select: exp.Select, rows: Rows) -> tuple[Rows, dict[str, str], tuple[tuple[str, ...], ...]]:
    """The rows, the group columns with what they stand for, and the margins of GROUPING SETS by their columns."""
    where = select.args.get("where")
    if where is not None:
        named = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        for column in where.find_all(exp.Column):
            if column.name not in rows.table.schema and named.get(column.name, exp.Null()).find(exp.AggFunc):
                line = f"HAVING {where.this.sql(dialect='duckdb')}"
                raise QueryError(f"WHERE reads rows, and {column.name!r} is of many; write {line} after GROUP BY")
        rows = rows.where(where.this.sql(dialect="duckdb"))
    group = select.args.get("group")
    sets = None if group is None else sets_of(group)
    if sets is not None:  # every expression of a set once, in the order of their first use
        members = {member.sql(dialect="duckdb"): member for one in sets for member in one}
        group = exp.Group(expressions=list(members.values()))
    groups = {} if group is None else _groups(group, _named(select), rows.table.schema)
    for name, expression in groups.items():
        if name not in rows.table.schema or expression != _quoted(name):
            rows = rows.with_column(name, expression)
    texts = {text: name for name, text in groups.items()}
    margins = [
        [item.name if isinstance(item, exp.Column) and item.name in groups else texts[_written(item)] for item in one]
        for one in sets or ()
    ]
    return rows, dict(groups), tuple(map(tuple, margins))


def _most_common(select: exp.Select, rows: Rows, groups: Mapping[str, str], keys: object) -> TopK:
    """SELECT column ... GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC LIMIT k, which shows the winners alone."""
    order, limit = select.args.get("order"), select.args.get("limit")
    ranked = [] if order is None else order.expressions
    by_units = len(ranked) == 1 and ranked[0].args.get("desc") and isinstance(ranked[0].this, exp.Count)
    if len(groups) != 1 or not by_units or limit is None:
        raise QueryError("SELECT must ask at least one statistic, for instance COUNT(*)")
    if _aggregate(ranked[0].this, rows.table)[0] != "units":
        raise QueryError(instead("clauses", "in_periods" if rows.table.period else "most", unit=rows.table.unit_name))
    ((column, _),) = groups.items()
    keys = completed(keys, rows.table, [column], rows.conditions)
    if keys is None:
        raise QueryError("the most common values are chosen among public ones: give them with keys=")
    if select.args.get("having") or select.args.get("offset"):
        raise QueryError(f"HAVING and OFFSET need released counts: select COUNT(DISTINCT {rows.table.unit_name}) too")
    values = keys[column] if isinstance(keys, Mapping) and set(keys) == {column} else keys
    return rows.most_common(column, among=values, k=number_of(select, "limit") or 0)


def _is_statistic(item: exp.Expr, groups: Mapping[str, str]) -> bool:
    return _written(item.unalias()) not in {*groups.values(), *map(_quoted, groups)}


def _after(statement: Statement, query: Query) -> PostProcessing:
    """What is computed of statistics, HAVING, ORDER BY and LIMIT, over the names of the noisy result."""
    select, groups, over = statement.select, statement.groups, statement.over
    ends = "_to" if over is not None and over.workload.kind == "prefixes" else ""
    names = {name: name + ends for name in groups if over is None or over.along is not None}
    grouped = {text: names.get(name, name) for name, text in groups.items()}
    shown = {grouped[text]: alias for alias, text in _named(select).items() if grouped.get(text, alias) != alias}
    inner = names | {alias: name for name, alias in shown.items()}

    def statistic(node: exp.Expr) -> str | None:
        if over is not None:  # there is one, and of single groups none is known
            return next(iter(query.aggregates)) if isinstance(node, exp.Window | exp.Anonymous) else None
        asked = _aggregate(node, query.table)[1].spelled(query.table)
        return next((name for name, one in query.aggregates.items() if one == asked), None)

    def group(node: exp.Expr) -> str | None:
        found = grouped.get(_written(node)) or grouped.get(_written(node.unnest()))
        return found or (inner.get(node.name) if isinstance(node, exp.Column) else None)

    def single(node: exp.Expr) -> str | None:
        if (column := group(node)) is not None:  # of PARTITION BY
            return column
        name = statistic(node)
        columns = () if name is None else query.aggregates[name].labels(name)
        return columns[0] if len(columns) == 1 else None

    def named(node: exp.Expr) -> str | None:
        if (column := group(node)) is not None:
            return column
        if over is None and derived(node) is not None:
            return next((name for name, of in statement.computed if of == node.unnest()), None)
        return statistic(node) if statistics_in(node) else None

    selected = [
        item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column) else named(item) or ""
        for item in statement.items
    ]
    selected = [inner.get(name, name) for name in selected]
    if over is not None and (lost := [name for name in selected if name in groups and name not in names]):
        raise QueryError(f"{lost[0]!r} is no column here: {over.workload} add up the groups; leave it out of SELECT")
    shaped = PostProcessing(computed=tuple((name, text_of(of, single)) for name, of in statement.computed))
    released = dict(query.released) | {name: ColumnType.NUMBER for name, _ in shaped.computed}
    after = after_of(select, released, selected, named, shaped).checked(query.released)
    return replace(
        after, shown=tuple(shown.items()), divided=_divided(statement, query, statistic) if over is None else ()
    )


def _divided(statement: Statement, query: Query, named: Named) -> tuple[str, ...]:
    """The counts and sums of rows that are asked in quotients of such alone, and compared with 0."""
    clauses = [statement.select.args[one] for one in ("having", "order") if statement.select.args.get(one)]
    roots = (*statement.items, *clauses)
    if not any(root.find(exp.Div) for root in roots):
        return ()
    of_rows = {name for name, one in query.aggregates.items() if one.is_linear}
    quotients = set[str]()

    def asked(node: object) -> set[str]:
        return {name for one in statistics_in(node) if (name := named(one))} if isinstance(node, exp.Expr) else set()

    def alone(node: exp.Expr) -> set[str]:
        if isinstance(node, exp.Window):
            return alone(node.args["order"]) if isinstance(node.this, PLACES) else asked(node)
        first, second = (asked(node.args.get(side)) for side in ("this", "expression"))
        products = (one for one in node.find_all(exp.Mul) if asked(one.this) and asked(one.expression))
        beside = any(products) or node.find(exp.Window)  # a share of a total lacks lost rows as a count does
        if isinstance(node, exp.Div) and first and second and first | second <= of_rows and not beside:
            quotients.update(first | second)
            return set()
        zeros = isinstance(node, exp.Predicate) and all(one.name in _ZERO for one in node.find_all(exp.Literal))
        if zeros and not (first and second):
            return set()
        return asked(node) if statistics_in(node) == [node] else set().union(*map(alone, node.iter_expressions()))

    return tuple(sorted(quotients.difference(*map(alone, roots))))


def _select(text: Written, rows: Rows, tables: Others, dialect: str) -> tuple[exp.Select, Rows]:
    """The statement in plain spelling, and the joined rows that it is of."""
    line = f"write SELECT COUNT(*) AS n FROM {rows.table.name}"
    statements = trees(text, dialect, rows.table.name) if isinstance(text, str) else [text]
    select = statements[0] if statements else None
    for other in (one for one in statements if not isinstance(one, exp.Query)):
        word = other.sql(dialect="duckdb", comments=False).split()[0]
        line = instead("clauses", f"{word.lower()}s") or line
        raise QueryError(f"{word} is refused: neartwin only reads, and answers statistics of many people; {line}")
    union = select.find(exp.SetOperation) if select else None
    if len(statements) != 1 or not isinstance(select, exp.Select) or union:
        parts = (union.this, union.expression) if union and union is select else ()  # of one inside they are no answers
        shown = "; ".join(one.sql(dialect="duckdb") for one in parts) or line.removeprefix("write ")
        line = instead("clauses", union.key, parts=shown) if union else line
        raise QueryError(f"the text must be one SELECT statement without UNION, or several as a series; {line}")
    for clause, value in select.args.items():
        if value and clause not in _CLAUSES:
            remedy = instead("clauses", clause) or "leave it out"
            if clause == "distinct" and not select.find(exp.AggFunc):
                grouped = select.copy().select("COUNT(*) AS n").group_by(*select.expressions)
                grouped.set("distinct", None)
                remedy = f"write {grouped.sql(dialect='duckdb')}"
            raise QueryError(f"{clause.strip('_').upper()} is not understood in a private question: {remedy}")
    for one in select.find_all(exp.Subquery, exp.Table):
        if found := [clause for clause in ("pivots", "sample", "order", "limit", "offset") if one.args.get(clause)]:
            raise not_understood(one, instead("clauses", found[0]))
    columns = {name: table_of(one).schema for name, one in {**tables, rows.table.name: rows}.items()}
    simple = cast("exp.Select", plain(select, columns).transform(_as_case, copy=False))
    flat, joined = rows_of(simple, rows, tables, partial(statement_of, rows=rows, tables=tables))
    for total in [*flat.find_all(exp.Sum), *flat.find_all(exp.Count)]:  # of constants that subqueries named
        total.replace(shortened(total))
    for one in reversed(list(flat.find_all(exp.Anonymous))):  # noisy statistics are divided as real numbers
        if one.name == "QUOTIENT" and one.find(exp.AggFunc):
            one.replace(one.expressions[0] / one.expressions[1])
    return flat, joined


def _named(select: exp.Select) -> dict[str, str]:
    """The names that SELECT gives to expressions, with what they stand for."""
    return {item.alias: _written(item.this) for item in select.expressions if isinstance(item, exp.Alias)}


def _written(node: exp.Expr) -> str:
    if isinstance(node, exp.Column) and not node.table:
        return _quoted(node.name)
    return node.sql(dialect="duckdb", comments=False)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'  # writing a tree out takes longer than reading a short text


def _groups(group: exp.Group, named: Mapping[str, str], schema: Collection[str]) -> dict[str, str]:
    """The group columns by name, with what they stand for. One of another column's name gets an underscore."""
    others = any(value for name, value in group.args.items() if name != "expressions")
    if not group.expressions or others:
        raise QueryError("GROUP BY takes columns and expressions, or one of GROUPING SETS, CUBE and ROLLUP")
    texts, columns = {text: name for name, text in named.items()}, {}
    for item in group.expressions:
        text = _written(item)
        if isinstance(item, exp.Column) and item.name in named and item.name not in schema:
            name, text = item.name, named[item.name]
        else:
            name = texts.get(text, item.name if isinstance(item, exp.Column) else text)
        name += "_" * (name in schema and text != _quoted(name))
        if name in columns:
            raise QueryError(f"GROUP BY names {name!r} twice")
        columns[name] = text
    return columns


def _aggregates(select: exp.Select, groups: Mapping[str, str], table: Table) -> dict[str, Statistic]:
    statistics: dict[str, Statistic] = {}
    for item in select.expressions:
        if not _is_statistic(item, groups):
            continue
        name, aggregate = _aggregate(item.unalias(), table)
        name = item.alias if isinstance(item, exp.Alias) else name
        if not isinstance(item, exp.Alias) and statistics.get(name, aggregate) != aggregate:
            name += "_"  # the name is that of another column
        if name in statistics:
            raise QueryError(f"{name!r} names two statistics; write {item.unalias().sql(dialect='duckdb')} AS {name}_2")
        statistics[name] = aggregate
    return statistics


def _aggregate(node: exp.Expr, table: Table) -> tuple[str, Statistic]:
    # the unit under other names too; its column alone is no unit of a period
    statistic = statistic_of(node, () if table.period else units_of(table))
    if statistic is None:
        text, inner = node.sql(dialect="duckdb"), node.find(exp.AggFunc)
        asked = node.this if isinstance(node, exp.IgnoreNulls) else node
        name = str(asked.this).lower() if isinstance(asked, exp.Anonymous) else asked.key
        shown = inner.sql(dialect="duckdb") if inner else "COUNT(*)"
        known = f"ask {', '.join(SPELLINGS)}".format(unit=table.unit_name)
        if inner is None and node.find(exp.Column) and not isinstance(asked, exp.Anonymous):
            known = f"beside statistics stand what GROUP BY names; write GROUP BY {text}"
        why = instead("statistics", name, *written_parts(asked), unit=table.unit_name, table=table.name, inner=shown)
        raise not_understood(node, why or known)
    return statistic
