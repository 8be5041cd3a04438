"""Tables of (unit, key, value): what a unit may contribute, which groups are told, and what a query says by failing."""

import hashlib
import math
from collections import Counter, defaultdict

import numpy as np

from neartwin.audit.claims import claim_approx, claim_pure
from neartwin.audit.neighbouring_inputs import Twins, table_corners
from neartwin.audit.runs import Batched, Raised
from tests.audit.controls import Control, discrete_laplace

LOW, HIGH, CAP = 0, 10, 3
KEYS = ("a", "b")


def clipped(value):
    """Total: what is no number counts as the lower bound."""
    if value is None or math.isnan(value):
        return LOW
    return math.floor(min(max(value, LOW), HIGH) + 0.5)


def kept_rows(rows, cap):
    """At most `cap` rows a unit."""
    seen = Counter()
    for row in rows:
        seen[row[0]] += 1
        if seen[row[0]] <= cap:
            yield row


def corners():
    return table_corners(low=LOW, high=HIGH, heavy=60, keys=KEYS)


def counted_late(rng):
    """Cap applied to the group's total, as if all its units had used their share."""

    def draw(rows, runs):
        units = len({unit for unit, _, _ in rows})
        return min(len(rows), CAP * units + 50) + discrete_laplace(rng, CAP, runs)

    return Batched(draw)


def counted(rng):
    return Batched(lambda rows, runs: len(list(kept_rows(rows, CAP))) + discrete_laplace(rng, CAP, runs))


def summed(rng, bounded):
    def draw(rows, runs):
        values = [bounded(value) for _, _, value in kept_rows(rows, 1)]
        return np.clip(float(sum(values)), -1e15, 1e15) + discrete_laplace(rng, HIGH, runs)

    return Batched(draw)


def number(value):
    return 0.0 if value is None or not math.isfinite(value) else float(math.floor(max(min(value, 1e15), -1e15)))


def keys_told(rng, threshold):
    """Distinct units a key, with noise, for the keys that exist and pass the threshold; one key a unit."""

    def draw(rows, runs):
        units = defaultdict(set)
        for unit, key, _ in kept_rows(rows, 1):
            units[key].add(unit)
        noisy = {key: len(members) + discrete_laplace(rng, 1, runs) for key, members in units.items()}
        return [{key: int(n[i]) for key, n in noisy.items() if n[i] > threshold} for i in range(runs)]

    return Batched(draw)


def kept_groups(rng, chosen, groups=16):
    """Each unit keeps one of its groups; told is how many units keep each."""

    def draw(rows, runs):
        mine = defaultdict(list)
        for unit, key, _ in rows:
            mine[unit].append(key)
        counts = np.zeros(groups)
        for key in chosen(dict(sorted(mine.items()))):
            counts[key] += 1
        return counts + discrete_laplace(rng, 1, (runs, groups))

    return Batched(draw)


def by_stream(mine):
    """Numbers dealt from one seeded stream in the order of the units: a newcomer shifts everybody's."""
    stream = np.random.default_rng(12345)
    return [keys[int(stream.random() * len(keys))] for keys in mine.values()]


def by_hash(mine):
    """The key with the least salted hash of unit and key."""
    return [
        min(keys, key=lambda k: hashlib.sha256(f"salt|{unit}|{k}".encode()).digest()) for unit, keys in mine.items()
    ]


def newcomers():
    rows = tuple((f"unit {i:02}", key, 1) for i in range(40) for key in range(16))
    yield Twins(rows, (*rows, ("a first unit", 0, 1)), "one comes before all others")
    yield Twins(rows, (*rows, ("zz last unit", 0, 1)), "one comes after all others")


def mean_told(rng, counted_with):
    def draw(rows, runs):
        kept = list(kept_rows(rows, 1))
        total = sum(clipped(value) for _, _, value in kept) + discrete_laplace(rng, 2 * HIGH, runs)
        return np.stack([total / 1.0, counted_with(len(kept), runs)], axis=1)

    return Batched(draw)


def ratio_query(rng, total):
    """A count of rows where 10 / value > 1."""

    def draw(rows, runs):
        values = [clipped(value) for _, _, value in kept_rows(rows, 1)]
        if not total and 0 in values:
            return [Raised("ZeroDivisionError")] * runs
        hits = sum(1 for value in values if value != 0 and 10 / value > 1)
        return list(hits + discrete_laplace(rng, 1, runs))

    return Batched(draw)


def group_controls(rng):
    delta = 1e-3
    return [
        Control(
            name="existing keys told without a threshold that pays for them",
            source="unknown groups need a delta: Korolova et al. 2009, Wilson et al. 2020",
            broken=keys_told(rng, threshold=1),
            correct=keys_told(rng, threshold=1 + math.log(1 / (2 * delta))),
            claim=claim_approx(1, delta),
            twins=corners,
            event=("",),
            runs=8_000,
        ),
        Control(
            name="groups kept by numbers that depend on other units",
            source="random() over a seeded stream: one newcomer moves everybody's kept groups",
            broken=kept_groups(rng, by_stream),
            correct=kept_groups(rng, by_hash),
            claim=claim_pure(1),
            twins=newcomers,
            inputs="before all others",
            runs=8_000,
        ),
    ]


def controls(rng):
    return [
        *group_controls(rng),
        Control(
            name="counts bounded after aggregation",
            source="the cap must hold for each unit's rows, not for the group's total",
            broken=counted_late(rng),
            correct=counted(rng),
            claim=claim_pure(1),
            twins=corners,
            inputs="many",
            event=("value", "whole output"),
        ),
        Control(
            name="sum without clipping",
            source="sensitivity taken from declared bounds that nothing enforces",
            broken=summed(rng, number),
            correct=summed(rng, clipped),
            claim=claim_pure(1),
            twins=corners,
            inputs="the bounds",
            event=("value", "whole output"),
        ),
        Control(
            name="mean as a noisy sum beside the exact count",
            source="n is private under addition and removal, and in every filtered or grouped mean",
            broken=mean_told(rng, lambda n, runs: np.full(runs, n)),
            correct=mean_told(rng, lambda n, runs: n + discrete_laplace(rng, 2, runs)),
            claim=claim_pure(1),
            twins=corners,
            event=("[1]", "sum", "smallest", "largest", "difference"),
        ),
        Control(
            name="a query that fails on some values",
            source="whether a query fails is data: every expression must be total",
            broken=ratio_query(rng, total=False),
            correct=ratio_query(rng, total=True),
            claim=claim_pure(1),
            twins=corners,
            event=("raised", "value", "whole output"),
        ),
    ]
