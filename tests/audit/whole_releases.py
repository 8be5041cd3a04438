"""Whole releases to play: two tables one person apart, heavy and odd units among them, and faults in our own path."""

import dataclasses

import numpy as np
import pytest

import neartwin as nt
from neartwin.audit.claims import claim_approx, claim_pure
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched, ReleaseGame
from neartwin.mechanisms.additive import DiscreteLaplace
from tests.audit.verdicts import stands

KEYS = ("a", "b", "c", "d")
CROWD = tuple((f"u{i}", KEYS[i % 4], 1.0, 1.0) for i in range(3))
HEAVY = {
    "one row": (("new", "a", 1.0, 1.0),),
    "many rows in every key": tuple(("new", key, 1.0, 1.0) for key in KEYS for _ in range(9)),
    "rows far out of bounds": tuple(("new", key, 1e300, -1e300) for key in KEYS),
    "rows that are no numbers": (("new", "a", float("nan"), float("inf")), ("new", "b", None, float("-inf"))),
    "rows under missing and unknown keys": (("new", None, 1.0, 1.0), ("new", "elsewhere", 1.0, 1.0)),
    "no unit at all": ((None, "a", 1.0, 1.0),),
}
ONE_COLUMN_MOVES = Twins(CROWD, (*CROWD, ("new", "a", 1.0, 0.0)), "one column moves")
WIDE = tuple("abcdefghijkl")
EVERYWHERE = Twins(CROWD, CROWD + tuple(("new", key, 1.0, 1.0) for key in WIDE for _ in range(3)), "rows in every key")
OWN_KEYS = Twins(CROWD, (*CROWD, ("new", "mine alone", 1.0, 1.0), ("new", "mine too", 1.0, 1.0)), "new keys")


def pairs():
    return [
        *(Twins(CROWD, CROWD + extra, why) for why, extra in HEAVY.items()),
        Twins((), HEAVY["many rows in every key"], "many rows in every key, against nobody"),
    ]


def three(groups):
    return groups.agg(n=nt.count(), s=nt.sum("x", 0, 1), t=nt.sum("y", 0, 1))


def counts(groups):
    return groups.agg(n=nt.count())


def sums(groups):
    return groups.agg(s=nt.sum("x", 0, 1), t=nt.sum("y", 0, 1))


def game(*, spend=None, keys=KEYS, ask=three, groups=2, **more):
    return ReleaseGame(
        values=("x", "y"),
        ask=ask,
        spend=spend or nt.pure(1),
        limits=nt.limits(max_rows_per_group=1, max_groups=groups),
        keys=keys,
        **more,
    )


def withstands(release_game, claim, twins, *, runs, search_runs=100):
    return stands(Batched(release_game, at_once=10_000), claim, twins, runs=runs, search_runs=search_runs)


def withstands_on_an_engine(*, runs, search_runs, **where):
    """The games that every engine must win: heavy and odd units, a column that moves alone, keys of one unit alone."""
    tries = {"runs": runs, "search_runs": search_runs}
    unknown = game(spend=nt.approx(1, "0.01"), keys=None, ask=counts, **where)
    return {
        "heavy and odd units": withstands(game(**where), claim_pure(1), pairs(), **tries),
        "one column moves": withstands(game(ask=sums, **where), claim_pure(1), [ONE_COLUMN_MOVES], **tries),
        "unknown keys": withstands(unknown, claim_approx(1, "0.01"), [OWN_KEYS], **tries),
    }


def cap_on_groups_removed(monkeypatch, engine):
    """A fault planted in our own path: the engine is never told how many groups a unit may touch."""
    honest = engine.aggregate

    def uncapped(self, stage, *, salt):
        return honest(self, dataclasses.replace(stage, groups_per_unit=None), salt=salt)

    monkeypatch.setattr(engine, "aggregate", uncapped)


@pytest.fixture
def noise_shared_by_columns(monkeypatch):
    """Another: two columns of one release get the same noise, and then it is forgotten."""
    honest, kept = DiscreteLaplace.noisy, {}

    def shared(self, values, **options):
        key = (self.scale, values.shape)
        if key not in kept:
            kept[key] = honest(self, np.zeros(values.shape, np.int64), **options)
            return values + kept[key]
        return values + kept.pop(key)

    monkeypatch.setattr(DiscreteLaplace, "noisy", shared)
