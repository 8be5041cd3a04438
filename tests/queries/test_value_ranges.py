"""Clip bounds of values are chosen from noisy answers alone, within the declared limits, and are paid for in one reserve."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin import noise
from neartwin.accounting.budgets import Approx, Gdp, Pure, Zcdp
from neartwin.cli import main
from neartwin.errors import ParameterError, QueryError
from neartwin.planning.limit_choice import PARTS
from neartwin.planning.pilots import with_private_range
from neartwin.planning.planner import plan
from tests.oracles.memory import MemoryEngine

SALT, TOWNS = 5, 4
LIMITS = {"limits": nt.limits(max_rows_per_group=8, max_groups=TOWNS)}
CHOSEN = nt.private_range()


def people(size=20_000, *, units=2_000, seed=1):
    draw = np.random.default_rng(seed)
    paid = np.round(np.exp(draw.normal(2, 1, size)), 2)
    return {"who": draw.integers(0, units, size), "town": draw.integers(0, TOWNS, size), "paid": paid}


def asked(columns, *, low=0, high=10**5, clip=None):
    rows = nt.table(pa.table(columns), unit="who", name="visits")
    groups = rows.group_by("town", keys=range(TOWNS))
    return rows, groups.agg(
        n=nt.count(), s=nt.sum("paid", low, high, clip=clip), m=nt.mean("paid", low, high, clip=clip)
    )


def scored(part, end, rows):
    """The scores of the candidates for one end, by the exact answer about some rows."""
    search, values = part.searches[end]
    answer = MemoryEngine(rows).aggregate(part.split.stage, salt=SALT)
    return part.scores(end, part.split.leaves([()], answer)[0]), search, values


def as_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    "spend", [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("1/8"), nt.rdp(8, 1), nt.gdp("1/2")], ids=str
)
def test_the_price_covers_all_stages_together(spend):
    made = plan(asked(people(50), clip=CHOSEN)[1], spend=spend, **LIMITS)
    assert made.price == made.spend == spend
    (choice,) = [mechanism for _, mechanism in made.first_stages[0].mechanisms()]
    measures = [measure for measure in made.measures.values() if not measure.paid]
    losses = [mechanism for _, mechanism in made.loss.mechanisms()]
    assert len(losses) == 2  # of limits, and of clipping
    match spend:
        case Pure(epsilon=epsilon):
            total = sum(measure.sensitivity.l1 / measure.mechanism.scale for measure in measures)
            total += sum(mechanism.epsilon for mechanism in [*losses, choice])
            assert Fraction(99, 100) * epsilon < total <= epsilon
        case Approx(epsilon=epsilon, delta=delta):
            assert made.losses().epsilon(delta).upper <= epsilon
        case Gdp(mu=mu):
            total = sum(mechanism.mu_squared for mechanism in [*losses, *(one.mechanism for one in measures)])
            assert total <= Fraction(4, 5) * mu**2
            assert made.losses().gdp("1e-6").upper < 1.001 * mu
        case Zcdp(rho=rho):
            total = sum(mechanism.rho for mechanism in [*losses, *(one.mechanism for one in measures)])
            assert Fraction(999, 1000) * rho < total + choice.epsilon**2 / 8 <= rho
        case _:
            assert made.first_stages[0].rest.epsilon == Fraction(4, 5)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("epsilon", [1, 10, 1000])
def test_one_unit_moves_all_scores_one_way_and_by_at_most_1(neighbours, end, epsilon):
    """All tables of three small units and one of any size, against those without it, or with another in its place."""
    columns = {"who": [1, 2, 2, 3], "town": [0, 1, 1, 2], "paid": [-3.0, 50.0, -0.5, 9.0]}
    table = nt.table(pa.table(columns), unit="who", name="visits", neighbours=neighbours)
    made = plan(table.agg(s=nt.sum("paid", -100, 100, "0.01", clip=CHOSEN)), spend=nt.pure(epsilon), **LIMITS)
    (part,), others = made.first_stages[0].ranges, as_rows(columns)
    values = [[0.01], [100.0], [-100.0] * 500, [-100.0, 100.0] * 7, [0.4, -0.4, 7.0, 100.0], [-1e9, 3.0, 3.0]]
    values += [[sign * value for value in unit] for unit in ([50.0, 1.0], [10.0] * 3) for sign in (1, -1)]
    units = [[{"who": 9, "town": 0, "paid": value} for value in unit] for unit in values]
    before, search, _ = scored(part, end, others)
    found = [scored(part, end, others + unit)[0] for unit in units]
    steps = [one - before for one in found] if neighbours == "add_remove" else [b - a for a in found for b in found]
    one_way = [bool((step >= 0).all() or (step <= 0).all()) for step in steps]
    assert max(abs(step).max() for step in steps) <= PARTS
    assert epsilon < 1000 or max(abs(step).max() for step in steps) > 0.9 * PARTS  # else a few units cost nothing
    scale = PARTS / search.mechanism.epsilon
    if neighbours == "add_remove":
        assert all(one_way)
        assert search.mechanism.scale == pytest.approx(scale, rel=1e-3)
    else:  # the near miss: shares of values may rise at one end and fall at the other, so that costs twice
        assert epsilon < 1000 or not all(one_way)
        assert search.mechanism.scale == pytest.approx(2 * scale, rel=1e-3)


def test_the_choice_is_nearly_as_good_as_the_best_fixed_range():
    """Over all choices: error of a group's total, noise and clipping, against every power of two."""
    columns = people()
    made = plan(asked(columns, clip=CHOSEN)[1], spend=nt.zcdp("1/8"), **LIMITS)
    stage, rows = made.first_stages[0], as_rows(columns)
    scores, search, values = scored(stage.ranges[0], "high", rows)

    def error(one):
        measure, *_ = one.measures.values()  # of rows at the upper end, from which the sum is read
        high = float(next(iter(one.stage.grid.values())).bounds.high)
        lost = np.maximum(columns["paid"] - high, 0).sum() / TOWNS
        return 0.41 * float(measure.half_width(0.95)) * high + lost

    key = (stage.ranges[0].column, stage.ranges[0].limits)
    chances = search.mechanism.pmf(scores)
    likely = [place for place in range(len(values)) if chances[place] > 1e-4]
    plans = [stage.chosen(made, {key: replace(key[1], high=values[place])}).plan for place in likely]
    mean = chances[likely] @ np.array([error(one) for one in plans])
    fixed = [
        error(plan(asked(columns, high=2**i)[1], spend=nt.zcdp("1/10"), **LIMITS)) for i in range(3, 17)
    ]  # what the caller cannot know
    assert mean < 1.3 * min(fixed)
    assert mean < error(plan(asked(columns)[1], spend=nt.zcdp("1/8"), **LIMITS)) / 50  # near miss: the limits


@pytest.mark.parametrize(("low", "high"), [(0, 10**4), (-200, 10**4), (50, 60), (-7, -5)])
@pytest.mark.parametrize("fill", [None, "high"])
def test_chosen_bounds_are_whole_steps_within_limits_for_any_answer(low, high, fill):
    rows = nt.table(pa.table(people(50)), unit="who", name="visits")
    statistic = nt.sum("paid", low, high, "1/4", fill=None if fill is None else high, clip=CHOSEN)
    made = plan(rows.agg(s=statistic), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=5))
    (part,), draw = made.first_stages[0].ranges, np.random.default_rng(2)
    cells = part.split.tree.cells
    for counts in (draw.integers(0, 1 << 40, cells), np.zeros(cells, dtype=np.int64), np.full(cells, 1 << 50)):
        found = {(part.column, part.limits): part.chosen(counts, noise.SYSTEM)}
        bounds = made.first_stages[0].chosen(made, found).plan.query.aggregates["s"].bounds
        assert low <= bounds.low < bounds.high <= high
        assert (bounds.low / bounds.step).denominator == (bounds.high / bounds.step).denominator == 1
        assert fill is None or bounds.high == high


@pytest.mark.slow
def test_a_release_with_tuned_values_is_far_closer_and_says_what_it_chose(tmp_path):
    columns = people()
    rows, query = asked(columns)
    truth = np.array([columns["paid"][columns["town"] == town].sum() for town in range(TOWNS)])
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.zcdp(2))
        plain = account.release(account.plan(query, spend=nt.zcdp("1/2"), **LIMITS))
        query = asked(columns, clip=CHOSEN)[1]
        proposal = account.plan(query, spend=nt.zcdp("1/2"), **LIMITS)
        assert "first choose clip bounds of values" in str(proposal.explain())
        release = account.release(proposal)
        assert account.remaining["rho"] == 1
        assert account.release(proposal) == release
        tuned_too = account.plan(
            query, spend=nt.zcdp("1/2"), group_size=2,
            limits=nt.limits(norm=nt.private_limit(64)),
        )  # fmt: skip
        both = account.release(tuned_too)
    far, near = (np.abs(np.array(one["s"].values) - truth).mean() for one in (plain, release))
    assert near < far / 10
    assert release.guarantee.promise == nt.zcdp("1/2")
    assert release.notes[-1].startswith("Chosen privately: paid clipped to [0, ")
    assert release.provenance.plan == proposal.plan.digest
    method = release.provenance.method  # which a certificate states
    origins = {bound["what"]: bound["origin"] for bound in method["bounds"]}
    assert origins["s: paid"].startswith("chosen")
    assert origins["max_rows_per_group"].startswith("public")
    first = {part["law"] for part in method["mechanisms"] if part["for"].startswith("choice of high of paid")}
    assert first == {"ExponentialMechanism"}
    assert both.guarantee.units == 2
    assert [note.split(":")[0] for note in both.notes[-2:]] == ["Chosen privately", "Chosen privately"]
    assert len({proposal.plan.digest, tuned_too.plan.digest, plain.provenance.plan}) == 3


