"""What other accountants say of the workloads of bench_composition.py: a table for each peer, a row for each workload it can do.

An answer is an epsilon that the peer gives as an upper bound, or (lower, upper) where it gives both. Peers that are not
installed give no table; `pip install "neartwin[peers-accounting]"` installs them all.
"""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

Asks = dict[str, Callable[[], object]]
RATES = np.random.default_rng(0).uniform(0.001, 0.05, 10_000)
FEW = 100  # kinds and releases of the shorter W9, W10 and W11, which all peers can finish
RESPONSES = 1000


def google(step: float, *, whole: bool = False) -> Asks:
    """dp_accounting: privacy loss distributions on a grid of this step; pessimistic. whole: all of W9, W10 and W11 (minutes)."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    def gaussian(sigma, rate=1.0):
        return pld.from_gaussian_mechanism(sigma, value_discretization_interval=step, sampling_prob=rate)

    def laplace(e):
        return pld.from_laplace_mechanism(1 / e, value_discretization_interval=step)

    def private(e, delta):
        return pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(e, delta), value_discretization_interval=step
        )

    def mix():
        part = laplace(0.05).self_compose(50).compose(gaussian(10).self_compose(50))
        return part.compose(private(0.3, 0).self_compose(20)).get_epsilon_for_delta(1e-6)

    def many(count):
        made = laplace(float(RATES[0]))
        for rate in RATES[1:count]:
            made = made.compose(laplace(float(rate)))
        return made.get_epsilon_for_delta(1e-6)

    def responses(count):
        made = private(float(RATES[0]), 0)
        for rate in RATES[1:count]:
            made = made.compose(private(float(rate), 0))
        return made.get_epsilon_for_delta(1e-6)

    def odometer(releases):
        kinds, made = (laplace(0.05), gaussian(20)), gaussian(2)
        for release in range(releases):
            made = made.compose(kinds[release % 2])
            found = made.get_epsilon_for_delta(1e-6)
        return found

    longest: Asks = {"W9": lambda: many(len(RATES)), "W10": lambda: odometer(1000), "W11": lambda: responses(RESPONSES)}
    return (longest if whole else {}) | {
        "W1": lambda: gaussian(1).get_epsilon_for_delta(1e-6),
        "W2": lambda: gaussian(20).self_compose(1000).get_epsilon_for_delta(1e-6),
        "W3": lambda: laplace(0.1).self_compose(100).get_epsilon_for_delta(1e-6),
        "W4": lambda: gaussian(1, 0.01).self_compose(10_000).get_epsilon_for_delta(1e-5),
        "W5": mix,
        "W6": lambda: private(0.1, 1e-8).self_compose(200).get_epsilon_for_delta(1e-5),
        "W7": lambda: gaussian(5, 0.001).self_compose(1_000_000).get_epsilon_for_delta(1e-5),
        "W8 1e-15": lambda: laplace(0.1).self_compose(100).get_epsilon_for_delta(1e-15),
        "W8 1e-30": lambda: laplace(0.1).self_compose(100).get_epsilon_for_delta(1e-30),
        "W9 100": lambda: many(FEW),
        "W10 100": lambda: odometer(FEW),
        "W11 100": lambda: responses(FEW),
    }


def microsoft(error: float) -> Asks:
    """prv_accountant: (lower, upper) for this error in epsilon."""
    from prv_accountant import privacy_random_variables as laws
    from prv_accountant.accountant import PRVAccountant

    def bracket(parts, counts, delta):
        accountant = PRVAccountant(prvs=parts, max_self_compositions=counts, eps_error=error, delta_error=delta * 1e-3)
        low, _, high = accountant.compute_epsilon(delta, counts)
        return low, high

    sampled = laws.PoissonSubsampledGaussianMechanism
    mix = [laws.LaplaceMechanism(0.05), laws.GaussianMechanism(10.0), laws.PureDPMechanism(0.3)]
    return {
        "W1": lambda: bracket([laws.GaussianMechanism(1.0)], [1], 1e-6),
        "W2": lambda: bracket([laws.GaussianMechanism(20.0)], [1000], 1e-6),
        "W3": lambda: bracket([laws.LaplaceMechanism(0.1)], [100], 1e-6),
        "W4": lambda: bracket([sampled(sampling_probability=0.01, noise_multiplier=1.0)], [10_000], 1e-5),
        "W5": lambda: bracket(mix, [50, 50, 20], 1e-6),
        "W6": lambda: bracket([laws.ApproximateDPMechanism(0.1, 1e-8)], [200], 1e-5),
        "W7": lambda: bracket([sampled(sampling_probability=0.001, noise_multiplier=5.0)], [1_000_000], 1e-5),
        "W8 1e-15": lambda: bracket([laws.LaplaceMechanism(0.1)], [100], 1e-15),
        "W9 100": lambda: bracket([laws.LaplaceMechanism(float(r)) for r in RATES[:FEW]], [1] * FEW, 1e-6),
    }


def renyi() -> Asks:
    """Autodp's RDP accountant."""
    from autodp import rdp_acct, rdp_bank

    def spent(parts, delta):
        accountant = rdp_acct.anaRDPacct()
        for curve, count in parts:
            accountant.compose_mechanism(curve, coeff=count)
        return float(accountant.get_eps(delta))

    def sampled(sigma, rate, count, delta):
        accountant = rdp_acct.anaRDPacct()
        accountant.compose_poisson_subsampled_mechanisms(gaussian(sigma), rate, count)
        return float(accountant.get_eps(delta))

    def gaussian(sigma):
        return lambda order: rdp_bank.RDP_gaussian({"sigma": sigma}, order)

    def laplace(e):
        return lambda order: rdp_bank.RDP_laplace({"b": 1 / e}, order)

    def response(e):
        return lambda order: rdp_bank.RDP_randresponse({"p": 1 / (1 + np.exp(-e))}, order)

    return {
        "W1": lambda: spent([(gaussian(1), 1)], 1e-6),
        "W2": lambda: spent([(gaussian(20), 1000)], 1e-6),
        "W3": lambda: spent([(laplace(0.1), 100)], 1e-6),
        "W4": lambda: sampled(1, 0.01, 10_000, 1e-5),
        "W5": lambda: spent([(laplace(0.05), 50), (gaussian(10), 50), (response(0.3), 20)], 1e-6),
        "W7": lambda: sampled(5, 0.001, 1_000_000, 1e-5),
        "W8 1e-15": lambda: spent([(laplace(0.1), 100)], 1e-15),
        "W8 1e-30": lambda: spent([(laplace(0.1), 100)], 1e-30),
        "W9 100": lambda: spent([(laplace(r), 1) for r in RATES[:FEW]], 1e-6),
    }


