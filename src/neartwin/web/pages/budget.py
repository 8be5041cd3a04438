"""The meaning of an account's amounts: epsilon at a stated delta, mu, the best guess, the trade-off curve.

An account's amounts have one promise (`Filter.promise`). Every number here is a certified view of it. No row is read.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from neartwin.accounting import prices
from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.accounting.filters import Filter
from neartwin.accounting.guarantee import Guarantee
from neartwin.exact import FloatArray
from neartwin.releases.certificates.document import NONE, above, curve, priced
from neartwin.report.figures import tradeoff_chart
from neartwin.report.svg import BLIND, Drawing, Line, dial
from neartwin.web.pages.layout import digits_up, percent_up

STATED = Fraction(1, 10**6)  # the delta of the shown epsilon, for an account without a delta of its own
Amounts = Mapping[str, Fraction]


def budget(account: Filter, caps: Amounts, spent: Amounts, plan: Amounts | None = None) -> dict[str, Any]:
    """The budget of an account, with or without a plan, ready to be shown: a table's lines, the dial of shares, the curves.

    Args:
        account: The account's filter.
        caps: The caps, by pool.
        spent: The spent amounts, by pool.
        plan: The price of one more release, by pool, or None.

    Returns:
        The parts, by name. A line has a name, and as views its epsilon at the stated delta, its mu and the best guess.
        They are rounded up.
    """
    more = plan or dict.fromkeys(caps, Fraction(0))
    left = {pool: max(Fraction(0), cap - spent[pool] - more[pool]) for pool, cap in caps.items()}
    delta = caps.get("delta") or STATED
    rows = [("spent", spent), *([("this plan", more)] if plan else []), ("left" + (" after" if plan else ""), left)]
    after = {pool: spent[pool] + more[pool] for pool in caps}
    curves = [Line("spent so far", *_curve(promise(account, spent)), "faint")]
    if plan:
        curves.append(Line("with this plan", *_curve(promise(account, after))))
    return {
        "meanings": [
            {"name": name, "views": _views(promise(account, amounts), delta)}
            for name, amounts in (*rows, ("whole budget", caps))
        ],
        "dial": _dial(caps, spent, more, planned=plan is not None),
        "curves": tradeoff_chart([one for one in curves if one.x.size], name="curves"),
        "delta": "0" if account.kind == "pure" else f"{float(delta):g}".replace("e-0", "e-"),
    }


def shares(caps: Mapping[str, str | Fraction], amounts: Mapping[str, str | Fraction]) -> dict[str, float]:
    """Each pool's share of its cap, as exact numbers or their text. Pools without a cap are left out."""
    return {pool: float(Fraction(amounts[pool]) / Fraction(cap)) for pool, cap in caps.items() if Fraction(cap)}


def _dial(caps: Amounts, spent: Amounts, more: Amounts, *, planned: bool) -> Drawing:
    used, planned_shares = shares(caps, spent), shares(caps, more)
    tightest = max(used, key=lambda pool: used[pool] + planned_shares[pool])
    title = f"Budget: {used[tightest]:.1%} spent" + (
        f", {planned_shares[tightest]:.1%} for this plan" if planned else ""
    )
    return dial(spent=used[tightest], plan=planned_shares[tightest], name="dial", title=title)


def promise(account: Filter, amounts: Amounts) -> Budget:
    """The promise of amounts together, by the account's composition rule."""
    return account.promise(tuple(int(amounts[pool.name] / pool.unit) for pool in account.pools))


def best_guess(account: Filter, amounts: Amounts) -> str:
    """The chance of an attacker's best guess about one unit, who sees what these amounts paid, rounded up."""
    return _views(promise(account, amounts), STATED)[2]


@lru_cache(maxsize=1024)
def _views(promised: Budget, delta: Fraction) -> tuple[str, str, str]:
    guarantee = Guarantee.of(promised, unit="unit", neighbours="add_remove")
    if isinstance(promised, Pure):
        epsilon = above(promised.epsilon)
    else:
        known = [Fraction(guarantee.whole().epsilon(delta).upper)] if guarantee.delta < delta else []
        known += [promised.epsilon] if isinstance(promised, Approx) and promised.delta <= delta else []
        epsilon = above(min(known)) if known else NONE
    some = any(promised.parts.values())
    mu = priced(promised, prices.by_mu, "mu_squared", "mu")["mu"] if some else "0"
    return digits_up(epsilon), digits_up(mu), percent_up(guarantee.best_guess) if some else "50 %"


@lru_cache(maxsize=128)
def _curve(promised: Budget) -> tuple[FloatArray, FloatArray]:
    """The curve's false positive rates and least false negative rates."""
    if not any(promised.parts.values()):
        return BLIND.x, BLIND.y
    points = curve(Guarantee.of(promised, unit="unit", neighbours="add_remove"))
    return np.array([float(point["alpha"]) for point in points]), np.array([float(point["beta"]) for point in points])
