"""The accountant for Opacus, against a copy of its interface. The real one is in bench/bench_opacus.py, for torch is heavy."""

import abc
import importlib
import math
import sys
import types
from copy import deepcopy

import pytest
from mpmath import mp, mpf

from neartwin.errors import NeartwinError, ParameterError, PrivacyError

FACE = "neartwin.accounting.opacus"


class IAccountant(abc.ABC):
    """The interface of opacus 1.6, with its own two finished methods."""

    @abc.abstractmethod
    def __init__(self):
        self.history = []

    @abc.abstractmethod
    def step(self, *, noise_multiplier, sample_rate): ...

    @abc.abstractmethod
    def get_epsilon(self, delta, *args, **kwargs): ...

    @abc.abstractmethod
    def __len__(self): ...

    @classmethod
    @abc.abstractmethod
    def mechanism(cls): ...

    def state_dict(self):
        return {"history": deepcopy(self.history), "mechanism": self.mechanism()}

    def load_state_dict(self, state_dict):
        assert self.mechanism() == state_dict["mechanism"]
        self.history = state_dict["history"]


@pytest.fixture
def registry(monkeypatch):
    made = {}

    def register_accountant(mechanism, accountant, force=False):
        if mechanism in made and not force:
            raise ValueError(mechanism)
        made[mechanism] = accountant

    face = types.ModuleType("opacus.accountants")
    face.IAccountant, face.register_accountant = IAccountant, register_accountant
    monkeypatch.setitem(sys.modules, "opacus", types.ModuleType("opacus"))
    monkeypatch.setitem(sys.modules, "opacus.accountants", face)
    sys.modules.pop(FACE, None)
    module = importlib.import_module(FACE)
    module.register()
    module.register()  # twice does no harm
    yield made
    sys.modules.pop(FACE)


def test_opacus_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    sys.modules.pop(FACE, None)
    with pytest.raises(NeartwinError, match="pip install opacus"):
        importlib.import_module(FACE)


def one_step(sigma, q, eps):
    """Delta of one Poisson-sampled step, the worse of add and remove: the masses beyond the point where the ratio is e^eps."""
    with mp.workdps(30):
        sigma, q, eps = mpf(sigma), mpf(q), mpf(eps)

        def masses(low, high):
            parts = [mp.ncdf(high, centre, sigma) - mp.ncdf(low, centre, sigma) for centre in (0, 1)]
            return parts[0], (1 - q) * parts[0] + q * parts[1]

        def threshold(grown):
            return sigma**2 * mp.log((grown - 1 + q) / q) + mpf(1) / 2

        without, joined = masses(threshold(mp.exp(eps)), mp.inf)
        removed = joined - mp.exp(eps) * without
        if mp.exp(-eps) <= 1 - q:
            return float(removed)
        without, joined = masses(-mp.inf, threshold(mp.exp(-eps)))
        return float(max(removed, without - mp.exp(eps) * joined))


def test_a_step_costs_what_direct_integration_says(registry):
    accountant = registry["neartwin"]()
    accountant.step(noise_multiplier=1.5, sample_rate=0.25)
    eps = accountant.get_epsilon(1e-3, eps_error=0.01, alphas=[2, 3])
    assert one_step("1.5", "0.25", eps) == pytest.approx(1e-3, rel=1e-9)
    assert one_step("1.5", "0.25", eps * 0.99) > 1.005e-3  # and no more than it must


