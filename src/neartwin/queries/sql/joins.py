"""FROM and JOIN of a SQL text: the joins of `Rows.join`, from named tables, and no others.

Joined rows keep one of two equated columns of one name: the column on the left. After an inner join both are equal.
After `a LEFT JOIN c ON a.z = c.z` they differ, because `c.z` is NULL in unmatched rows. So `c.z` is a column of its own
where the statement names it. `z` after USING and `a.z` are one column in SQL too.

A joined table may stand on the right of a JOIN: `a JOIN (b JOIN c ON ...) ON ...`. It becomes a chain of joins with
equal rows. Inner joins commute, so each table is joined as soon as an equality ties it to an earlier one. A LEFT JOIN
inside comes after the tables that its ON names, because it does not change them. If an inner equality names one of its
columns, a row without that column is dropped in any case. It then becomes an inner join.

Commas join by equalities of WHERE, and by those that every operand of an OR there has. Further conditions in ON are
conditions of WHERE, or of the table after LEFT JOIN. Owned rows follow the table of their owner, which is joined unsaid.

`a LEFT JOIN (b JOIN c)` keeps a row of a with NULL for both if b has a partner and c has none. So c is joined beside b,
see `neartwin.tables.table`. LEFT joins within such a group come after it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.interactive import instead
from neartwin.queries.query import Rows, table_of
from neartwin.queries.sql.spelling import is_true
from neartwin.tables.expressions import not_understood
from neartwin.tables.joins import OtherTable, claims_of, is_public, new_names, own_columns
from neartwin.tables.per_unit import units_of
from neartwin.tables.table import Table

BESIDE = "BESIDE"  # where a side stands: of joins within the LEFT one before


@dataclass(slots=True)
class _Part:
    """A table of a group: its join, and the equalities that it takes part in, each with the aliases in it."""

    join: exp.Join
    alias: str
    left: bool
    equal: list[tuple[exp.Expr, frozenset[str]]] = field(default_factory=list)


def chained(joins: list[exp.Join], first: str, columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    """The joins as a chain, without joined tables on the right of a JOIN.

    Args:
        joins: The joins of a statement.
        first: The alias in FROM.
        columns: The columns of each table that may be named.

    Returns:
        The chain.

    Raises:
        QueryError: A group has no such chain.
    """
    parts: list[exp.Join] = []
    known = {first}
    for join in joins:
        inner = join.this  # the first table of a group in parentheses has the others as its joins
        grouped = isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Table) and not inner.alias
        chain = _chain(join, inner.this, known, columns) if grouped else [join]
        parts += chain
        known |= {str(one.this.alias_or_name) for one in chain}
    return parts


def _chain(join: exp.Join, group: exp.Table, known: set[str], columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    if join.args.get("using") or join.args.get("on") is None:
        raise QueryError(f"a joined table right of a JOIN is joined ON equalities of qualified columns, or {_HINT}")
    parts = _parts(group, columns)
    names = {part.alias for part in parts}
    for part in parts:
        for _, tables in part.equal:
            if not tables <= names:
                raise QueryError(f"ON within the parentheses names {min(tables - names)!r} outside them: {_HINT}")
    outside = [(one, _aliases(one, known | names)) for one in conjuncts(join.args["on"])]
    _kept_alone(parts, frozenset().union(*(tables for _, tables in outside)))
    for part in parts:
        part.equal += [(one, tables) for one, tables in outside if part.alias in tables]
    if not _is_left(join):
        return _ordered(parts, set(known))
    both, alone = ([part for part in parts if part.left is left] for left in (False, True))
    ordered = _ordered(both, set(known))
    for one in ordered:
        one.set("side", BESIDE if one is not ordered[0] else "LEFT")
    return ordered + _ordered(alone, known | {part.alias for part in both})


def _kept_alone(parts: list[_Part], sides: frozenset[str]) -> None:
    """Only those stay LEFT of which no inner equality asks for a column: one that does drops the rows that have NULL there."""
    before = None
    while before != sides:
        before = sides
        for part in parts:
            part.left = part.left and part.alias not in sides
        inner = [tables for part in parts if not part.left for _, tables in part.equal]
        sides = sides.union(*inner)


def _parts(group: exp.Table, columns: Mapping[str, frozenset[str]]) -> list[_Part]:
    """The tables of a group in their order, groups within it made chains first."""
    bare = group.copy()
    inner = bare.args.pop("joins", None) or []
    parts = [_Part(exp.Join(this=bare), str(bare.alias_or_name), left=False)]
    scope = {parts[0].alias: columns.get(bare.name, frozenset())}
    for one in chained(inner, parts[0].alias, columns):
        alias = str(one.this.alias_or_name)
        if one.side == BESIDE:
            raise QueryError(f"a LEFT JOIN of joined tables within parentheses is not understood: {_HINT}")
        if alias in scope:
            raise QueryError(f"{alias!r} names two tables; give one of them another name with AS")
        equal = conjuncts(one.args["on"]) if one.args.get("on") is not None else _of_using(one, alias, scope)
        scope[alias] = columns.get(one.this.name, frozenset())
        part = _Part(exp.Join(this=one.this), alias, left=_is_left(one))
        part.equal = [(each, _aliases(each, set(scope))) for each in equal]
        parts.append(part)
    return parts


def _of_using(join: exp.Join, alias: str, scope: Mapping[str, frozenset[str]]) -> list[exp.Expr]:
    equal: list[exp.Expr] = []
    for item in join.args.get("using") or []:
        having = [name for name, known in scope.items() if item.name in known]
        if len(having) != 1:
            raise QueryError(f"USING ({item.name}) in parentheses must name a column of one table before it: write ON")
        equal.append(exp.EQ(this=exp.column(item.name, table=having[0]), expression=exp.column(item.name, table=alias)))
    return equal


def _ordered(parts: list[_Part], known: set[str]) -> list[exp.Join]:
    """Each table once something ties it to those before it: of LEFT joins, all that their ON names."""
    ordered: list[exp.Join] = []
    waiting, equalities = list(parts), {id(one): (one, tables) for part in parts for one, tables in part.equal}
    while waiting:
        part = next((one for one in waiting if _ready(one, known, equalities)), None)
        if part is None:
            alias, text = waiting[0].alias, waiting[0].join.this.sql(dialect="duckdb")
            line = _HINT if alias else instead("clauses", "lists", table=min(known))
            raise QueryError(f"{alias or text!r} has no join condition with the tables around it: {line}")
        waiting.remove(part)
        known.add(part.alias)
        now = [one for one, tables in equalities.values() if part.alias in tables and tables <= known]
        equalities = {key: pair for key, pair in equalities.items() if not (part.alias in pair[1] and pair[1] <= known)}
        if part.left:
            part.join.set("side", "LEFT")
        part.join.set("on", exp.and_(*(one.copy() for one in now), wrap=False))
        ordered.append(part.join)
    return ordered


def _ready(part: _Part, known: set[str], equalities: Mapping[int, tuple[exp.Expr, frozenset[str]]]) -> bool:
    if part.left:
        return all(tables <= known | {part.alias} for _, tables in part.equal)
    return any(part.alias in tables and tables <= known | {part.alias} for _, tables in equalities.values())


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The operands of a condition's ANDs; none for None."""
    bare = exp.true() if condition is None else condition.unnest()
    parts = bare.flatten() if isinstance(bare, exp.And) else [bare]
    return [] if condition is None else [part.unnest() for part in parts]


