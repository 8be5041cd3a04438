"""dp_accounting in and out: its `DpEvent` trees are read and written, and costs are written as its PLDs (extra `interop`).

    whole = cost(from_event(event))            # instead of PLDAccountant().compose(event)
    theirs = to_pld(whole)                     # a certified whole, for code that still wants a PLD

Parameters that are floats there are read as the decimals they print as.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from neartwin import losses
from neartwin.accounting import training
from neartwin.accounting import usage as usages
from neartwin.accounting.usage import AddRemove, AnyUsage, Usage
from neartwin.balls import ball, bounds
from neartwin.checks import integer, needed, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import FloatArray, Number, float_above, float_below, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.tradeoff.polygons import hull_places

MOST_POINTS = 200_000
NOTHING = losses.Approx(epsilon=0, delta=0)


def from_event(event: Any) -> Usage:
    """The spend that a `DpEvent` tree describes.

    Kinds of dp_accounting 0.6 and of its newest source are read, for add/remove neighbours. Errors: `PrivacyError` for an event
    that promises nothing, or that no theorem here covers, with the reason.
    """
    kind = type(event).__name__
    read = _EVENTS.get(kind)
    if read is None or not type(event).__module__.startswith("dp_accounting"):
        reason = _REFUSED.get(kind, "is not known here")
        raise PrivacyError(f"{kind} {reason}; state its (epsilon, delta) as Approx instead")
    usage = usages.repeated(read(event), 1).each
    return AddRemove(usage, event) if read in _KEPT else usage


def _randomized_response(event: Any) -> AnyUsage:
    """Noise parameter p: uniform over the k buckets with probability p, else the truth."""
    p, k = rational(noise_parameter=event.noise_parameter), _whole(1, num_buckets=event.num_buckets)
    if k == 1:
        return NOTHING
    if not 0 < p <= 1:
        raise PrivacyError(f"randomized response with noise parameter {float(p):g} reveals all, or is none")
    own, other = 1 - p + p / k, p / k
    return losses.FinitePair(p=(own, other, (k - 2) * other), q=(other, own, (k - 2) * other))


def _zcdp(event: Any) -> AnyUsage:
    """D_a <= xi + rho a; with rho = 0 the greatest loss is at most xi."""
    rho, xi = rational(rho=event.rho), rational(xi=event.xi)
    return losses.ZeroConcentrated(rho=rho, xi=xi) if rho else losses.Approx(epsilon=xi, delta=0)


def _discrete_gaussian(event: Any) -> AnyUsage:
    """Tight for one answer; of several, or of an unknown number, by rho = sensitivity^2 / (2 sigma^2)."""
    sigma2, moved = rational(sigma=event.sigma) ** 2, rational(sensitivity=event.sensitivity)
    if event.dimension == 1:
        return losses.DiscreteGaussian(sigma2=sigma2, sensitivity=math.floor(moved)) if moved >= 1 else NOTHING
    return losses.ZeroConcentrated(rho=moved**2 / (2 * positive(sigma=sigma2))) if moved else NOTHING


def _mixture(event: Any) -> AnyUsage:
    deviation = positive(standard_deviation=rational(standard_deviation=event.standard_deviation))
    distances = [rational(sensitivities=one) / deviation for one in event.sensitivities]
    if not any(distances):
        return NOTHING
    weights = [rational(sampling_probs=one) for one in event.sampling_probs]
    whole = sum(weights, Fraction(0))
    if abs(whole - 1) > Fraction(1, 10**9):
        raise ParameterError("sampling_probs", event.sampling_probs, "must sum to 1")
    return losses.GaussianMixture(distances=distances, weights=[weight / whole for weight in weights])  # nearly 1


def _batches(draw: Callable[..., Usage], event: Any) -> Usage:
    """Batches of a fixed size (T1, T2), and all that is done to one of them, as one factor."""
    once = from_event(event.event)
    usages.refuse_single(once, "a batch of a fixed size")
    (case,) = usages.cost(once).cases
    batch, records = _whole(sample_size=event.sample_size), _whole(source_dataset_size=event.source_dataset_size)
    return draw(usages.single(case), batch=batch, records=records)


_fixed, _drawn = (partial(_batches, draw) for draw in (training.without_replacement, training.with_replacement))


def _truncated(event: Any) -> AnyUsage:
    if not (event.sampling_probability and event.truncated_batch_size and event.dataset_size):
        return NOTHING
    return training.truncated_batches(
        noise_multiplier=event.noise_multiplier,
        rate=event.sampling_probability,
        largest=_whole(truncated_batch_size=event.truncated_batch_size),
        records=_whole(dataset_size=event.dataset_size),
        steps=1,
    )


def _allocated(event: Any) -> AnyUsage:
    """Gaussian steps of which a record is in some, drawn at random (T9, T12)."""
    drawn, steps = _whole(num_selected=event.num_selected), _whole(num_steps=event.num_steps)
    if drawn == 0:
        return NOTHING
    if type(event.event).__name__ != "GaussianDpEvent":
        raise PrivacyError("random allocation covers Gaussian noise alone; state its (epsilon, delta) as Approx")
    return losses.RandomAllocation(mu=_inverse(event.event), steps=steps, participations=drawn)


def _selected(event: Any) -> Usage:
    poisson = math.isinf(event.shape)
    return training.repeat_and_select(from_event(event.event), mean=event.mean, shape=None if poisson else event.shape)


def _sampled(event: Any) -> AnyUsage:
    rate = rational(rate=event.sampling_probability)
    if rate == 0:
        return NOTHING
    if type(event.event).__name__ == "NonPrivateDpEvent" and rate < 1:
        return losses.Leak(delta=rate)
    inner = from_event(event.event)
    return inner if rate == 1 else usages.subsample(inner, rate)


def _trees(event: Any) -> AnyUsage:
    """A record is in one tree, in one node of each of its full levels: floor(log2 steps) + 1 Gaussian answers at most."""
    steps = event.step_counts if isinstance(event.step_counts, Sequence) else [event.step_counts]
    most = max((_whole(step_counts=one) for one in steps), default=0)
    return training.tree_with_restarts(noise_multiplier=event.noise_multiplier, steps=most) if most else NOTHING


def _whole(at_least: int = 0, **named: Any) -> int:
    """A whole number, as NumPy's or as a float that is one. Half a use is none that anyone ran."""
    ((name, value),) = named.items()
    return integer(at_least=at_least, **{name: int(value) if value == int(value) else value})


