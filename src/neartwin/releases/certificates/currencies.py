"""One promise in every currency that a theorem turns it into, and its trade-off curve; "none" where there is no theorem.

Every number is an upper bound on what can be told, except the curve, whose points are lower bounds on an attacker's
missed detections. Sources: accounting/prices.py for zCDP, Renyi and Gaussian; the certified engine for the rest.
"""

from fractions import Fraction
from typing import Any

from neartwin.accounting import prices
from neartwin.accounting.guarantee import Guarantee
from neartwin.accounting.targets import Pure, Target
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import float_above
from neartwin.mechanisms.change import root_above
from neartwin.releases.certificates.numbers import NONE, above, below

DELTAS = ("1e-5", "1e-6", "1e-9")
ORDERS = (2, 4, 8, 16, 32, 64)
LEVELS = (
    *("0", "0.0001", "0.001", "0.01", "0.02", "0.05", "0.1", "0.15", "0.2", "0.3"),
    *("0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.95", "0.99", "1"),
)


def currencies(guarantee: Guarantee) -> dict[str, Any]:
    """The promise in all currencies, as text.

    >>> from neartwin.accounting.targets import pure
    >>> told = currencies(Guarantee.of(pure(1), unit="id", neighbours="add_remove"))
    >>> told["pure"], told["zcdp"]["rho"], told["gdp"]["mu"][:7]
    ('1', '0.462117157261', '1.23203')
    """
    promise = guarantee.promise
    return {
        "pure": above(promise.epsilon) if isinstance(promise, Pure) else NONE,
        "approximate": [{"delta": delta, "epsilon": _epsilon(guarantee, delta)} for delta in DELTAS],
        "zcdp": _priced(promise, prices.by_rho, "rho", "rho"),
        "renyi": [
            {"order": str(order)} | _priced(promise, prices.by_order(Fraction(order)), "renyi", "epsilon")
            for order in ORDERS
        ],
        "gdp": _gdp(promise),
        "advantage": above(guarantee.advantage),
        "best_guess_from_one_half": above(guarantee.best_guess),
    }


def curve(guarantee: Guarantee) -> list[dict[str, str]]:
    """Points of the trade-off curve: at false alarm rate alpha, an attacker misses at least beta.

    Empty where the promise bounds no curve. Dong, Roth, Su 2022, definition 2.1.
    """
    import numpy as np

    try:
        whole = guarantee.whole()
    except PrivacyError:
        return []
    # T falls with alpha, so its value at a float not below alpha is a bound at alpha
    places = np.array([float_above(Fraction(level)) for level in LEVELS])
    beta = np.asarray(whole.tradeoff(places).lower)
    return [{"alpha": level, "beta": below(float(value))} for level, value in zip(LEVELS, beta, strict=True)]


def _epsilon(guarantee: Guarantee, delta: str) -> str:
    try:
        return above(guarantee.whole().epsilon(delta).upper)
    except PrivacyError:
        return NONE


def _priced(promise: Target, rule: Any, pool: str, name: str) -> dict[str, str]:
    try:
        owed = rule(promise)
    except (PrivacyError, ParameterError):  # no theorem, or so little privacy that no currency counts it
        return {name: NONE, "delta": NONE}
    return {name: above(Fraction(owed[pool])), "delta": above(Fraction(owed.get("delta", 0)))}


def _gdp(promise: Target) -> dict[str, str]:
    try:
        owed = prices.by_mu(promise)
    except (PrivacyError, ParameterError):
        return {"mu": NONE, "delta": NONE}
    return {"mu": above(root_above(owed["mu_squared"])), "delta": above(Fraction(owed.get("delta", 0)))}