def _aliases(equality: exp.Expr, known: set[str]) -> frozenset[str]:
    names = frozenset(column.table for column in equality.find_all(exp.Column))
    if not names or not names <= known:
        raise QueryError(f"ON {equality.sql(dialect='duckdb')!r} beside a joined table must equate qualified columns")
    return names


def _is_left(join: exp.Join) -> bool:
    kind = " ".join(join.args[part] for part in ("method", "side", "kind") if join.args.get(part))
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER"}:
        line = instead("clauses", kind.lower()) or _HINT
        raise QueryError(f"{kind} JOIN is not understood in a private question: {line}")
    return kind.startswith("LEFT")


Others = Mapping[str, Rows | OtherTable]
_HINT = "write JOIN other USING (column), or ON this.column = other.column AND ..."


_Scope = dict[str, dict[str, str]]  # by alias, the names of a table's columns in the joined rows


def _is_equality(node: exp.Expr) -> TypeGuard[exp.EQ]:
    return isinstance(node, exp.EQ) and isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Column)


def _key(node: exp.Expr, alias: str, columns: Collection[str]) -> tuple[exp.Expr, exp.Column] | None:
    """What of other tables a column of a table is equal to, and the column. columns: names that are its without its alias."""

    def are_its(side: exp.Expr) -> list[bool]:
        found = side.find_all(exp.Column)
        return [one.table == alias or (not one.table and one.name in columns) for one in found]

    sides = (node.this, node.expression) if isinstance(node, exp.EQ) else ()
    for its, other in zip(sides, sides[::-1], strict=True):
        if isinstance(its, exp.Column) and are_its(its) == [True] and set(are_its(other)) == {False}:
            return other, its
    return None