def _inverse(event: Any) -> Fraction:
    return 1 / positive(noise_multiplier=rational(noise_multiplier=event.noise_multiplier))


_EVENTS: Mapping[str, Callable[[Any], AnyUsage]] = {
    "NoOpDpEvent": lambda _: NOTHING,
    "GaussianDpEvent": lambda e: losses.Gaussian(mu=_inverse(e)),
    "LaplaceDpEvent": lambda e: losses.Laplace(epsilon=_inverse(e)),
    "DiscreteLaplaceDpEvent": lambda e: losses.Geometric(
        epsilon=rational(noise=e.noise_parameter) * (moved := _whole(sensitivity=e.sensitivity)), sensitivity=moved
    ),
    "RandomizedResponseDpEvent": _randomized_response,
    "ZCDpEvent": _zcdp,
    "SelfComposedDpEvent": lambda e: (
        usages.repeated(from_event(e.event), _whole(count=e.count)) if e.count else NOTHING
    ),
    "ComposedDpEvent": lambda e: usages.sequential(*map(from_event, e.events)) if e.events else NOTHING,
    "PoissonSampledDpEvent": _sampled,
    "SingleEpochTreeAggregationDpEvent": _trees,
    "SampledWithoutReplacementDpEvent": _fixed,
    "SampledWithReplacementDpEvent": _drawn,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "RandomAllocationDpEvent": _allocated,
    "RepeatAndSelectDpEvent": _selected,
    "MixtureOfGaussiansDpEvent": _mixture,
    "EpsilonDeltaDpEvent": lambda e: losses.Approx(epsilon=rational(epsilon=e.epsilon), delta=rational(delta=e.delta)),
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "ExponentialMechanismDpEvent": lambda e: losses.BoundedRange(epsilon=e.epsilon),
    "PermuteAndFlipDpEvent": lambda e: losses.Pure(epsilon=e.epsilon),
}


