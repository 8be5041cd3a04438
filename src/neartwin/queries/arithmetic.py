"""Arithmetic on the columns of a release, with error bars: `100 * "total" / NULLIF("n", 0)`, `"n" / SUM("n") OVER ()`.

It is computed of released values, so it costs nothing. Let X be a column whose noise is drawn anew in each group, within h
with the release's confidence. Let T be the sum of X over all groups. A bar of c + w X + v T follows from the variances of
normal noise; sums of Laplace noise have lighter tails. A quotient of two such terms of one column has Fieller's bar (1954).
Every other operation takes the extremes over the box of its operands' bars, which hold together by the union bound.

The bar of a CASE goes over all branches that may hold within the bars of its conditions.

Windows with PARTITION BY go over the groups of each part alone. LAG, LEAD, FIRST_VALUE, LAST_VALUE and AVG over a frame go
along columns of groups. Beyond the first or last group LAG and LEAD are their default, or undefined.

A division by 0 is undefined. COALESCE replaces it. It is shown as 0 with an open bar.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.exact import FloatArray
from neartwin.interactive import instead
from neartwin.tables.expressions import not_understood, parsed, rows_around, rows_away
from neartwin.tables.terms import check_surface

_Operation = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class _Linear:
    """c + w X + v T of one column: its middles, (corners, groups), w and v.

    The corners of (L10) and (L11): limits took nothing, all of it from the group, all from others, or all from both.
    """

    column: str
    middle: FloatArray
    own: float
    whole: float

    def __mul__(self, factor: float) -> "_Linear":
        return _Linear(self.column, self.middle * factor, self.own * factor, self.whole * factor)

    def covariance(self, other: "_Linear") -> float:
        """Of the noises of both, in squares of half-widths of X."""
        own = self.own * other.own + self.own * other.whole + self.whole * other.own
        return own + self.whole * other.whole * int(self.middle.shape[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Values with bars.

    Attributes:
        values: The values, (groups,); NaN where they are undefined.
        low: The lower ends of the bars, (groups,), with infinities where they are open.
        high: The upper ends, (groups,).
        events: Conditions of the bars: a column, and the combination of its noise.
        is_whole: Whether a column's values are whole numbers.
        half: The half-width of a column's noise around its values, where no other group has it.
        lost: The most that limits took from a group of a column beyond what is in the half-width, with its sign.
        together: Whether that is the most of all groups together.
        linear: The form, where it is linear in one column.
        what: The statistic in words.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    events: frozenset[tuple[str, object]] = frozenset()
    is_whole: bool = False
    half: float | None = None
    lost: float = 0.0
    together: bool = True
    linear: _Linear | None = None
    what: str = ""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A checked expression.

    Attributes:
        text: Its text.
        tree: Its parsed form.

    >>> share = Arithmetic.parse('100 * "n" / SUM("n") OVER ()', {"n"})
    >>> counts = np.array([30.0, 10.0])
    >>> found = share.of({"n": Estimate(counts, counts - 1, counts + 1, half=1.0)})
    >>> [round(float(one[0]), 2) for one in (found.values, found.low, found.high)]
    [75.0, 73.05, 77.01]
    """

    text: str
    tree: exp.Expr

    @classmethod
    def parse(cls, text: str, columns: Collection[str], groups: Collection[str] = ()) -> "Arithmetic":
        """Check a text.

        Args:
            text: A SQL expression over released statistics.
            columns: Their names.
            groups: The group columns, which PARTITION BY may name.

        Returns:
            The expression.

        Raises:
            QueryError: A part is not understood.
        """
        tree = parsed(text, "100 * total / n").transform(as_column)
        check_surface(tree)
        checked = cls(text, tree)
        windows = {tuple(window.args.get("partition_by") or ()) for window in tree.find_all(exp.Window)}
        named = {*checked.partition, *(name for name, *_ in checked.order)}
        if max(len(windows), len(set(orders_along(tree)))) > 1 or not named <= set(groups):
            raise not_understood(tree, "windows share one PARTITION BY and one ORDER BY, of group columns")
        frames = (one for one in tree.find_all(exp.Window) if isinstance(one.this, FRAMED) and one.args.get("order"))
        kinds = {(one.args.get("spec") or exp.null()).text("kind") for one in frames}
        if named != set(groups) and kinds - {"ROWS"}:
            raise not_understood(tree, f"groups are equal in it; write ROWS, or all of {', '.join(sorted(groups))}")
        checked.of(dict.fromkeys(columns, Estimate(*(np.ones(1),) * 3)))
        return checked

    @property
    def columns(self) -> frozenset[str]:
        """The statistics that it reads."""
        keys = {*self.partition, *(name for name, *_ in self.order)}
        return frozenset(column.name for column in self.tree.find_all(exp.Column)) - keys

    @property
    def partition(self) -> frozenset[str]:
        """The group columns within whose values its windows go."""
        by = (part for window in self.tree.find_all(exp.Window) for part in window.args.get("partition_by") or [])
        return frozenset(part.name for part in by)

    @property
    def order(self) -> tuple[tuple[str, bool, bool], ...]:
        """The group columns along which windows go, whether each descends, and whether NULL is first."""
        items = [item for order in orders_along(self.tree)[:1] for item in order.expressions]
        return tuple((one.this.name, bool(one.args.get("desc")), bool(one.args.get("nulls_first"))) for one in items)

    def of(self, columns: Mapping[str, Estimate]) -> Estimate:
        """The values and bars of all groups, as if they were one part, in the order that they are given.

        Args:
            columns: The columns by name.

        Returns:
            The estimates.
        """
        with np.errstate(all="ignore"):
            return _Evaluation(columns).of(self.tree)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    columns: Mapping[str, Estimate]

    def of(self, node: exp.Expr) -> Estimate:
        node = node.unnest()
        match node:
            case exp.Literal(is_string=False) | exp.Null() if not np.isinf(value := float(node.this or "nan")):
                return _constant(value)
            case exp.Column():
                return self.column(node)
            case exp.Window(this=exp.Sum() | exp.Avg() as kind) if isinstance(kind.this, exp.Column):
                return self.frame(node, kind)
            case exp.Window(this=kind, args={"order": exp.Order(expressions=[by])}) if isinstance(kind, PLACES):
                return self.place(kind, by)
            case exp.Window(this=kind, args={"order": exp.Order()}) if isinstance(kind, NEAR) and kind.find(exp.Column):
                return self.near(kind, rows_around(node.args.get("spec")))
            case exp.Add() | exp.Sub():
                return self.sum(node)
            case exp.Mul() | exp.Neg():
                return _product(self.of(node.this), _MINUS if isinstance(node, exp.Neg) else self.of(node.expression))
            case exp.Div():
                return self.quotient(node)
            case exp.Round() | exp.Cast() if (digits := _digits(node)) is not None:
                ten = 10.0**digits  # halves away from 0, as SQL rounds
                return _mapped(self.of(node.this), lambda x: np.copysign(np.floor(np.abs(x) * ten + 0.5) / ten, x))
            case exp.Cast() if node.is_type(*exp.DataType.REAL_TYPES):
                return self.of(node.this)
        return self.choice(node)

    def choice(self, node: exp.Expr) -> Estimate:
        """One of several values."""
        match node:
            case exp.Coalesce(expressions=[other]):
                return self.chosen([(node.this.is_(exp.null()).not_(), node.this)], other)
            case exp.Case(this=None):
                return self.chosen([(one.this, one.args["true"]) for one in node.args["ifs"]], node.args.get("default"))
            case exp.Greatest() | exp.Least():
                pick = np.fmax if isinstance(node, exp.Greatest) else np.fmin
                return reduce(lambda a, b: _boxed(a, b, pick), map(self.of, (node.this, *node.expressions)))
            case exp.Nullif(expression=exp.Literal(is_string=False)):
                inside = self.of(node.this)
                gone = inside.values == float(node.expression.this)
                return replace(inside, values=np.where(gone, np.nan, inside.values))
        raise not_understood(node, instead("windows", "other"))

    def chosen(self, branches: list[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None) -> Estimate:
        """The value behind the first condition that holds, with a bar over all values that the operands' bars allow."""
        found = self.of(default or exp.null())
        for condition, value in reversed(branches):
            test, one = self.condition(condition), self.of(value)
            low = np.fmin(np.where(test.high, one.low, np.nan), np.where(test.low, np.nan, found.low))
            high = np.fmax(np.where(test.high, one.high, np.nan), np.where(test.low, np.nan, found.high))
            values = np.where(test.values, one.values, found.values)
            found = Estimate(values, low, high, test.events | one.events | found.events)
        return found

    def condition(self, node: exp.Expr) -> Estimate:
        """A condition as 0 and 1; what is undefined does not hold."""
        match node := node.unnest():
            case exp.Not():
                return _boxed(_ONE, self.condition(node.this), np.subtract)
            case exp.And() | exp.Or():
                both = np.minimum if isinstance(node, exp.And) else np.maximum
                return _boxed(self.condition(node.this), self.condition(node.expression), both)
            case exp.Is(expression=exp.Null()):
                one = self.of(node.this)
                lost = np.isnan(one.values)
                unsure = lost | ~np.isfinite(one.high - one.low)
                return Estimate(lost.astype(float), np.zeros_like(one.values), unsure.astype(float), one.events)
            case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                less, signs = self.sum(node.this - node.expression), _SIGNS[type(node)]
                can = [(one, (np.sign(less.low) <= one) & (one <= np.sign(less.high))) for one in (-1, 0, 1)]
                fails, holds = (np.any([it for one, it in can if (one in signs) is so], axis=0) for so in (False, True))
                values = np.isin(np.sign(less.values), signs).astype(float)
                return Estimate(values, (~fails).astype(float), holds.astype(float), less.events)
        raise QueryError(f"{node.sql(dialect='duckdb')!r} is no condition; write CASE WHEN COUNT(*) > 0 THEN ... END")

    def column(self, node: exp.Expr) -> Estimate:
        if node.name not in self.columns or node.args.get("table"):
            known = ", ".join(self.columns) or "none is a number; of dates and texts write SELECT MIN(day), MAX(day)"
            raise QueryError(f"{node.sql(dialect='duckdb')} is no statistic of the result: {known}")
        one = self.columns[node.name]
        linear = None if one.half is None else _Linear(node.name, one.values + one.lost * _OWN, 1.0, 0.0)
        return replace(one, events=frozenset({(node.name, 0.0)}), linear=linear)

    def frame(self, node: exp.Window, kind: exp.Expr) -> Estimate:
        """The sum of all groups, their mean, or the mean of a frame: the m groups in it have the noise and loss of their sum."""
        one, order, spec = self.column(kind.this), node.args.get("order"), node.args.get("spec")
        groups = len(one.values)
        if not (order or spec):
            return _product(self.total(kind.this), _constant(1 / groups if isinstance(kind, exp.Avg) else 1.0))
        ends = rows_around(spec) if order else None
        if ends is None:
            raise not_understood(node, instead("windows", "framed"))
        first, last = (np.clip(np.arange(groups) + end, 0, groups).astype(int) for end in (ends[0], ends[1] + 1))
        many, sums = last - first, np.append(0.0, np.cumsum(one.values))
        total, lost = sums[last] - sums[first], one.lost * (1 if one.together else many)
        off = np.inf if one.half is None else one.half * many**0.5
        low, high = total + np.minimum(lost, 0) - off, total + np.maximum(lost, 0) + off
        over = many if isinstance(kind, exp.Avg) else np.where(many, 1.0, np.nan)
        return Estimate(total / over, low / over, high / over, frozenset({(kind.this.name, ends)}))

    def total(self, node: exp.Expr) -> Estimate:
        one = self.column(node)
        values, everywhere = np.full_like(one.values, one.values.sum()), np.full_like(one.values, np.inf)
        found = Estimate(values, -everywhere, everywhere, frozenset({(node.name, "total")}))
        if one.linear is None:
            return found
        groups = len(values)
        all_of_them = (0, 1, 1, 1) if one.together else (0, 1, groups - 1, groups)
        return self.linear(found, _Linear(node.name, values + one.lost * np.array(all_of_them)[:, None], 0.0, 1.0))

    def place(self, kind: exp.Expr, by: exp.Expr) -> Estimate:
        """The place of each group by noisy values, undefined ones last. Its bar is sure: the first and the last place."""
        values = self.of(by.this).values * (-1 if by.args.get("desc") else 1)
        groups, places = len(values), np.unique(values, return_inverse=True)[1]
        if isinstance(kind, exp.RowNumber):
            places = np.argsort(np.argsort(places, kind="stable"), kind="stable")
        elif isinstance(kind, exp.Rank):
            places = np.searchsorted(np.sort(places), places)
        return Estimate(np.asarray(places, dtype=float) + 1, np.ones(groups), np.full(groups, float(groups)))

    def near(self, kind: exp.Expr, frame: tuple[float, float] | None) -> Estimate:
        """The value of another group, and the default where there is none."""
        one = self.of(kind.this)
        end = int(isinstance(kind, exp.LastValue)) if isinstance(kind, exp.FirstValue | exp.LastValue) else None
        groups, rows = len(one.values), rows_away(kind) * (1 if isinstance(kind, exp.Lag) else -1)
        places = np.arange(groups) - rows if end is None else np.full(groups, end * (groups - 1))
        if not rows or (end is not None and not (frame and np.isinf(frame[end]))):
            raise not_understood(kind, instead("windows", "framed"))
        at, gone = places % groups, (places < 0) | (places >= groups)
        other = self.of(kind.args.get("default") or exp.null())
        ends = zip((one.values, one.low, one.high), (other.values, other.low, other.high), strict=True)
        moved = frozenset({(name, (kind.key, rows, event)) for name, event in one.events})
        values, low, high = (np.where(gone, alone, end[at]) for end, alone in ends)
        return Estimate(values, low, high, moved | other.events)

    def sum(self, node: exp.Expr) -> Estimate:
        a, b = self.of(node.this), self.of(node.expression)
        b = _product(b, _MINUS) if isinstance(node, exp.Sub) else b
        found, one, other = _boxed(a, b, np.add), _form(a, b), _form(b, a)
        if one is None or other is None or one.column != other.column:
            return found
        form = _Linear(one.column, one.middle + other.middle, one.own + other.own, one.whole + other.whole)
        return self.linear(found, form)

    def linear(self, found: Estimate, form: _Linear) -> Estimate:
        off = max(form.covariance(form), 0.0) ** 0.5 * (self.columns[form.column].half or 0.0)
        event = (form.column, form.own / form.whole if form.own and form.whole else "total" if form.whole else 0.0)
        low, high = form.middle.min(axis=0) - off, form.middle.max(axis=0) + off
        return Estimate(found.values, low, high, frozenset({event}), linear=form)

    def quotient(self, node: exp.Expr) -> Estimate:
        a, b = self.of(node.this), self.of(node.expression)
        found, one, other = _boxed(a, b, np.divide), a.linear, b.linear
        found = replace(found, values=np.where(b.values == 0, np.nan, found.values))
        if not b.events and b.values.all():
            return replace(found, linear=one and one * float(1 / b.values[0]))
        if one is not None and other is not None and one.column == other.column:
            half = self.columns[one.column].half or 0.0
            squares = [x.covariance(y) * half**2 for x, y in ((one, one), (other, other), (one, other))]
            event = (one.column, (one.own, one.whole, other.own, other.whole))
            return Estimate(found.values, *fieller(one.middle, other.middle, *squares), frozenset({event}))
        if not a.what.startswith("count(") or b.what != "count()":
            return found
        return _mapped(found, lambda x: np.clip(np.nan_to_num(x), 0, 1))  # some rows of all rows


_OWN = np.array([[0.0], [1.0], [0.0], [1.0]])  # the group's part of what limits took, in corners
PLACES = (exp.Rank, exp.DenseRank, exp.RowNumber)  # windows over groups
NEAR, FRAMED = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue), (exp.Sum, exp.Avg)
_SIGNS = {exp.EQ: (0,), exp.NEQ: (-1, 1), exp.GT: (1,), exp.GTE: (0, 1), exp.LT: (-1,), exp.LTE: (-1, 0)}


