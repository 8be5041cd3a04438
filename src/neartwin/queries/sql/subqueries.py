"""WITH and subqueries in FROM and JOIN: names for rows that the statement outside reads.

A subquery that changes single rows is put in place: the statement outside reads its tables, conditions and expressions.
So `SELECT COUNT(*) FROM (SELECT * FROM visits WHERE paid > 1) AS t` is the question `SELECT COUNT(*) FROM visits WHERE
paid > 1`, with one digest.

A subquery of statistics of which the statement outside reads single rows is put in place too: its WHERE is HAVING.

A subquery whose GROUP BY or PARTITION BY holds the unit is `Rows.per_unit`, or a column over a window. EXISTS and IN over
the person's other rows are a LEFT JOIN of such a subquery, tested for NULL. A scalar subquery in WHERE is a question that
is asked first, see `Rows.where`. Any other subquery over rows of several people is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.interactive import instead
from neartwin.queries.query import Rows, table_of
from neartwin.queries.sql.derived import statistics_in
from neartwin.queries.sql.joins import Others, arrange, columns_of, conjuncts, joined_by, of_several
from neartwin.queries.sql.spelling import checked_nodes, fold
from neartwin.tables.expressions import not_understood
from neartwin.tables.joins import OtherTable, claims_of, is_public
from neartwin.tables.per_unit import per_unit, with_windows

_Given = dict[str, Rows | OtherTable]  # the tables that a statement may name; subqueries by unit are put among them
_MOST_FIRST = 8  # each takes a part of the spend
_MOST = 64  # subqueries of a statement once the names of WITH are written out
_PLAIN = {"kind", "expressions", "from_", "joins", "where", "order"}  # an order inside decides nothing
_AFTER = {"kind", "expressions", "from_", "where", "order", "limit", "offset", "qualify"}
_BY_UNIT = _PLAIN | {"group", "having", "distinct", "qualify"}
_INSIDE = (exp.Exists, exp.In, exp.Any, exp.All)
_INNER = {"", "CROSS", "INNER"}


def rows_of(select: exp.Select, rows: Rows, others: Others, read: Callable[[exp.Expr], Any]) -> tuple[exp.Select, Rows]:
    """The statement without subqueries, and the rows of its FROM and JOIN. Names of WITH stand for their subqueries.

    Args:
        select: The statement, which is changed.
        rows: The rows of the table in FROM.
        others: The tables that JOIN may name.
        read: Reads the tree of a statement about the same tables.

    Returns:
        The statement over columns of the rows, and the rows.

    Raises:
        QueryError: A subquery or a join is not understood.
    """
    _write_names_out(select)
    given = {rows.table.name: rows, **others}
    _write_constants_out(select, given)
    _merge(select)
    if (table := select.find(exp.Table)) and _is_of_public(select, given):
        raise QueryError(instead("clauses", "public", table=table.name))
    _write_numbers_out(select)
    first = _asked_first(select, given, read)
    flat = _flat(select, given)
    source = flat.args.get("from_")
    made = None if source is None else given.get(source.name)
    if source is not None and made is not None and is_public(table_of(made)):
        raise not_understood(source, f"rows of people come first; write FROM {rows.table.name} JOIN (SELECT ...)")
    if source is not None and isinstance(made, Rows):
        if made != rows and (source.name in others or made.table.source != rows.table.source):
            unit = exp.column(str(made.table.unit), table=source.alias_or_name, quoted=True)
            made = rows.per_unit()  # each person of the account's table, to whom rows of the other are joined
            people = exp.column(str(made.table.unit), table="(people)", quoted=True)
            same = exp.Join(this=source.this, on=unit.eq(people))
            flat.set("joins", [same, *(flat.args.get("joins") or [])])
            source.set("this", exp.Table(alias=exp.to_identifier("(people)", quoted=True)))
        source.this.set("alias", exp.TableAlias(this=exp.to_identifier(source.this.alias_or_name)))
        source.this.set("this", exp.to_identifier(made.table.name))
        rows = made
    return flat, replace(joined_by(flat, rows, given), first=first)


def _asked_first(select: exp.Select, given: Others, read: Callable[[exp.Expr], Any]) -> tuple[Any, ...]:
    """The questions of scalar subqueries in WHERE, and beside statistics. $1, $2, ... stand for their statistics."""
    found = dict[str, Any]()
    for node in list(select.find_all(exp.Subquery)):
        clause, inner = node.find_ancestor(exp.Where, exp.Select, exp.From, exp.Join, exp.In, exp.Any), node.this
        if isinstance(inner, exp.Select):
            _merge(inner)
        value = inner.expressions[0].unalias() if isinstance(inner, exp.Select) else node
        asked, beside = statistics_in(value), clause is select and _is_of_result(node)
        if not isinstance(clause, exp.Where | exp.Select) or len(asked) != 1 or node.root() is not select:
            continue
        pairs, compared = _correlated(inner.copy(), given)
        if ((pairs or compared) and (not beside or node.find_ancestor(exp.Having))) or _is_of_public(inner, given):
            continue  # of one person, or public, or refused with its statement
        if pairs or compared or not (beside or isinstance(clause, exp.Where)):
            raise not_understood(node, instead("clauses", "correlated" if beside else "within"))
        if len(found) == _MOST_FIRST:
            raise not_understood(
                node, f"at most {_MOST_FIRST} are asked first; ask others alone, and write their answers"
            )
        inner.set("expressions", [asked[0].copy()])
        text = inner.sql(dialect="duckdb", comments=False)
        if text not in found:
            checked_nodes(inner)  # names of WITH are written out
            found[text] = read(inner.pop()).question()
        number = exp.paren(value.copy())
        statistics_in(number)[0].replace(exp.Placeholder(this=str(1 + list(found).index(text))))
        node.replace(number)
    return tuple(found.values())


def _write_constants_out(select: exp.Select, given: Others) -> None:
    """Write the columns of subqueries without FROM, as WITH names constants, in place of their names."""
    if all(one.args.get("from_") for one in select.find_all(exp.Select, exp.Values)):
        return
    for one in reversed(list(select.find_all(exp.Select))):
        source, joins = one.args.get("from_"), one.args.get("joins") or []
        plain = [join for join in joins if _clauses(join) <= {"this", "kind", "on"} and join.kind in _INNER]
        if source and plain and _constants(source.this):  # one row may as well come last
            rows, fixed = plain[0].this, source.this
            source.set("this", rows)
            plain[0].set("this", fixed)
        for place in [*plain, *[source] * (one is not select and not joins)]:
            if place and (columns := _constants(place.this)):
                others = [columns_of(other.this, given) for other in (source, *joins) if other and other is not place]
                names = {name for name in columns.expressions if any(name in of for of in others)}
                for column in _own_columns(one):
                    if not column.table and column.name in names:
                        raise of_several(column)
                _put_in_place(one, str(place.this.alias_or_name or "(constants)"), columns)
                place.pop()
                one.where(place.args.get("on"), copy=False)
    for node in reversed(list(select.find_all(exp.Subquery))):
        columns = None if isinstance(node.parent, exp.From | exp.Join | exp.In) else _constants(node)
        if columns and len(columns.expressions) == 1:
            node.replace(exp.paren(next(iter(columns.expressions.values()))))
    fold(select)
    for same in list(select.find_all(exp.Min, exp.Max, exp.AnyValue)):
        value = same.this.unnest()  # the same in every row
        if isinstance(value, exp.Literal | exp.Cast) and value.find(exp.Column) is None:
            same.replace(value)


def _constants(node: exp.Expr) -> "_Output | None":
    """The columns of a subquery without FROM, or of one row of VALUES; None for any other."""
    inner = node.this if isinstance(node, exp.Subquery) else node
    if isinstance(inner, exp.Values) and len(inner.expressions) == 1:
        inner = exp.select(*inner.expressions[0].expressions)
    if not isinstance(inner, exp.Select) or _clauses(inner) - {"expressions"} or inner.find(exp.AggFunc, exp.Column):
        return None
    return _output(inner, cast("exp.Subquery", node), "")


def _write_numbers_out(select: exp.Select) -> None:
    """Write columns of a joined subquery that has one row, of statistics alone, as subqueries of one number."""
    for join in list(select.args.get("joins") or []):
        inner, group = join.this.this, select.args.get("group")
        if _clauses(join) - {"this", "kind"} or not isinstance(inner, exp.Select) or inner.args.get("group"):
            continue
        if all(map(statistics_in, inner.expressions)):
            columns = _output(inner, join.this, "").expressions
            numbers = {name: exp.Subquery(this=inner.select(one, append=False)) for name, one in columns.items()}
            _put_in_place(select, str(join.this.alias_or_name), _Output("", numbers, star=False))
            join.pop()
            for one in [one for one in group.expressions if isinstance(one, exp.Subquery)] if group else ():
                one.pop()
            for same in select.find_all(exp.Min, exp.Max, exp.AnyValue):  # of one number in every row
                if isinstance(same.this, exp.Subquery):
                    same.replace(same.this)
            select.set("group", group if group and group.expressions else None)


def _clauses(node: exp.Expr) -> set[str]:
    """Its parts that are there."""
    return {clause for clause, value in node.args.items() if value}


def _is_of_result(node: exp.Subquery) -> bool:
    """Whether it stands among statistics of the outermost SELECT, or in HAVING or ORDER BY."""
    top: exp.Expr = node
    while not isinstance(top.parent, exp.Select):
        top = cast("exp.Expr", top.parent)
    if isinstance(top, exp.Group) or node.find_ancestor(exp.AggFunc, exp.Window):
        return False
    return top.arg_key != "expressions" or top.unalias() is node or len(statistics_in(top)) > 1  # its own is one


def _write_names_out(select: exp.Select) -> None:
    """Write names of WITH out, those of subqueries first, which hide names of one outside."""
    for inner in [one.parent for one in reversed(list(select.find_all(exp.With))) if one.parent is not select]:
        if isinstance(inner, exp.Select):
            _write_names_out(inner)
    clause = select.args.pop("with_", None)
    if clause is None:
        return
    if clause.args.get("recursive"):
        raise QueryError("WITH RECURSIVE may never end; write WITH, without RECURSIVE")
    known: dict[str, exp.CTE] = {}
    written = 0
    for part in [*clause.expressions, select]:
        for table in list(part.find_all(exp.Table)):
            if table.name not in known or table.args.get("db"):
                continue
            found = known[table.name]
            written += 1 + sum(1 for _ in found.find_all(exp.Subquery))
            if written > _MOST:
                raise QueryError(f"names of WITH stand for more than {_MOST} subqueries; ask several questions")
            columns = [column.copy() for column in found.args["alias"].columns]
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name), columns=columns)
            table.replace(exp.Subquery(this=found.this.copy(), alias=alias))
        if isinstance(part, exp.CTE):
            known[part.alias] = part


def _merge(select: exp.Select) -> None:
    """Put a subquery of statistics in place where the statement outside has none but sums over its rows; WHERE is HAVING."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Subquery) or not isinstance(source.this.this, exp.Select):
        return
    inner, where = source.this.this, select.args.get("where")
    _merge(inner)
    outer = [one for one in select.find_all(exp.AggFunc) if one.find_ancestor(exp.Window, exp.Select) is select]
    of_groups = any(item.find(exp.AggFunc) and not item.find(exp.Window) for item in inner.expressions)
    after = where is not None and any(item.find(exp.Window) for item in inner.expressions)
    chosen = [one for one in (inner.args.get("qualify"), select.args.get("qualify"), where if after else None) if one]
    if outer or not of_groups or _clauses(select) - _AFTER or _clauses(inner) & {"limit", "offset"} or len(chosen) > 1:
        return
    _put_in_place(select, str(source.this.alias_or_name), _output(inner, source.this, ""))
    for clause in ("from_", "joins", "where", "group", "having"):
        select.set(clause, inner.args.get(clause))
    select.set("qualify", exp.Qualify(this=chosen[0].this) if chosen else None)
    if where is not None and not after:
        select.having(where.this, copy=False)


