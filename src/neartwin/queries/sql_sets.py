"""GROUPING SETS, CUBE and ROLLUP of a SQL text: the margins that they ask for, as lists of expressions."""

from itertools import combinations

from sqlglot import exp

from neartwin.errors import QueryError

_MOST_SETS = 64


def sets_of(group: exp.Group) -> tuple[tuple[exp.Expr, ...], ...] | None:
    """The sets of expressions to group by, None for an ordinary GROUP BY. Expressions beside one of these are in every set."""
    several = [item for item in group.expressions if isinstance(item, exp.GroupingSets | exp.Cube | exp.Rollup)]
    if not several:
        return None
    if len(several) > 1:
        raise QueryError("GROUP BY takes one of GROUPING SETS, CUBE and ROLLUP; write all sets as GROUPING SETS")
    always = [item for item in group.expressions if item is not several[0]]
    parts: list[exp.Expr] = several[0].expressions
    match several[0]:
        case exp.GroupingSets():
            sets = [_members(part) for part in parts]
        case exp.Rollup():
            sets = [parts[:size] for size in range(len(parts), -1, -1)]
        case _:
            if 2 ** len(parts) > _MOST_SETS:
                raise QueryError(f"CUBE of {len(parts)} columns asks for too many sets, at most {_MOST_SETS}")
            sets = [list(chosen) for size in range(len(parts), -1, -1) for chosen in combinations(parts, size)]
    if any(isinstance(member, exp.Tuple | exp.GroupingSets | exp.Cube | exp.Rollup) for one in sets for member in one):
        raise QueryError("GROUPING SETS, CUBE and ROLLUP take columns and expressions, and not one another")
    if len(sets) > _MOST_SETS:
        raise QueryError(f"GROUPING SETS asks for {len(sets)} sets, at most {_MOST_SETS}")
    return tuple((*always, *one) for one in sets)


def _members(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, exp.Tuple):
        return list(part.expressions)
    return [part.this if isinstance(part, exp.Paren) else part]


def flattened(group: exp.Group, sets: tuple[tuple[exp.Expr, ...], ...]) -> exp.Group:
    """A GROUP BY of every expression that is in a set, each once, in the order in which they come."""
    found = {member.sql(dialect="duckdb", comments=False): member for one in sets for member in one}
    others = {name: value for name, value in group.args.items() if name != "expressions"}
    return exp.Group(**others, expressions=list(found.values()))