# of kinds that other usages do not say in full, so that the event is written as it was read
_KEPT = frozenset({_trees, _fixed, _drawn, _truncated, _allocated, _selected})

# the other kinds of events, and why each has no losses here
_REFUSED: Mapping[str, str] = {
    "DpEvent": "says nothing",
    "UnsupportedDpEvent": "says nothing",
    "NonPrivateDpEvent": "reveals everything, and no epsilon covers it",
}


def to_event(done: usages.AnyUsage) -> Any:
    """The `DpEvent` tree of a usage, for code that takes events.

    Noise is rounded down to floats, and rates, epsilons and deltas up, so that the event promises no more than the usage.

    Args:
        done: A usage, one mechanism or a composition. It may hold no disjoint parts and no group.

    Raises:
        ParameterError: dp_accounting is not installed.
        PrivacyError: dp_accounting has no event for a mechanism, and its losses have no bound.

    >>> to_event(10 * losses.SubsampledGaussian(mu="0.5", rate="0.1")).event.sampling_probability
    0.1
    """
    (events,) = needed("interop", "dp_accounting.dp_event")
    match usages.repeated(done, 1).each:
        case usages.Use(factor):
            return _written(events, factor)
        case usages.Repeated(each, count):
            return events.SelfComposedDpEvent(to_event(each), count)
        case usages.Sequential(parts):
            made = [to_event(part) for part in parts]
            return made[0] if len(made) == 1 else events.ComposedDpEvent(made)
        case AddRemove(inner, (kind, fields)):
            return getattr(events, kind)(*(to_event(one) if isinstance(one, Usage) else one for one in fields))
        case AddRemove(inner, event, single) if event or not single:
            return event or to_event(inner)
        case usages.Sampled(inner, rate):
            return events.PoissonSampledDpEvent(float_above(rate), to_event(inner))
    raise PrivacyError("no event says this of disjoint parts or of groups; write the cost with to_pld instead")


def _written(events: Any, factor: PrivacyLoss) -> Any:
    """One mechanism as the event of its kind; else, if it is pure, as the worst of all that are."""
    write = _WRITTEN.get(type(factor))
    if write is not None and (event := write(events, factor)) is not None:
        return event
    if (most := losses.Composition.of(factor).pure().upper) < math.inf:
        return _answers(events, Fraction(most), 2)
    raise PrivacyError(
        f"dp_accounting has no event for {type(factor).__name__}, whose losses have no bound; write the cost with to_pld instead"
    )


def _answers(events: Any, epsilon: Fraction, answers: int) -> Any:
    """Randomized response, where the truth has odds e^epsilon; of two answers it is the worst of all pure mechanisms."""
    noise = bounds(lambda: answers / (ball(epsilon).exp() + (answers - 1)))[0]
    return events.RandomizedResponseDpEvent(noise, answers)


def _finite(events: Any, factor: losses.FinitePair) -> Any:
    """Randomized response as it is read, or nothing."""
    own, other, *rest = factor.p
    if len(rest) != 1 or factor.q != (other, own, *rest) or not own > other > 0 or rest[0] % other:
        return None
    answers = 2 + int(rest[0] / other)
    return events.RandomizedResponseDpEvent(float_below(answers * other), answers)


def _mixed(events: Any, factor: losses.GaussianMixture) -> Any:
    distances, weights = zip(*factor.law, strict=True)
    above = [float_above(weight) for weight in weights[1:]]
    return events.MixtureOfGaussiansDpEvent(1.0, list(map(float_above, distances)), [1 - math.fsum(above), *above])


