"""dp_accounting in and out: its `DpEvent` trees and its PLDs are read, and costs are written as its PLDs (extra `interop`).

    whole = cost(from_event(event))            # instead of PLDAccountant().compose(event)
    theirs = to_pld(whole)                     # a certified whole, for code that still wants a PLD

Parameters that are floats there are read as the decimals they print as.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from neartwin.accounting.usage import AnyUsage, Cost, Usage, cost, repeated, sequential, subsample, use
from neartwin.checks import integer, positive
from neartwin.errors import NeartwinError, ParameterError, PrivacyError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses import Approx, Composition, FinitePair, Gaussian, Geometric, Laplace, ZeroConcentrated
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, Lattice, Pair, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, U

MOST_POINTS = 200_000
NOTHING = Approx(epsilon=0, delta=0)


def from_event(event: Any) -> Usage:
    """The spend that a `DpEvent` tree describes.

    Events by Gaussian, Laplace, discrete Laplace, randomized response, zCDP (xi = 0), trees of one epoch, composition and Poisson
    sampling. Errors: `PrivacyError` for one without a theorem here, with the reason: such as sampling of fixed-size batches.
    """
    kind = type(event).__name__
    read = _EVENTS.get(kind)
    if read is None or not type(event).__module__.startswith("dp_accounting"):
        reason = _REFUSED.get(kind, "is not known here")
        raise PrivacyError(f"{kind} {reason}; state its (epsilon, delta) as Approx instead")
    return read(event)


def _randomized_response(event: Any) -> Usage:
    """Noise parameter p: uniform over the k buckets with probability p, else the truth."""
    p, k = rational(noise_parameter=event.noise_parameter), integer(at_least=1, num_buckets=int(event.num_buckets))
    if k == 1:
        return use(NOTHING)
    if not 0 < p <= 1:
        raise PrivacyError(f"randomized response with noise parameter {float(p):g} reveals all, or is none")
    own, other = 1 - p + p / k, p / k
    return use(FinitePair(p=(own, other, (k - 2) * other), q=(other, own, (k - 2) * other)))


def _zcdp(event: Any) -> Usage:
    if event.xi:
        raise PrivacyError("zCDP with an additive xi has no curve here; state its (epsilon, delta) as Approx instead")
    return use(ZeroConcentrated(rho=rational(rho=event.rho)) if event.rho else NOTHING)


def _sampled(event: Any) -> Usage:
    rate = rational(rate=event.sampling_probability)
    if rate == 0:
        return use(NOTHING)
    inner = from_event(event.event)
    return inner if rate == 1 else subsample(inner, rate)


def _trees(event: Any) -> Usage:
    """A record is in one tree, in one node of each of its full levels: floor(log2 steps) + 1 Gaussian answers at most."""
    steps = event.step_counts if isinstance(event.step_counts, Sequence) else [event.step_counts]
    most = max(integer(at_least=0, step_counts=int(one)) for one in steps)
    return repeated(Gaussian(mu=_inverse(event)), most.bit_length()) if most else use(NOTHING)


def _inverse(event: Any) -> Fraction:
    return 1 / positive(noise_multiplier=rational(noise_multiplier=event.noise_multiplier))


_EVENTS: Mapping[str, Callable[[Any], Usage]] = {
    "NoOpDpEvent": lambda _: use(NOTHING),
    "GaussianDpEvent": lambda e: use(Gaussian(mu=_inverse(e))),
    "LaplaceDpEvent": lambda e: use(Laplace(epsilon=_inverse(e))),
    "DiscreteLaplaceDpEvent": lambda e: use(
        Geometric(epsilon=rational(noise=e.noise_parameter) * int(e.sensitivity), sensitivity=int(e.sensitivity))
    ),
    "RandomizedResponseDpEvent": _randomized_response,
    "ZCDpEvent": _zcdp,
    "SelfComposedDpEvent": lambda e: repeated(from_event(e.event), int(e.count)) if e.count else use(NOTHING),
    "ComposedDpEvent": lambda e: sequential(*map(from_event, e.events)) if e.events else use(NOTHING),
    "PoissonSampledDpEvent": _sampled,
    "SingleEpochTreeAggregationDpEvent": _trees,
}


# the other kinds of events, and why each has no losses here
_REFUSED: Mapping[str, str] = {
    "DpEvent": "says nothing",
    "UnsupportedDpEvent": "says nothing",
    "NonPrivateDpEvent": "reveals everything, and no epsilon covers it",
    "SampledWithoutReplacementDpEvent": "samples batches of a fixed size, which Poisson sampling does not cover",
    "SampledWithReplacementDpEvent": "samples batches of a fixed size, which Poisson sampling does not cover",
    "TruncatedSubsampledGaussianDpEvent": "drops records of large batches, which Poisson sampling does not cover",
    "RepeatAndSelectDpEvent": "chooses among a random number of runs, for which there is no certified loss here",
    "MixtureOfGaussiansDpEvent": "is a mixture of Gaussians, whose losses are not here",
}


@dataclass(frozen=True, slots=True)
class GridLaw(Pair):
    """A pessimistic distribution of losses on multiples of a step: masses that are not 0, by multiple; infinite with the rest."""

    step: Fraction
    multiples: tuple[int, ...]
    masses: tuple[float, ...]
    infinity: float

    def repeated(self, count: int) -> Summand:
        """Losses k step, exactly on a lattice; what the masses lack of 1 by rounding is infinite loss."""
        masses = np.array(self.masses)
        finite = math.fsum(self.masses)
        high = min(max(self.infinity, 1 - finite) + 4 * U, 1.0)
        losses = np.array([float(k * self.step) for k in self.multiples])
        law = Weighted(losses, np.log(masses / finite), np.full(len(masses), 4 * ELEMENTARY), U * np.abs(losses))
        spacing = math.gcd(*(k - self.multiples[0] for k in self.multiples)) or 1
        lattice = Lattice(self.multiples[0] * self.step, spacing * self.step)
        return AtomicSum(law, count, infinity=(max(self.infinity - 4 * U, 0.0), high), lattice=lattice)


@dataclass(frozen=True, slots=True)
class PrivacyLosses(PrivacyLoss):
    """A mechanism known by pessimistic distributions of its losses: an upper end only."""

    remove: GridLaw
    add: GridLaw

    def dominating_pair(self, direction: Direction) -> Pair:
        """Each order's own."""
        if direction.startswith("replace"):
            raise ParameterError("direction", "replace", "is not known of a PLD made for add/remove")
        return self.remove if direction == "remove" else self.add

    def attained_pair(self, direction: Direction) -> Pair | None:
        """Nothing is known from below."""
        del direction
        return None


