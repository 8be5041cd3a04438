"""Certified composition against the peers, W1 to W10: width, time and their ratios; every value checked against truth.

Peers: `pip install "neartwin[peers-accounting]"`; one that is not installed is left out. Times are medians of a few runs in one
process; every run composes afresh, so nothing is served from memory.
"""

import argparse
import math
import statistics
import time
import warnings
from importlib.util import find_spec

import numpy as np

from neartwin.losses import Approx, Gaussian, Laplace, RandomizedResponse, SubsampledGaussian, compose

TRUTH = {
    "W1": 4.886554117462212,
    "W2": 8.306225049954728,
    "W3": 4.692667414680189,
    "W4": 6.187712389971639,
    "W5": 7.566593620816312,
    "W6": 6.571974667452005,
    "W8 1e-15": 7.525961467079554,
    "W8 1e-30": 9.869578802717,
}
RATES = np.random.default_rng(0).uniform(0.001, 0.05, 10_000)


def odometer():
    """Eps after each of 1000 releases of two alternating kinds."""
    whole, total = 1 * Gaussian(mu="0.5"), 0.0
    for release in range(1000):
        whole = whole + (Gaussian(mu="0.05") if release % 2 else Laplace(epsilon="0.05"))
        found = whole.epsilon("1e-6")
        total = max(total, found.width)
    return found


def many():
    return compose({Laplace(epsilon=float(rate)): 1 for rate in RATES})


MIX = (50, Laplace(epsilon="0.05"), 50, Gaussian(mu="0.1"), 20, RandomizedResponse(epsilon="0.3"))
OURS = {
    "W1": lambda: (1 * Gaussian(mu=1)).epsilon("1e-6"),
    "W2": lambda: (1000 * Gaussian(mu="0.05")).epsilon("1e-6"),
    "W3": lambda: (100 * Laplace(epsilon="0.1")).epsilon("1e-6", within=1e-6),
    "W4": lambda: (10_000 * SubsampledGaussian(mu=1, rate="0.01")).epsilon("1e-5"),
    "W5": lambda: (MIX[0] * MIX[1] + MIX[2] * MIX[3] + MIX[4] * MIX[5]).epsilon("1e-6"),
    "W6": lambda: (200 * Approx(epsilon="0.1", delta="1e-8")).epsilon("1e-5"),
    "W7": lambda: (1_000_000 * SubsampledGaussian(mu="0.2", rate="0.001")).epsilon("1e-5"),
    "W8 1e-15": lambda: (100 * Laplace(epsilon="0.1")).epsilon("1e-15", within=1e-6),
    "W8 1e-30": lambda: (100 * Laplace(epsilon="0.1")).epsilon("1e-30", within=1e-6),
    "W9": lambda: many().epsilon("1e-6"),
    "W10": odometer,
}


def google():
    """dp_accounting's pessimistic epsilon by workload, at a discretisation."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    def gaussian(sigma, h, q=1.0):
        return pld.from_gaussian_mechanism(sigma, value_discretization_interval=h, sampling_prob=q)

    def laplace(e, h):
        return pld.from_laplace_mechanism(1 / e, value_discretization_interval=h)

    def private(e, delta, h):
        return pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(e, delta), value_discretization_interval=h
        )

    def mix(h):
        part = laplace(0.05, h).self_compose(50).compose(gaussian(10, h).self_compose(50))
        return part.compose(private(0.3, 0, h).self_compose(20))

    return {
        "W1": lambda h: gaussian(1, h).get_epsilon_for_delta(1e-6),
        "W2": lambda h: gaussian(20, h).self_compose(1000).get_epsilon_for_delta(1e-6),
        "W3": lambda h: laplace(0.1, h).self_compose(100).get_epsilon_for_delta(1e-6),
        "W4": lambda h: gaussian(1, h, 0.01).self_compose(10_000).get_epsilon_for_delta(1e-5),
        "W5": lambda h: mix(h).get_epsilon_for_delta(1e-6),
        "W6": lambda h: private(0.1, 1e-8, h).self_compose(200).get_epsilon_for_delta(1e-5),
        "W7": lambda h: gaussian(5, h, 0.001).self_compose(1_000_000).get_epsilon_for_delta(1e-5),
        "W8 1e-15": lambda h: laplace(0.1, h).self_compose(100).get_epsilon_for_delta(1e-15),
        "W8 1e-30": lambda h: laplace(0.1, h).self_compose(100).get_epsilon_for_delta(1e-30),
    }


def microsoft():
    """prv_accountant's bracket by workload, at an error in epsilon."""
    from prv_accountant import privacy_random_variables as laws
    from prv_accountant.accountant import PRVAccountant

    def bracket(parts, counts, delta, error):
        accountant = PRVAccountant(prvs=parts, max_self_compositions=counts, eps_error=error, delta_error=delta * 1e-3)
        low, _, high = accountant.compute_epsilon(delta, counts)
        return low, high

    sampled = laws.PoissonSubsampledGaussianMechanism
    return {
        "W1": lambda e: bracket([laws.GaussianMechanism(1.0)], [1], 1e-6, e),
        "W2": lambda e: bracket([laws.GaussianMechanism(20.0)], [1000], 1e-6, e),
        "W3": lambda e: bracket([laws.LaplaceMechanism(0.1)], [100], 1e-6, e),
        "W4": lambda e: bracket([sampled(sampling_probability=0.01, noise_multiplier=1.0)], [10_000], 1e-5, e),
        "W6": lambda e: bracket([laws.ApproximateDPMechanism(0.1, 1e-8)], [200], 1e-5, e),
    }