@dataclass(frozen=True, slots=True)
class _Output:
    """The columns of a subquery under its alias: expressions by name, and with a star all columns of its tables."""

    alias: str
    expressions: Mapping[str, exp.Expr]
    star: bool

    def of(self, name: str) -> exp.Expr:
        if name in self.expressions:
            return self.expressions[name].copy()
        if self.star:
            return exp.column(name, table=self.alias or None, quoted=not name.isidentifier())
        known = ", ".join(self.expressions)
        raise QueryError(f"{name!r} is not a column of the subquery; it has {known}; add {name} to its SELECT")


def _flat(select: exp.Select, given: _Given) -> exp.Select:
    """The statement over tables alone, subqueries within subqueries first. Those by unit become tables that are given."""
    units = {str(one.table.unit) for one in given.values() if isinstance(one, Rows)}
    for part in [one for join in select.args.get("joins") or [] for one in conjuncts(join.args.get("on"))]:
        same = _or_both_null(part)  # a row without a unit is of nobody, and never counts
        if same and {same.this.name, same.expression.name} <= units:
            part.replace(exp.EQ(this=same.this, expression=same.expression))
    arrange(select, given)
    source = select.args.get("from_")
    places = [source, *(select.args.get("joins") or [])]
    for place in places:
        if place is None or not isinstance(place.this, exp.Subquery) or not isinstance(place.this.this, exp.Select):
            continue
        named, first = str(place.this.alias_or_name), place is source
        own = set(map(id, place.this.find_all(*_INSIDE, exp.Subquery)))  # others see its columns by their table
        within = any(_is_inside(node) and id(node) not in own for node in select.find_all(*_INSIDE, exp.Subquery))
        inner = _plain(place.this, given, joined=within or not first, left=place.text("side") != "")
        if inner is None:
            continue
        joins = (inner.args.get("joins") or []) if first else []
        output = _output(inner, place.this, named if (within or places[1:]) and not joins else "")
        place.set("this", inner.args["from_"].this)
        _put_in_place(select, named, output)
        select.set("joins", [*joins, *(select.args.get("joins") or [])])
        if inner.args.get("where") is not None:
            select.where(inner.args["where"].this, copy=False)
    known = list[tuple[tuple[exp.Expr, bool], exp.Expr]]()  # SELECT and GROUP BY may have the same one
    for node in list(select.find_all(*_INSIDE, exp.Subquery)):
        if node.find_ancestor(exp.Select) is select and _is_inside(node):
            if node.find_ancestor(exp.Select, exp.Having) is not select:
                raise not_understood(node, "HAVING compares statistics of groups; ask it first, and write its answer")
            written = node.copy(), _is_asked(node)
            found = next((of for one, of in known if one == written), None)
            if found is None:
                found = (_as_column if isinstance(node, exp.Subquery) else _as_join)(select, node, given)
                known.append((written, found))
            node.replace(found.copy())
    return select


