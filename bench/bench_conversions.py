"""Every conversion at ten thousand points, at most a second each, and beside it the nearest function of another library.

Times are processor time, the best of three after a first. Peers that answer one point a call (dp_accounting, or Brent's
method of SciPy on the textbook formula where no library has the conversion) are timed on a few points and counted for
ten thousand; theirs are floats without error bounds, ours are certified intervals. A peer that is not installed is left out.
"""

import math
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from neartwin import accounting as a
from neartwin import tradeoff as c
from neartwin.accounting.usage import rdp_accountant, repeated
from neartwin.divergences import gaussian_pair, laplace_pair, randomized_response_pair
from neartwin.losses import Pure, SubsampledGaussian

POINTS = 10_000
FEW, SOME = 100, 10_000  # points of peers that take one a call, and of those that take an array
ORDERS = tuple(range(2, 257))
RNG = np.random.default_rng(1)
UNIT, MANY, WIDE = RNG.uniform(0, 1, POINTS), RNG.uniform(0, 3, POINTS), 10 ** RNG.uniform(-280, -1, POINTS)
MUS, EPSILONS = 10 ** RNG.uniform(-2, 1, POINTS), RNG.uniform(0, 40, POINTS)

Work = Callable[[], object]


def seconds(work: Work, repeats: int = 3) -> float:
    """Processor time of one run, the best of several after a first that is not counted."""
    work()
    best = math.inf
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def by_brent(function: Callable[[float], float], low: float, high: float) -> float:
    """A root as one writes it by hand."""
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-13))


def log_delta(mu: float, epsilon: float) -> float:
    """Ln of the textbook difference."""
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(first + math.log1p(-math.exp(min(second - first, -1e-17))))


def epsilon_by_brent(mu: float, delta: float) -> float:
    return by_brent(lambda e: log_delta(mu, e) - math.log(delta), 0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)))


def mu_by_brent(epsilon: float, delta: float) -> float:
    return by_brent(lambda m: log_delta(m, epsilon) - math.log(delta), 1e-2, 40)


def best_order(rho: float) -> float:
    """The zCDP conversion by minimising over the order on a grid, as the RDP accountants do."""
    orders = np.asarray(ORDERS, dtype=float)
    return float(np.min(rho * orders + np.log1p(-1 / orders) - (math.log(1e-6) + np.log(orders)) / (orders - 1)))


def laplace_renyi(order: float) -> float:
    one, two = order / (2 * order - 1) * math.exp(order - 1), (order - 1) / (2 * order - 1) * math.exp(-order)
    return math.log(one + two) / (order - 1)


def accountants() -> dict[str, Callable[..., object]]:
    """Functions of dp_accounting: delta of an array of epsilons, the others one point a call."""
    if find_spec("dp_accounting") is None:
        print("dp_accounting is not installed: left out")
        return {}
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    gauss, laplace = GaussianPrivacyLoss(1.0), LaplacePrivacyLoss(1.0)
    return {
        "delta": gauss.get_delta_for_epsilon,
        "laplace": laplace.get_delta_for_epsilon,
        "sigma": lambda e: GaussianPrivacyLoss.from_privacy_guarantee(_parameters(e)).standard_deviation,
        "rdp": lambda r: compute_epsilon([8], [r], 1e-6),
    }


def _parameters(epsilon: float) -> object:
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    return DifferentialPrivacyParameters(epsilon, 1e-5)


def each(function: Callable[[float], object], points: np.ndarray) -> tuple[Work, int]:
    """A peer that takes one point a call, on a few."""
    return (lambda: [function(float(x)) for x in points[:FEW]]), FEW


def whole(function: Callable[[np.ndarray], object]) -> tuple[Work, int]:
    """A peer that takes arrays and is fast."""
    return (lambda: function(UNIT)), POINTS


NOBODY = ("", None, 1)
Row = tuple[str, Work, str, Work | None, int]


def gaussian_rows(peers: dict[str, Callable[..., object]]) -> list[Row]:
    """The conversion, our ten thousand points, the peer's name, its run and the number of points in that."""
    hand = "SciPy brentq by hand"
    both = list(zip(MUS[:FEW], WIDE[:FEW], strict=True))
    pairs = (lambda: [epsilon_by_brent(float(m), float(d)) for m, d in both]), FEW
    textbook = "textbook, SciPy", *whole(lambda p: ndtr(0.5 - p) - np.exp(p) * ndtr(-0.5 - p))
    pair, later = gaussian_pair(distance=1), MANY + 0.1
    calibrated = ("dp_accounting", *each(peers["sigma"], later)) if peers else NOBODY
    deltas = [
        ("dp_accounting", (lambda p=p: peers["delta"](p[:SOME])), SOME) if peers else NOBODY for p in (EPSILONS, MANY)
    ]
    rates = whole(lambda p: ndtri(0.5 + 0.5 * p) - ndtri(0.5 * p))
    return [
        ("Gaussian delta(epsilon)", lambda: c.delta_of(1, EPSILONS), *deltas[0]),
        ("Gaussian delta(epsilon), any mu", lambda: c.delta_of(MUS, EPSILONS), *textbook),
        ("Gaussian epsilon(delta)", lambda: c.epsilon_of(1, WIDE), hand, *each(lambda d: epsilon_by_brent(1, d), WIDE)),
        ("Gaussian epsilon(delta), delta in (0, 1)", lambda: c.epsilon_of(1, UNIT), *NOBODY),
        ("Gaussian epsilon(delta), any mu", lambda: c.epsilon_of(MUS, WIDE), hand, *pairs),
        ("Gaussian mu(epsilon, delta)", lambda: c.mu_of(MANY, "1e-5"), hand, *each(lambda e: mu_by_brent(e, 1e-5), later)),
        ("Gaussian mu(epsilon, delta), any delta", lambda: c.mu_of(MANY, UNIT), *NOBODY),
        ("Gaussian sigma(epsilon, delta)", lambda: c.sigma_of(MANY, "1e-5"), *calibrated),
        ("mu of an advantage", lambda: c.mu_of_advantage(UNIT), "SciPy ndtri", *whole(lambda p: 2 * ndtri(0.5 + 0.5 * p))),
        ("mu of a true positive rate", lambda: c.mu_of_tpr(0.5 + 0.5 * UNIT, 0.5 * UNIT), "SciPy ndtri", *rates),
        ("Gaussian beta(alpha)", lambda: c.gaussian(1).beta(UNIT), "SciPy", *whole(lambda p: ndtr(1 - ndtri(1 - p)))),
        ("Poisson-sampled Gaussian delta(epsilon)", lambda: c.poisson(c.gaussian(1), "0.1").delta(MANY), *NOBODY),
        ("sampled Gaussian delta(epsilon)", lambda: c.subsampled(c.gaussian(1), "0.1").delta(MANY), *NOBODY),
        ("Gaussian hockey-stick", lambda: pair.hockey_stick(MANY), *deltas[1]),
        ("Gaussian approximate max divergence", lambda: pair.approximate_max_divergence(UNIT**8), hand,
         *each(lambda d: epsilon_by_brent(1, d), 0.38 * UNIT**8 + 1e-280)),
    ]  # fmt: skip


