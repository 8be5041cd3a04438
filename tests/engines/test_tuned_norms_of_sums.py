"""A norm that is tuned for workloads and marginals: chosen inside the same budget, applied as chosen, and near the best."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.accounting.budgets import Gdp
from neartwin.accounting.prices import mu_of_bounded_range
from neartwin.cli import main
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Gaussian, compose
from neartwin.planning.planner import plan
from neartwin.planning.workloads import entry_parts
from tests.engines.places import SALT
from tests.engines.test_limit_choice import chosen_plans
from tests.oracles.memory import MemoryEngine

pytestmark = pytest.mark.sweep

TOWNS, SEXES = range(4), [0, 1]
ASKED = {
    "prefixes": lambda rows: rows.group_by("town", keys=TOWNS).workload(nt.prefix_sums()).agg(n=nt.count()),
    "weights": lambda rows: rows.group_by("town", keys=TOWNS).workload({"a": {0: 1, 3: "-1/2"}}).agg(n=nt.count()),
    "sums": lambda rows: rows.group_by("town", keys=TOWNS).workload(nt.moving_sums(1)).agg(n=nt.sum("paid", -5, 5)),
    "margins": lambda rows: (
        rows.group_by("town", "sex", keys={"town": TOWNS, "sex": SEXES}).marginals(["town"], []).agg(n=nt.count())
    ),
}


def rows_of(who, counts, paid=5.0):
    return [
        {"who": who, "town": town, "sex": sex, "paid": paid}
        for (town, sex), many in counts.items()
        for _ in range(many)
    ]


CROWD = [row for i in range(200) for row in rows_of(f"p{i}", {(i % 4, i % 2): 1 + i % 3, (1, 0): 2})]
UNITS = (
    {(1, 0): 3}, {(1, 0): 900}, {(0, 0): 1, (3, 1): 1}, {(t, s): 300 for t in TOWNS for s in SEXES}, {(0, 0): 50, (1, 1): 1},
)  # fmt: skip
WHOLE_SPEND = {  # and the most that squared lengths over variances may add up to
    "zcdp": (nt.zcdp("1/2"), 1),
    "gdp": (nt.gdp(2), 4),
    "rdp": (nt.rdp(4, 2), 1),
}


def visits(rows, neighbours="add_remove"):
    return nt.table(pa.Table.from_pylist(rows), unit="who", name="visits", neighbours=neighbours)


def exact(stage, rows):
    (name,) = stage.measures
    return np.array(MemoryEngine(rows).aggregate(stage, salt=SALT).values[name], dtype=object)


def at_the_choice(made):
    """What the plan runs at the norm that its first stage would choose without noise."""
    first = made.first_stages[0]
    (search,) = first.searches
    scores = search.scores(exact(search.stages[0], CROWD))
    return first.chosen(made, {"norm": search.candidates[int(np.argmax(scores))]}).plan


def measured(made, rows):
    """What is measured, with its noise, in the same parts, of whatever kind of plan."""
    cells = exact(made.stage, rows)
    if hasattr(made, "strategy"):
        return [
            (made.strategy.measured(cells) * (made.measure.parts // entry_parts(made.stage)), made.measure.mechanism)
        ]
    cells, found = cells.reshape(made.design.sizes) * (made.parts // entry_parts(made.stage)), []
    for margin, measure in zip(made.measured, made.measures.values(), strict=True):
        away = tuple(place for place in range(cells.ndim) if place not in margin)
        found.append((np.array(cells.sum(axis=away), dtype=object).reshape(-1), measure.mechanism))
    return found


def spent(made, one, other):
    """What two neighbours cost together in mu^2: the choice, and squared distances over variances of noise."""
    after = at_the_choice(made)
    (search,) = made.first_stages[0].searches
    moved = search.scores(exact(search.stages[0], one)) - search.scores(exact(search.stages[0], other))
    assert min(moved) >= 0 or max(moved) <= 0
    assert max(abs(moved)) <= 1024  # its epsilon is for such scores
    epsilon = search.mechanism.epsilon
    found = mu_of_bounded_range(epsilon) ** 2 if isinstance(made.spend, Gdp) else epsilon**2 / 4
    for (first, noise), (second, _) in zip(measured(after, one), measured(after, other), strict=True):
        found += sum(int(step) ** 2 for step in first - second) / Fraction(noise.variance)
    return found


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("currency", WHOLE_SPEND)
def test_both_stages_cost_at_most_the_spend_for_any_unit(asked, currency):
    spend, most = WHOLE_SPEND[currency]
    made = plan(ASKED[asked](visits(CROWD)), spend=spend, limits=nt.limits(norm=nt.private_limit(64)))
    assert made.price == spend
    costs = [spent(made, CROWD, CROWD + rows_of("new", counts)) for counts in UNITS]
    assert max(costs) <= most
    assert max(costs) > Fraction(9, 10) * most
    near_miss = replace(
        made, first_stages=(replace(made.first_stages[0], rest=spend),)
    )  # the question would spend the first share again
    assert spent(near_miss, CROWD, CROWD + rows_of("new", UNITS[1])) > most


@pytest.mark.parametrize("asked", ["prefixes", "sums", "margins"])
def test_a_replaced_unit_costs_no_more_either(asked):
    rows = visits(CROWD, "replace_one")
    made = plan(ASKED[asked](rows), spend=nt.gdp(2), limits=nt.limits(norm=nt.private_limit(64)))
    pairs = [
        ({(0, 0): 900}, {(3, 1): 300}, 5.0),
        ({(1, 0): 90}, {(1, 0): 300}, -5.0),
        ({(0, 0): 2}, {(0, 0): 900}, 5.0),
    ]
    costs = [
        spent(made, CROWD + rows_of("new", here), CROWD + rows_of("new", there, paid)) for here, there, paid in pairs
    ]
    assert max(costs) <= 4
    # over margins no unit is at the limit of all: what moves towns furthest leaves their total
    assert max(costs) > (2 if asked == "margins" else Fraction(18, 5))


@pytest.mark.parametrize("asked", ASKED)
def test_losses_and_the_plans_name_have_the_pilot_in_them(asked):
    query = ASKED[asked](visits(CROWD))
    tuned = plan(query, spend=nt.gdp(2), limits=nt.limits(norm=nt.private_limit(64)))
    for delta in (1e-3, 1e-9):
        whole = tuned.losses().epsilon(delta).upper
        assert whole > 1.01 * replace(tuned, first_stages=()).losses().epsilon(delta).upper
        assert whole <= compose([Gaussian(mu=2)]).epsilon(delta).upper * (1 + 1e-6)
    digests = {
        plan(query, spend=nt.gdp(2), limits=nt.limits(norm=norm)).digest
        for norm in (64, nt.private_limit(64), nt.private_limit(32), nt.private_limit(64, share="1/5"))
    }
    assert len(digests) == 4
    assert tuned.digest == plan(query, spend=nt.gdp(2), limits=nt.limits(norm=nt.private_limit(64))).digest


def scaled_by_hand(norm):
    """Rows by town of the crowd and of one heavy unit, each unit's vector over towns no longer than the norm."""
    found = np.zeros(4)
    for who in {row["who"] for row in HEAVY}:
        towns = Counter(row["town"] for row in HEAVY if row["who"] == who)
        length = math.sqrt(sum(many**2 for many in towns.values()))
        for town, many in towns.items():
            found[town] += many * min(1.0, norm / length)
    return found