def _constant(value: float) -> Estimate:
    return Estimate(*(np.full(1, value),) * 3)


_MINUS, _ONE = _constant(-1.0), _constant(1.0)


def orders_along(tree: exp.Expr) -> list[exp.Expr]:
    """The orders of windows along group columns."""
    windows = (one for one in tree.find_all(exp.Window) if isinstance(one.this, (*NEAR, *FRAMED)))
    return [window.args["order"] for window in windows if window.args.get("order")]


def adds_groups(text: str) -> bool:
    """Whether an expression adds up groups, other than in a quotient."""
    tree = parsed(text, "100 * total / n")
    return tree.find(exp.Sum, exp.Avg) is not None and tree.find(exp.Div) is None


def label_of(text: str) -> str | None:
    """The text that a constant is; None for an expression."""
    tree = parsed(text, "100 * total / n").unnest()
    return tree.name if tree.is_string else None


def as_column(node: exp.Expr) -> exp.Expr:
    """$1, the number of a question that is asked first, as a column of the release."""
    return exp.column(f"${node.name}", quoted=True) if isinstance(node, exp.Placeholder | exp.Parameter) else node


def _digits(node: exp.Expr) -> int | None:
    """The decimals that a ROUND or CAST leaves; None where it leaves all, or is not understood."""
    decimals = node.args.get("decimals") or exp.Literal.number(0)
    text = (decimals if isinstance(node, exp.Round) else node.args["to"]).sql(dialect="duckdb")
    found = re.search(r"^(1?\d)$|, (1?\d)\)$", text)
    return 0 if node.is_type(*exp.DataType.INTEGER_TYPES) else int(found[1] or found[2]) if found else None