def test_a_computed_value_that_is_clipped_already_has_its_range_chosen_too(tmp_path):
    rows, _ = asked(columns := people())
    text = "clip((paid - 3) / 365 + 1, 0, 20)"
    question = rows.agg(s=nt.sum(text, clip=CHOSEN))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.zcdp(10**6))
        release = account.release(
            account.plan(question, spend=nt.zcdp(10**6), limits=nt.limits(max_rows_per_group=500))
        )
    truth = np.clip((columns["paid"] - 3) / 365 + 1, 0, 20).sum()
    assert release["s"].values[0] == pytest.approx(truth, rel=0.02)
    assert release.notes[-1].startswith("Chosen privately: ")


def test_private_ranges_apply_to_their_statistics_alone_and_enter_digests():
    rows, _ = asked(columns := people())
    one = rows.agg(s=nt.sum("paid", 0, 10**5, clip=CHOSEN), m=nt.mean("paid", 0, 10**5))
    cap = nt.limits(max_rows_per_group=8)
    made = plan(one, spend=nt.zcdp(1), limits=cap)
    (part,) = made.first_stages[0].ranges
    scores, _, values = scored(part, "high", as_rows(columns))
    bounds = {(part.column, part.limits): replace(part.limits, high=values[int(np.argmax(scores))])}
    found = made.first_stages[0].chosen(made, bounds).plan.query.aggregates
    assert found["s"].bounds.high < 1000
    assert found["m"].bounds.high == 10**5
    both = plan(with_private_range(one, CHOSEN), spend=nt.zcdp(1), limits=cap)
    assert both.digest != made.digest
    assert both.digest == plan(with_private_range(one, nt.private_range()), spend=nt.zcdp(1), limits=cap).digest


def test_private_range_without_a_clip_is_refused(tmp_path):
    rows, query = asked(people(50), clip=CHOSEN)
    unknown = rows.group_by("town").agg(s=nt.sum("paid", 0, 9, clip=CHOSEN))
    for nothing in (rows.agg(n=nt.count()), rows.most_common("town", among=[1])):
        with pytest.raises(QueryError, match="no sum or mean"):
            with_private_range(nothing, CHOSEN)
    assert plan(unknown, spend=nt.zcdp(1, "1e-6"), **LIMITS).first_stages[0].groups == 16
    with pytest.raises(ParameterError, match="combined with norm"):
        plan(query, spend=nt.zcdp(1), limits=nt.limits(norm=nt.private_limit(), rows=5))
    two = query.groups.agg(s=nt.sum("paid", 0, 9, clip=CHOSEN), m=nt.mean("paid", 0, 9, clip=nt.private_range("1/3")))
    with pytest.raises(ParameterError, match="must be equal"):
        plan(two, spend=nt.zcdp(1), **LIMITS)
    expected = with_private_range(unknown, nt.private_range(groups=4))
    assert plan(expected, spend=nt.zcdp(1, "1e-6"), **LIMITS).first_stages[0].groups == 4
    for wrong in ({"share": 0}, {"share": 1}, {"groups": 0}):
        with pytest.raises(ParameterError):
            nt.private_range(**wrong)


def test_the_terminal_tunes_values_too(tmp_path):
    pq.write_table(pa.table(people(5000)), tmp_path / "visits.parquet")
    command = [
        "query",
        str(tmp_path / "visits.parquet"),
        "SELECT SUM(paid) AS s FROM visits",
        "--unit",
        "who",
        "--json",
    ]
    command += [
        "--ledger",
        str(tmp_path / "b.db"),
        "--spend",
        "mu=1",
        "--budget",
        "mu=2",
        "--bounds",
        "paid=0:100000",
        "--max-rows-per-group",
        "5",
    ]
    found = CliRunner().invoke(main, [*command, "--private-range", "1/10"])
    assert found.exit_code == 0, found.output
    assert "Chosen privately: paid clipped to" in json.loads(found.output)["notes"][-1]
    for text in ("much", "share=1/2", "1/10,groups=x"):
        refused = CliRunner().invoke(main, [*command, "--private-range", text])
        assert refused.exit_code != 0
