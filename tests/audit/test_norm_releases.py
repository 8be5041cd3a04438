"""Whole releases whose units are bounded by the length of their rows by group, under attack: intact, and with planted faults."""

import dataclasses
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import neartwin as nt
from neartwin.audit.claims import claim_gdp
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched, ReleaseGame
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.engines.sql import statement
from neartwin.noise import SYSTEM
from neartwin.planning.planner import plan
from tests.audit.verdicts import stands
from tests.audit.whole_releases import CROWD, KEYS, WIDE, counts, pairs, three, withstands

NORM = 3
LONG = (  # each as long as the bound allows, or cut to it
    Twins((), tuple(("new", "a", 1.0, 1.0) for _ in range(9)), "nine rows in one key"),
    Twins((), tuple(("new", "a", 1.0, 1.0) for _ in range(3)), "as many rows as the norm"),
    Twins(CROWD, CROWD + tuple(("new", key, 1.0, 1.0) for key in WIDE for _ in range(3)), "rows in every key"),
    Twins(CROWD, CROWD + tuple(("new", key, 1.0, -1.0) for key in ("a", "b", "c") for _ in range(2)), "both signs"),
    Twins(CROWD, (*CROWD, *(("new", "a", 1.0, 1.0) for _ in range(40)), ("new", "b", 1.0, 1.0)), "one long, one short"),
)


def game(*, ask=counts, keys=KEYS, spend=None):
    return ReleaseGame(values=("x", "y"), ask=ask, spend=spend or nt.gdp(1), limits=nt.limits(norm=NORM), keys=keys)


def both_signs(groups):
    return groups.agg(n=nt.count(), s=nt.sum("x", 0, 1), t=nt.sum("y", -1, 1))


def binned(rows, runs):
    """A histogram by group, whose rows are weighted and counted once: nothing but noise differs between runs."""
    kinds = [("unit", pa.string()), ("key", pa.string()), ("x", pa.float64())]
    columns = {name: pa.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(kinds)}
    grouped = nt.table(pa.table(columns), unit="unit", name="people").group_by("key", keys=WIDE)
    made = plan(grouped.agg(h=nt.histogram("x", [-1, 0.5, 1.5])), spend=nt.gdp(1), limits=nt.limits(norm=NORM))
    cells = {name: DuckdbEngine().aggregate(split.stage, salt=1) for name, split in made.splits.items()}
    answers = [made.noised(list(cells.values()), SYSTEM) for _ in range(runs)]
    return np.array([answer.columns[0].values for answer in answers])


def added_up(one):
    """The sum of all counts, along which a unit with as much in every key moves furthest."""
    return lambda rows, runs: np.asarray(one(rows, runs)).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [counts, both_signs, three])
def test_a_release_withstands_units_as_long_as_the_norm_allows_and_longer(ask):
    assert withstands(game(ask=ask), claim_gdp(1), [*LONG, pairs()[2]], runs=400, search_runs=50)


def test_along_the_direction_of_a_wide_unit_it_withstands_too():
    wide = game(keys=WIDE)
    assert withstands(added_up(wide), claim_gdp(1), [LONG[2]], runs=1_000)


@pytest.mark.slow
def test_the_game_on_a_clipped_unit_is_sharp():
    # all of the norm is in one count, which moves by mu deviations of its noise; and in twelve, along their sum
    for one, twins in ((game(keys=("a",)), LONG[0]), (added_up(game(keys=WIDE)), LONG[2])):
        found = audit(Batched(one), claim_gdp("0.6"), [twins], runs=4_000)
        assert found.refuted, str(found)


def test_clipped_unit_is_within_the_bound_and_close_to_it():
    sure = game(keys=WIDE, spend=nt.gdp(10**6))
    for twins in LONG:
        with_it, without = (np.asarray(sure(side, 2)).mean(axis=0) for side in (twins.right, twins.left))
        length = sqrt(((with_it - without) ** 2).sum())
        assert NORM * 0.98 < length < NORM + 1e-2, twins.why


def test_a_limit_that_the_engine_takes_half_as_seriously_is_caught(monkeypatch):
    honest = DuckdbEngine.aggregate

    def lax(self, stage, *, salt):
        return honest(self, dataclasses.replace(stage, norm=2 * stage.norm), salt=salt)

    one = game(keys=("a",))
    assert withstands(one, claim_gdp(1), [LONG[0]], runs=2_000)
    monkeypatch.setattr(DuckdbEngine, "aggregate", lax)
    assert audit(Batched(one), claim_gdp(1), [LONG[0]], runs=4_000).refuted


def test_a_norm_of_each_group_in_place_of_all_is_caught(monkeypatch):
    honest = statement._lengths

    def alone(*arguments, known):
        del known  # sums by unit have no groups
        parts = honest(*arguments, known=False)
        parts["summed"] = parts["summed"].select("p").group_by("p")
        (join,) = parts["joined"].args["joins"]
        join.set("on", exp.and_(join.args["on"], "units.p = rooted.p"))
        return parts

    wide = added_up(game(keys=WIDE))
    monkeypatch.setattr(statement, "_lengths", alone)
    assert audit(Batched(wide), claim_gdp(1), [LONG[2]], runs=2_000).refuted


@pytest.mark.slow
def test_normed_histogram_withstands_any_unit_and_doubled_limit_is_caught(monkeypatch):
    assert stands(Batched(binned), claim_gdp(1), LONG, runs=400, search_runs=50)
    heavy = Batched(added_up(binned))
    assert stands(heavy, claim_gdp(1), [LONG[2]], runs=1_000)
    honest = DuckdbEngine.aggregate

    def lax(self, stage, *, salt):
        return honest(self, dataclasses.replace(stage, norm=2 * stage.norm), salt=salt)

    monkeypatch.setattr(DuckdbEngine, "aggregate", lax)
    assert audit(heavy, claim_gdp(1), [LONG[2]], runs=3_000).refuted


@pytest.mark.slow
@pytest.mark.parametrize("one", [game(keys=("a",)), added_up(game(keys=WIDE))])
def test_the_bound_on_a_clipped_unit_comes_within_a_fifth_of_its_claim(one):
    twins = LONG[0] if isinstance(one, ReleaseGame) else LONG[2]
    found = audit(Batched(one, at_once=10_000), claim_gdp(1), [twins], runs=200_000)
    assert 0.8 < found.reached < 1.03, str(found)