def _or_both_null(part: exp.Expr) -> exp.Expr | None:
    """The equality in a IS NOT DISTINCT FROM b, which may be written a = b OR (a IS NULL AND b IS NULL)."""
    sides = {type(one): one for one in (part.this.unnest(), part.expression.unnest())} if type(part) is exp.Or else {}
    equal, both = (sides.get(of) for of in (exp.EQ, exp.And))
    nulls = {one.is_(exp.null()) for one in equal.iter_expressions()} if equal else None
    if both and nulls == {one.unnest() for one in both.iter_expressions()}:
        return cast("exp.Expr", equal)
    return part if isinstance(part, exp.NullSafeEQ) else None


def _is_inside(node: exp.Expr) -> bool:
    """Whether this is EXISTS, or IN, ANY or ALL with a subquery, or a subquery of one statistic in an expression."""
    inner = node.args.get("query") or node.this
    if isinstance(node, exp.Subquery):
        alone = isinstance(node.parent, exp.Condition) and not isinstance(node.parent, _INSIDE)
        return alone and isinstance(inner, exp.Select) and len(statistics_in(inner.expressions[0].unalias())) == 1
    return isinstance(node, _INSIDE) and isinstance(inner, exp.Select | exp.Subquery)


def _plain(subquery: exp.Subquery, given: _Given, *, joined: bool = False, left: bool = False) -> exp.Select | None:
    """The SELECT of a subquery that changes single rows; None for one by unit, whose rows are now a given table."""
    inner = _flat(subquery.this, given)
    for clause in sorted(_clauses(inner) - _BY_UNIT):
        raise not_understood(subquery, instead("clauses", clause) or f"{clause.upper()} reads many rows")
    if inner.args.get("from_") is None:
        raise not_understood(subquery, "write SELECT columns FROM a table inside")
    by_unit = _clauses(inner) - _PLAIN or any(item.find(exp.AggFunc, exp.Window) for item in inner.expressions)
    if not by_unit and not (joined and (inner.args.get("joins") or (left and inner.args.get("where")))):
        return inner
    rows = _rows(inner, subquery.alias_column_names, given)
    subquery.replace(_given(rows, str(subquery.alias_or_name), given))
    return None