@pytest.mark.slow
def test_a_schedule_composes_as_another_library_says(registry):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    accountant = registry["neartwin"]()
    for sigma, rate, steps in ((1.0, 0.01, 300), (2.0, 0.01, 200), (1.0, 0.01, 100)):
        for _ in range(steps):
            accountant.step(noise_multiplier=sigma, sample_rate=rate)
    assert len(accountant) == 600
    assert accountant.history == [(1.0, 0.01, 300), (2.0, 0.01, 200), (1.0, 0.01, 100)]
    parts = [
        pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3, sampling_prob=0.01).self_compose(count)
        for sigma, count in ((1.0, 400), (2.0, 200))
    ]
    theirs = parts[0].compose(parts[1]).get_epsilon_for_delta(1e-5)
    assert accountant.get_epsilon(1e-5) <= theirs <= accountant.get_epsilon(1e-5) * 1.002
    again = registry["neartwin"]()
    again.load_state_dict(accountant.state_dict())
    assert again.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [
        (1.0, 0.2, 500, 1e-5),  # another accountant's "discrete mean differs significantly"
        (0.5, 0.5, 100, 1e-5),
        (100.0, 0.001, 10, 0.1),  # where another accountant answers below 0
        (4.0, 1.0, 10, 1e-6),
    ],
)
def test_no_number_where_others_fail_is_missing_or_negative(registry, sigma, rate, steps, delta):
    accountant = registry["neartwin"]()
    accountant.history = [(sigma, rate, steps)]  # as Opacus's calibration sets it
    found = accountant.interval(delta)
    assert 0 <= found.lower <= found.upper < math.inf
    assert found.width <= 1e-6
    if rate == 1:  # Gaussian of mu = sqrt(10)/4: Balle, Wang 2018
        mu, eps = math.sqrt(10) / 4, mpf(found.upper)
        with mp.workdps(30):
            truth = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)
        assert float(truth) == pytest.approx(delta, rel=1e-6)


def test_nothing_costs_nothing_and_no_noise_costs_everything(registry):
    accountant = registry["neartwin"]()
    assert accountant.get_epsilon(1e-5) == 0
    accountant.history = [(1.0, 0.0, 10), (1.0, 0.1, 0)]
    assert accountant.get_epsilon(1e-5) == 0
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf
    for history in ([(-1.0, 0.1, 1)], [(1.0, 1.5, 1)], [(math.nan, 0.1, 1)], [(1.0, 0.1, -1)]):
        accountant.history = history
        with pytest.raises(ParameterError):
            accountant.get_epsilon(1e-5)
    with pytest.raises(ParameterError):
        accountant.get_epsilon(0.0)


def test_a_step_that_sums_several_poisson_batches_is_refused(registry):
    accountant = registry["neartwin"]()
    record = accountant.get_optimizer_hook_fn(sample_rate=0.01)
    record(types.SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1))
    with pytest.raises(PrivacyError, match="4 Poisson batches"):
        record(types.SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=4))
    assert accountant.history == [(1.0, 0.01, 1)]


def test_a_noise_below_0_is_refused_by_its_own_name(registry):
    accountant = registry["neartwin"]()
    accountant.history = [(-1.0, 0.0, 5)]
    with pytest.raises(ParameterError, match="noise_multiplier=-1 must not be negative"):
        accountant.interval(1e-5)


def test_a_rare_step_without_noise_reveals_no_more_than_its_rate(registry):
    """It was infinite at every delta, on both sides."""
    accountant = registry["neartwin"]()
    accountant.history = [(0.0, 1e-7, 1)]
    assert (accountant.interval(1e-5).lower, accountant.interval(1e-5).upper) == (0.0, 0.0)
    assert accountant.interval(0.5e-7).lower == math.inf
    accountant.history = [(0.0, 1e-7, 1), (1.5, 0.25, 1)]
    found = accountant.interval(1e-3)
    seen = 1e-7 + (1 - 1e-7) * one_step(
        "1.5", "0.25", found.upper + 1e-7
    )  # where it is not seen the loss is about -1e-7
    assert seen == pytest.approx(1e-3, rel=1e-9)
    accountant.history = [(0.0, 1.0, 1)]
    assert accountant.interval(0.5).lower == math.inf
    accountant.history = [(1.0, 1.01, 1)]
    with pytest.raises(ParameterError, match=r"sample_rate=.* must lie in \[0, 1\]"):
        accountant.interval(1e-5)