HEAVY = CROWD + rows_of("heavy", {(0, 0): 700, (2, 1): 300})


def test_answers_are_of_units_scaled_to_the_norm_that_was_chosen(tmp_path):
    rows = visits(HEAVY)
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.zcdp(10**9))
        made = account.plan(
            ASKED["prefixes"](rows), spend=nt.zcdp(10**8), limits=nt.limits(norm=nt.private_limit(100, share="9/10"))
        )
        assert "first choose norm" in str(made.explain())
        release = account.release(made)
        assert account.remaining["rho"] == 9 * 10**8  # pilot and question in one reserve
        assert account.release(made) == release
    norm = float(release.notes[-1].split("norm = ")[1].rstrip("."))
    assert release.notes[-1] in release.provenance.explanation
    np.testing.assert_allclose(release["n"].values, np.cumsum(scaled_by_hand(norm)), atol=2)
    assert np.abs(release["n"].values - np.cumsum(scaled_by_hand(norm / 2))).max() > 20  # near miss: another norm
    origins = {bound["what"]: bound["origin"] for bound in release.provenance.method["bounds"]}
    assert origins["norm"] == "chosen by a private first stage that was paid for, at most 100"


def heavy_tailed(size=20_000, towns=24):
    draw = np.random.default_rng(4)
    who = np.repeat(np.arange(size), np.ceil(np.exp(draw.normal(0, 1.2, size))).astype(int))
    return {"who": who, "town": draw.integers(0, towns, len(who))}