def _given(rows: Rows, alias: str, given: _Given) -> exp.Table:
    """A table that stands for rows."""
    if len(given) > _MOST:
        raise QueryError(f"the statement has more than {_MOST} subqueries; ask several questions")
    name = f"({len(given)})"
    given[name] = rows
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias or name, quoted=True)),
    )


def _rows(select: exp.Select, columns: list[str], given: Mapping[str, Rows | OtherTable]) -> Rows:
    """The rows of a subquery by unit: with GROUP BY a row for each of a unit's groups, else each row with its windows."""
    table = select.args["from_"].this
    known = given.get(table.name)
    start = Rows(known.of_nobody) if isinstance(known, OtherTable) and is_public(known) else known
    if not isinstance(start, Rows):
        raise not_understood(select, f"{table.name!r} has no people of its own; JOIN it to the table of theirs")
    table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name)))
    table.set("this", exp.to_identifier(start.table.name))
    rows = joined_by(select, start, given)
    if select.args.get("where") is not None:
        rows = rows.where(select.args["where"].this.sql(dialect="duckdb"))
    items = [item for item in select.expressions if not item.is_star]
    names = columns or [item.alias_or_name or item.sql(dialect="duckdb") for item in items]
    named = {name: item.unalias() for name, item in zip(names, items, strict=True)}
    group, distinct = select.args.get("group"), select.args.get("distinct")
    many = any(value.find(exp.AggFunc) and not value.find(exp.Window) for value in named.values())
    if distinct and (group or many or distinct.args.get("on") or len(items) < len(select.expressions)):
        raise not_understood(select, "DISTINCT takes columns alone; write GROUP BY them")
    plain = group is None or _clauses(group) == {"expressions"}
    if group and (not plain or group.find(exp.GroupingSets, exp.Cube, exp.Rollup)):
        raise not_understood(group, "a subquery groups by columns and expressions; write them")
    kept = [_over(clause.this, named) for clause in map(select.args.get, ("having", "qualify")) if clause is not None]
    if group is None and not distinct and not many:
        windows = {name: value for name, value in named.items() if value.find(exp.Window)}
        for name, value in named.items():
            if name not in windows and not (isinstance(value, exp.Column) and value.name == name):
                rows = rows.with_column(name, value.sql(dialect="duckdb"))
        rows = Rows(with_windows(rows.table, rows.conditions, windows))
    else:
        members = [] if group is None else group.expressions  # names stand for the expressions of SELECT
        chosen = [named.get(item.name, item) if isinstance(item, exp.Column) else item for item in members]
        chosen = list(named.values()) if distinct else chosen
        by: dict[str, str] = {}
        for value in chosen:
            rows, column = rows.grouped(value.name if isinstance(value, exp.Column) else value.sql(dialect="duckdb"))
            by[next((name for name, one in named.items() if one == value), column)] = column
        rest = {name: value for name, value in named.items() if value not in chosen}
        rows = Rows(per_unit(rows.table, rows.conditions, by, rest))
    for condition in kept:
        rows = rows.where(condition.sql(dialect="duckdb"))
    return rows


