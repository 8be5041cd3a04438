"""Several questions in one plan: one reservation, shares that minimise all errors, one composed price, all answers or none."""

import json

import numpy as np
import pandas as pd
import pytest

import neartwin as nt
from neartwin.accounting.guarantee import whole_of
from neartwin.errors import BudgetError, ExecutionError, QueryError

LIMITS = {"limits": nt.limits(max_rows_per_group=2, max_groups=2)}
SPENDS = [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("0.3", "1e-7"), nt.gdp("0.7", "1e-7")]


@pytest.fixture
def rows():
    draw = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"who": np.arange(2000) // 2, "town": draw.choice(["Ulm", "Bonn"], 2000), "paid": draw.gamma(2.0, 15.0, 2000)}
    )
    return nt.table(frame, unit="who", name="visits", types={"town": "text"}, snapshot="s")


def questions(rows, keys):
    return [
        rows.agg(n=nt.count(), typical=nt.mean("paid", 0, 100)),
        rows.group_by("town", keys=keys).agg(people=nt.count_distinct_units(), m=nt.median("paid", 0, 100)),
        rows.where("paid > 20").agg(by=nt.histogram("paid", [20, 40, 100])),
    ]


TOWNS = ["Ulm", "Bonn"]
PAYABLE = [
    (spend, keys) for spend in SPENDS for keys in (TOWNS, None) if keys or spend != nt.pure(1)
]  # a delta is wanted


@pytest.mark.parametrize(("spend", "keys"), PAYABLE, ids=str)
def test_series_pays_once_and_its_loss_is_within_its_price(rows, tmp_path, spend, keys):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, spend)
        made = account.plan_series(questions(rows, keys), spend=spend, **LIMITS)
        eps = np.array([0.05, 0.3, 1.0])
        if not hasattr(spend, "rho"):
            promised = whole_of(made.price).delta(eps).upper
            assert (made.plan.losses().delta(eps).lower <= promised * (1 + 1e-9)).all()
        releases = account.release_series(made)
        assert [release.keys[0] for release in releases[::2]] == [(), ("[20, 40)",)]
        assert {release.provenance.position for release in releases} == {releases[0].provenance.position}
        assert all(release.guarantee.promise == made.price for release in releases)
        assert account.release_series(account.plan_series(questions(rows, keys), spend=spend, **LIMITS)) == releases
        document = account.book.answer(releases[0].provenance.position).document  # canonical, as if parsed and written
        assert document == json.dumps(json.loads(document), sort_keys=True).encode()
        used = account.spent
        with pytest.raises(BudgetError):  # the near miss: nothing is left for the first question alone
            account.release(
                account.plan(questions(rows, keys)[0], spend=nt.pure("0.9"), limits=nt.limits(max_rows_per_group=2))
            )
        assert account.spent == used


def test_series_beats_an_even_split_and_separate_plans(rows, tmp_path):
    spend, asked = (
        nt.gdp(1),
        [rows.agg(n=nt.count_distinct_units()), rows.agg(q=nt.quantile("paid", [0.1, 0.5, 0.9], 0, 100))],
    )
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, spend)
        together = account.plan_series(asked, spend=spend, limits=nt.limits(max_rows_per_group=5)).plan
        half = nt.gdp("0.7071")
        apart = [account.plan(query, spend=half, limits=nt.limits(max_rows_per_group=5)).plan for query in asked]
        assert sum(part.error for part in together.parts) < 0.95 * sum(part.error for part in apart)
    many, wide = [rows.where(f"paid > {i}").agg(n=nt.count_distinct_units()) for i in range(12)], nt.approx(1, "1e-6")
    with nt.open_ledger(tmp_path / "other.db") as book:
        account = book.open(rows, wide)
        composed = account.plan_series(many, spend=wide, limits=nt.limits(max_rows_per_group=1)).plan
        added = account.plan(many[0], spend=nt.pure("1/12"), limits=nt.limits(max_rows_per_group=1)).plan
        bars = [part.measures["units"].mechanism.half_width(0.95) for part in (composed.parts[0], added)]
        assert composed.price == wide
        assert bars[0] < bars[1]


class FailingOnce:
    """Answers the first question, and fails at the second."""

    def __init__(self):
        from neartwin.engines.duckdb import DuckdbEngine

        self.inner, self.asked = DuckdbEngine(), 0

    def aggregate(self, stage, *, salt):
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("the secret is 4711")
        return self.inner.aggregate(stage, salt=salt)