def extremes(a: Estimate, b: Estimate, operation: _Operation) -> tuple[FloatArray, FloatArray]:
    """The extremes of an operation over the box of two bars, which are at its corners; open where it is undefined.

    Args:
        a: The first operand.
        b: The second operand.
        operation: The operation, monotone in each operand.

    Returns:
        The ends of the bars, (groups,).
    """
    with np.errstate(invalid="ignore", divide="ignore"):  # of two open ends, and of what may be 0
        corners = np.array([operation(x, y) for x in (a.low, a.high) for y in (b.low, b.high)])
    undefined = np.isnan(corners).any(axis=0) | ((operation is np.divide) & (b.low <= 0) & (b.high >= 0))
    return np.where(undefined, -np.inf, corners.min(axis=0)), np.where(undefined, np.inf, corners.max(axis=0))


def _mapped(inner: Estimate, function: Callable[[FloatArray], FloatArray]) -> Estimate:
    """A function that only grows."""
    return Estimate(function(inner.values), function(inner.low), function(inner.high), inner.events)


def _boxed(a: Estimate, b: Estimate, operation: _Operation) -> Estimate:
    return Estimate(operation(a.values, b.values), *extremes(a, b, operation), a.events | b.events)


def _product(a: Estimate, b: Estimate) -> Estimate:
    form, factor = (a.linear, b) if a.linear is not None else (b.linear, a)
    linear = None if factor.events or form is None else form * float(factor.values[0])
    return replace(_boxed(a, b, np.multiply), linear=linear)