def _over(condition: exp.Expr, named: dict[str, exp.Expr]) -> exp.Expr:
    """A condition over the columns of a subquery, to which those that it needs are added."""
    root = exp.paren(condition.copy())
    for node in list(root.find_all(exp.Window, exp.AggFunc)):
        if not node.find_ancestor(exp.Window, exp.AggFunc):
            name = next((name for name, value in named.items() if value == node), f"({len(named)})")
            named[name] = node.copy()
            node.replace(exp.column(name, quoted=True))
    return root.unnest()


def _as_join(select: exp.Select, node: exp.Expr, given: _Given) -> exp.Expr:
    """EXISTS and IN as a condition on a LEFT JOIN of the person's other rows, or of public ones."""
    inner = node.args.get("query") or node.this
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    if isinstance(node, exp.Any | exp.All):
        raise not_understood(node.parent or node, instead("clauses", "any"))
    if isinstance(node, exp.In) and _clauses(inner) - _PLAIN:
        name = exp.to_identifier("(in)", quoted=True)
        whole = exp.Subquery(this=inner, alias=exp.TableAlias(this=name, columns=[name.copy()]))
        inner = exp.select(exp.Column(this=name.copy())).from_(whole)
    pairs, compared = _correlated(inner, given)
    around = list(pairs)
    if isinstance(node, exp.In):
        values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        items = [item.unalias() for item in inner.expressions]
        if len(values) != len(items) or not all(isinstance(one, exp.Column) for one in values):
            raise not_understood(node, f"it compares {len(items)} values; write as many columns of a table before IN")
        pairs = [*zip(values, items, strict=True), *pairs]
    owned = _owned_unit(select, inner, pairs, given)
    pairs += owned
    of_person = _is_unit(node.this, given) and not _is_of_public(inner, given)  # whose NULL is nobody
    either_null = isinstance(node, exp.In) and not (of_person or _is_asked(node))
    if either_null and (compared or isinstance(node.this, exp.Tuple)):
        raise not_understood(
            node, "it is NULL where a value is; write [NOT] EXISTS (SELECT 1 FROM t WHERE t.x = x AND ...)"
        )
    if not (pairs or _is_of_public(inner, given)):
        raise not_understood(node, instead("clauses", "person"))
    every = inner.copy()
    ends = {end: of(this=part.args[side].copy()) for part, side in compared for end, of in _ENDS.items()}
    beside = _beside(select, inner, pairs, {"(rows)": exp.Count(this=exp.Star()), **ends}, given)
    rows = beside["(rows)"]  # of all public rows there is a number, also where it is 0
    there: exp.Expr = exp.paren(rows.is_(exp.null()).not_() if pairs else rows > exp.Literal.number(0))
    for part, side in compared:  # some value is below another if the least one is
        each = {end: part.copy() for end in _ENDS}
        for end, one in each.items():
            one.set(side, beside[end])
        below = isinstance(part, exp.LT | exp.LTE) is (side == "this")
        either = exp.or_(*each.values()) if isinstance(part, exp.NEQ) else each["(least)" if below else "(most)"]
        there = exp.Coalesce(this=either, expressions=[exp.false()])
    if not either_null:
        return there
    mine, its = pairs[0]
    counts = {"(rows)": exp.Count(this=exp.Star()), "(filled)": exp.Count(this=its.copy())}
    among = _beside(select, every, around + owned, counts, given)
    none = exp.Coalesce(this=among["(rows)"].copy(), expressions=[exp.Literal.number(0)]).eq(exp.Literal.number(0))
    no_null = exp.and_(mine.copy().is_(exp.null()).not_(), among["(filled)"].eq(among["(rows)"]))
    return exp.case().when(there, exp.true()).when(none, exp.false()).when(no_null, exp.false())