def renyi():
    """Autodp's RDP accountant."""
    from autodp import rdp_acct, rdp_bank

    def spent(curve, count, delta):
        accountant = rdp_acct.anaRDPacct()
        accountant.compose_mechanism(curve, coeff=count)
        return accountant.get_eps(delta)

    return {
        "W1": lambda: spent(lambda x: rdp_bank.RDP_gaussian({"sigma": 1}, x), 1, 1e-6),
        "W2": lambda: spent(lambda x: rdp_bank.RDP_gaussian({"sigma": 20}, x), 1000, 1e-6),
        "W3": lambda: spent(lambda x: rdp_bank.RDP_laplace({"b": 10}, x), 100, 1e-6),
    }


def timed(ask, budget=6.0):
    """The answer, or the name of the error, and the median time of a few runs within a budget of seconds."""
    times, answer = [], None
    while len(times) < 7 and sum(times) < budget:
        start = time.perf_counter()
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - a peer's failure is a result
            answer = type(error).__name__
        times.append(time.perf_counter() - start)
    return answer, statistics.median(times)


def row(name, label, answer, seconds, ours):
    """One printed line; peers also as a ratio of times."""
    if isinstance(answer, str):
        text = answer
    elif isinstance(answer, tuple):
        text = f"[{answer[0]:.10g}, {answer[1]:.10g}] width {answer[1] - answer[0]:.1e}"
    else:
        excess = f" (truth {answer - TRUTH[name]:+.1e})" if name in TRUTH and math.isfinite(answer) else ""
        text = f"<= {answer:.10g}{excess}"
    ratio = "" if ours is None else f"  {seconds / ours:.3g} times our time"
    print(f"{name:9s} {label:24s} {text:60s} {1e3 * seconds:10.2f} ms{ratio}")


def main(only, fine):
    warnings.simplefilter("ignore")
    peers = []
    if find_spec("dp_accounting"):
        asks = google()
        steps = (1e-4, 1e-5) if fine else (1e-4,)
        peers += [(f"dp_accounting h={h:g}", {k: (lambda a=a, h=h: a(h)) for k, a in asks.items()}) for h in steps]
    if find_spec("prv_accountant"):
        asks = microsoft()
        errors = (0.1, 0.01) if fine else (0.1,)
        peers += [(f"prv eps_error={e:g}", {k: (lambda a=a, e=e: a(e)) for k, a in asks.items()}) for e in errors]
    if find_spec("autodp"):
        peers.append(("autodp RDP", renyi()))
    for name, ask in OURS.items():
        if only and name.split()[0] not in only:
            continue
        found, ours = timed(ask)
        if name in TRUTH:
            assert found.lower - 1e-11 <= TRUTH[name] <= found.upper + 1e-11, (name, found)  # noqa: S101 - the bench's point
        row(name, f"neartwin, {found.method}", (found.lower, found.upper), ours, None)
        for label, asks in peers:
            if name in asks:
                row(name, label, *timed(asks[name]), ours)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="workloads, for instance W3 W4")
    parser.add_argument("--fine", action="store_true", help="the peers' fine settings too (minutes)")
    chosen = parser.parse_args()
    main(chosen.only, chosen.fine)
