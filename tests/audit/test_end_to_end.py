"""Whole releases under attack: the game on two tables one person apart, our own path intact and with planted faults."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import neartwin as nt
from neartwin.audit.claims import claim_approx, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.playing import Batched
from neartwin.audit.replicas import ReleaseGame
from neartwin.audit.twins import Twins
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.engines.memory import MemoryEngine
from neartwin.mechanisms.geometric import Geometric

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


def pairs():
    for why, extra in HEAVY.items():
        yield Twins(CROWD, CROWD + extra, why)
    yield Twins((), HEAVY["many rows in every key"], "many rows in every key, against nobody")


def duckdb_engine(_):
    return DuckdbEngine()


def memory_engine(rows):
    return MemoryEngine(rows.to_pylist())


def game(engine=duckdb_engine, *, spend=None, keys=KEYS, ask=None, groups=2):
    ask = ask or (lambda groups: groups.agg(n=nt.count(), s=nt.sum("x", 0, 1), t=nt.sum("y", 0, 1)))
    return ReleaseGame(
        values=("x", "y"),
        ask=ask,
        spend=spend or nt.pure(1),
        rows_per_group=1,
        groups_per_unit=groups,
        engine=engine,
        keys=keys,
    )


def played(release_game, claim, twins, runs, search_runs=100):
    return audit(Batched(release_game), claim, twins, runs=runs, search_runs=search_runs)


def stands(release_game, claim, twins, runs):
    """Not refuted twice in a row: a sound release is refuted once in a thousand games, so twice once in a million."""
    found = played(release_game, claim, twins, runs)
    return not (found.refuted and played(release_game, claim, [found.twins], runs).refuted)


@pytest.mark.parametrize(("engine", "runs"), [(duckdb_engine, 1_000), (memory_engine, 400)])
def test_a_whole_release_withstands_heavy_units_and_odd_rows(engine, runs):
    tried = list(pairs()) if engine is duckdb_engine else list(pairs())[1:4]
    assert stands(game(engine), claim_pure(1), tried, runs)


def test_the_game_on_releases_is_sharp():
    # a count alone, one person: the whole epsilon is in it, and the game finds most of it
    only = game(ask=lambda groups: groups.agg(n=nt.count()))
    twins = [Twins(CROWD, (*CROWD, ("new", "a", 1.0, 1.0), ("new", "b", 1.0, 1.0)), "a row in each of two keys")]
    found = played(only, claim_pure("0.25"), twins, 6_000)
    assert found.refuted, str(found)


def test_a_release_with_unknown_groups_withstands_a_key_that_only_one_unit_has():
    unknown = game(spend=nt.approx(1, "0.01"), keys=None, ask=lambda groups: groups.agg(n=nt.count()))
    twins = [Twins(CROWD, (*CROWD, ("new", "mine alone", 1.0, 1.0), ("new", "mine too", 1.0, 1.0)), "new keys")]
    assert stands(unknown, claim_approx(1, "0.01"), twins, 2_000)


@pytest.fixture
def groups_cap_removed(monkeypatch):
    honest = DuckdbEngine.aggregate

    def uncapped(self, stage, *, salt):
        return honest(self, dataclasses.replace(stage, groups_per_unit=None), salt=salt)

    monkeypatch.setattr(DuckdbEngine, "aggregate", uncapped)


@pytest.fixture
def noise_shared_by_columns(monkeypatch):
    honest, kept = Geometric.noisy, {}

    def shared(self, values, **options):
        key = (self.scale, values.shape)
        if key not in kept:
            kept[key] = honest(self, np.zeros(values.shape, np.int64), **options)
            return values + kept[key]
        return values + kept.pop(key)  # the next column of this release gets the same noise, then it is forgotten

    monkeypatch.setattr(Geometric, "noisy", shared)


@pytest.mark.usefixtures("groups_cap_removed")
def test_a_missing_cap_on_groups_is_caught_by_a_heavy_unit():
    single = game(ask=lambda groups: groups.agg(n=nt.count()), groups=1)  # noise for one group, rows in four
    found = played(single, claim_pure(1), list(pairs())[:2], 2_000, search_runs=800)
    assert found.refuted, str(found)
    assert "every key" in found.twins.why


@pytest.mark.usefixtures("noise_shared_by_columns")
def test_noise_shared_by_two_columns_is_caught():
    # one column moves and the other does not: their difference shows it without noise
    twins = [Twins(CROWD, (*CROWD, ("new", "a", 1.0, 0.0)), "one column moves")]
    two = game(ask=lambda groups: groups.agg(s=nt.sum("x", 0, 1), t=nt.sum("y", 0, 1)))
    found = played(two, claim_pure(1), twins, 2_000)
    assert found.refuted, str(found)


def test_one_column_that_moves_is_hidden_where_each_column_has_its_own_noise():
    twins = [Twins(CROWD, (*CROWD, ("new", "a", 1.0, 0.0)), "one column moves")]
    two = game(ask=lambda groups: groups.agg(s=nt.sum("x", 0, 1), t=nt.sum("y", 0, 1)))
    assert stands(two, claim_pure(1), twins, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("spend", [Fraction(1, 2), Fraction(2)])
def test_whole_releases_withstand_ten_thousands_of_runs(spend):
    assert stands(game(spend=nt.pure(spend)), claim_pure(spend), list(pairs()), 40_000)


@pytest.mark.slow
def test_every_run_of_replicas_is_a_release_of_its_own():
    # the replicas of one statement and releases made one by one have the same law: the game cannot tell them apart
    single, many = game(), game()
    apart = np.concatenate([single(CROWD, 1) for _ in range(300)])
    together = many(CROWD, 300)
    assert abs(apart.mean() - together.mean()) < 6 * (apart.std() + together.std()) / np.sqrt(apart.size)
    assert 0.8 < apart.std() / together.std() < 1.25