def _is_asked(node: exp.Expr) -> bool:
    """Whether NULL is as good as false there: at the top of WHERE, or of WHEN."""
    while isinstance(node.parent, exp.And | exp.Or | exp.Paren):
        node = node.parent
    return isinstance(node.parent, exp.Where) or (isinstance(node.parent, exp.If) and node.arg_key == "this")


def _is_of_public(inner: exp.Expr, given: Others) -> bool:
    """Whether a subquery reads public tables alone."""
    return all(one.name in given and is_public(table_of(given[one.name])) for one in inner.find_all(exp.Table))


def _as_column(select: exp.Select, node: exp.Expr, given: _Given) -> exp.Expr:
    """A statistic of the person's other rows, or of public ones, as a column of a LEFT JOIN."""
    inner, value, text = node.this, exp.paren(node.this.expressions[0].unalias().copy()), node.copy()
    pairs, compared = _correlated(inner, given)
    public = _is_of_public(inner, given)
    if not (pairs or compared or public):
        return node  # it is the same for all rows, and only the outermost WHERE asks it first
    pairs += _owned_unit(select, inner, pairs, given)
    if not (public or any(_is_unit(its, given) for _, its in pairs)):
        raise not_understood(text, instead("clauses", "people"))
    if compared:
        raise not_understood(text, instead("clauses", "compared", statistic=value.this.sql(dialect="duckdb")))
    (asked,) = statistics_in(value)
    found = _beside(select, inner, pairs, {"(rows)": asked.copy()}, given)["(rows)"]
    zero = [exp.Literal.number(0)] if isinstance(asked, exp.Count) else []  # of no rows, as SQL counts them
    asked.replace(exp.Coalesce(this=found, expressions=zero) if zero else found)
    return value