@pytest.mark.slow
@pytest.mark.parametrize("work", [nt.prefix_sums(), nt.moving_sums(2), nt.range_sums([1, 24])], ids=str)
def test_the_chosen_norm_is_nearly_as_good_as_the_best_fixed_one(work):
    columns = heavy_tailed()
    query = nt.table(pa.table(columns), unit="who", name="visits").group_by("town", keys=range(24))
    query, engine = query.workload(work).agg(n=nt.count()), DuckdbEngine()
    truth = np.bincount(columns["town"], minlength=24).astype(float)

    def error(made):
        groups = engine.aggregate(made.stage, salt=SALT).values["rows"].astype(float) / entry_parts(made.stage)
        lost = np.abs(made.resolved.queries.answers(groups - truth)).mean()
        return lost + 0.41 * float(made.bars.mean())

    tuned = plan(query, spend=nt.zcdp("1/2"), limits=nt.limits(norm=nt.private_limit(512)))
    best = min(
        error(plan(query, spend=nt.zcdp("9/20"), limits=nt.limits(norm=norm))) for norm in (4, 8, 16, 32, 64, 128)
    )
    found = sorted(map(error, chosen_plans(tuned, engine)))
    assert found[1] < 1.5 * best
    assert found[2] < 2.2 * best
    end = plan(query, spend=nt.zcdp("9/20"), limits=nt.limits(norm=512))
    assert error(end) > 3 * best  # near miss: the end of the search


MARGINS = "SELECT town, sex, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((town), (sex), ())"
TOTALS = "SELECT town, SUM(COUNT(*)) OVER (ORDER BY town) AS n FROM visits GROUP BY town"


@pytest.mark.parametrize(
    ("text", "keys", "asked"), [(TOTALS, {"town": TOWNS}, 4), (MARGINS, {"town": TOWNS, "sex": SEXES}, 7)]
)
def test_sql_and_the_terminal_tune_it_too(tmp_path, text, keys, asked):
    import pyarrow.parquet as pq

    place = tmp_path / "visits.parquet"
    pq.write_table(pa.Table.from_pylist(CROWD), place)
    rows = nt.table(place, unit="who", name="visits")
    with nt.open_ledger(tmp_path / "here.db") as book:
        account = book.open(rows, nt.gdp(3))
        release = account.sql(text, keys=keys, spend=nt.gdp(1), limits=nt.limits(norm=nt.private_limit(64)))
    assert "Chosen privately: norm = " in release.notes[-1]
    assert len(release) == asked
    given = [part for name, values in keys.items() for part in ("--keys", f"{name}={values[0]}:{values[-1]}")]
    called = CliRunner().invoke(
        main,
        ["query", str(place), text, "--unit", "who", "--ledger", str(tmp_path / "there.db"), "--budget", "mu=3",
         "--spend", "mu=1", "--norm", "private=64", *given],
    )  # fmt: skip
    assert called.exit_code == 0, called.output
    assert "Chosen privately: norm = " in called.output


def test_impossible_private_limit_is_refused_before_any_spend():
    for asked in ASKED.values():
        query = asked(visits(CROWD))
        with pytest.raises(
            ParameterError, match=r"max_rows_per_group=.*only max_groups, rows, norm, values can be private"
        ):
            nt.limits(max_rows_per_group=nt.private_limit(8), max_groups=3)
        with pytest.raises(ParameterError, match="cannot be combined with norm"):
            nt.limits(norm=nt.private_limit(8), max_rows_per_group=8)
        with pytest.raises(PrivacyError, match="noise is normal"):
            plan(query, spend=nt.pure(1), limits=nt.limits(norm=nt.private_limit(64)))
        with pytest.raises(ParameterError, match="cannot be combined with norm"):
            plan(query, spend=nt.gdp(1), limits=nt.limits(norm=nt.private_limit(64), rows=5))
