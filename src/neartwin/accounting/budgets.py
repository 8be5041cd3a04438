"""Budgets: limits on privacy loss, in the currency of their user.

A budget is a frozen value with exact parameters. An account is opened with one, and a plan spends one. The `delta` of a
currency is the probability that everything may be revealed: the pool of failures.

In options, files and requests a budget is written `epsilon=0.5,delta=1e-6`, or as a table of these parts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction

from neartwin.checks import non_negative, open_probability, positive, probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.interactive import suggested, variable

_MOST = Fraction(10**100)
_LEAST = Fraction(1, 10**300)


class _Budget:
    """Exact amounts of privacy loss, by name."""

    __slots__ = ()

    @property
    def parts(self) -> dict[str, Fraction]:
        """The amounts by the names that a user writes, without a delta of 0."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        named = {"advantage" if name == "value" else name: value for name, value in parts.items()}
        return {name: value for name, value in named.items() if value or name != "delta"}

    def __repr__(self) -> str:
        return variable(self)

    def __str__(self) -> str:
        return ", ".join(f"{name}={float(value):g}" for name, value in self.parts.items())


@dataclass(frozen=True, slots=True, repr=False)
class Pure(_Budget):
    """Pure differential privacy: no event's odds change by more than a factor exp(epsilon)."""

    epsilon: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Approx(_Budget):
    """(epsilon, delta)-differential privacy: as `Pure`, except on events of probability delta."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Zcdp(_Budget):
    """delta-approximate rho-zCDP: Renyi divergences at most rho times their order. Bun, Steinke 2016, definition 8.1."""

    rho: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Rdp(_Budget):
    """Renyi divergence at most epsilon at one order, but for failures of probability delta. Mironov 2017."""

    order: Fraction
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Gdp(_Budget):
    """T >= G_mu (x) f_{0,delta}: no easier to tell apart than N(0, 1) and N(mu, 1), but for failures."""

    mu: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Mixed(_Budget):
    """T >= f_{epsilon,0} (x) G_mu (x) f_{0,delta}: pure and Gaussian privacy side by side."""

    epsilon: Fraction
    mu: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class Advantage(_Budget):
    """A wanted bound on an attacker's true positive rate less false positive rate.

    An account opened with it becomes a Gaussian one, whose curve at this advantage gives the most noisy releases.
    """

    value: Fraction
    delta: Fraction


Budget = Pure | Approx | Zcdp | Rdp | Gdp | Mixed | Advantage


def _amount(**named: Number) -> Fraction:
    """A positive amount that floats can say."""
    ((name, value),) = named.items()
    amount = positive(**{name: rational(**{name: value})})
    if amount > _MOST:
        raise ParameterError(name, "a number", f"must be at most {float(_MOST):g}")
    return amount


def pure(epsilon: Number) -> Pure:
    """Pure differential privacy.

    Args:
        epsilon: The budget, positive.

    Returns:
        The budget.

    >>> pure(0.5)
    nt.pure(epsilon='0.5')
    >>> pure(0)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: epsilon=0 must be positive
    """
    return Pure(_amount(epsilon=epsilon))


def approx(epsilon: Number, delta: Number) -> Approx:
    """(epsilon, delta)-differential privacy.

    Args:
        epsilon: The privacy loss, positive.
        delta: The failure probability, strictly between 0 and 1.

    Returns:
        The budget.

    >>> approx(1, "1e-6")
    nt.approx(epsilon='1', delta='0.000001')
    >>> approx(1, "1e-301")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: delta='a number' must be at least 1e-300
    """
    return Approx(_amount(epsilon=epsilon), open_probability(delta=_pool(delta)))


def zcdp(rho: Number, delta: Number = 0) -> Zcdp:
    """Zero-concentrated differential privacy.

    Args:
        rho: The privacy loss.
        delta: The pool of failure probability, in [0, 1).

    Returns:
        The budget.

    Source:
        Bun, Steinke 2016, definition 8.1.

    >>> str(zcdp("0.5", "1e-6"))
    'rho=0.5, delta=1e-06'
    """
    return Zcdp(_amount(rho=rho), _pool(delta))


def rdp(order: Number, epsilon: Number, delta: Number = 0) -> Rdp:
    """Renyi differential privacy at one order.

    Args:
        order: The order, above 1, fixed in advance.
        epsilon: The largest divergence at that order.
        delta: The pool of failure probability, in [0, 1).

    Returns:
        The budget.

    Raises:
        ParameterError: The order is not above 1.

    Source:
        Mironov 2017.

    >>> rdp(1, "0.5")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: order=1 must be above 1
    """
    if not (fixed := rational(order=order)) > 1:
        raise ParameterError("order", fixed, "must be above 1")
    return Rdp(fixed, _amount(epsilon=epsilon), _pool(delta))


def gdp(mu: Number, delta: Number = 0) -> Gdp:
    """Gaussian differential privacy.

    Args:
        mu: The privacy loss.
        delta: The pool of failure probability, in [0, 1).

    Returns:
        The budget.

    Source:
        Dong, Roth, Su 2022.

    >>> str(gdp(1))
    'mu=1'
    """
    return Gdp(_amount(mu=mu), _pool(delta))


def mixed(epsilon: Number, mu: Number, delta: Number = 0) -> Mixed:
    """Three pools side by side: pure plans pay epsilon, Gaussian ones mu (in squares), failures delta.

    Args:
        epsilon: The pure pool, not negative.
        mu: The Gaussian pool, not negative.
        delta: The pool of failure probability, in [0, 1).

    Returns:
        The budget.

    Raises:
        ParameterError: epsilon and mu are both 0.

    >>> str(mixed(1, "0.5"))
    'epsilon=1, mu=0.5'
    """
    e, m = non_negative(epsilon=rational(epsilon=epsilon)), non_negative(mu=rational(mu=mu))
    if e == 0 and m == 0:
        raise ParameterError("epsilon", e, "must be positive where mu is 0 too")
    return Mixed(e and _amount(epsilon=e), m and _amount(mu=m), _pool(delta))


def advantage(value: Number, delta: Number = 0) -> Advantage:
    """A bound on any attacker's advantage: true positive rate less false positive rate.

    Args:
        value: The bound, in (0, 1). It includes the failures.
        delta: The pool of failure probability, below the bound.

    Returns:
        The budget.

    Raises:
        ParameterError: A number is out of bounds.

    >>> str(advantage("0.3"))
    'advantage=0.3'
    """
    target, pool = open_probability(advantage=rational(advantage=value)), _pool(delta)
    if pool >= target:
        raise ParameterError("delta", pool, f"must be below the advantage {float(target):g}, of which it is a part")
    return Advantage(target, pool)


def _pool(delta: Number) -> Fraction:
    value = probability(delta=rational(delta=delta))
    if value == 1:
        raise ParameterError("delta", value, "must be below 1")
    if 0 < value < _LEAST:  # floats hold it, its shares, and 1 over each
        raise ParameterError("delta", "a number", f"must be at least {float(_LEAST):g}")
    return value


_MAKERS: dict[frozenset[str], Callable[..., Budget]] = {
    frozenset({"epsilon"}): pure,
    frozenset({"epsilon", "delta"}): approx,
    frozenset({"rho"}): zcdp,
    frozenset({"mu"}): gdp,
    frozenset({"order", "epsilon"}): rdp,
    frozenset({"epsilon", "mu"}): mixed,
    frozenset({"advantage"}): advantage,
}


def budget_of(written: Mapping[str, object], name: str, shown: str = "") -> Budget:
    """The budget with these parts.

    Args:
        written: The parts by name, each decimal text, a fraction like "1/3", or a number.
        name: The name of the option or field, for the error.
        shown: The user's spelling, if it was another; for the error.

    Returns:
        The budget.

    Raises:
        ParameterError: The parts make no budget.

    >>> budget_of({"epsilon": "0.5", "delta": "1e-6"}, "spend")
    nt.approx(epsilon='0.5', delta='0.000001')
    >>> budget_of({"delta": "1e-6"}, "spend")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: spend={'delta': '1e-6'} must be epsilon=..., epsilon=...,delta=..., rho=..., ...
    """
    parts = dict(written)
    make = _MAKERS.get(frozenset(parts)) or _MAKERS.get(frozenset(parts) - {"delta"})
    if make is None or (make is pure and "delta" in parts):
        near = {suggested(one, {name for names in _MAKERS for name in names}) or "epsilon": parts[one] for one in parts}
        raise ParameterError(
            name,
            shown or parts,
            "must be epsilon=..., epsilon=...,delta=..., rho=..., mu=..., order=...,epsilon=..., epsilon=...,mu=... or "
            "advantage=...; all but the first may have a delta=...",
            remedy="write " + ",".join(f"{one}={value}" for one, value in near.items()),
        )
    if "advantage" in parts:
        parts["value"] = parts.pop("advantage")
    return make(**parts)


def budget_in(text: str, name: str) -> Budget:
    """The budget in a text.

    Args:
        text: The text, such as `mu=1, delta=1e-9`.
        name: The name of the option or field, for the error.

    Returns:
        The budget.

    Raises:
        ParameterError: The text states no budget.

    >>> str(budget_in("mu=1, delta=1e-9", "budget"))
    'mu=1, delta=1e-09'
    """
    parts: dict[str, object] = {}
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if not sign or not key.strip() or not value.strip() or key.strip() in parts:
            number = re.search(r"[\d./]+", text)
            remedy = f"write epsilon={number[0] if number else 0.5}"
            raise ParameterError(name, text, "must be name=value, with commas between", remedy=remedy)
        parts[key.strip()] = value.strip()
    return budget_of(parts, name, text)


def parts_of(target: Budget) -> dict[str, str]:
    """The exact parts of a budget; `budget_of` reads them.

    >>> parts_of(budget_in("epsilon=1/3", "spend"))
    {'epsilon': '1/3'}
    """
    return {name: str(value) for name, value in target.parts.items()}
