"""Scalar subqueries: questions that are asked first, paid with the question, and whose noisy numbers stand in its conditions."""

import json
from dataclasses import replace
from datetime import date

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import Dialect

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import NeartwinError, QueryError
from neartwin.noise import SYSTEM
from neartwin.planning.plan import NoisyAnswer
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.releases.certificates.recompute import recompute
from neartwin.releases.values import shown
from neartwin.statistics.base import Estimate
from neartwin.web.policy import stages_of

pytestmark = pytest.mark.sweep

PEOPLE = 60
DRAW = np.random.default_rng(5)
VISITS = pa.table({
    "who": np.arange(PEOPLE), "town": DRAW.choice(["Ulm", "Bonn"], PEOPLE), "paid": DRAW.integers(0, 100, PEOPLE) / 10,
})  # fmt: skip
ORDERS = pa.table({"buyer": np.arange(PEOPLE) // 2, "cost": DRAW.integers(0, 50, PEOPLE).astype(float)})
TOWNS = nt.public_table(pa.table({"name": ["Ulm"]}), name="towns")
ONE = nt.limits(max_rows_per_group=1, max_groups=1)
RICH = "SELECT COUNT(*) AS n FROM visits WHERE paid > (SELECT AVG(paid) FROM visits WHERE town = 'Ulm')"


@pytest.fixture(scope="module")
def visits():
    return nt.table(VISITS, unit="who", name="visits", columns={"paid": nt.bounds(0, 10)})


@pytest.fixture(scope="module")
def orders():
    return nt.table(ORDERS, unit="buyer", name="visits", columns={"cost": nt.bounds(0, 50)})


def rich(rows):
    return rows.where("paid > ($1)", rows.where("town = 'Ulm'").agg(mean_paid=nt.mean("paid"))).agg(n=nt.count())


def test_a_text_with_a_question_asked_first_is_read_once(visits, monkeypatch):
    read, tokenize = [], Dialect.tokenize
    monkeypatch.setattr(
        Dialect, "tokenize", lambda self, text, **more: read.append(text) or tokenize(self, text, **more)
    )
    assert len(nt.from_sql(RICH, visits).groups.rows.first) == 1
    assert read[0] == RICH
    assert not any("SELECT" in text for text in read[1:])  # what follows are expressions of one row


def test_names_of_with_written_out_in_a_first_question_have_limits(visits):
    each = " AND ".join(["paid > 1"] * 900)
    text = f"WITH t AS (SELECT who, paid FROM visits WHERE {each}) SELECT COUNT(*) AS n FROM visits WHERE paid > ({{}})"
    inner = "SELECT AVG(paid) FROM t"
    assert nt.from_sql(text.format(inner), visits).groups.rows.first
    both = "SELECT AVG(t.paid) FROM t JOIN t AS u USING (who)"
    with pytest.raises(QueryError, match="there are more than 3000 operations"):
        nt.from_sql(text.format(both), visits)


def test_sql_python_and_json_ask_the_same(visits):
    written, built = nt.from_sql(RICH, visits), rich(visits)
    assert written == built
    assert question_of(json.loads(json.dumps(form_of(built))), visits) == built
    alone = nt.from_sql("SELECT COUNT(*) AS n FROM visits WHERE paid > 5", visits)
    digests = [plan(one, spend=nt.pure(1), limits=ONE).digest for one in (written, built, alone)]
    assert digests[0] == digests[1] != digests[2]
    other = nt.from_sql(RICH.replace("Ulm", "Bonn"), visits)
    assert plan(other, spend=nt.pure(1), limits=ONE).digest != digests[0]


TEXTS = {
    RICH: {},
    "SELECT town, SUM(paid) AS s FROM visits WHERE paid < 1 + 0.5 * (SELECT AVG(paid) FROM visits) GROUP BY town": {},
    "SELECT COUNT(*) AS n FROM (SELECT paid AS p FROM visits WHERE paid > (SELECT AVG(paid) FROM visits)) AS t WHERE p < 9": {},
    "WITH v AS (SELECT * FROM visits) SELECT COUNT(*) AS n FROM v WHERE paid > (SELECT AVG(paid) FROM v)": {},
    "SELECT COUNT(*) AS n FROM visits WHERE 30 > (SELECT COUNT(*) FROM visits WHERE town = 'Ulm') OR paid > 9": {},
    "SELECT COUNT(*) AS n FROM visits WHERE paid BETWEEN (SELECT AVG(paid) - 2 FROM visits) "
    "AND (SELECT AVG(paid) + 3 FROM visits)": {},
    "SELECT COUNT(*) AS n FROM visits WHERE paid * 5 > (SELECT AVG(cost) + 0.03 FROM orders) AND NOT EXISTS "
    "(SELECT 1 FROM orders WHERE buyer = who)": {},
    "SELECT town, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM visits WHERE paid < 9) AS percent FROM visits GROUP BY town": {},
    "WITH t AS (SELECT COUNT(*) AS n, AVG(paid) AS a FROM visits) SELECT town, (AVG(paid) - a) / MAX(t.n) AS off FROM visits "
    "CROSS JOIN t GROUP BY town, a": {},
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT town, COUNT(*) + (SELECT n FROM t) AS s FROM visits "
    "WHERE paid > (SELECT n / 30 FROM t) GROUP BY town HAVING COUNT(*) > 0.01 * (SELECT n FROM t)": {},
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_without_noise_the_answer_is_the_databases(text, visits, orders, tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.pure(10**12))
        keys = ["Bonn", "Ulm"] if "GROUP BY" in text else None
        limits = nt.limits(max_rows_per_group=2, max_groups=2 if keys else 1)
        release = account.sql(text, spend=nt.pure(10**8), limits=limits, keys=keys, tables={"orders": orders})
        found = [list(release.statistics[-1].values), [float(one) for one in account.spent.values()]]
    plain = duckdb.connect()
    plain.register("visits", VISITS)
    plain.register("orders", ORDERS)
    truth = plain.sql(f"{text} {'ORDER BY 1' if keys else ''}").fetchall()
    assert found[0] == pytest.approx([float(row[-1]) for row in truth], abs=1e-3)
    assert found[1] == [10**8]


def test_a_date_that_is_asked_first_is_compared_after_aggregation(tmp_path):
    seen = [date(2024, 1, 1 + i % 20 if i % 2 else 1) for i in range(40)]  # in Ulm all on the first
    days = pa.table({"who": range(40), "town": ["Ulm", "Bonn"] * 20, "day": seen})
    rows = nt.table(days, unit="who", name="visits")
    text = "SELECT town, MAX(day) AS last FROM visits GROUP BY town HAVING MAX(day) >= (SELECT MAX(day) FROM visits)"
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        given = {"limits": nt.limits(max_rows_per_group=1, max_groups=1), "keys": ["Bonn", "Ulm"]}
        release = account.sql(text, spend=nt.pure(10**8), **given)
        assert ("Ulm",) not in release.keys  # and Bonn's maximum, with noise of its own, is about the whole's
        assert all(date(2024, 1, 9) < one <= date(2024, 1, 20) for one in release["$1"].meant(release["$1"].values))
        with pytest.raises(QueryError, match="it compares date and number"):
            account.sql(text.replace("MAX(day) >= ", "COUNT(*) / 2 > "), spend=nt.pure(10**7), **given)


def test_a_total_beside_statistics_is_in_their_bars(visits, tmp_path):
    total = visits.agg(count=nt.count())
    towns = visits.ask_first(total).group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count())
    text = "SELECT town, COUNT(*) AS n, COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY town"
    written = nt.from_sql(text, visits, keys=["Bonn", "Ulm"])
    assert replace(written, after=towns.after) == towns
    assert question_of(json.loads(json.dumps(form_of(written))), visits) == written
    one = replace(ONE, loss_share=0)  # so that bars have two ends
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.pure(9))
        release = account.release(account.plan(written, spend=nt.pure(9), limits=one))
        again = account.release(account.plan(towns, spend=nt.pure(9), limits=one)).computed("share", "n / $1")
        assert account.spent["epsilon"] == 9
    assert again["share"] == replace(release["share"], what="n / $1")
    assert "compared" not in release.headline  # no row was, and the bars hold that number's noise
    share, n, whole = (release[name] for name in ("share", "n", "$1"))
    assert whole.lower[0] < whole.values[0] < whole.upper[0]
    for i in range(2):
        assert share.values[i] == n.values[i] / whole.values[i]
        corners = [a / b for a in (n.lower[i], n.upper[i]) for b in (whole.lower[i], whole.upper[i])]
        assert (share.lower[i], share.upper[i]) == pytest.approx((min(corners), max(corners)))
        assert share.upper[i] > 1.01 * n.upper[i] / whole.values[i]  # near miss: a total without noise of its own
    assert share.confidence == pytest.approx(2 * release.confidence - 1)


@pytest.mark.parametrize("spend", [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("0.1"), nt.rdp(4, 1), nt.gdp("0.5")])
@pytest.mark.parametrize("limits", [ONE, None])
def test_what_is_previewed_is_paid_once(spend, limits, visits, tmp_path):
    budget = replace(spend, delta=spend.delta or nt.approx(1, "1e-6").delta) if hasattr(spend, "delta") else nt.pure(9)
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, budget)
        proposal = account.plan(rich(visits), spend=spend, limits=limits)
        preview = proposal.preview()
        assert "asking first $1 = mean(paid)" in str(preview)
        assert "$1 = mean(paid)" in str(proposal.explain())
        release = account.release(proposal)
        assert account.remaining == preview.after
        assert account.stored(proposal) == release.provenance.position
        assert account.release(account.plan(rich(visits), spend=spend, limits=limits)).to_json() == release.to_json()
        assert account.remaining == preview.after
        assert any("Asked first: $1 = mean(paid)" in note for note in release.notes)
        assert release.headline.startswith(f"Rows were compared with $1 = {shown(release['$1'], 0)}; no bar holds")
        body = nt.certify(release, book).body
    assert proposal.plan.losses().epsilon("1e-3").upper < 10
    assert recompute(body).agrees