def test_a_series_that_fails_half_way_serves_nothing_and_stays_paid(rows, tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        made = account.plan_series(questions(rows, ["Ulm"]), spend=nt.pure(1), **LIMITS)
        with pytest.raises(ExecutionError) as failure:
            account.release_series(made, engine=FailingOnce())
        assert failure.value.__context__ is None
        assert account.remaining == {"epsilon": 0}


def test_malformed_series_is_refused_before_any_spend(rows, tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        for asked, weights, says in (
            ([], None, "at least one"),
            ([rows.agg(n=nt.count())], {"m": 2}, "not name a statistic"),
        ):
            with pytest.raises(QueryError, match=says):
                account.plan_series(asked, spend=nt.pure(1), importance=weights, limits=nt.limits(max_rows_per_group=1))
        assert account.spent == {"epsilon": 0}


def of_all_kinds(rows):
    """Choices with and without counts, and a question whose bounds are tuned, beside one with given keys."""
    return [
        rows.most_common("town", among=TOWNS, k=2, counted=True),
        rows.group_by("town", keys=TOWNS).agg(n=nt.count(), total=nt.sum("paid", 0, 100)),
        rows.where("paid > 20").most_common("town", among=TOWNS),
    ]


TUNED = {"limits": nt.limits(rows=nt.private_limit(64, share="1/5"))}


@pytest.mark.slow
@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_choices_and_private_limits_stay_within_the_price_of_a_series(rows, tmp_path, spend):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, spend)
        made = account.plan_series(of_all_kinds(rows), spend=spend, **TUNED)
        assert [type(part).__name__ for part in made.plan.parts] == ["TopKPlan", "GroupPlan", "TopKPlan"]
        eps = np.array([0.05, 0.3, 1.0])
        if not hasattr(spend, "rho"):
            promised = whole_of(made.price).delta(eps).upper
            assert (made.plan.losses().delta(eps).lower <= promised * (1 + 1e-9)).all()
        else:
            assert sum(part.price.rho for part in made.plan.parts) <= spend.rho
        assert made.preview().affordable
        winners, sums, first = account.release_series(made)
        assert {key[0] for key in winners.keys} == set(TOWNS) >= {first.keys[0][0]}
        assert any(note.startswith("Chosen privately: ") for note in sums.notes)
        assert any(bound["origin"].startswith("chosen by") for bound in sums.provenance.method["bounds"])
        assert account.release_series(account.plan_series(of_all_kinds(rows), spend=spend, **TUNED)) == (
            winners, sums, first,
        )  # fmt: skip


def test_parts_of_a_series_with_choices_cost_exactly_its_price(rows, tmp_path):
    """By the basic theorem, beside the code: the epsilons of limits, choices, counts and sums add up to the spend."""
    with nt.open_ledger(tmp_path / "budget.db") as book:
        parts = book.open(rows, nt.pure(1)).plan_series(of_all_kinds(rows), spend=nt.pure(1), **TUNED).plan.parts
    total = 0
    for part in parts:
        if hasattr(part, "counts"):
            total += part.query.k * part.mechanism.each.epsilon
            if part.counts is not None:
                total += part.counts.sensitivity.l1 / part.counts.mechanism.scale
        else:
            total += sum(measure.sensitivity.l1 / measure.mechanism.scale for measure in part.measures.values())
            total += sum(search.mechanism.epsilon for search in part.first_stages[0].searches)
            total += 0 if part.loss is None else sum(one.epsilon for _, one in part.loss.mechanisms())
    assert 0.98 < total <= 1


SERIES = """
SELECT COUNT(*) AS n FROM visits WHERE town <> ';';
SELECT town, AVG(paid) AS typical FROM visits GROUP BY town ORDER BY typical DESC;
SELECT town FROM visits GROUP BY town ORDER BY COUNT(DISTINCT who) DESC LIMIT 1;
"""


def test_several_sql_statements_are_one_series_with_one_price(rows, tmp_path):
    table = nt.table(rows.table.source.frame, unit="who", name="visits", types={"town": "text"}, snapshot="s",
                     columns={"paid": nt.bounds(0, 100)})  # fmt: skip
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(table, nt.pure(1))
        questions = nt.series_from_sql(SERIES, account.rows, keys={"town": TOWNS})
        series = account.plan_series(questions, spend=nt.pure(1), **LIMITS)
        assert str(series.explain()).startswith("series of 3 questions for one price")
        with pytest.raises(QueryError, match="answers one statement, and here are 3: write account"):
            account.sql(SERIES, keys={"town": TOWNS}, spend=nt.pure(1), **LIMITS)
        assert account.spent == {"epsilon": 0}
        all_rows, by_town, most = account.release_series(series)
        assert (len(all_rows), len(by_town), len(most)) == (1, 2, 1)
        assert account.remaining == {"epsilon": 0}
        for text, keys, says in (
            (SERIES, {"city": TOWNS}, "no statement groups by 'city'"),
            ("SELECT COUNT(*) FROM visits; DROP TABLE visits", None, "DROP is refused"),
            (";;", None, "at least one SELECT"),
        ):
            with pytest.raises(QueryError, match=says):
                account.sql(text, keys=keys, spend=nt.pure("0.1"), **LIMITS)
