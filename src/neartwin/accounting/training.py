"""Training runs as usages: what one record costs under each way of making batches. Proofs: docs/proofs/training.md.

Noise multipliers are the noise's standard deviation over the norm that gradients are clipped to. All usages are stated for
add/remove neighbours; `cost(usage).epsilon(delta)` answers. Under replace-one only Poisson batches do, and all others refuse.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, islice
from math import comb, perm
from typing import Any

from neartwin import losses
from neartwin.accounting import usage as usages
from neartwin.balls import ball, binomial_cdf, closely
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, float_above, float_below, rational, root_above
from neartwin.losses.composition import PrivacyLoss

MOST_DRAWS = 63  # of one record in one step, beyond which it counts as revealed
NEGLIGIBLE = Fraction(1, 10**20)  # the probability of more draws in one step that counts likewise


def poisson_batches(*, noise_multiplier: Number, rate: Number, steps: int, accumulated: int = 1) -> usages.Usage:
    """DP-SGD on Poisson batches.

    Args:
        noise_multiplier: Above 0.
        rate: The probability with which each record is in a batch.
        steps: Steps of the optimizer.
        accumulated: Poisson batches whose clipped gradients one step sums. A record may be in several (T3). More than 63 times
            in one step counts as revealed.

    >>> from neartwin.accounting.usage import cost
    >>> round(cost(poisson_batches(noise_multiplier=1, rate="0.01", steps=10_000)).epsilon("1e-5").upper, 6)
    6.187712
    """
    mu, share = _inverse(noise_multiplier), rational(rate=rate)
    if integer(at_least=1, accumulated=accumulated) == 1:
        return usages.repeated(losses.SubsampledGaussian(mu=mu, rate=share), steps)
    return usages.repeated(_mixture(mu, _binomial(share, accumulated)).inner, steps)


def fixed_batches(
    *, noise_multiplier: Number, batch: int, records: int, steps: int, replacement: bool = False, group: int = 1
) -> usages.Usage:
    """DP-SGD on batches of a fixed size, drawn afresh at each step (T1, T2).

    Args:
        noise_multiplier: Above 0.
        batch: Records a batch.
        records: Records of the larger data set, more than a batch.
        steps: Steps of the optimizer.
        replacement: Whether a batch may hold a record more than once.
        group: Records that join or leave together, such as those of one person.

    >>> from neartwin.accounting.usage import cost
    >>> run = fixed_batches(noise_multiplier=2, batch=100, records=10_000, steps=1000)
    >>> cost(run).epsilon("1e-5") == cost(poisson_batches(noise_multiplier=1, rate="0.01", steps=1000)).epsilon("1e-5")
    True
    """
    mu, k = 2 * _inverse(noise_multiplier), integer(at_least=1, group=group)
    size, whole = integer(at_least=1, batch=batch), integer(at_least=k + 1, records=records)
    if k == 1:
        draw = with_replacement if replacement else without_replacement
        return usages.repeated(draw(losses.Gaussian(mu=mu / 2), batch=size, records=whole), steps)
    if replacement:
        return usages.repeated(_mixture(mu, _binomial(Fraction(k, whole), size)), steps)
    if size + k > whole:
        raise ParameterError("batch", batch, f"must leave {k} of the {whole} records out")
    ways = (comb(k, h) * perm(size, h) * perm(whole - size, k - h) for h in range(k + 1))
    return usages.repeated(_mixture(mu, (Fraction(way, perm(whole, k)) for way in ways)), steps)


def truncated_batches(
    *, noise_multiplier: Number, rate: Number, largest: int, records: int, steps: int
) -> usages.Usage:
    """DP-SGD on Poisson batches, each cut to a size by dropping records at random (T8).

    Args:
        noise_multiplier: Above 0.
        rate: The probability with which each record is drawn, below 1.
        largest: Records that a batch keeps, at most.
        records: Records of the larger data set.
        steps: Steps of the optimizer.

    The loader must not tell which batches it cuts, for a full one would tell whether the record was drawn. The upper end is
    attained by an attacker who knows in which steps the other records alone fill the batch.
    """
    mu, share = _inverse(noise_multiplier), open_probability(rate=rational(rate=rate))
    size, whole = integer(at_least=1, largest=largest), integer(at_least=1, records=records)
    drawn = losses.SubsampledGaussian(mu=mu, rate=share)
    if size >= whole:
        return usages.repeated(drawn, steps)
    event = "TruncatedSubsampledGaussianDpEvent", (whole, float_above(share), size, float_below(1 / mu))
    low, high = closely(lambda: 1 - binomial_cdf(whole - 1, size - 1, ball(share)))
    if low <= NEGLIGIBLE:
        return usages.repeated(usages.AddRemove(_beside(drawn, high), event, single=True), steps)
    more = closely(lambda: 1 - binomial_cdf(whole, size, ball(share)))[1]
    cut = losses.SubsampledGaussian(mu=2 * mu, rate=min(more * size / whole / low, share))
    known = low if 1 - high <= NEGLIGIBLE else 1 - high + low
    weights = (known - low) / known, low / known
    one = cut if known == low else losses.PublicChoice(options=(drawn, cut), weights=weights)
    return usages.repeated(usages.AddRemove(_beside(one, 1 - known), event, single=True), steps)


def random_allocation(*, noise_multiplier: Number, steps: int, epochs: int = 1) -> usages.Usage:
    """DP-SGD where each record is in one random step of each epoch, drawn afresh for each record and epoch (T9).

    Args:
        noise_multiplier: Above 0.
        steps: Steps of an epoch.
        epochs: Their number.
    """
    return usages.repeated(losses.RandomAllocation(mu=_inverse(noise_multiplier), steps=steps), epochs)


def balls_in_bins(*, noise_multiplier: Number, steps: int, epochs: int = 1) -> usages.Usage:
    """DP-SGD where each record is thrown into one of as many bins as an epoch has steps, once for all epochs (T9).

    Args:
        noise_multiplier: Above 0.
        steps: Steps of an epoch.
        epochs: Their number. Each uses the bins in the same order.
    """
    mu = _inverse(noise_multiplier) * root_above(Fraction(integer(at_least=1, epochs=epochs)))
    return usages.repeated(losses.RandomAllocation(mu=mu, steps=steps), 1)


def without_replacement(factor: PrivacyLoss, *, batch: int, records: int) -> usages.Usage:
    """A mechanism on a batch of a fixed size, drawn without replacement (T1).

    Args:
        factor: The mechanism's loss for one record that joins or leaves.
        batch: Records a batch.
        records: Records of the larger data set, more than a batch.

    Raises:
        PrivacyError: No theorem covers the mechanism.
    """
    size, whole = integer(at_least=1, batch=batch), integer(at_least=2, records=records)
    if size >= whole:
        raise ParameterError("batch", batch, f"must be below the number of records, {whole}")
    drawn = usages.use(usages.sample_loss(_replaced(factor, 1), Fraction(size, whole)))
    return usages.AddRemove(drawn, ("SampledWithoutReplacementDpEvent", (whole, size, usages.use(factor))), single=True)


def with_replacement(factor: PrivacyLoss, *, batch: int, records: int) -> usages.Usage:
    """A mechanism on a batch drawn with replacement (T2).

    Args:
        factor: The mechanism's loss for one record that joins or leaves.
        batch: Draws a batch.
        records: Records of the larger data set.

    Raises:
        PrivacyError: No theorem covers the mechanism.
    """
    draws, rate = integer(at_least=1, batch=batch), Fraction(1, integer(at_least=2, records=records))
    event = "SampledWithReplacementDpEvent", (rate.denominator, draws, usages.use(factor))
    if isinstance(factor, losses.Gaussian):
        return _mixture(2 * factor.mu, _binomial(rate, draws), event)
    weights, beyond = _frequent(_binomial(rate, draws))
    often = 1 - weights[0]
    options = [usages.sample_loss(_replaced(factor, k), often) for k in range(1, len(weights))]
    try:
        chosen = losses.PublicChoice(options=options, weights=[weight / often for weight in weights[1:]])
    except ParameterError:
        raise PrivacyError(f"no theorem here draws {factor!r}, which may reveal all, with replacement") from None
    return usages.AddRemove(_beside(losses.UpperBound(of=chosen), beyond), event, single=True)


def _replaced(factor: PrivacyLoss, records: int) -> PrivacyLoss:
    """The loss of so many records of a batch in the place of others.

    Of others it is not that of twice as many that join together: one that leaves and one that joins are sampled apart.
    """
    if isinstance(factor.of if isinstance(factor, losses.UpperBound) else factor, losses.SubsampledGaussian):
        raise PrivacyError("no theorem here covers samples of batches of a fixed size; state an (epsilon, delta)")
    return usages.group_loss(factor, 2 * records)


def banded_factorization(*, noise_multiplier: Number, rate: Number, bands: int, steps: int) -> usages.Usage:
    """Matrix factorization with a banded encoder: DP-BandMF, or b-min-sep participation by blocks (T4).

    Args:
        noise_multiplier: The noise's standard deviation over clipping norm times the largest column norm of the encoder.
        rate: Expected batch over number of records.
        bands: b, bands of the encoder. The loader puts each record into one of b blocks, once, by itself: by a hash of its
            name, say. A loader that balances their sizes is another one. Step i samples block i mod b by Poisson, at rate b
            times `rate`.
        steps: Steps of the optimizer.
    """
    wide, share = integer(at_least=1, bands=bands), rational(rate=rate)
    if wide * share > 1:
        raise ParameterError("bands", bands, f"times the rate {float(share):g} must be at most 1")
    rounds = -(-integer(at_least=1, steps=steps) // wide)
    drawn = losses.SubsampledGaussian(mu=_inverse(noise_multiplier), rate=wide * share)
    event = "SelfComposedDpEvent", (usages.use(drawn), rounds)
    return usages.AddRemove(usages.repeated(drawn, rounds), event, single=wide > 1)


def tree_with_restarts(*, noise_multiplier: Number, steps: int, restarts: int = 1) -> usages.Usage:
    """DP-FTRL by tree aggregation, each record at most once between restarts (T5).

    Args:
        noise_multiplier: The noise's standard deviation at each node over the clipping norm.
        steps: Steps between restarts.
        restarts: Trees, the first one counted.
    """
    nodes = integer(at_least=1, steps=steps).bit_length() * integer(at_least=1, restarts=restarts)
    return usages.AddRemove(usages.repeated(losses.Gaussian(mu=_inverse(noise_multiplier)), nodes))


def toeplitz_factorization(
    *, noise_multiplier: Number, coefficients: Sequence[Number], participations: int, separation: int
) -> usages.Usage:
    """Matrix factorization with a Toeplitz encoder, such as a BLT or a banded one, without sampling: b-min-sep (T6).

    An encoder that is not Toeplitz, and has no more bands than steps of separation, costs no more than (n, 0, ..., 0),
    n its largest column norm.

    Args:
        noise_multiplier: The noise's standard deviation over the clipping norm.
        coefficients: The encoder's first column, one number a step, the first above 0. The cost is attained by one
            participation, where all after the first b are 0, or where none is negative or above the one before. Else the lower
            end is 0.
        participations: Steps that one record is in, at most.
        separation: b, steps from one of them to the next, at least.

    Raises:
        ParameterError: The first coefficient is not above 0.
    """
    mu, first = _inverse(noise_multiplier), [rational(coefficients=one) for one in coefficients]
    if not first or first[0] <= 0:
        raise ParameterError("coefficients", coefficients, "must begin above 0")
    column, every = [abs(one) for one in first], integer(at_least=1, separation=separation)
    starts = range(0, len(column), every)[: integer(at_least=1, participations=participations)]
    overlap = len(starts) > 1 and any(column[every:])
    if overlap:  # what overlaps is bounded by an encoder that never rises
        column = list(accumulate(reversed(column), max))[::-1]
    moved = [sum((column[t - start] for start in starts if start <= t), Fraction(0)) for t in range(len(column))]
    step = losses.Gaussian(mu=mu * root_above(sum((one * one for one in moved), Fraction(0))))
    return usages.AddRemove(usages.repeated(losses.UpperBound(of=step) if overlap and column != first else step, 1))


def repeat_and_select(
    usage: usages.Usage | PrivacyLoss | losses.Composition, *, mean: Number, shape: Number | None = 1
) -> usages.Usage:
    """Private selection: the best of a random number of runs, such as a search for hyperparameters (T7).

    Args:
        usage: One run.
        mean: The expected number of runs, above 1.
        shape: eta of the truncated negative binomial law: 1 is geometric, 0 logarithmic. None is Poisson.

    Returns:
        The usage; its cost holds for the worst score.
    """
    kinds = [losses.PrivateSelection(run=case, mean=mean, shape=shape) for case in usages.cost(usage).cases]
    once = usages.repeated(usage, 1).each
    event = "RepeatAndSelectDpEvent", (once, float_above(rational(mean=mean)), kinds[0].runs.power - 1)
    return usages.AddRemove(usages.parallel(*kinds), event, usages.is_single(once))


def _mixture(mu: Fraction, law: Iterable[Fraction], event: Any = None) -> usages.AddRemove:
    """One step that meets the records as often as the law says, each time by mu."""
    weights, beyond = _frequent(law)
    distances = [k * mu for k in range(len(weights))]
    step = _beside(losses.GaussianMixture(distances=distances, weights=weights), beyond)
    return usages.AddRemove(step, event, single=True)


def _beside(step: PrivacyLoss, beyond: Fraction) -> usages.Usage:
    """A step, and what its law of draws leaves out."""
    return usages.sequential(step, losses.UpperBound(of=losses.Leak(delta=beyond))) if beyond else usages.use(step)


def _binomial(rate: Fraction, draws: int) -> Iterator[Fraction]:
    """The probabilities that none, one, two, ... of so many draws are of a kind."""
    open_probability(rate=rate)
    weight = (1 - rate) ** draws if draws <= MOST_DRAWS else closely(lambda: (1 - ball(rate)) ** draws)[0]
    for k in range(draws + 1):
        yield weight
        weight *= Fraction(draws - k, k + 1) * rate / (1 - rate)


def _frequent(law: Iterable[Fraction]) -> tuple[list[Fraction], Fraction]:
    """The law of how many draws take a record, given that they are not too many, and the probability that they are."""
    weights, beyond = [], Fraction(1)
    for weight in islice(law, MOST_DRAWS + 1):
        weights.append(weight)
        beyond -= weight
        if beyond <= NEGLIGIBLE and len(weights) > 1:
            break
    return [weight / (1 - beyond) for weight in weights], beyond


def _inverse(noise_multiplier: Number) -> Fraction:
    return 1 / positive(noise_multiplier=rational(noise_multiplier=noise_multiplier))