def _beside(
    select: exp.Select, inner: exp.Select, pairs: "_Pairs", values: Mapping[str, exp.Expr], given: _Given
) -> dict[str, exp.Column]:
    """The columns of a LEFT JOIN of a subquery's values, grouped by what it equates with the rows outside."""
    if others := _clauses(inner) - _PLAIN:
        raise not_understood(inner, f"{min(others).strip('_').upper()} {instead('clauses', 'beside')}")
    keys = {f"({i})": its.copy() for i, (_, its) in enumerate(pairs)}
    grouped = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in {**keys, **values}.items()))
    for clause in ("from_", "joins", "where"):
        grouped.set(clause, inner.args.get(clause))
    grouped = grouped.group_by(*(its.copy() for _, its in pairs)) if pairs else grouped
    found = _given(_rows(_flat(grouped, given), [], given), "", given)
    column = {name: exp.column(name, table=found.name, quoted=True) for name in (*keys, *values)}
    equal = [mine.copy().eq(column[name]) for name, (mine, _) in zip(keys, pairs, strict=True)]
    select.append("joins", exp.Join(this=found, side="LEFT", on=exp.and_(*equal) if equal else exp.true()))
    return column


_COMPARED = exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE
_ENDS: dict[str, type[exp.AggFunc]] = {"(least)": exp.Min, "(most)": exp.Max}
_Pairs = list[tuple[exp.Expr, exp.Expr]]


def _correlated(inner: exp.Select, given: Mapping[str, Rows | OtherTable]) -> tuple[_Pairs, list[tuple[exp.Expr, str]]]:
    """What a subquery equates, outside and inside, and one comparison with its side that is inside. WHERE keeps the rest."""
    if inner.args.get("from_") is None:
        raise not_understood(inner, "values are compared with public ones; write them")
    pairs, kept, compared = _Pairs(), list[exp.Expr](), list[tuple[exp.Expr, str]]()
    where = inner.args.get("where")
    for part in conjuncts(where and where.this):
        outside = [column for column in part.find_all(exp.Column) if not _is_within(column, inner, given)]
        sides = [part.this, part.expression] if isinstance(part, _COMPARED) and len(outside) == 1 else []
        place = next((i for i, side in enumerate(sides) if side is outside[0]), None)
        if not outside:
            kept.append(part)
        elif place is not None and isinstance(part, exp.EQ):
            pairs.append((outside[0], sides[1 - place]))
        elif place is not None and not compared:
            compared.append((part, "this" if place else "expression"))
        else:
            raise not_understood(part, instead("clauses", "outside"))
    inner.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
    return pairs, compared


def _is_within(column: exp.Column, inner: exp.Select, given: Others) -> bool:
    """Whether a column is of a table of this statement, or of a subquery in it that the column stands in."""
    scope = column.find_ancestor(exp.Select)
    while scope is not None:
        source = scope.args.get("from_")
        for one in [source, *(scope.args.get("joins") or [])] if source else ():
            if column.table == one.this.alias_or_name or (
                not column.table and column.name in columns_of(one.this, given)
            ):
                return True
        scope = None if scope is inner else scope.find_ancestor(exp.Select)
    return False


