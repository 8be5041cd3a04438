"""A composition as a spend: the least target in each currency that certainly covers it, for both orders.

The composition must be fixed before its first answer is seen: a plan, a series announced in advance. Rounded up.
"""

import math
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Gdp, Pure, Rdp, Zcdp, approx, gdp, pure, rdp, zcdp
from neartwin.checks import made_of, non_negative
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, float_below, rational, root_above
from neartwin.losses import Composition, Gaussian
from neartwin.losses.composition import PrivacyLoss


def as_pure(composition: Composition | PrivacyLoss) -> Pure:
    """The largest privacy loss, as a pure spend; `PrivacyError` where it is unbounded.

    Exact where the parameters of all mechanisms state their epsilon.

    >>> from neartwin.losses import Laplace
    >>> as_pure(10 * Laplace(epsilon="0.1"))
    nt.pure(epsilon='1')
    """
    composition = _read(composition)
    stated = [(factor.stated_pure(), count) for factor, count in composition.uses.items()]
    if all(epsilon is not None for epsilon, _ in stated):
        return pure(sum(((epsilon or 0) * count for epsilon, count in stated), Fraction(0)) or _LEAST)
    return pure(_finite(composition.pure().upper, "epsilon alone", "as_approx(composition, delta=...)"))


def as_approx(composition: Composition | PrivacyLoss, *, delta: Number) -> Approx:
    """The (epsilon, delta) spend with the least epsilon at a given delta, rounded up.

    Args:
        composition: The composition, or one privacy loss.
        delta: The delta, in (0, 1).

    Returns:
        The spend.

    >>> from neartwin.losses import Gaussian
    >>> round(float(as_approx(4 * Gaussian(mu="0.5"), delta="1e-6").epsilon), 9)
    4.886554117
    """
    composition = _read(composition)
    return approx(
        max(_finite(composition.epsilon(delta).upper, f"epsilon at delta={delta}", "a larger delta"), _LEAST), delta
    )


def as_zcdp(composition: Composition | PrivacyLoss) -> Zcdp:
    """The least rho over all orders; `PrivacyError` where everything may be revealed.

    >>> from neartwin.losses import Gaussian
    >>> as_zcdp(4 * Gaussian(mu="0.5")).rho
    Fraction(1, 2)
    """
    composition = _read(composition)
    exact = composition.stated_rho()
    if exact is not None:
        return zcdp(exact)
    return zcdp(
        _finite(composition.zcdp().upper, "rho", "as_gdp(composition, delta=...) or as_approx(composition, delta=...)")
    )


def as_rdp(composition: Composition | PrivacyLoss, *, order: Number) -> Rdp:
    """The Renyi divergence at one order, rounded up: the order of an account.

    Args:
        composition: The composition, or one privacy loss.
        order: The order, above 1.

    Returns:
        The spend.

    Raises:
        PrivacyError: The divergence is infinite.
        ParameterError: The order is not above 1.

    >>> from neartwin.losses import Gaussian
    >>> float(as_rdp(4 * Gaussian(mu="0.5"), order=8).epsilon)
    4.0
    """
    composition, fixed = _read(composition), rational(order=order)
    if not fixed > 1:
        raise ParameterError("order", fixed, "must be above 1")
    exact, rho = _gaussian(composition), composition.stated_rho()
    if exact is not None:
        return rdp(fixed, fixed * exact / 2)
    # a divergence grows with its order, and the float above the order bounds it
    divergence = composition.renyi(math.nextafter(-float_below(-fixed), math.inf)).upper
    least = max(_finite(divergence, f"order {float(fixed):g}", "as_approx(composition, delta=...)"), _LEAST)
    return rdp(fixed, least if rho is None else min(least, fixed * rho))


def as_gdp(composition: Composition | PrivacyLoss, *, delta: Number = 0) -> Gdp:
    """The Gaussian spend with the least mu with T >= G_mu (x) f_{0,delta} at every alpha and in both directions.

    Args:
        composition: The composition, or one privacy loss.
        delta: The probability set aside for failures. 0 suits Gaussian mechanisms, whose mu is exact, beside mechanisms
            with a largest loss.

    Returns:
        The spend, mu rounded up.

    Raises:
        PrivacyError: More than delta may be revealed, or a loss has no bound and no Gaussian tail.

    >>> from neartwin.losses import Gaussian, Laplace
    >>> as_gdp(4 * Gaussian(mu="0.5"))
    nt.gdp(mu='1')
    >>> fit = as_gdp(4 * Gaussian(mu="0.5") + Laplace(epsilon="0.1"), delta="1e-9")
    >>> bool(1 < fit.mu < 1.02)
    True
    >>> bool(1 < as_gdp(4 * Gaussian(mu="0.5") + Laplace(epsilon="0.1")).mu < 1.02)
    True
    """
    composition = _read(composition)
    exact, pool = _gaussian(composition), non_negative(delta=rational(delta=delta))
    if exact is not None:
        return gdp(root_above(exact))
    remedy = "a larger delta" if pool else "a small delta set aside, for instance 1e-9"
    return gdp(_finite(composition.gdp(pool).upper, "mu", remedy), pool)


_LEAST = Fraction(1, 10**12)  # one unit of a ledger: a price is never 0


def _read(composition: Composition | PrivacyLoss) -> Composition:
    """A single mechanism is a composition of one use."""
    if isinstance(composition, PrivacyLoss):
        return Composition.of(composition)
    return made_of(Composition, "mechanisms of neartwin.losses", composition=composition)


def _gaussian(composition: Composition) -> Fraction | None:
    """The exact mu squared of a composition that is Gaussian throughout."""
    rho = composition.stated_rho()
    return 2 * rho if rho is not None and all(isinstance(one, Gaussian) for one in composition.uses) else None


def _finite(value: float, currency: str, remedy: str) -> Fraction:
    if not math.isfinite(value):
        raise PrivacyError(f"this composition has no finite price in {currency}; take {remedy}")
    return Fraction(value)
