"""Whole releases under attack in this process: our own path intact, and with planted faults.

The same games on PostgreSQL and Spark are with the tests of the engines.
"""

from fractions import Fraction

import numpy as np
import pytest

import neartwin as nt
from neartwin.audit.claims import claim_approx, claim_gdp, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched, in_process, written
from neartwin.engines.duckdb import DuckdbEngine
from tests.audit.whole_releases import (
    CROWD,
    EVERYWHERE,
    HEAVY,
    ONE_COLUMN_MOVES,
    OWN_KEYS,
    WIDE,
    cap_on_groups_removed,
    counts,
    game,
    noise_shared_by_columns,
    pairs,
    sums,
    withstands,
    withstands_on_an_engine,
)
from tests.oracles.memory import MemoryEngine

__all__ = ["noise_shared_by_columns"]  # a fixture


class Reference:
    """The engine in plain Python, given the rows of the game."""

    def where(self, rows):
        self.rows = rows.to_pylist()
        return in_process(rows)

    def take(self, account, proposal):
        return account.release(proposal, engine=MemoryEngine(self.rows)).to_arrow()


@pytest.mark.slow
def test_a_whole_release_withstands_heavy_units_and_odd_rows():
    assert withstands(game(), claim_pure(1), pairs(), runs=1_000)


@pytest.mark.slow
def test_a_whole_release_of_the_reference_withstands_heavy_units():
    reference = Reference()
    assert withstands(game(where=reference.where, take=reference.take), claim_pure(1), pairs()[1:4], runs=400)


@pytest.mark.slow
def test_the_game_on_releases_is_sharp():
    # a count alone, one person in both of two keys: the whole epsilon is in it, and the game finds some of it
    twins = [Twins(CROWD, (*CROWD, ("new", "a", 1.0, 1.0), ("new", "b", 1.0, 1.0)), "a row in each of two keys")]
    found = audit(Batched(game(ask=counts)), claim_pure("0.2"), twins, runs=12_000)
    assert found.refuted, str(found)


@pytest.mark.slow
def test_a_whole_release_with_gaussian_noise_withstands_at_its_mu():
    normal = game(spend=nt.gdp(1))
    assert withstands(normal, claim_gdp(1), pairs()[1:3], runs=1_000)


@pytest.mark.slow
@pytest.mark.parametrize(("spend", "claim"), [(nt.gdp(1), claim_gdp(1)), (nt.pure(1), claim_pure(1))])
def test_the_bound_on_a_whole_release_comes_within_a_fifth_of_its_claim(spend, claim):
    # one count of one group: all of the budget is in one number, and a unit of many rows moves it by one
    one = game(spend=spend, ask=counts, keys=("a",), groups=1)
    twins = [Twins((), tuple(("new", "a", 1.0, 1.0) for _ in range(9)), "many rows")]
    found = audit(Batched(one), claim, twins, runs=200_000)
    assert 0.8 < found.reached < 1.03, str(found)


@pytest.mark.parametrize("take", [None, written])
def test_discovering_release_withstands_a_key_of_a_single_unit(take):
    unknown = game(spend=nt.approx(1, "0.01"), keys=None, ask=counts, **({"take": take} if take else {}))
    assert withstands(unknown, claim_approx(1, "0.01"), [OWN_KEYS], runs=2_000)


@pytest.mark.slow
def test_a_missing_cap_on_groups_is_caught_by_a_heavy_unit(monkeypatch):
    single = game(ask=counts, groups=1, keys=WIDE)  # noise for one group, rows in twelve
    tries = {"twins": [pairs()[0], EVERYWHERE], "runs": 2_000, "search_runs": 400}
    assert withstands(single, claim_pure(1), **tries)
    cap_on_groups_removed(monkeypatch, DuckdbEngine)
    found = audit(Batched(single), claim_pure(1), **tries)
    assert found.refuted, str(found)
    assert "every key" in found.twins.why


@pytest.mark.usefixtures("noise_shared_by_columns")
def test_noise_shared_by_two_columns_is_caught():
    # one column moves and the other does not: their difference shows it without noise
    found = audit(Batched(game(ask=sums)), claim_pure(1), [ONE_COLUMN_MOVES], runs=2_000)
    assert found.refuted, str(found)


@pytest.mark.slow
def test_single_moving_column_is_hidden_by_noise_on_each_column():
    assert withstands(game(ask=sums), claim_pure(1), [ONE_COLUMN_MOVES], runs=2_000)


@pytest.mark.slow
@pytest.mark.parametrize("spend", [Fraction(1, 2), Fraction(2)])
def test_whole_releases_withstand_ten_thousands_of_runs(spend):
    assert withstands(game(spend=nt.pure(spend)), claim_pure(spend), pairs(), runs=40_000, search_runs=2_000)


@pytest.mark.slow
@pytest.mark.parametrize("take", [None, written])
def test_whole_releases_withstand_every_game_of_the_engines(take):
    played = withstands_on_an_engine(runs=40_000, search_runs=2_000, **({"take": take} if take else {}))
    assert all(played.values()), played


@pytest.mark.slow
def test_every_run_of_replicas_is_a_release_of_its_own():
    # the replicas of one statement and releases made one by one have the same law: the game cannot tell them apart
    single, many = game(), game()
    apart = np.concatenate([single(CROWD, 1) for _ in range(300)])
    together = many(CROWD, 300)
    assert abs(apart.mean() - together.mean()) < 7 * (apart.std() + together.std()) / np.sqrt(apart.size)
    assert 0.8 < apart.std() / together.std() < 1.25


def test_rows_without_a_unit_stay_without_one_in_every_replica():
    assert game().replicated(HEAVY["no unit at all"], 3)["unit"].to_pylist() == [None] * 3
    assert game().replicated(CROWD[:2], 2)["unit"].to_pylist() == ["0/u0", "0/u1", "1/u0", "1/u1"]