def _owned_unit(select: exp.Select, inner: exp.Select, pairs: _Pairs, given: _Given) -> _Pairs:
    """The units outside and inside, where a subquery over owned rows equates the key by which they are owned."""
    arrange(inner, given)
    outer, start = select.args["from_"].this, inner.args["from_"].this
    mine, its = given.get(outer.name), given.get(start.name)
    outside = [given.get(one.name) for one in (outer, *(join.this for join in select.args.get("joins") or []))]
    equated = {(key.name, of.name) for key, of in pairs}
    for one in (given.get(join.this.name) for join in inner.args.get("joins") or []):
        if isinstance(one, OtherTable) and one.owner and isinstance(mine, Rows) and isinstance(its, Rows):
            claims = any(isinstance(of, Rows) and claims_of(of.table, one.owner) for of in outside)
            owned = one in outside and all((right, right) in equated for _, right in one.owner.on)
            if owned or (claims and set(one.owner.on) <= equated):
                unit = exp.column(str(its.table.unit), table=start.alias_or_name, quoted=True)
                return [(exp.column(str(mine.table.unit), table=outer.alias_or_name, quoted=True), unit)]
    return []


def _is_unit(node: exp.Expr, given: Mapping[str, Rows | OtherTable]) -> bool:
    return any(isinstance(one, Rows) and node.name == one.table.unit for one in given.values())


def _output(inner: exp.Select, subquery: exp.Subquery, alias: str) -> _Output:
    """The columns of a subquery; with an alias they are qualified by it, and so is its one table."""
    if alias:
        table = inner.args["from_"].this
        for column in _own_columns(inner):
            if not column.table or column.table == table.alias_or_name:
                column.set("table", exp.to_identifier(alias))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    stars = [item for item in inner.expressions if item.is_star]
    if any(value for item in stars for name, value in item.args.items() if name not in {"this", "table"}):
        raise not_understood(subquery, "a star stands alone; write the columns")
    items = [item for item in inner.expressions if not item.is_star]
    names = subquery.alias_column_names
    if names and (stars or len(names) != len(items)):
        raise not_understood(subquery, f"it has {len(items)} columns and {len(names)} names; write AS {subquery.alias}")
    names = names or [item.alias_or_name or item.sql(dialect="duckdb") for item in items]
    return _Output(alias, dict(zip(names, (item.unalias() for item in items), strict=True)), bool(stars))


def _own_columns(select: exp.Select) -> list[exp.Column]:
    """The columns of a statement that do not stand in a subquery, but for those that name one of its tables."""
    found = (column for column in select.find_all(exp.Column) if not isinstance(column.this, exp.Star))
    return [column for column in found if column.table or column.find_ancestor(exp.Select) is select]


def _put_in_place(select: exp.Select, alias: str, output: _Output) -> None:
    """Write a subquery's columns in place of their names outside."""
    alone = not select.args.get("joins")
    added: list[exp.Expr] = []
    for item in [item for item in select.expressions if item.is_star]:
        every = isinstance(item, exp.Star)
        if every or item.args["table"].name == alias:
            added += [exp.alias_(value.copy(), name, quoted=True) for name, value in output.expressions.items()]
            if not output.star and (alone or not every):
                item.pop()
    shown = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for join in select.args.get("joins") or []:
        for item in join.args.get("using") or []:
            of = output.of(item.name) if item.name in output.expressions else exp.column(item.name)
            if not isinstance(of, exp.Column) or of.name != item.name:
                raise QueryError(f"USING ({item.name}) must name a column of a table; write ON")
    for column in _own_columns(select):
        name = column.name
        if column.table != alias and (column.table or not (alone or name in output.expressions)):
            continue
        later = name not in output.expressions or column.find_ancestor(exp.Order, exp.Having)
        if not column.table and name in shown and later:
            continue
        new = output.of(name)
        parent = column.parent
        if isinstance(parent, exp.Select) and not (isinstance(new, exp.Column) and new.name == name):
            new = exp.alias_(new, name, quoted=True)
        elif not isinstance(parent, exp.Select | exp.Group | exp.Alias | exp.Where | exp.Ordered | exp.AggFunc):
            new = new if isinstance(new, exp.Column | exp.Literal | exp.Anonymous | exp.AggFunc) else exp.paren(new)
        column.replace(new)
    select.set("expressions", [*select.expressions, *added])
