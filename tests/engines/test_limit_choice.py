"""Limits are chosen from counts of units alone: one unit moves their scores by 1 and one way, and all is paid in one reserve."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.accounting.prices import mu_of_bounded_range
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.losses import Gaussian, compose
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from neartwin.noise import SYSTEM
from neartwin.planning.allocation import split_budget
from neartwin.planning.limit_choice import PARTS
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(1, "1e-6")
UNITS = [(0, 0), (1, 0), (1, 2), (3, 3), (9, 1), (2, 40)]  # rows of a unit in each of two groups


def visits(neighbours="add_remove"):
    frame = pa.table({"who": ["a"], "town": ["x"], "paid": [1.0]})
    return nt.table(frame, unit="who", name="visits", neighbours=neighbours)


def search_of(name, **more):
    """The choice of one limit, over two public groups."""
    groups = visits(**more).group_by("town", keys=["x", "y"])
    if name in {"rows of a mean", "rows of a variance"}:
        asked = nt.mean("paid", 0, 10) if name == "rows of a mean" else nt.variance("paid", 0, 10)
        (search,) = plan(groups.agg(m=asked), spend=nt.pure("1/4")).first_stages[0].searches
        assert search.least
        assert search.idle == (name == "rows of a variance" and groups.rows.table.neighbours.value == "add_remove")
        return search
    query = groups.agg(n=nt.count(), u=nt.count_distinct_units())
    limits = {"rows": {"rows": nt.private_limit(64), "max_groups": 2}, "norm": {"norm": nt.private_limit(64)}}
    limits["max_groups"] = {"max_groups": nt.private_limit(), "max_rows_per_group": 3}
    limits["groups of a norm"] = {"max_groups": nt.private_limit(), "norm": 3}
    spend = nt.gdp(1) if "norm" in name else nt.pure(1)
    (search,) = plan(query, spend=spend, limits=nt.limits(**limits[name])).first_stages[0].searches
    return search


def rows_of(units):
    return [
        {"who": who, "town": town}
        for who, counts in enumerate(units)
        for town, many in zip("xy", counts, strict=True)
        for _ in range(many)
    ]


def scores(search, units):
    return search.scores(MemoryEngine(rows_of(units)).aggregate(search.stages[0], salt=SALT).values["units"])


def pairs(neighbours="replace_one"):
    """Neighbouring tables of up to three units: one added, or one replaced."""
    for others in itertools.combinations_with_replacement(UNITS[1:], 2):
        for one, other in itertools.combinations(UNITS, 2):
            if one == (0, 0) or neighbours == "replace_one":  # no rows at all is a unit that is not there
                yield [*others, one], [*others, other]


def free(search):
    """The search with noise that no part of a cost depends on."""
    return replace(search, mechanism=replace(search.mechanism, scale=search.mechanism.scale / 10**6))


def near(search):
    """The search with its threshold at 1.25 units, among those of the tables."""
    return search if search.least else replace(search, growth=1.5)


def two_ways(search, neighbours):
    """Whether some unit moves one score up and another down."""
    steps = (scores(search, one) - scores(search, other) for one, other in pairs(neighbours))
    return any(min(step) < 0 < max(step) for step in steps)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "name", ["rows", "norm", "max_groups", "groups of a norm", "rows of a mean", "rows of a variance"]
)
def test_a_unit_moves_all_scores_one_way_and_none_by_more_than_is_paid_for(name, neighbours):
    search, moves = search_of(name, neighbours=neighbours), set()
    assert search.capped == (neighbours == "add_remove" or search.least)
    paid = search.mechanism.scale * search.mechanism.epsilon
    still = replace(free(search), growth=search.growth if search.least else 0.0)
    for one, other in pairs(neighbours):
        for asked in (search, near(search), free(search), still):
            step = scores(asked, one) - scores(asked, other)
            assert min(step) >= 0 or max(step) <= 0
            moves |= set(abs(step))
    assert max(moves) == paid == PARTS
    assert search.least or moves >= {0, 3 * PARTS // 4, PARTS}  # three quarters at the threshold of 1.25
    by_rows = [sum(max(sum(unit) - 8, 0) for unit in units) for units in ([(2, 40)], [(0, 0)])]
    assert abs(by_rows[0] - by_rows[1]) > 1  # near miss: rows above a limit of 8, in place of units, move by 34


@pytest.mark.parametrize("least", [False, True])
def test_a_cap_by_the_units_within_is_for_those_who_join_or_for_ratios(least):
    capped = replace(free(near(search_of("rows"))), least=least, capped=True)
    assert not two_ways(capped, "add_remove")
    assert two_ways(capped, "replace_one") is not least  # near miss: a unit that grows is no longer within


def test_units_that_leave_limits_idle_move_scores_one_way_if_they_join():
    search = free(search_of("rows of a variance"))
    assert search.idle
    assert not two_ways(search, "add_remove")
    assert two_ways(search, "replace_one")  # near miss: a unit that grows uses more of the limits beyond it


def test_a_unit_leaves_no_more_of_any_limit_idle_than_itself():
    limits = nt.limits(rows=nt.private_limit(2**40))
    asked = visits().agg(v=nt.variance("paid", 0, 10))
    (search,) = plan(asked, spend=nt.pure("1/4"), limits=limits).first_stages[0].searches
    others = 1000 * np.arange(1, len(search.candidates) + 1)  # within each limit
    joined = others + np.tri(len(others)).T  # one more, of each size
    costs = np.array([free(search).penalties(within) for within in (others, *joined)])
    steps = costs[1:] - costs[0]
    assert steps.min() == 0
    assert 2 / 3 * PARTS - 2 < steps.max() <= 2 / 3 * PARTS


def test_many_rows_of_each_of_few_units_are_not_cut_where_noise_is_large():
    """All limits up to 500 use all of each unit, and have the same noise. The least one would lose all the rows."""
    (search,) = plan(visits().agg(v=nt.variance("paid", 0, 10)), spend=nt.pure(1)).first_stages[0].searches
    edges, limits = np.array(search.stages[0].sizes.edges), np.array([float(limit) for limit in search.candidates])
    units = np.bincount([np.searchsorted(edges, 500, side="right") - 1] * 655, minlength=len(edges))
    for capped in (True, False):  # near miss: a doubling costs as many units as noise is worth
        asked = replace(search, capped=capped, idle=capped)
        chances = asked.mechanism.pmf(asked.scores(units))
        assert bool(chances @ limits > 500 and chances[limits < 500].sum() < 0.01) is capped


def test_a_limit_that_most_units_would_leave_idle_is_not_chosen():
    """Seven tenths have one or two rows, and the others 10 to 29. A ratio with much noise is best near 2."""
    (search,) = plan(visits().agg(v=nt.variance("paid", 0, 10)), spend=nt.pure(1)).first_stages[0].searches
    draw, limits = np.random.default_rng(1), np.array([float(limit) for limit in search.candidates])
    sizes = np.where(draw.random(6000) < 0.7, draw.integers(1, 3, 6000), draw.integers(10, 30, 6000))
    edges = np.array(search.stages[0].sizes.edges)
    units = np.bincount(np.searchsorted(edges, sizes, side="right") - 1, minlength=len(edges))
    used = np.array([np.minimum(sizes / limit, 1).sum() for limit in limits])  # the noise is over this
    chances = search.mechanism.pmf(search.scores(units))
    assert chances @ used > 0.8 * used[0]
    assert used[limits >= 29][0] < 0.4 * used[0]  # near miss: the limit that cuts nobody


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_limits_beyond_two_to_the_sixteen_cost_no_more_of_the_units_within(neighbours):
    limits = nt.limits(rows=nt.private_limit(2**40))
    asked = visits(neighbours).agg(v=nt.mean("paid", 0, 10))
    (search,) = plan(asked, spend=nt.pure("1/4"), limits=limits).first_stages[0].searches
    assert search.least
    within = np.arange(40)
    costs = np.array([free(search).penalties(float(many)) for many in within])
    steps = np.diff(costs, axis=0)
    assert steps.min() >= 0
    assert steps.max() == PARTS


def test_limits_beyond_all_of_many_units_are_hardly_chosen():
    """No count tells them apart, so only the cost of a doubling does: by the units within it may be more."""
    counts = visits().group_by("town", keys=list("abcdefghijkl")).agg(n=nt.count())
    (search,) = plan(counts, spend=nt.pure(1)).first_stages[0].searches
    edges, sizes = np.array(search.stages[0].sizes.edges), np.random.default_rng(5).integers(1, 17, 4000)
    units = np.bincount(np.searchsorted(edges, sizes, side="right") - 1, minlength=len(edges))
    squares = np.array([float(limit) ** 2 for limit in search.candidates])
    near_miss = replace(search, growth=0.0, capped=False)  # the cost that few units can bear
    many, few = (math.sqrt(one.mechanism.pmf(one.scores(units)) @ squares) / 16 for one in (search, near_miss))
    assert 1 <= many <= 1.25
    assert few > 1.4


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["rows", "norm", "rows of a mean", "rows of a variance"])
def test_neighbours_have_chances_of_each_limit_within_epsilon(name, neighbours):
    search = search_of(name, neighbours=neighbours)
    law, least, furthest = search.mechanism, search.penalties(np.full(len(search.candidates), 1e9)), 0.0
    epsilon = float(law.epsilon)
    doubled = replace(law, scale=law.scale / 2)  # near miss: half the scale that is needed
    broken, search = False, free(search) if search.least else near(search)
    for one, other in itertools.islice(pairs(neighbours), 0, None, 2 if neighbours == "add_remove" else 7):
        found = [law.pmf(scores(search, units)) for units in (one, other)]
        ratio = np.log(found[0] / found[1])
        assert np.abs(ratio).max() <= epsilon * (1 + 1e-9)
        furthest = max(furthest, np.abs(ratio).max())
        if isinstance(law, ExponentialMechanism):
            assert np.ptp(ratio) <= epsilon * (1 + 1e-9)  # bounded range, which is what its price is for
        wrong = [doubled.pmf(scores(search, units)) for units in (one, other)]
        broken |= np.abs(np.log(wrong[0] / wrong[1])).max() > epsilon
    assert broken
    assert furthest > epsilon / 4
    assert (np.diff(least) > 0).all()  # of limits that lose nobody the least is best


def test_draws_follow_the_closed_form_of_the_chances():
    search = search_of("norm")
    search = replace(search, mechanism=replace(search.mechanism, scale=search.mechanism.scale / 8))
    given = scores(search, UNITS)
    exact = np.exp((given - given.max()).astype(float) / float(search.mechanism.scale))
    exact /= exact.sum()
    engine, draws = MemoryEngine(rows_of(UNITS)), 400
    drawn = [float(search.choose(engine, SYSTEM)) for _ in range(draws)]
    places = [float(limit) for limit in search.candidates]
    found = np.bincount([places.index(limit) for limit in drawn], minlength=len(places)) / draws
    assert np.abs(np.cumsum(found) - np.cumsum(exact)).max() < 3.3 / np.sqrt(draws)  # Kolmogorov: fails once in 10^9
    assert np.abs(np.cumsum(found) - np.linspace(0, 1, len(places))).max() > 3.3 / np.sqrt(draws)


def test_the_choice_costs_its_share_of_the_spend_in_every_currency():
    keyed = visits().group_by("town", keys=["x", "y"]).agg(n=nt.count())
    made = {spend: plan(keyed, spend=spend) for spend in (nt.pure(1), nt.zcdp("1/2"), nt.rdp(4, 2), nt.gdp(1))}
    chosen = {spend: one.first_stages[0].searches[0].mechanism for spend, one in made.items()}
    pure, *normal = chosen.values()
    assert (type(pure), pure.epsilon, pure.scale) == (PermuteAndFlip, Fraction(1, 4), 4 * PARTS)
    for law, mu_squared in zip(normal[:2], (1, 1), strict=True):  # epsilon^2 / 8 in rho, which is mu^2 / 2
        assert Fraction(165, 1000) < law.epsilon**2 / 4 <= Fraction(mu_squared, 6)
    assert Fraction(165, 1000) < mu_of_bounded_range(normal[2].epsilon) ** 2 <= Fraction(1, 6)
    for spend, one in made.items():
        assert one.price == spend
        assert [name for name, _ in one.mechanisms()] == ["rows"]
        assert [name for name, _ in one.first_stages[0].mechanisms()] == [
            f"choice of {'rows' if spend == nt.pure(1) else 'norm'}"
        ]
    for delta in (1e-3, 1e-9):
        whole = compose([Gaussian(mu=1)]).epsilon(delta).upper
        assert made[nt.gdp(1)].losses().epsilon(delta).upper <= whole * (1 + 1e-6)


@pytest.mark.parametrize("share", ["1/10", "1/3"])
def test_the_parts_of_a_spend_compose_to_it_and_to_no_more(share):
    share, delta = Fraction(share), Fraction(1, 10**6)
    assert [part.epsilon for part in split_budget(nt.pure(2), share)] == [2 * share, 2 * (1 - share)]
    first, rest = split_budget(nt.approx(2, delta), share)
    assert (first.epsilon + rest.epsilon, rest.delta) == (2, delta)
    first, rest = split_budget(nt.zcdp(2, delta), share)
    assert (first.rho + rest.rho, first.delta + rest.delta) == (2, delta)
    first, rest = split_budget(nt.gdp(2, delta), share)
    assert 4 - Fraction(1, 10**9) < first.mu**2 + rest.mu**2 <= 4
    assert first.delta + rest.delta == delta


def heavy(size=1500):
    """Rows of units with heavy tails, in twelve towns of which a unit visits six."""
    draw = np.random.default_rng(8)
    who = np.repeat(np.arange(size), np.minimum(np.ceil(draw.lognormal(2, 1.2, size)), 3000).astype(int))
    return {"who": who, "town": (who * 7 + draw.integers(0, 6, who.size)) % 12, "paid": draw.uniform(0, 10, who.size)}


def heavy_rows(**more):
    return nt.table(pa.table(heavy(**more)), unit="who", name="visits", snapshot="one")


EVERY = {
    "keys": lambda r: r.group_by("town", keys=range(12)).agg(n=nt.count(), t=nt.sum("paid", 0, 10)),
    "all": lambda r: r.agg(n=nt.count(), m=nt.mean("paid", 0, 10), q=nt.median("paid", 0, 10, 1)),
    "people too": lambda r: r.group_by("town", keys=range(12)).agg(n=nt.count(), u=nt.count_distinct_units()),
    "people": lambda r: r.group_by("town", keys=range(12)).agg(u=nt.count_distinct_units()),
    "bins": lambda r: r.agg(h=nt.histogram("paid", range(11))),
    "prefixes": lambda r: r.group_by("town", keys=range(12)).workload(nt.prefix_sums()).agg(n=nt.count()),
    "margins": lambda r: (
        r.with_column("low", "paid < 5")
        .group_by("town", "low", keys={"town": range(12), "low": [True, False]})
        .marginals(["town"], [])
        .agg(n=nt.count())
    ),
    "unknown": lambda r: r.group_by("town").agg(n=nt.count()),
    "unknown, people": lambda r: r.group_by("town").agg(u=nt.count_distinct_units()),
}


QUICK = [("keys", nt.pure(2)), ("people too", nt.pure(2)), ("unknown", nt.gdp(2, "1e-6"))]
MORE = [(name, spend) for name in EVERY for spend in (nt.pure(2), nt.approx(2, "1e-6"), nt.gdp(2, "1e-6"))]


@pytest.mark.parametrize(
    ("asked", "spend"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE if one not in QUICK)]
)
def test_a_question_without_limits_is_answered_and_asking_again_is_free(asked, spend, tmp_path):
    rows = heavy_rows(size=400)
    if "unknown" not in asked or spend != nt.pure(2):
        with nt.open_ledger(tmp_path / "budget.db") as book:
            account = book.open(rows, spend)
            proposal = account.plan(EVERY[asked](rows), spend=spend)
            assert "first choose" in str(proposal.explain())
            release = account.release(proposal)
            paid = account.spent
            assert account.release(account.plan(EVERY[asked](rows), spend=spend)) == release
            assert account.spent == paid
        assert release.notes[-1].startswith("Chosen privately: ")
        origins = [bound["origin"] for bound in release.provenance.method["bounds"]]
        assert any(origin.startswith("chosen by a private first stage") for origin in origins)
        laws = {part["for"]: part["law"] for part in release.provenance.method["mechanisms"]}
        assert {"PermuteAndFlip", "ExponentialMechanism"} & set(laws.values())


def chosen_plans(made, engine):
    """The plans at the limit below which the choice falls once in ten times, every second time, and nine times in ten."""
    (search,) = made.first_stages[0].searches
    chances = search.mechanism.pmf(search.scores(engine.aggregate(search.stages[0], salt=SALT).values["units"]))
    for place in np.searchsorted(np.cumsum(chances), (0.1, 0.5, 0.9)):
        limit = search.candidates[place] if search.name == "norm" else int(search.candidates[place])
        yield made.first_stages[0].chosen(made, {search.name: limit}).plan


def errors(query, truth, spend, fixed):
    """Root mean square errors of a cell, from bounding and noise: at fixed limits, and at chosen ones."""
    engine, kind = DuckdbEngine(), "rows" if spend == nt.pure(1) else "norm"

    def error(made):
        measure = made.measures["rows"]
        exact = engine.aggregate(made.stage, salt=SALT).values["rows"].astype(float) / measure.parts
        return np.sqrt(np.mean((exact - truth) ** 2) + (1.25 * measure.mechanism.mean_size / measure.parts) ** 2)

    chosen = [error(made) for made in chosen_plans(plan(query, spend=spend), engine)]
    return [error(plan(query, spend=spend, limits=nt.limits(**{kind: c}))) for c in fixed], chosen


QUARTER = nt.gdp("1/4")  # about (1, 1e-6)


@pytest.mark.parametrize(
    ("asked", "spend"),
    [
        ("keys", nt.pure(1)),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (("keys", QUARTER), ("all", nt.pure(1)), ("all", QUARTER))
        ),
    ],
)
def test_chosen_limits_are_nearly_as_good_as_the_best_fixed_ones(asked, spend):
    columns = heavy()
    groups = heavy_rows().group_by("town", keys=range(12)) if asked == "keys" else heavy_rows()
    truth = np.bincount(columns["town"], minlength=12) if asked == "keys" else np.array([len(columns["who"])])
    fixed, chosen = errors(groups.agg(n=nt.count()), truth, spend, (4, 64, 2048))
    assert max(chosen) < 2 * min(fixed)
    assert max(chosen) < max(fixed) / 5  # near miss: a limit that was not chosen


def error_of_mean(made, truth):
    """The root mean square error of a mean over all rows, from bounding and noise."""
    exact = DuckdbEngine().aggregate(made.stage, salt=SALT).values
    (column,), (upper, _) = made.stage.grid.values(), made.measures.values()
    above, below = (float(exact[name][0]) / made.stage.parts[name] / column.high for name in made.measures)
    rows, size = above + below, 1.25 * upper.mechanism.mean_size / upper.parts
    ratio = above / rows
    step = float(column.bounds.step)
    squares = ((1 - ratio) ** 2 + ratio**2) * (size * column.high / rows) ** 2
    return float(np.sqrt(((ratio * column.high + column.centre) * step - truth) ** 2 + squares * step**2))


@pytest.mark.parametrize("spend", [nt.pure(1), QUARTER], ids=str)
def test_a_mean_has_a_lower_limit_than_a_count_and_errs_less_by_it(spend):
    columns, rows = heavy(size=6000), heavy_rows(size=6000)
    mean, truth = rows.agg(m=nt.mean("paid", 0, 10, "0.01")), np.mean(columns["paid"])
    chosen, counted = (
        list(chosen_plans(plan(query, spend=spend), DuckdbEngine())) for query in (mean, rows.agg(n=nt.count()))
    )
    kind = "rows" if spend == nt.pure(1) else "norm"
    best = min(error_of_mean(plan(mean, spend=spend, limits=nt.limits(**{kind: c})), truth) for c in (1, 4, 16, 64))
    limits = [one.bounding.norm or one.bounding.max_rows_per_group for one in counted]
    own = [error_of_mean(one, truth) for one in chosen]
    near = [error_of_mean(plan(mean, spend=spend, limits=nt.limits(**{kind: c})), truth) for c in limits]  # near miss
    assert max(own) < 9 * best < max(near)
    assert sum(own) < 0.9 * sum(near)


@pytest.mark.parametrize("typical", [8, 20, 50])
def test_people_who_have_about_as_many_rows_are_not_all_cut(typical):
    """No small limit loses fewer of them than the least one, so a cost for each doubling would choose that."""
    groups = nt.table(pa.table({"who": ["a"], "town": ["x"], "paid": [1.0], "new": [True]}), unit="who", name="visits")
    asked = groups.group_by("town").agg(n=nt.count(), m=nt.mean("paid", 0, 240), share=nt.mean("new"))
    (search,) = plan(asked, spend=nt.approx(1, "1e-8")).first_stages[0].searches
    edges, units = np.array(search.stages[0].sizes.edges), 1500
    sizes = np.maximum(np.random.default_rng(3).geometric(1 / typical, units) ** 2 / 5, 1)  # squared, over five towns
    found = np.bincount(np.searchsorted(edges, sizes, side="right") - 1, minlength=len(edges))
    chances, limits = (
        search.mechanism.pmf(search.scores(found)),
        np.array([float(limit) for limit in search.candidates]),
    )
    lost = np.array(
        [np.maximum(1 - limit / np.sqrt(sizes), 0) @ np.sqrt(sizes) / np.sqrt(sizes).sum() for limit in limits]
    )
    assert chances @ lost < 0.5
    assert chances @ (limits > 8 * typical) < 0.01


def test_a_lost_row_costs_a_ratio_less_and_then_the_choice_costs_less_too():
    rows, spend = visits(), nt.pure(1)
    asked = {"n": nt.count(), "m": nt.mean("paid", 0, 10), "s": nt.share("paid > 3"), "v": nt.variance("paid", 0, 10)}
    made = {name: plan(rows.agg(**{name: one}), spend=spend).first_stages[0] for name, one in asked.items()}
    growth = {name: one.searches[0].growth for name, one in made.items()}
    assert growth["n"] < growth["s"] / 5 < growth["m"] / 5 < growth["v"] / 40
    towns = plan(rows.group_by("town", keys=["x", "y", "z"]).agg(m=asked["m"]), spend=spend).first_stages[0].searches[0]
    assert towns.growth > 6 * growth["m"]  # a ratio of all rows has less noise: it asks for more rows
    assert [made[name].rest.epsilon for name in "nv"] == [Fraction(3, 4), Fraction(24, 25)]
    own = nt.limits(rows=nt.private_limit(share="1/5"))
    assert plan(rows.agg(v=asked["v"]), spend=spend, limits=own).first_stages[0].rest.epsilon == Fraction(4, 5)
    both = plan(rows.agg(n=asked["n"], v=asked["v"]), spend=spend).first_stages[0].searches[0]
    assert growth["n"] < both.growth < 10 * growth["n"]  # a count beside it needs its rows


REAL = {"purchases": ("customer_id", "month(day)", range(1, 13)), "ratings": ("s", "dept", range(1, 16))}


@pytest.mark.slow
@pytest.mark.parametrize("spend", [nt.pure(1), QUARTER], ids=str)
@pytest.mark.parametrize("name", REAL)
def test_real_tables_are_answered_near_the_raw_truth_without_a_limit(real_tables, name, spend):
    unit, value, keys = REAL[name]
    place = real_tables / f"{name}.parquet"
    found = dict(duckdb.sql(f"SELECT {value}, count(*) FROM '{place}' WHERE {unit} IS NOT NULL GROUP BY 1").fetchall())
    truth = np.array([found.get(key, 0) for key in keys], dtype=float)
    rows = nt.table(str(place), unit=unit).with_column("by", value)
    query = rows.group_by("by", keys=keys).agg(n=nt.count())
    fixed, chosen = errors(query, truth, spend, (1, 2, 4, 8, 16, 32, 64, 128, 256))
    assert max(chosen) < 2 * min(fixed)
    assert max(chosen) < 0.1 * np.median(truth)


def test_what_is_given_is_taken_and_what_is_half_given_is_refused():
    rows, query = visits(), visits().group_by("town", keys=["x", "y"]).agg(n=nt.count())
    given = plan(query, spend=SPEND, limits=nt.limits(rows=7))
    assert (given.first_stages, given.bounding.rows) == ((), 7)
    assert plan(rows.agg(u=nt.count_distinct_units()), spend=SPEND).first_stages == ()  # needs no limit
    assert plan(nt.table(pa.table({"a": [1]}), unit=nt.ROW, name="v").agg(n=nt.count()), spend=SPEND).first_stages == ()
    with pytest.raises(QueryError, match="max_rows_per_group is missing"):
        plan(query, spend=SPEND, limits=nt.limits(max_groups=2))
    unknown = rows.group_by("town").agg(n=nt.count())
    assert plan(unknown, spend=SPEND).stage.discovery_groups == 4
    own = plan(unknown, spend=SPEND, limits=nt.limits(max_discovered_groups=2))
    assert own.stage.discovery_groups == 2
    with pytest.raises(PrivacyError, match=r"with epsilon=1 alone.*delta"):  # and not with the rest after the choice
        plan(unknown, spend=nt.pure(1))
    each = nt.table(pa.table({"a": [1]}), unit=nt.ROW, name="v").agg(n=nt.count())
    with pytest.raises(QueryError, match="no limit to choose"):
        plan(each, spend=SPEND, limits=nt.limits(rows=nt.private_limit()))
    with pytest.raises(QueryError, match="no limits to choose"):
        plan(rows.most_common("town", among=["x"]), spend=SPEND, limits=nt.limits(rows=nt.private_limit()))
    for wrong in (
        lambda: nt.private_limit(0),
        lambda: nt.private_limit(share=1),
        lambda: nt.private_limit(share=0),
        lambda: nt.private_limit(groups=0),
        lambda: nt.limits(max_rows_per_group=nt.private_limit()),
        lambda: nt.limits(max_discovered_groups=nt.private_limit()),
    ):
        with pytest.raises(ParameterError):
            wrong()
    two = nt.limits(rows=nt.private_limit(groups=3), max_groups=nt.private_limit(groups=4))
    with pytest.raises(ParameterError, match="same in all"):
        plan(unknown, spend=SPEND, limits=two)


ASKED = {
    "rows": {"n": nt.count(), "m": nt.mean("paid", 0, 10)},
    "units": {"u": nt.count_distinct_units()},
    "both": {"n": nt.count(), "u": nt.count_distinct_units()},
}


@pytest.mark.parametrize("keys", [None, ["x", "y"]], ids=["unknown", "keys"])
@pytest.mark.parametrize("asked", ASKED)
def test_every_limit_can_be_left_to_the_plan_beside_numbers_for_the_others(asked, keys):
    query = visits().group_by("town", keys=keys).agg(**ASKED[asked])
    for given in (
        {"max_rows_per_group": 3, "max_groups": None},
        {"rows": None, "max_groups": 2},
        {"rows": 9, "max_groups": None},
        {"rows": None, "max_groups": None},
        {"norm": None, "max_groups": 2},
        {"norm": 5, "max_groups": None},
        {"norm": None, "max_groups": None},
    ):
        few = {"max_discovered_groups": 2} if keys is None and "norm" in given else {}
        limits = nt.limits(**{name: value or nt.private_limit() for name, value in given.items()}, **few)
        made = plan(query, spend=SPEND, limits=limits)
        chosen = [search.name for stage in made.first_stages for search in stage.searches]
        needed = {name for name, value in given.items() if value is None}
        needed -= {"rows"} if asked == "units" else set()
        needed -= {"max_groups"} if "norm" in given and asked != "both" else set()
        assert set(chosen) == needed, (given, chosen)


def test_units_beside_rows_have_a_norm_of_their_own():
    """Noise of a count of people is by the groups that they are in, not by their rows."""
    query = visits().group_by("town").agg(n=nt.count(), u=nt.count_distinct_units())
    chosen = plan(query, spend=nt.gdp(1, "1e-6")).first_stages[0]
    assert {search.name: search.squared for search in chosen.searches} == {"norm": False, "max_groups": True}
    few = visits().group_by("town", keys=list("abcdefghijklmnop")).agg(n=nt.count(), u=nt.count_distinct_units())
    assert [search.name for search in plan(few, spend=nt.gdp(1)).first_stages[0].searches] == ["norm"]
    shared, own = (
        plan(query, spend=nt.gdp(1, "1e-6"), limits=nt.limits(norm=32, max_discovered_groups=4, max_groups=groups))
        for groups in (None, 4)
    )
    of_shared, of_own = (
        Fraction(made.measures["units"].sensitivity.l2_squared, made.measures["units"].parts ** 2)
        for made in (shared, own)
    )
    assert (of_shared, of_own) == (32**2, 4)
    noise = {name: one.mechanism.mean_size / one.parts for name, one in own.measures.items()}
    assert own.noise_of_limit("norm") == pytest.approx(noise["rows"] / 32)  # each limit is chosen by its own noise
    assert own.noise_of_limit("max_groups") == pytest.approx(noise["units"] / 2)
    bounds = {bound["what"]: bound["value"] for bound in own.bounds()}
    assert bounds == {"norm": "32", "max_groups": "4", "max_discovered_groups": "4"}


def test_the_same_question_with_another_choice_is_another_plan():
    query = visits().group_by("town", keys=["x", "y"]).agg(n=nt.count())
    rows = [None, 64, nt.private_limit(64), nt.private_limit(128), nt.private_limit(64, share="1/5")]
    made = [plan(query, spend=nt.pure(1), limits=None if one is None else nt.limits(rows=one)).digest for one in rows]
    assert len(set(made)) == 5
    assert made[0] == plan(query, spend=nt.pure(1), limits=nt.limits(rows=nt.private_limit())).digest


def coverage(counts, spend, draws, *, least=True):
    """The share of bars of counts by group that hold all rows, over draws of the limit, of what it takes and of the noise."""
    groups, draw, rows = counts.shape[1], np.random.default_rng(9), counts.sum(axis=1)
    made = plan(visits().group_by("town", keys=list(map(str, range(groups)))).agg(n=nt.count()), spend=spend)
    (search,) = made.first_stages[0].searches
    edges = np.array(search.stages[0].sizes.edges)
    units = np.bincount(np.searchsorted(edges, rows, side="right") - 1, minlength=len(edges))
    chances, held = search.mechanism.pmf(search.scores(units)), []
    places = draw.multinomial(draws, chances / chances.sum())
    for place in np.flatnonzero(places):
        limit, many = float(search.candidates[place]), places[place]
        inside = made.first_stages[0].chosen(made, {"rows": int(limit)}).plan
        loss = inside.loss if least else replace(inside.loss, least=0.0)
        taken = np.bincount(np.searchsorted(loss.taken, np.maximum(rows - limit, 0), side="right") - 1, minlength=14)
        lost = counts.sum(axis=0) - np.minimum(1, limit / rows) @ counts
        scale = float(inside.measures["rows"].mechanism.scale) / inside.measures["rows"].parts
        for _ in range(many):
            noisy = taken + np.rint(draw.laplace(scale=float(loss.mechanism.scale), size=14)).astype(int)
            high = loss.stated(noisy)["rows"][1]
            error = draw.laplace(scale=scale, size=groups) - lost
            bar = scale * -np.log(0.04 if high else 0.05)
            held.append(np.mean((error <= bar) & (error >= -bar - (np.inf if high is None else high))))
    return np.mean(held)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_bars_of_few_counts_hold_rows_that_no_choice_sees(groups):
    draw = np.random.default_rng(2)
    rows = np.minimum(np.ceil(np.exp(draw.normal(0.8, 1.3, 20_000))), 5000).astype(int)
    counts = draw.multinomial(rows, np.full(groups, 1 / groups))
    assert coverage(counts, nt.pure(1), 150) >= 0.95
    assert groups > 1 or coverage(counts, nt.pure(1), 150, least=False) < 0.9  # a near miss: few counts have short bars


def test_a_choice_for_many_counts_takes_less_and_its_doublings_cost_more():
    found = {}
    for groups in (1, 3, 4, 6, 30):
        query = visits().group_by("town", keys=list(map(str, range(groups)))).agg(n=nt.count())
        choice = plan(query, spend=nt.pure(1)).first_stages[0]
        (search,) = choice.searches
        found[groups] = 1 - choice.rest.epsilon
        t, costs = float(search.mechanism.scale), search.penalties(math.inf) - np.arange(len(search.candidates))
        most = max((3 if groups < 4 else 4) * t, PARTS * search.growth / 1.2)  # in units: t, and r where that is more
        assert costs[search.candidates.index(2)] == pytest.approx(most, rel=1e-3)
    assert list(found.values()) == [Fraction(1, part) for part in (4, 4, 5, 7, 8)]
    beside = visits().group_by("town", keys=list(map(str, range(8)))).agg(n=nt.count(), u=nt.count_distinct_units())
    assert plan(beside, spend=nt.pure(1)).first_stages[0].rest.epsilon == Fraction(3, 4)  # two limits share the choice
