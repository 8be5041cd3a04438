"""Statistics of order in SQL, read from parsed nodes: MEDIAN, MIN, MAX, QUANTILE_CONT, PERCENTILE_CONT and HISTOGRAM."""

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from neartwin.queries.histograms import Histogram, histogram
from neartwin.queries.quantiles import MinMax, Quantile, quantile


def order_statistic(
    node: exp.Expr, is_value: Callable[[exp.Expr], bool], label: Callable[[exp.Expr], str]
) -> tuple[str, Quantile | MinMax | Histogram] | None:
    """The statistic and its name, None for what is no such function of one value.

    is_value, label: whether a node can be an expression of one row, and how it is written.
    """
    if isinstance(node, exp.Median | exp.Min | exp.Max) and _alone(node):
        if not is_value(node.this):
            return None
        column = label(node.this)
        match node:
            case exp.Median():
                return f"median_{column}", Quantile(column, (Fraction(1, 2),), None)
            case exp.Min():
                return f"min_{column}", MinMax(column, "minimum", None)
            case _:
                return f"max_{column}", MinMax(column, "maximum", None)
    binned = _histogram(node, is_value, label)
    if binned is not None:
        return f"histogram_{binned.column}", binned
    ranked = _quantile(node, is_value, label)
    return None if ranked is None else (f"quantile_{ranked.column}", ranked)


def _quantile(
    node: exp.Expr, is_value: Callable[[exp.Expr], bool], label: Callable[[exp.Expr], str]
) -> Quantile | None:
    """QUANTILE_CONT(column, rank), QUANTILE(...), or PERCENTILE_CONT(rank) WITHIN GROUP (ORDER BY column).

    A rank is a number between 0 and 1, or a list of them.
    """
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
        order = node.expression.expressions if isinstance(node.expression, exp.Order) else []
        if len(order) != 1 or order[0].args.get("desc"):
            return None
        value, rank = order[0].this, node.this.this
    elif isinstance(node, exp.PercentileCont | exp.PercentileDisc | exp.Quantile):
        value, rank = node.this, node.args.get("expression") or node.args.get("quantile")
    else:
        return None
    ranks = rank.expressions if isinstance(rank, exp.Array) else [rank]
    if not is_value(value) or not all(isinstance(one, exp.Literal) and not one.is_string for one in ranks):
        return None
    return quantile(label(value), [one.this for one in ranks])


def _histogram(
    node: exp.Expr, is_value: Callable[[exp.Expr], bool], label: Callable[[exp.Expr], str]
) -> Histogram | None:
    """HISTOGRAM(column, [edge, edge, ...])."""
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() != "histogram" or len(node.expressions) != 2:
        return None
    value, edges = node.expressions
    if not isinstance(edges, exp.Array) or not is_value(value):
        return None
    bare = [edge.this if isinstance(edge, exp.Neg) else edge for edge in edges.expressions]
    if not all(isinstance(edge, exp.Literal) and not edge.is_string for edge in bare):
        return None
    return histogram(label(value), [edge.sql() for edge in edges.expressions])


def _alone(node: exp.Expr) -> bool:
    """Whether a function has one argument and nothing else said about it."""
    return all(name == "this" for name, value in node.args.items() if value)