def from_pld(pld: Any) -> Usage:
    """The spend of a dp_accounting `PrivacyLossDistribution`, which must be pessimistic. Its own rounding is not ours to bound.

    Errors: `PrivacyError` for an optimistic one.
    """
    return use(PrivacyLosses(_read_pmf(pld._pmf_remove), _read_pmf(pld._pmf_add)))  # noqa: SLF001 - it has no other door


def _read_pmf(pmf: Any) -> GridLaw:
    if not pmf._pessimistic_estimate:  # noqa: SLF001
        raise PrivacyError("an optimistic PLD bounds nothing from above; build it with pessimistic_estimate=True")
    dense = pmf.to_dense_pmf()
    masses = np.asarray(dense._probs, dtype=float)  # noqa: SLF001
    occupied = np.flatnonzero(masses > 0)
    if not len(occupied):
        raise PrivacyError("this PLD has no finite loss: everything may be revealed")
    return GridLaw(
        step=rational(step=float(dense._discretization)),  # noqa: SLF001
        multiples=tuple((occupied + int(dense._lower_loss)).tolist()),  # noqa: SLF001
        masses=tuple(masses[occupied].tolist()),
        infinity=float(dense._infinity_mass),  # noqa: SLF001
    )


def to_pld(done: AnyUsage | Cost, *, step: Number = "1e-3", tail: Number = "1e-15") -> Any:
    """A pessimistic dp_accounting `PrivacyLossDistribution` of a whole under add/remove.

    The certified deltas at the grid's points are made convex from below, and their dots connected. The hull of upper bounds of a
    convex function is an upper bound too.

    Args:
        done: A usage or its cost.
        step: The step of the grid of losses.
        tail: The most probability that goes to infinite loss beyond the grid's end.

    Raises:
        NeartwinError: dp_accounting is not installed.
        ParameterError: The grid has more than 200,000 points.
    """
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as missing:
        raise NeartwinError("writing PLDs needs dp_accounting: install neartwin[interop]") from missing

    total = done if isinstance(done, Cost) else cost(done)
    if total.neighbours != "add_remove":
        raise PrivacyError("a PLD has an add and a remove order; account the whole under add_remove")
    spacing = float(positive(step=rational(step=step)))
    pmfs = []
    for direction in ("remove", "add"):
        multiples, deltas = _dots(total.cases, direction, spacing, rational(tail=tail))
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots(spacing, multiples, deltas))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)


def _dots(
    cases: tuple[Composition, ...], direction: Literal["remove", "add"], step: float, tail: Fraction
) -> tuple[Any, FloatArray]:
    """Multiples of the step and deltas at them, convex in e^eps."""
    last = max(case.epsilon(tail, direction=direction).upper for case in cases)
    if not math.isfinite(last):
        last = max(case.epsilon(Fraction(1, 2), direction=direction).upper for case in cases) + 50
    reach = math.ceil(min(last, 600.0) / step) + 1
    if reach * 2 + 1 > MOST_POINTS:
        raise ParameterError(
            "step", step, f"makes a grid of {2 * reach + 1} points", remedy=f"take at least {step * reach / 1e5:.2g}"
        )
    multiples = np.arange(-reach, reach + 1)
    eps = np.asarray(multiples * step, dtype=np.float64)
    deltas = np.maximum.reduce([case.delta(eps, direction=direction).upper for case in cases])
    deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
    corners = _hull(np.exp(eps), deltas)
    return multiples[corners], deltas[corners]


def _hull(x: FloatArray, y: FloatArray) -> list[int]:
    """The corners of the lower convex hull of points with increasing x."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners
