"""Linear workloads under attack, from rows to noisy answers: intact, and where the planner takes units for smaller ones."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.audit.claims import claim_gdp, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.runs import Batched
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.noise import SYSTEM
from neartwin.planning import workloads
from neartwin.planning.planner import plan
from tests.audit.verdicts import stands
from tests.audit.whole_releases import EVERYWHERE, KEYS, WIDE, pairs

PRICES = [(nt.pure(1), claim_pure(1)), (nt.gdp(1), claim_gdp(1))]


def totals(groups):
    return groups.workload(nt.prefix_sums()).agg(n=nt.count())


def spans(groups):
    return groups.workload(nt.moving_sums(2, 1)).agg(s=nt.sum("x", -1, 1))


def game(ask, spend, *, keys=KEYS, groups=2, last=False):
    """Answers of many runs, whose rows are bounded and counted once: nothing but noise differs between runs."""

    def one(rows, runs):
        kinds = [pa.string(), pa.string(), pa.float64(), pa.float64()]
        columns = {
            name: pa.array([row[place] for row in rows], kind)
            for place, (name, kind) in enumerate(zip(("unit", "key", "x", "y"), kinds, strict=True))
        }
        people = nt.table(pa.table(columns), unit="unit", name="people")
        made = plan(
            ask(people.group_by("key", keys=keys)),
            spend=spend,
            limits=nt.limits(max_rows_per_group=1, max_groups=groups),
        )
        exact = DuckdbEngine().aggregate(made.stage, salt=SYSTEM.bits(64))
        found = np.array([made.noised([exact], SYSTEM).columns[0].values for _ in range(runs)])
        return found[:, -1:] if last else found

    return Batched(one)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [totals, spans])
@pytest.mark.parametrize(("spend", "claim"), PRICES)
def test_a_workload_withstands_heavy_and_odd_units(ask, spend, claim):
    assert stands(game(ask, spend), claim, pairs(), runs=300, search_runs=50)


@pytest.mark.parametrize(("spend", "claim"), PRICES)
def test_planner_that_counts_a_unit_in_one_group_alone_is_caught(monkeypatch, spend, claim):
    one = game(totals, spend, keys=WIDE, groups=len(WIDE), last=True)  # the last prefix, which such a unit moves most
    assert stands(one, claim, [EVERYWHERE], runs=1_000)
    honest = workloads.contribution_of

    def small(base):
        return dataclasses.replace(honest(base), groups=1, total=1)

    monkeypatch.setattr(workloads, "contribution_of", small)
    assert audit(one, claim, [EVERYWHERE], runs=1_000).refuted
