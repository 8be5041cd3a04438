"""FILTER (WHERE ...) and COUNT_IF in SQL, written as the CASE that they mean: a statistic passes over NULL."""

from typing import cast

from sqlglot import exp

from neartwin.errors import QueryError

_OF_ONE_VALUE = (
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile,
    exp.VariancePop, exp.StddevPop,
)  # fmt: skip


def without_filters(select: exp.Select) -> exp.Select:
    """The same statement without FILTER and COUNT_IF; `QueryError` for a FILTER of what takes no CASE.

    >>> import sqlglot
    >>> text = "SELECT SUM(paid) FILTER (WHERE age > 17) AS a, COUNT_IF(age > 17) AS n FROM visits"
    >>> without_filters(sqlglot.parse_one(text, read="duckdb")).sql(dialect="duckdb")
    'SELECT SUM(CASE WHEN age > 17 THEN paid END) AS a, COUNT(CASE WHEN age > 17 THEN 1 END) AS n FROM visits'
    """
    return cast("exp.Select", select.transform(_as_case))


def _as_case(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.CountIf(this=condition):
            return exp.Count(this=_case(condition, exp.Literal.number(1)))
        case exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=condition)):
            return exp.Count(this=_case(condition, exp.Literal.number(1)))
        case exp.Filter(this=inner, expression=exp.Where(this=condition)):
            if not isinstance(inner, _OF_ONE_VALUE) or isinstance(inner.this, exp.Distinct):
                raise QueryError(
                    f"{node.sql(dialect='duckdb')!r} is not understood: FILTER goes with COUNT(*), COUNT(x), SUM, AVG, MEDIAN, "
                    "QUANTILE_CONT(x, 0.9), MIN, MAX, VAR_POP and STDDEV_POP; otherwise use WHERE, in a statement of its own "
                    "(several with a semicolon between them share one price)"
                )
            inner.set("this", _case(condition, inner.this))
            return inner
    return node


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition, true=value)])