def test_what_limits_and_bounds_take_from_a_number_asked_first_is_said(tmp_path):
    who = [*np.repeat(range(400), 50), *range(400, 2400)]
    heavy = pa.table({"who": who, "v": [100.0] * 20_000 + [0.0] * 2_000, "w": [7.0] * 22_000})
    rows = nt.table(heavy, unit="who", name="heavy", columns={"v": nt.bounds(0, 100), "w": nt.bounds(0, 5)})
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(90))
        one = {"spend": nt.pure(10), "limits": nt.limits(max_rows_per_group=1)}
        release = account.sql("SELECT COUNT(*) AS n FROM heavy WHERE v > (SELECT AVG(v) FROM heavy)", **one)
        first, mean = release["$1"], 20_000 * 100 / 22_000  # of rows; of people it is 17
        assert first.values[0] < 40
        assert (first.lower[0] or 0) <= mean <= (first.upper[0] or 100)
        assert any(note.startswith("For $1: The limits cut") for note in release.notes)
        release = account.sql("SELECT COUNT(*) AS n FROM heavy WHERE w > (SELECT AVG(w) FROM heavy)", **one)
        assert "answers lie at a bound of [0, 5]" in release.headline
        alone = {"spend": nt.pure(10), "limits": nt.limits(max_rows_per_group=1, loss_share=0)}
        release = account.sql("SELECT COUNT(*) AS n FROM heavy WHERE v < (SELECT AVG(v) FROM heavy)", **alone)
        assert not any(note.startswith("For $1") for note in release.notes)  # nobody paid for it