def fourier() -> Asks:
    """Autodp's analytical Fourier accountant."""
    from autodp import mechanism_zoo, transformer_zoo

    def spent(mechanism, count, delta):
        with contextlib.redirect_stdout(io.StringIO()):
            return float(transformer_zoo.ComposeAFA()([mechanism()], [count]).get_approxDP(delta))

    def gaussian():
        return mechanism_zoo.GaussianMechanism(sigma=20, phi_off=False, RDP_off=True)

    def laplace():
        return mechanism_zoo.LaplaceMechanism(b=10, phi_off=False, RDP_off=True)

    return {"W2": lambda: spent(gaussian, 1000, 1e-6), "W3": lambda: spent(laplace, 100, 1e-6)}


def opake(step: float) -> Asks:
    """opake-accounting: the grid of dp_accounting in Rust. Its Python layer fails to import before Python 3.13."""
    found = importlib.util.find_spec("opake")
    places = [Path(place) / "api/accounting/core" for place in found.submodule_search_locations or ()] if found else []
    (library,) = [file for place in places for file in place.glob("opake_accounting.*so")]
    spec = importlib.util.spec_from_file_location("opake_accounting", library)
    rust = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rust)
    grid = rust.DiscretizationConfig(discretization=step)

    def sampled(sigma, rate, count):
        return rust.poisson_pld(rust.gaussian_pld(sigma, grid), rate).self_compose(count).epsilon_at(1e-5)

    return {
        "W1": lambda: rust.gaussian_pld(1.0, grid).epsilon_at(1e-6),
        "W2": lambda: rust.gaussian_pld(20.0, grid).self_compose(1000).epsilon_at(1e-6),
        "W4": lambda: sampled(1.0, 0.01, 10_000),
        "W6": lambda: rust.eps_delta_pld(0.1, 1e-8, grid).self_compose(200).epsilon_at(1e-5),
        "W7": lambda: sampled(5.0, 0.001, 1_000_000),
    }


def accelerator() -> Asks:
    """dp-accelerator: Renyi orders in Rust, for DP-SGD alone."""
    from dp_accelerator import DPSGDAccountant as Steps

    return {
        "W4": lambda: Steps(noise_multiplier=1.0, batch_size=600, dataset_size=60_000).get_epsilon(10_000, 1e-5),
        "W7": lambda: Steps(noise_multiplier=5.0, batch_size=100, dataset_size=100_000).get_epsilon(1_000_000, 1e-5),
    }


def riskcal() -> Asks:
    """Riskcal's accountant of DP-SGD, over dp_accounting."""
    from riskcal.accountants import CTDAccountant

    def spent(sigma, rate, count):
        accountant = CTDAccountant()
        accountant.history = [(sigma, rate, count)]
        return accountant.get_epsilon(delta=1e-5)

    return {"W4": lambda: spent(1.0, 0.01, 10_000), "W7": lambda: spent(5.0, 0.001, 1_000_000)}


def installed(*, fine: bool, whole: bool = False) -> tuple[list[tuple[str, Asks]], list[str]]:
    """The peers that can be asked, each with its settings, and the names of those that cannot, with the reason."""
    wanted: list[tuple[str, Callable[[], Asks]]] = [("dp_accounting, default", lambda: google(1e-4, whole=whole))]
    wanted += [("dp_accounting, fine (1e-5)", lambda: google(1e-5))] if fine else []
    wanted += [("prv_accountant, 0.1", lambda: microsoft(0.1))]
    wanted += [("prv_accountant, 0.01", lambda: microsoft(0.01))] if fine else []
    wanted += [("opake-accounting, default", lambda: opake(1e-4))]
    wanted += [("opake-accounting, fine (1e-5)", lambda: opake(1e-5))] if fine else []
    wanted += [
        ("autodp, RDP", renyi),
        ("autodp, Fourier", fourier),
        ("riskcal", riskcal),
        ("dp-accelerator", accelerator),
    ]
    found, missing = [], []
    for name, make in wanted:
        try:
            found.append((name, make()))
        except Exception as error:  # noqa: BLE001 - whatever keeps a peer from being asked is the reason
            missing.append(f"{name} ({type(error).__name__})")
    return found, missing