def arrange(select: exp.Select, given: Others) -> None:
    """Write commas and further conditions of ON as joins on equalities, in place, from a table of people on.

    Args:
        select: The statement.
        given: The tables that it may name, the account's first.
    """
    source, joins = select.args.get("from_"), select.args.get("joins") or []
    for join in joins:
        _without_further(select, join)
    tables = [] if source is None else [source.this, *(join.this for join in joins)]
    columns = {str(one.alias_or_name): columns_of(one, given) for one in tables}
    owners, keys = _owners(tables, given)
    commas = any(not (join.args.get("on") or join.args.get("using")) for join in joins)
    ranks = [_rank(one, given) for one in [*tables, *owners]]
    if source is None or not (commas or owners or ranks[0] > 1) or min(ranks) > 1:
        return
    _qualify(select, columns)
    group = source.this.copy()
    group.set("joins", joins)
    parts = _parts(group, {one.name: columns[str(one.alias_or_name)] for one in tables})
    parts += [_Part(exp.Join(this=one), str(one.alias), left=False) for one in owners]
    inner = {part.alias: part for part in parts if not part.left}
    where = select.args.get("where")
    asked = conjuncts(where and where.this) + [one for part in inner.values() for one, _ in part.equal]
    either = [[conjuncts(one) for one in each.flatten()] for each in asked if isinstance(each, exp.Or)]
    common = (one for first, *rest in either for one in first if all(one in other for other in rest))
    for one in filter(_is_equality, [*asked, *common, *keys]):  # an OR is true only where what all operands ask is
        sides = frozenset({one.this.table, one.expression.table})
        for alias in sides if len(sides) > 1 and sides <= set(inner) else ():
            inner[alias].equal.append((one, sides))
    first, *others = sorted(parts, key=lambda part: (part.left, _rank(part.join.this, given)))
    ordered = _ordered(others, {first.alias})
    used = {one for join in ordered for one in conjuncts(join.args["on"])}
    rest = [one for one in asked if one not in used]
    source.set("this", first.join.this)
    select.set("joins", ordered)
    select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)


def _without_further(select: exp.Select, join: exp.Join) -> None:
    """Conditions in ON beside equalities: of WHERE, or after LEFT JOIN of the table alone."""
    parts, table = conjuncts(join.args.get("on")), join.this
    kinds = exp.Table if join.side else exp.Table | exp.Subquery
    further = [one for one in parts if not (_is_equality(one) or _key(one, table.alias_or_name, ()))]
    others = {one.table for part in further for one in part.find_all(exp.Column)} - {"", table.alias_or_name}
    if join.side and others:
        raise not_understood(
            join, f"after LEFT, further conditions are on {table.alias_or_name} alone; write others in CASE WHEN"
        )
    if not further or len(further) == len(parts) or join.side not in {"", "LEFT"} or not isinstance(table, kinds):
        return
    if join.side:
        alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
        join.set("this", exp.Subquery(this=exp.select("*").from_(table.copy()).where(*further), alias=alias))
    else:
        select.where(*further, copy=False)
    join.set("on", exp.and_(*(one for one in parts if one not in further)))


