"""Clip bounds of values are chosen from noisy answers alone, within the declared limits, and are paid for in one reserve."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.accounting.budgets import Approx, Gdp, Pure, Zcdp
from neartwin.cli import main
from neartwin.errors import ParameterError, QueryError
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


def exact(made, columns):
    """What the first stages would answer without noise, by NumPy: all rows, and one value a unit for each histogram."""
    answers = [[len(columns["paid"])]]
    first = np.unique(columns["who"], return_index=True)[1]
    for one in made.first_stages[0].plans[1:]:
        edges = [float(edge) for edge in next(iter(one.query.aggregates.values())).edges]
        answers.append(np.histogram(np.clip(columns["paid"][first], edges[0], edges[-1]), edges)[0])
    return answers


@pytest.mark.parametrize(
    "spend", [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("1/8"), nt.rdp(8, 1), nt.gdp("1/2")], ids=str
)
def test_the_price_covers_all_stages_together(spend):
    made = plan(asked(people(50), clip=CHOSEN)[1], spend=spend, **LIMITS)
    assert len(made.first_stages[0].plans) == 2
    assert made.price == made.spend == spend
    measures = [
        measure for one in (made, *made.first_stages[0].plans) for measure in one.measures.values() if not measure.paid
    ]
    losses = [mechanism for _, mechanism in made.loss.mechanisms()]
    assert len(losses) == 2  # of limits, and of clipping
    match spend:
        case Pure(epsilon=epsilon):
            total = sum(measure.sensitivity.l1 / measure.mechanism.scale for measure in measures)
            total += sum(mechanism.epsilon for mechanism in losses)
            assert Fraction(99, 100) * epsilon < total <= epsilon
        case Approx(epsilon=epsilon, delta=delta):
            assert made.losses().epsilon(delta).upper <= epsilon
        case Gdp(mu=mu):
            total = sum(mechanism.mu_squared for mechanism in [*losses, *(one.mechanism for one in measures)])
            assert Fraction(999, 1000) * mu**2 < total <= mu**2
        case Zcdp(rho=rho):
            total = sum(mechanism.rho for mechanism in [*losses, *(one.mechanism for one in measures)])
            assert Fraction(999, 1000) * rho < total <= rho
        case _:
            assert made.first_stages[0].rest.epsilon == Fraction(9, 10)


def test_unit_moves_a_range_histogram_by_one_value_and_a_count_by_its_cap():
    columns = {"who": [1] * 500 + [2] * 3, "town": [0] * 503, "paid": [float(i) for i in range(503)]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    made = plan(asked(columns, clip=CHOSEN)[1], spend=nt.pure(1), **LIMITS)
    counted, histogram = made.first_stages[0].plans
    (stage,) = (split.stage for split in histogram.splits.values())
    cells = [MemoryEngine(part).aggregate(stage, salt=SALT).cells.count.sum() for part in (rows, rows[500:])]
    (measure,) = histogram.measures.values()
    assert 0.9999 * measure.parts < cells[0] - cells[1] <= measure.parts == measure.sensitivity.l1  # parts of one value
    totals = [
        int(MemoryEngine(part).aggregate(counted.stage, salt=SALT).values["rows"][0]) for part in (rows, rows[500:])
    ]
    assert (
        totals[0] - totals[1] == 32 == counted.measures["rows"].sensitivity.l1
    )  # 8 rows in 4 groups: no unit keeps more


def test_the_choice_is_nearly_as_good_as_the_best_fixed_range():
    """By noise-free answers: error of a group's total, noise and clipping, against every power of two."""
    columns = people()
    made = plan(asked(columns, clip=CHOSEN)[1], spend=nt.zcdp("1/8"), **LIMITS)
    found = made.first_stages[0].chosen(made, exact(made, columns)).plan

    def error(one):
        measure, *_ = one.measures.values()  # of rows at the upper end, from which the sum is read
        high = float(next(iter(one.stage.grid.values())).bounds.high)
        lost = np.maximum(columns["paid"] - high, 0).sum() / TOWNS
        return 0.41 * float(measure.half_width(0.95)) * high + lost

    fixed = [
        error(plan(asked(columns, high=2**i)[1], spend=nt.zcdp("9/80"), **LIMITS)) for i in range(3, 17)
    ]  # what the caller cannot know
    assert error(found) < 1.6 * min(fixed)
    assert error(found) < error(plan(asked(columns)[1], spend=nt.zcdp("1/8"), **LIMITS)) / 50  # near miss: the limits


@pytest.mark.parametrize(("low", "high"), [(0, 10**4), (-200, 10**4), (50, 60), (-7, -5)])
@pytest.mark.parametrize("fill", [None, "high"])
def test_chosen_bounds_are_whole_steps_within_limits_for_any_answer(low, high, fill):
    rows = nt.table(pa.table(people(50)), unit="who", name="visits")
    statistic = nt.sum("paid", low, high, "1/4", fill=None if fill is None else high, clip=CHOSEN)
    made = plan(rows.agg(s=statistic), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=5))
    draw = np.random.default_rng(2)
    bins = len(next(iter(made.first_stages[0].plans[1].query.aggregates.values())).bins)
    for answers in ([1e6], draw.integers(-50, 2000, bins)), ([-5], np.zeros(bins)), ([9], np.full(bins, -1)):
        one = made.first_stages[0].chosen(made, answers)
        bounds = one.plan.query.aggregates["s"].bounds
        assert low <= bounds.low < bounds.high <= high
        assert (bounds.low / bounds.step).denominator == (bounds.high / bounds.step).denominator == 1
        assert fill is None or bounds.high == high
        if not np.any(np.asarray(answers[1]) > 0):
            assert (bounds.low, bounds.high) == (low, high)


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
    first = {part["law"] for part in method["mechanisms"] if part["for"].startswith("first stage")}
    assert first & {"Gaussian", "DiscreteGaussian"}
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
    found = made.first_stages[0].chosen(made, exact(made, columns)).plan.query.aggregates
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
    with pytest.raises(QueryError, match=r"groups=\.\.\."):
        plan(unknown, spend=nt.zcdp(1, "1e-6"), **LIMITS)
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