def other_rows(peers: dict[str, Callable[..., object]]) -> list[Row]:
    """The same of other laws, and of Renyi privacy."""
    laplace, response = laplace_pair(distance=1), randomized_response_pair(1)
    deltas = ("dp_accounting", (lambda: peers["laplace"](MANY[:SOME])), SOME) if peers else NOBODY
    epsilons = ("dp_accounting", *each(peers["rdp"], MANY)) if peers else NOBODY
    return [
        ("Laplace beta(alpha)", lambda: c.laplace(1).beta(UNIT), *NOBODY),
        ("(epsilon, delta) beta(alpha)", lambda: c.epsilon_delta(1, "1e-5").beta(UNIT), *NOBODY),
        ("randomized response beta(alpha)", lambda: c.randomized_response(1, 4).beta(UNIT), *NOBODY),
        ("Laplace hockey-stick", lambda: laplace.hockey_stick(MANY), *deltas),
        ("Laplace approximate max divergence", lambda: laplace.approximate_max_divergence(UNIT), *NOBODY),
        ("Laplace Renyi", lambda: laplace.renyi(MANY + 1.01), "the formula, by hand", *each(laplace_renyi, MANY + 1.01)),
        ("randomized response approximate max", lambda: response.approximate_max_divergence(UNIT), *NOBODY),
        ("RDP to epsilon", lambda: a.rdp_to_epsilon(rdp=MANY, order=8, delta="1e-6"), *epsilons),
        ("zCDP to epsilon, best order", lambda: a.zcdp_to_epsilon(rho=MANY, delta="1e-6"), "255 orders", *each(best_order, MANY)),
        ("pure DP to zCDP", lambda: a.zcdp_of_pure(MANY), *NOBODY),
        ("amplification by sampling", lambda: c.amplified_epsilon(epsilon=MANY, rate="0.01"), *NOBODY),
    ]  # fmt: skip


def alone() -> None:
    """Ten thousand points through each conversion."""
    peers = accountants()
    print("10,000 points, certified intervals; the peer's time is for as many, most of them one point a call")
    print(f"  {'conversion':42s} {'neartwin':>9s} {'peer':>9s}  ratio")
    for name, work, peer, run, points in gaussian_rows(peers) + other_rows(peers):
        here = seconds(work)
        if run is None:
            print(f"  {name:42s} {here:7.2f} s")
            continue
        there = seconds(run, 1) * POINTS / points
        print(f"  {name:42s} {here:7.2f} s {there:7.2f} s  {there / here:.3g}  {peer}", flush=True)


def against_dp_accounting() -> None:
    """Subsampled Gaussian RDP over a grid of orders, and its epsilon."""
    if find_spec("dp_accounting") is None:
        return
    import dp_accounting
    from dp_accounting import rdp

    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1)), 10_000
    )
    for name, orders in (("integer", ORDERS), ("fractional", tuple(1.1 + x / 10 for x in range(100)))):

        def theirs(orders: tuple[float, ...] = orders) -> float:
            return float(rdp.RdpAccountant(orders).compose(event).get_epsilon(1e-6))

        def ours(orders: tuple[float, ...] = orders) -> float:
            step = SubsampledGaussian(mu=1 / Fraction("1.1"), rate="0.01")
            return float(rdp_accountant(repeated(step, 10_000), orders=orders).epsilon("1e-6").epsilon.upper)

        peer, here = seconds(theirs), seconds(ours)
        print(f"subsampled Gaussian RDP, {len(orders)} {name} orders: ours {here * 1e3:.0f} ms (certified), ", end="")
        print(f"dp_accounting {peer * 1e3:.0f} ms, ratio {peer / here:.2f}; epsilon {ours():.12f} and {theirs():.12f}")


def optimal_composition() -> None:
    """Ten thousand mechanisms at once; no peer certifies it."""
    here = seconds(lambda: (10_000 * Pure(epsilon="0.1")).epsilon("1e-6"))
    print(f"optimal composition of 10 000 mechanisms: {here * 1e3:.0f} ms (certified)")


if __name__ == "__main__":
    alone()
    against_dp_accounting()
    optimal_composition()
