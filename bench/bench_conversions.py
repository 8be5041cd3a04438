"""Conversions and Renyi curves against dp_accounting: times, ratios and agreement, in one run.

Peers that are not installed are left out and said so. Times are processor time, the best of several.
"""

import math
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from neartwin.accounting import amplified_pure, rdp_curve, rdp_to_epsilon, zcdp_to_epsilon
from neartwin.divergences import gaussian_pair, laplace_pair, subsampled_gaussian_renyi
from neartwin.losses.kov import kov_epsilon

MILLION = 1_000_000
ORDERS = tuple(range(2, 257))


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Processor time of one run, the best of several after a first that is not counted."""
    work()
    best = math.inf
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def alone() -> None:
    """A million points through each conversion."""
    rng = np.random.default_rng(1)
    unit, many = rng.uniform(0, 1, MILLION), rng.uniform(0, 3, MILLION)
    rows = {
        "amplification by sampling": lambda: amplified_pure(epsilon=many, rate="0.01"),
        "RDP to epsilon": lambda: rdp_to_epsilon(rdp=many, order=8, delta="1e-6"),
        "zCDP to epsilon, best order": lambda: zcdp_to_epsilon(rho=many, delta="1e-6"),
        "Laplace hockey-stick": lambda: laplace_pair(distance=1).hockey_stick(many),
        "Gaussian hockey-stick": lambda: gaussian_pair(distance=1).hockey_stick(many),
        "Laplace Renyi": lambda: laplace_pair(distance=1).renyi(many + 1),
        "Gaussian epsilon at delta (roots)": lambda: gaussian_pair(distance=1).approximate_max_divergence(unit**8),
    }
    print("a million points, certified intervals:")
    for name, work in rows.items():
        print(f"  {name:36s} {seconds(work, 1) * 1e3:8.0f} ms")


def against_dp_accounting() -> None:
    """Subsampled Gaussian RDP over a grid of orders, and its epsilon."""
    if find_spec("dp_accounting") is None:
        print("dp_accounting is not installed: left out")
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
            curve = rdp_curve(
                lambda a: subsampled_gaussian_renyi(rate="0.01", noise_multiplier="1.1", order=a), orders=orders
            )
            return float(curve.times(10_000).epsilon("1e-6").epsilon.upper)

        peer, here = seconds(theirs), seconds(ours)
        print(f"subsampled Gaussian RDP, {len(orders)} {name} orders: ours {here * 1e3:.0f} ms (certified), ", end="")
        print(f"dp_accounting {peer * 1e3:.0f} ms, ratio {peer / here:.2f}; epsilon {ours():.12f} and {theirs():.12f}")


def optimal_composition() -> None:
    """Ten thousand mechanisms at once; no peer certifies it."""
    here = seconds(lambda: kov_epsilon(epsilon="0.1", count=10_000, delta_total="1e-6"))
    print(f"optimal composition of 10 000 mechanisms: {here * 1e3:.0f} ms (certified)")


if __name__ == "__main__":
    alone()
    against_dp_accounting()
    optimal_composition()