def _form(one: Estimate, other: Estimate) -> _Linear | None:
    """Its linear form; a constant is one of the other's column."""
    if one.events or other.linear is None:
        return one.linear
    return _Linear(other.linear.column, np.full((1, len(other.values)), one.values[0]), 0.0, 0.0)


def fieller(
    above: FloatArray, below: FloatArray, first: float, second: float, common: float
) -> tuple[FloatArray, FloatArray]:
    """The hull of all m with (a - m b)^2 <= h_a^2 - 2 m c + m^2 h_b^2 over corners a, b: (L10). Open if b may be 0.

    Args:
        above: a, (corners, groups).
        below: b, (corners, groups).
        first: The square of a's half-width.
        second: That of b's.
        common: c, the square of the half-width that both share.

    Returns:
        The extremes of m, (groups,).
    """
    lead, middle = below**2 - second, above * below - common
    root = np.sqrt(np.maximum(middle**2 - lead * (above**2 - first), 0.0))
    is_open = (lead <= 0).any(axis=0) | (below.min(axis=0) * below.max(axis=0) <= 0)
    low, high = ((middle + sign * root) / np.where(lead <= 0, 1.0, lead) for sign in (-1, 1))
    return np.where(is_open, -np.inf, low.min(axis=0)), np.where(is_open, np.inf, high.max(axis=0))


OPERATIONS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Round, exp.Cast, exp.Coalesce, exp.Nullif, exp.Window, exp.Case, exp.If,
    exp.Greatest, exp.Least,
)  # fmt: skip