class Scripted:
    """A plan whose answer is known."""

    def __init__(self, plan, number):
        self.plan, self.number = plan, number

    def __getattr__(self, name):
        return getattr(self.plan, name)

    def resolve(self, engine, source):
        return self, ()

    def with_loss(self, engine, source):
        return self, None

    def answer(self, engine, source):
        return NoisyAnswer(((),), (Estimate("mean_paid", [self.number], [None], [None]),))


@pytest.mark.parametrize("number", [-3.5, 0.0, 4.99999, 1e300, float("nan")])
def test_a_plan_decides_before_its_numbers_are_known(number, visits):
    asked = plan(rich(visits), spend=nt.pure(1), limits=ONE)
    (stage,) = asked.first_stages

    asked = replace(asked, first_stages=(replace(stage, plans=(Scripted(stage.plans[0], number),)),))
    chosen, (choice,) = asked.resolve(DuckdbEngine(), SYSTEM)
    literal = plan(
        visits.where(f"paid > {number if np.isfinite(number) else 0.0!r}").agg(n=nt.count()),
        spend=stage.rest,
        limits=ONE,
    )
    assert list(chosen.mechanisms()) == list(asked.mechanisms()) == list(literal.mechanisms())
    assert chosen.losses().pure().upper <= 0.8 + 1e-9
    assert chosen.stage.conditions[0].term == literal.stage.conditions[0].term
    assert choice.sentences


def test_a_number_moves_counts_by_one_person_and_an_exact_mean_by_more():
    paid = [0.0, 0.0, 0.0, 0.4, 0.4, 0.4, 10.0]  # the last one decides the mean
    people = [paid, *(paid[:i] + paid[i + 1 :] for i in range(len(paid)))]

    def moved(number):
        counts = []
        for kept in people:
            table = pa.table({"who": range(len(kept)), "paid": kept})
            rows = nt.table(table, unit="who", name="visits", columns={"paid": nt.bounds(0, 10)})
            question = rows.where(f"paid > {number(kept)}").agg(n=nt.count_distinct_units())
            counts.append(
                int(
                    DuckdbEngine()
                    .aggregate(plan(question, spend=nt.pure(1), limits=ONE).stage, salt=1)
                    .values["units"][0]
                )
            )
        return max(abs(count - counts[0]) for count in counts)

    for noisy in (-1.0, 0.1, 0.399, 1.6, 9.0):
        assert moved(lambda _, noisy=noisy: noisy) <= 1
    assert moved(lambda kept: sum(kept) / len(kept)) > 1  # near miss: compared with the exact mean


