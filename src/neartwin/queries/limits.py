"""How large an expression may be: far below what any engine's parser can nest, so that none fails after the budget is spent."""

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.terms import Term

_MOST_TERMS, _DEEPEST = 3000, 60


def check_surface(root: exp.Expr) -> None:
    """Refuse text that is nested too deep, long ANDs and ORs apart; without recursion, for no stack is as deep as a text."""
    left = [(root, 1)]
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST:
            raise _too_large()
        same = type(node) if isinstance(node, exp.Connector) else ()
        left += [(child, depth + (not isinstance(child, same))) for child in node.iter_expressions()]


def check_term(term: Term) -> None:
    """Refuse what is too large when it is written out."""
    if _size(term) > _MOST_TERMS or _depth(term) > _DEEPEST:
        raise _too_large()


def check_bins(term: Term, text: str, bins: int) -> None:
    """Refuse a search among so many bins of a value that is too large when written out. term: its first part is of no bin."""
    size, apart = _size(term), _size(term.parts[0])
    if size > _MOST_TERMS:
        raise QueryError(
            f"{bins} bins of {text!r} are too many for one statement, where each names the value; take at most "
            f"{bins * max(_MOST_TERMS - apart, 0) // (size - apart)}, or a shorter expression"
        )


def _too_large() -> QueryError:
    return QueryError(
        f"the expression is too large: at most {_MOST_TERMS} operations, nested at most {_DEEPEST} deep; "
        "write IN (...) for many values"
    )


def _size(term: Term) -> int:
    """Operations as engines write them: a clip names its part four times."""
    return 1 + (4 if term.operation == "clip" else 1) * sum(map(_size, term.parts))


def _depth(term: Term) -> int:
    return 1 + max(map(_depth, term.parts), default=0)
