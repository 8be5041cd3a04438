"""Tuned bounds are chosen from noisy counts alone: what one unit adds to them is bounded, and all is paid in one reserve."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.accounting.budgets import Approx, Gdp, Pure, Rdp, Zcdp
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ParameterError, QueryError
from neartwin.planning.planner import plan
from neartwin.planning.spending import split_budget
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping, hostile_rows
from tests.oracles.memory import MemoryEngine

BOTH = {
    "limits": nt.limits(max_rows_per_group=nt.private_limit(256, groups=20), max_groups=nt.private_limit(64, groups=20))
}
SPEND = nt.approx(1, "1e-6")


def pilot_of(rows, *columns, keys=None):
    query = rows.group_by(*columns, keys=keys).agg(n=nt.count()) if columns else rows.agg(n=nt.count())
    return plan(query, spend=SPEND, **BOTH).first_stages[0].stage


@pytest.mark.parametrize("place", ENGINES)
def test_every_engine_counts_contribution_octaves_as_the_oracle_does(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("octaves", 900)
    people = place.visits(rows)
    stages = [pilot_of(people, "town", "year")]
    if "spark" not in type(place).__name__.lower():
        stages += [pilot_of(people.where("paid > 0"), "day", keys=[None]), pilot_of(people)]
    for stage in stages:
        found = as_mapping(place.engine.aggregate(stage, salt=SALT))
        assert found == as_mapping(MemoryEngine(rows).aggregate(stage, salt=SALT))
        assert sum(count for (count,) in found.values()) > 1024


def parts(stage, rows):
    return np.array(MemoryEngine(rows).aggregate(stage, salt=SALT).values["parts"], dtype=np.int64)


def test_unit_moves_the_octave_counts_by_1024_parts_at_any_size():
    pick = random.Random(4)
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    stage = pilot_of(table, "town")
    largest = {"one": 0, "two": 0, "squared": 0}
    for _ in range(20):

        def rows_of(name):
            towns = [f"t{i}" for i in range(pick.choice([1, 3, 40]))]
            return [{"who": name, "town": town} for town in towns for _ in range(pick.choice([1, 2, 90]))]

        others = [row for i in range(5) for row in rows_of(f"p{i}")]
        without, first, second = (parts(stage, others + more) for more in ([], rows_of("x"), rows_of("x")))
        largest["one"] = max(largest["one"], abs(first - without).sum())
        largest["two"] = max(largest["two"], abs(first - second).sum())
        largest["squared"] = max(largest["squared"], ((first - second) ** 2).sum())
    assert largest["one"] == 1024  # reached, and never passed: this is the sensitivity of add/remove
    assert 1024 < largest["two"] <= 2048
    assert largest["squared"] <= 2 * 1024**2
    by_pairs = [{"who": "x", "town": f"t{i}"} for i in range(40)]  # near miss: counting pairs would move by 40 units
    assert parts(stage, by_pairs).sum() <= 1024


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_the_pilots_noise_fits_that_sensitivity_in_every_currency(neighbours):
    both = 1 if neighbours == "add_remove" else 2
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits", neighbours=neighbours)
    query = table.group_by("town", keys=["b", "c"]).agg(n=nt.count())
    for spend in (Pure(Fraction(1)), Approx(Fraction(1), Fraction(1, 10**6))):
        noise = plan(query, spend=spend, **BOTH).first_stages[0].mechanism
        assert noise.epsilon == Fraction(1, 10)
        assert noise.sensitivity == both * 1024
    for spend, mu_squared in (
        (Zcdp(Fraction(1, 2), Fraction(0)), Fraction(1, 10)),
        (Rdp(Fraction(4), Fraction(2), Fraction(0)), Fraction(1, 10)),
        (Gdp(Fraction(1), Fraction(0)), Fraction(1, 10)),
    ):
        noise = plan(query, spend=spend, **BOTH).first_stages[0].mechanism
        assert noise.l2_squared == both * 1024**2
        assert noise.mu_squared <= mu_squared
        assert noise.mu_squared > mu_squared * Fraction(99, 100)


@pytest.mark.parametrize("share", ["1/10", "1/3"])
def test_the_parts_of_a_spend_compose_to_it_and_to_no_more(share):
    share, delta = Fraction(share), Fraction(1, 10**6)
    assert [part.epsilon for part in split_budget(Pure(Fraction(2)), share)] == [2 * share, 2 * (1 - share)]
    first, rest = split_budget(Approx(Fraction(2), delta), share)
    assert (first.epsilon + rest.epsilon, rest.delta) == (2, delta)
    first, rest = split_budget(Zcdp(Fraction(2), delta), share)
    assert (first.rho + rest.rho, first.delta + rest.delta) == (2, delta)
    first, rest = split_budget(Gdp(Fraction(2), delta), share)
    assert 4 - Fraction(1, 10**9) < first.mu**2 + rest.mu**2 <= 4
    assert first.delta + rest.delta == delta


def people(groups, rows, size=3000):
    """So many units, each with the same number of rows in the same number of groups."""
    made = [(who, (who + g) % 20) for who in range(size) for g in range(groups) for _ in range(rows)]
    frame = pa.table({"who": [who for who, _ in made], "town": [town for _, town in made]})
    return nt.table(frame, unit="who", name="visits", snapshot="one")


@pytest.mark.parametrize(("groups", "rows"), [(3, 6), (1, 1), (8, 2)])
def test_the_choice_keeps_what_people_have_and_adds_no_noise_for_more(groups, rows):
    made = plan(people(groups, rows).group_by("town", keys=range(20)).agg(n=nt.count()), spend=nt.pure(3), **BOTH)
    exact = DuckdbEngine().aggregate(made.first_stages[0].stage, salt=SALT).values["parts"]
    choice = made.first_stages[0].chosen(made, exact)
    assert rows <= choice.plan.bounding.max_rows_per_group <= 2 * rows
    assert groups <= choice.plan.bounding.max_groups <= 2 * groups
    assert choice.lost == pytest.approx(0, abs=0.08)
    few = made.first_stages[0].chosen(made, np.zeros_like(exact))
    assert (few.plan.bounding.max_rows_per_group, few.plan.bounding.max_groups, few.lost) == (1, 1, None)
    one = plan(
        people(1, 1, 1).group_by("town", keys=range(20)).agg(n=nt.count()),
        spend=nt.pure(3),
        limits=replace(BOTH["limits"], max_rows_per_group=7),
    )
    assert one.first_stages[0].chosen(one, exact).plan.bounding.max_rows_per_group == 7


def test_lost_rows_of_a_histogram_are_weighed_against_noise_bin_by_bin():
    draw = np.random.default_rng(3)
    who = np.repeat(np.arange(3000), np.minimum(draw.lognormal(2.5, 1.0, 3000).astype(int) + 1, 90))
    rows = nt.table(pa.table({"who": who, "paid": draw.uniform(0, 10, who.size)}), unit="who", name="visits")
    question = rows.agg(h=nt.histogram("paid", range(11)))

    def found(spend, **bounds):
        made = plan(question, spend=spend, **bounds)
        exact = DuckdbEngine().aggregate(made.first_stages[0].stage, salt=SALT).values["parts"]
        return made.first_stages[0].chosen(made, exact)

    for caps in (
        {"limits": nt.limits(max_rows_per_group=nt.private_limit(256))},
        {"limits": nt.limits(norm=nt.private_limit(256))},
    ):
        sure = found(nt.gdp(1000), **caps)
        assert sure.lost < 0.01
        many, few = (
            one.bounding.norm or one.bounding.max_rows_per_group
            for one in (sure.plan, found(nt.gdp("1/40"), **caps).plan)
        )
        assert 1 < few < many / 2
    for epsilon in (1, 10):  # of all bounds the one whose noise and loss are least, by the rows themselves
        best = found(
            nt.pure(epsilon), limits=nt.limits(max_rows_per_group=nt.private_limit(256))
        ).plan.bounding.max_rows_per_group
        of_unit = np.bincount(who)
        error = {
            c: c / (0.9 * float(Fraction(epsilon))) + (of_unit - np.minimum(of_unit, c)).sum() / 10
            for c in (1, 4, 16, 64, best)
        }
        assert error[best] < 1.2 * min(error.values())


def test_bounds_on_heavy_tails_beat_fixed_ones_at_the_same_spend(tmp_path):
    draw = np.random.default_rng(8)
    who = np.repeat(np.arange(3000), np.minimum(draw.lognormal(2.5, 1.5, 3000).astype(int) + 1, 3000))
    town = (who * 7 + draw.integers(0, 2, who.size)) % 5
    rows = nt.table(pa.table({"who": who, "town": town}), unit="who", name="visits", snapshot="one")
    query, truth = rows.group_by("town", keys=range(5)).agg(n=nt.count()), np.bincount(town, minlength=5)
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(2))
        fixed = account.release(
            account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=10, max_groups=5))
        )
        tuned = account.plan(query, spend=nt.pure(1), **BOTH)
        assert account.remaining == {"epsilon": 1}
        assert str(tuned.preview().price) == "epsilon=1"
        answer = account.release(tuned)
        assert account.remaining == {"epsilon": 0}  # pilot and question in one reserve
        assert account.release(tuned) == answer
    lost = [np.abs(np.array(release["n"].values) - truth).mean() for release in (fixed, answer)]
    assert lost[1] < lost[0] / 2, lost
    assert "expected to lose about" in answer.notes[-1]
    assert "first choose max_rows_per_group and max_groups from noisy counts" in answer.provenance.explanation
    assert "chosen by a first stage" in answer.provenance.explanation


def test_impossible_private_limit_is_refused_before_any_spend(tmp_path):
    table = pa.table({"who": ["a"], "town": ["b"]})
    rows = nt.table(table, unit="who", name="visits")
    query = rows.group_by("town").agg(n=nt.count())
    refused = {
        "groups=...": lambda: plan(
            query, spend=SPEND, limits=nt.limits(max_rows_per_group=nt.private_limit(), max_groups=3)
        ),
        "max_groups is missing": lambda: plan(
            query, spend=SPEND, limits=nt.limits(max_rows_per_group=nt.private_limit(groups=9))
        ),
        "no limit to choose": lambda: plan(
            nt.table(table, unit=nt.ROW, name="v").agg(n=nt.count()),
            spend=SPEND,
            limits=nt.limits(max_rows_per_group=nt.private_limit()),
        ),
        "no limits to choose": lambda: plan(
            rows.most_common("town", among=["b"]),
            spend=nt.pure(1),
            limits=nt.limits(max_rows_per_group=nt.private_limit()),
        ),
    }
    for says, asked in refused.items():
        with pytest.raises(QueryError, match=says):
            asked()
    for wrong in (
        lambda: nt.private_limit(0),
        lambda: nt.private_limit(share=1),
        lambda: nt.private_limit(share=0),
        lambda: nt.private_limit(groups=0),
    ):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(ParameterError, match="same in both"):
        plan(
            query,
            spend=SPEND,
            limits=nt.limits(max_rows_per_group=nt.private_limit(groups=3), max_groups=nt.private_limit(groups=4)),
        )


def test_bounds_of_every_kind_of_statistic_can_be_tuned(tmp_path):
    frame = pa.table(
        {"who": [i % 900 for i in range(9000)], "town": [i % 3 for i in range(9000)], "paid": [1.0] * 9000}
    )
    rows = nt.table(frame, unit="who", name="visits")
    query = rows.group_by("town", keys=range(3)).agg(
        n=nt.count(), people=nt.count_distinct_units(), total=nt.sum("paid", 0, 2), mean=nt.mean("paid", 0, 2),
        spread=nt.variance("paid", 0, 2), middle=nt.median("paid", 0, 2),
    )  # fmt: skip
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.approx(9, "1e-6"))
        release = account.release(account.plan(query, spend=nt.approx(9, "1e-6"), **BOTH))
    assert len(release) == 3
    assert "Chosen privately" in release.notes[-1]


def test_the_same_question_with_another_limit_is_another_plan():
    def changed(**limit):
        return {"limits": replace(BOTH["limits"], **limit)}

    query = people(1, 1, 1).group_by("town", keys=range(20)).agg(n=nt.count())
    made = [
        plan(query, spend=nt.pure(1), **limits).digest
        for limits in (
            BOTH, changed(max_rows_per_group=nt.private_limit(128, groups=20)), changed(max_rows_per_group=256),
            changed(max_rows_per_group=nt.private_limit(256, share="1/5", groups=20)),
            {"limits": nt.limits(max_rows_per_group=256, max_groups=64)},
        )
    ]  # fmt: skip
    assert len(set(made)) == 5
    whole = plan(query, spend=nt.approx(1, "1e-6"), **BOTH)
    assert whole.price == nt.approx(1, "1e-6")
    assert replace(whole, first_stages=()).digest != whole.digest
