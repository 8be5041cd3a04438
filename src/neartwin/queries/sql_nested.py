"""A joined table on the right of a JOIN, `a JOIN (b JOIN c ON ...) ON ...`: the chain of joins that has the same rows.

Inner joins commute, so each table is joined as soon as an equality ties it to one that is there already. A LEFT JOIN inside
comes after the tables that its ON names, which are not changed by what it adds; where an equality of another, inner join asks
for one of its columns, a row without it is dropped in any case, so it becomes an inner join. `a LEFT JOIN (b JOIN c)` keeps a row
of a with NULL for both where b has a partner and c has none: c is joined beside b, see `neartwin.queries.join`; what is LEFT
within such a group comes after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from neartwin.errors import QueryError

BESIDE = "BESIDE"  # where a side stands: of joins within the LEFT one before
_HINT = "write it as a chain of joins"


@dataclass(slots=True)
class _Part:
    """A table of a group: its join, and the equalities that it takes part in, each with the aliases in it."""

    join: exp.Join
    alias: str
    left: bool
    equal: list[tuple[exp.Expr, frozenset[str]]] = field(default_factory=list)


def chained(joins: list[exp.Join], first: str, columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    """The joins without joined tables on their right. first: the alias in FROM; columns: of each table that may be named.

    Errors: `QueryError` for a group that has no such chain.
    """
    found: list[exp.Join] = []
    known = {first}
    for join in joins:
        group = _group(join)
        chain = [join] if group is None else _chain(join, group, known, columns)
        found += chain
        known |= {str(one.this.alias_or_name) for one in chain}
    return found


def _group(join: exp.Join) -> exp.Table | None:
    """The first table of a group in parentheses, with its joins in it."""
    inner = join.this
    if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Table) and not inner.alias:
        return inner.this
    return None


def _chain(join: exp.Join, group: exp.Table, known: set[str], columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    if join.args.get("using") or join.args.get("on") is None:
        raise QueryError(
            f"a joined table on the right of a JOIN is joined ON equalities of qualified columns, or {_HINT}"
        )
    parts = _parts(group, columns)
    names = {part.alias for part in parts}
    for part in parts:
        for _, asked in part.equal:
            if not asked <= names:
                raise QueryError(f"ON within the parentheses names {min(asked - names)!r}, which is outside: {_HINT}")
    outside = [(one, _aliases(one, known | names)) for one in _conjuncts(join.args["on"])]
    _kept_alone(parts, frozenset().union(*(asked for _, asked in outside)))
    for part in parts:
        part.equal += [(one, asked) for one, asked in outside if part.alias in asked]
    if not _is_left(join):
        return _ordered(parts, set(known))
    both, alone = ([part for part in parts if part.left is left] for left in (False, True))
    made = _ordered(both, set(known))
    for one in made:
        one.set("side", BESIDE if one is not made[0] else "LEFT")
    return made + _ordered(alone, known | {part.alias for part in both})


def _kept_alone(parts: list[_Part], wanted: frozenset[str]) -> None:
    """Only those stay LEFT of which no inner equality asks for a column: one that does drops the rows that have NULL there."""
    before = None
    while before != wanted:
        before = wanted
        for part in parts:
            part.left = part.left and part.alias not in wanted
        inner = [asked for part in parts if not part.left for _, asked in part.equal]
        wanted = wanted.union(*inner)


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
        equal = _conjuncts(one.args["on"]) if one.args.get("on") is not None else _of_using(one, alias, scope)
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
            raise QueryError(
                f"USING ({item.name}) within parentheses must name a column of one table before it: write ON"
            )
        equal.append(exp.EQ(this=exp.column(item.name, table=having[0]), expression=exp.column(item.name, table=alias)))
    return equal


def _ordered(parts: list[_Part], known: set[str]) -> list[exp.Join]:
    """Each table once something ties it to those before it: of LEFT joins, all that their ON names."""
    made: list[exp.Join] = []
    waiting, given = list(parts), {id(one): (one, asked) for part in parts for one, asked in part.equal}
    while waiting:
        part = next((one for one in waiting if _ready(one, known, given)), None)
        if part is None:
            raise QueryError(f"{waiting[0].alias!r} is joined on nothing that ties it to the tables outside: {_HINT}")
        waiting.remove(part)
        known.add(part.alias)
        now = [one for one, asked in given.values() if part.alias in asked and asked <= known]
        given = {key: pair for key, pair in given.items() if not (part.alias in pair[1] and pair[1] <= known)}
        if part.left:
            part.join.set("side", "LEFT")
        part.join.set("on", exp.and_(*(one.copy() for one in now), wrap=False))
        made.append(part.join)
    return made


def _ready(part: _Part, known: set[str], given: Mapping[int, tuple[exp.Expr, frozenset[str]]]) -> bool:
    if part.left:
        return all(asked <= known | {part.alias} for _, asked in part.equal)
    return any(part.alias in asked and asked <= known | {part.alias} for _, asked in given.values())


def _conjuncts(on: exp.Expr) -> list[exp.Expr]:
    return [part.unnest() for part in (on.flatten() if isinstance(on, exp.And) else [on])]


def _aliases(equality: exp.Expr, known: set[str]) -> frozenset[str]:
    found = frozenset(column.table for column in equality.find_all(exp.Column))
    if not found or not found <= known:
        raise QueryError(
            f"ON {equality.sql(dialect='duckdb')!r} beside a joined table must equate qualified columns of known tables"
        )
    return found


def _is_left(join: exp.Join) -> bool:
    kind = " ".join(join.args[part] for part in ("method", "side", "kind") if join.args.get(part))
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER"}:
        raise QueryError(f"{kind} JOIN is not understood in a private question: {_HINT}")
    return kind.startswith("LEFT")