def _rank(table: exp.Expr, given: Others) -> int:
    """0 for the account's table, 1 for other rows of people, 2 for owned ones, 3 for public ones."""
    one = given.get(table.name)
    if one is not None and is_public(table_of(one)):
        return 3
    return 2 if isinstance(one, OtherTable) else int(one is not next(iter(given.values())))


def columns_of(table: exp.Expr, given: Others) -> frozenset[str]:
    """The columns of a table or subquery.

    Args:
        table: The table in FROM or JOIN.
        given: The tables by name.
    """
    if isinstance(table, exp.Subquery):
        return frozenset(table.alias_column_names or table.named_selects)
    one = given.get(table.name)
    return frozenset(() if one is None else table_of(one).schema)


def _owners(tables: list[exp.Expr], given: Others) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The tables of owners that the statement does not name, and their equalities with owned rows; that of t is (t)."""
    found, keys = list[exp.Expr](), list[exp.Expr]()
    for table in tables:
        owner = one.owner if isinstance(one := given.get(table.name), OtherTable) else None
        names = [
            name for name, rows in given.items() if owner and isinstance(rows, Rows) and claims_of(rows.table, owner)
        ]
        if owner and names and not any(other.name in names for other in tables):
            alias, of = exp.to_identifier(f"({table.alias_or_name})", quoted=True), table.alias_or_name
            found.append(exp.Table(this=exp.to_identifier(names[0], quoted=True), alias=exp.TableAlias(this=alias)))
            keys += [exp.column(mine, alias.name).eq(exp.column(its, of)) for mine, its in owner.on]
    return found, keys


def _qualify(select: exp.Select, columns: Mapping[str, frozenset[str]]) -> None:
    """Write each column with its table, but for those of SELECT in ORDER BY and HAVING."""
    shown = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for column in select.find_all(exp.Column):
        having = [alias for alias, names in columns.items() if column.name in names]
        after = column.name in shown and column.find_ancestor(exp.Order, exp.Having)
        if column.find_ancestor(exp.Select) is select and not column.table and len(having) == 1 and not after:
            column.set("table", exp.to_identifier(having[0], quoted=True))


def joined_by(select: exp.Select, rows: Rows, others: Others) -> Rows:
    """The rows of FROM and JOIN. Qualified columns of the SELECT get their names in these rows, in place.

    Args:
        select: The statement.
        rows: The rows of the table in FROM.
        others: The tables that JOIN may name.

    Returns:
        The joined rows.

    Raises:
        QueryError: A table was not given, or a join is no equality.
    """
    first, own = _base(select, rows.table), own_columns(rows.table) | set(rows.table.computed)
    scope: _Scope = {first: {name: name for name in own}}
    columns = {name: frozenset(table_of(one).schema) for name, one in others.items()}
    joins = chained(select.args.pop("joins", None) or [], first, columns)
    for number, join in enumerate(joins, start=1):
        later = (column for one in (select, *joins[number:]) for column in one.find_all(exp.Column))
        rows = _join(join, rows, others, scope, {one.name for one in later if one.table == join.this.alias_or_name})
    shown = {item.alias for item in select.expressions}
    for column in list(select.find_all(exp.Column)):
        if column.table:
            column.replace(exp.column(_named(column, scope), quoted=True))
        elif len(scope) > 1 and column.name not in shown:
            _named(column, scope)  # which refuses one of several tables
    return rows


def _base(select: exp.Select, table: Table) -> str:
    source = select.args.get("from_") or select.args.get("from")
    source_node = source.this if source is not None else None
    if not _is_plain(source_node) or source_node.name != table.name:
        text = "" if source_node is None else source_node.sql(dialect="duckdb", comments=False)
        line = f"write FROM {table.name}, or give it this name in tables= as well"
        raise QueryError(f"FROM must name the table {table.name!r}, and not {text!r}; {line}")
    return str(source_node.alias_or_name)


def _is_plain(found: exp.Expr | None) -> TypeGuard[exp.Table]:
    return (
        isinstance(found, exp.Table)
        and isinstance(found.this, exp.Identifier)
        and all(name in {"this", "alias"} for name, value in found.args.items() if value)
    )


def _join(join: exp.Join, rows: Rows, others: Others, scope: _Scope, asked: set[str]) -> Rows:
    """The rows with one join. asked: what the statement names of the table, of which a LEFT JOIN makes keys NULL."""
    how = "beside" if join.side == BESIDE else "left" if _is_left(join) else "inner"
    table = join.this
    if not _is_plain(table) or table.name not in others:
        known = ", ".join(map(repr, others)) or "none"
        line = instead("clauses", "other" if table.name else "lists", table=table.name or rows.table.name)
        raise QueryError(f"JOIN must name one of the tables given beside it, which are: {known}; {line}")
    alias = table.alias_or_name
    if alias in scope:
        raise QueryError(f"{alias!r} names two tables; give one of them another name with AS")
    other = others[table.name]
    other_table = table_of(other)
    rows, on = _on(join, alias, rows, frozenset(other_table.schema), scope)
    if isinstance(other, Rows):  # the unit under another name is the unit
        names, mine, its = units_of(rows.table), str(rows.table.unit), str(other.table.unit)
        on = [(mine if left in names and right == its else left, right) for left, right in on]
        if not is_public(other_table) and (mine, its) not in on:
            raise not_understood(join, instead("clauses", "two", mine=mine, its=its))
    pairs = dict(on)
    if len(pairs) != len(set(on)):
        raise QueryError("ON equates one column with two others; move one of the conditions to WHERE")
    lost = [right for left, right in pairs.items() if left == right and right in asked and how != "inner"]
    keys, own = {f"{alias}_{name}": name for name in lost}, rows.table.schema
    prefix = f"{alias}_" * any(name in own and (name, name) not in on for name in (*other_table.schema, *keys))
    while prefix and any(prefix + name in {*own, *other_table.schema} for name in other_table.schema if name in own):
        prefix += "_"
    new = rows.join(other, on=pairs, how=how, prefix=prefix, keys=keys)
    scope[alias] = new_names(new.table.joins[-1])
    return new


def _on(
    join: exp.Join, alias: str, rows: Rows, columns: frozenset[str], scope: _Scope
) -> tuple[Rows, list[tuple[str, str]]]:
    """The equalities, and the rows with a column for each expression that is equated with a column of the other table."""
    using, on = join.args.get("using"), join.args.get("on")
    if is_true(on):
        return rows, []
    if using:
        return rows, [(_named(exp.column(item.name), scope), item.name) for item in using]
    if on is None:
        raise QueryError(f"{join.this.sql(dialect='duckdb')!r} has no join condition: {_HINT}")
    pairs = []
    for part in conjuncts(on):
        if (key := _key(part, alias, columns)) is None:
            text = part.sql(dialect="duckdb")
            raise QueryError(f"ON {text!r} is not an equality of a column of {alias!r} with a table before it: {_HINT}")
        mine, its = key
        written = mine.transform(lambda of: exp.column(_named(of, scope)) if isinstance(of, exp.Column) else of)
        name = written.name if isinstance(mine, exp.Column) else written.sql(dialect="duckdb", identify=True)
        rows = rows if isinstance(mine, exp.Column) or name in rows.table.schema else rows.with_column(name, name)
        pairs.append((name, its.name))
    return rows, pairs


def _named(column: exp.Column, scope: _Scope) -> str:
    """A column's name in the joined rows."""
    if column.table:
        known = scope.get(column.table)
        if known is None or column.args.get("db") or column.name not in known:
            text = column.sql(dialect="duckdb")
            raise QueryError(f"{text!r} is not a column of the tables of this question: {', '.join(scope)}")
        return known[column.name]
    matches = {one[column.name] for one in scope.values() if column.name in one}
    if len(matches) > 1:
        raise of_several(column)
    return matches.pop() if matches else column.name


def of_several(column: exp.Column) -> QueryError:
    """The refusal of a name that does not say which table it is of."""
    return QueryError(f"{column.name!r} is a column of several tables; write table.{column.name}")