def test_every_stage_is_seen_by_policies_and_every_table_by_the_ledger(visits, orders):
    text = "SELECT COUNT(*) AS n FROM visits WHERE paid > (SELECT AVG(cost) FROM orders)"
    asked = plan(nt.from_sql(text, visits, tables={"orders": orders}), spend=nt.pure(1), limits=ONE)
    assert any(column.column == "cost" for stage in stages_of(asked) for column in stage.grid.values())
    assert asked.first_stages[0].tables[0].joins


def test_in_a_series_and_written_to_parquet(visits, tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.pure(10**9))
        series = nt.series_from_sql(f"{RICH}; SELECT COUNT(*) AS n FROM visits", visits)
        first, both = account.release_series(account.plan_series(series, spend=nt.pure(10**7), limits=ONE))
        assert (both["n"].values[0], first["n"].values[0]) == (
            PEOPLE,
            account.sql(RICH, spend=nt.pure(10**8), limits=ONE)["n"].values[0],
        )
        grouped = (
            visits.where("paid > $1", visits.agg(n=nt.mean("paid")))
            .group_by("town", keys=["Bonn", "Ulm"])
            .agg(n=nt.count())
        )
        place = tmp_path / "answers.parquet"
        account.release_to_parquet(account.plan(grouped, spend=nt.pure(10**7), limits=ONE), place)
        assert sum(pa.parquet.read_table(place)["n"].to_pylist()) > 0


MANY = " OR ".join(f"paid > (SELECT AVG(paid) + {i} FROM visits WHERE paid > {i})" for i in range(9))
REFUSED = {
    "SELECT COUNT(*) AS n FROM visits AS v WHERE paid > (SELECT AVG(paid) FROM visits AS w WHERE w.town = v.town)": (
        "for each value of a column outside; ask it first with GROUP BY"
    ),
    "SELECT COUNT(*) AS n FROM (SELECT who FROM visits WHERE paid > (SELECT AVG(paid) FROM visits) GROUP BY who) AS t": (
        "stands in the outermost WHERE alone"
    ),
    "SELECT COUNT(*) AS n FROM visits WHERE paid > $1": "stands in the outermost WHERE alone",
    f"SELECT COUNT(*) AS n FROM visits WHERE {MANY}": (
        "at most 8 are asked first"
    ),
    "SELECT SUM(paid - (SELECT AVG(paid) FROM visits)) AS s FROM visits": "asked first in WHERE and beside other statistics",
    "SELECT town, COUNT(*) / (SELECT paid FROM visits) AS s FROM visits GROUP BY town": "is not understood: after aggregation",
    "SELECT town, COUNT(*) / $1 AS s FROM visits GROUP BY town": "is no statistic of the result",
    "SELECT name, COUNT(*) AS n FROM towns GROUP BY name": "asks public tables alone, which the database answers itself",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_first_says_why(text, visits):
    with pytest.raises(NeartwinError, match=REFUSED[text]):
        plan(nt.from_sql(text, visits, tables={"towns": TOWNS}), spend=nt.approx(1, "1e-6"), limits=ONE)


def test_a_question_asked_first_has_one_number_of_the_same_people(visits, orders):
    one, two = visits.agg(n=nt.count()), visits.agg(n=nt.count(), m=nt.mean("paid"))
    nested = visits.where("paid > $1", one).agg(n=nt.count())
    for first in (5, two, visits.group_by("town", keys=["Ulm"]).agg(n=nt.count()), nested, orders.agg(n=nt.count())):
        with pytest.raises(QueryError, match="cannot be asked first: it must have one number"):
            plan(visits.where("paid > $1", first).agg(n=nt.count()), spend=nt.pure(1), limits=ONE)
    asking = visits.where("paid > $1", one)
    with pytest.raises(QueryError, match="what is asked first is compared, so put conditions after it"):
        visits.join(asking, on="who", prefix="o_")
    with pytest.raises(QueryError, match="asks nothing first"):
        plan(asking.most_common("town", among=["Ulm", "Bonn"]), spend=nt.pure(1))
    for of_one in (
        lambda: asking.per_unit(n="COUNT(*)"),
        lambda: asking.with_column("l", "LAG(paid) OVER (PARTITION BY who ORDER BY paid)"),
    ):
        with pytest.raises(QueryError, match="outside the subquery"):
            of_one()