def _sample(events: Any, rate: Fraction, event: Any) -> Any:
    return events.PoissonSampledDpEvent(float_above(rate), event)


def _approximate(events: Any, factor: losses.Approx) -> Any:
    """The worst of this guarantee reveals all with probability delta, and answers as the worst pure mechanism else."""
    made = [_answers(events, factor.epsilon, 2)] if factor.epsilon else []
    made += [_sample(events, factor.delta, events.NonPrivateDpEvent())] if factor.delta else []
    return made[0] if len(made) == 1 else events.ComposedDpEvent(made) if made else events.NoOpDpEvent()


_WRITTEN: Mapping[type[PrivacyLoss], Callable[[Any, Any], Any]] = {
    losses.Gaussian: lambda e, f: e.GaussianDpEvent(float_below(1 / f.mu)),
    losses.Laplace: lambda e, f: e.LaplaceDpEvent(float_below(1 / f.rate)),
    losses.Geometric: lambda e, f: e.DiscreteLaplaceDpEvent(float_above(f.epsilon / f.sensitivity), f.sensitivity),
    losses.ZeroConcentrated: lambda e, f: e.ZCDpEvent(float_above(f.rho), float_above(f.xi)),
    losses.GaussianMixture: _mixed,
    losses.FinitePair: _finite,
    losses.Approx: _approximate,
    losses.Leak: lambda e, f: _sample(e, f.delta, e.NonPrivateDpEvent()),
    losses.RandomizedResponse: lambda e, f: _answers(e, f.epsilon, f.answers),
    # by its rho
    losses.DiscreteGaussian: lambda e, f: e.ZCDpEvent(float_above(f.stated_rho())),
    # as if it told which steps the record is in
    losses.RandomAllocation: lambda e, f: e.SelfComposedDpEvent(
        e.GaussianDpEvent(float_below(1 / f.mu)), f.participations
    ),
    losses.SubsampledGaussian: lambda e, f: _sample(e, f.rate, e.GaussianDpEvent(float_below(1 / f.mu))),
    losses.SubsampledLaplace: lambda e, f: _sample(e, f.rate, e.LaplaceDpEvent(float_below(1 / f.epsilon))),
    losses.UpperBound: lambda e, f: _written(e, f.of),
    losses.SubsampledFinite: lambda e, f: _sample(e, f.rate, _written(e, f.base)),
}


def to_pld(done: usages.AnyUsage | usages.Cost, *, step: Number = "1e-3", tail: Number = "1e-15") -> Any:
    """A pessimistic dp_accounting `PrivacyLossDistribution` of a whole under add/remove.

    The certified deltas at the grid's points are made convex from below, and their dots connected. The hull of upper bounds of a
    convex function is an upper bound too.

    Args:
        done: A usage or its cost.
        step: The step of the grid of losses.
        tail: The most probability that goes to infinite loss beyond the grid's end.

    Raises:
        ParameterError: dp_accounting is not installed, or the grid has more than 200,000 points.
    """
    pmf, distribution = needed("interop", "dp_accounting.pld.pld_pmf", "dp_accounting.pld.privacy_loss_distribution")
    total = done if isinstance(done, usages.Cost) else usages.cost(done)
    if total.neighbours != "add_remove":
        raise PrivacyError("a PLD has an add and a remove order; account the whole under add_remove")
    spacing = float(positive(step=rational(step=step)))
    pmfs = []
    for direction in ("remove", "add"):
        multiples, deltas = _dots(total.cases, direction, spacing, rational(tail=tail))
        pmfs.append(pmf.create_pmf_pessimistic_connect_dots(spacing, multiples, deltas))
    return distribution.PrivacyLossDistribution(*pmfs)


def _dots(
    cases: tuple[losses.Composition, ...], direction: Literal["remove", "add"], step: float, tail: Fraction
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
    corners = hull_places(np.exp(eps), deltas)
    return multiples[corners], deltas[corners]
