"""What is done to a release costs nothing, keeps its promise, and says what it did to the bars."""

import datetime as dt
import itertools
import math
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import ParameterError, QueryError
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.releases.postprocess import _order, having
from neartwin.releases.release import Release
from neartwin.releases.values import Provenance, Statistic, StatisticsTable
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType
from tests.oracles.memory import evaluate


@pytest.fixture
def book(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as opened:
        yield opened


@pytest.fixture
def visits():
    size = 3000
    return nt.table(
        pa.table(
            {
                "who": [i % 500 for i in range(size)],
                "town": [["Ulm", "Bonn", "Trier", None][(i * i) % 7 % 4] for i in range(size)],
                "paid": [float(i % 40) for i in range(size)],
            }
        ),
        unit="who", name="visits", snapshot="one", columns={"paid": nt.bounds(0, 40)},
    )  # fmt: skip


NOWHERE = Provenance(
    population="", snapshot="", plan="", explanation="", created="", version="", account="", position=0,
    budget_before={}, budget_after={}, cap={},
)  # fmt: skip
KEYS = {"town": ["Ulm", "Bonn", "Trier", None, "nowhere"]}
LIMITS = {"spend": nt.pure(1), "limits": nt.limits(max_rows_per_group=6, max_groups=4)}
SELECT = "SELECT town, COUNT(*) AS n, SUM(paid) AS total FROM visits GROUP BY town"


@pytest.mark.parametrize(("down", "first"), [(False, False), (False, True), (True, False), (True, True)])
def test_an_order_is_that_of_stable_sorts_one_key_after_the_other(down, first):
    towns, sizes = ["b", None, "a", "b", None, "a", "c", "b"], [2.5, 1, 10**30, 2.5, None, -0.0, 0, 1]
    found = list(range(8))
    for values, descends, nulls in ((sizes, not down, not first), (towns, down, first)):
        there = sorted((i for i in found if values[i] is not None), key=values.__getitem__, reverse=descends)
        none = [i for i in found if values[i] is None]
        found = none + there if nulls else there + none
    assert _order([(towns, down, first), (sizes, not down, not first)], 8) == found
    assert _order([(towns, down, not first), (sizes, not down, not first)], 8) != found
    assert _order([], 8) == list(range(8))


def test_having_order_and_limit_agree_in_sql_and_python_at_no_cost(book, visits):
    account = book.open(visits, nt.pure(1))
    whole = account.sql(SELECT, visits, keys=KEYS, **LIMITS)
    assert account.remaining == {"epsilon": 0}
    text = f"{SELECT} HAVING COUNT(*) > 100 AND town IS NOT NULL ORDER BY total DESC, 1 LIMIT 2 OFFSET 1"
    found = account.sql(text, visits, keys=KEYS, **LIMITS)  # a stored answer: there is no budget left
    built = whole.having("n > 100 AND town IS NOT NULL").order_by(("total", True), "town")
    assert found.keys == built.keys[1:3]
    assert found["n"].values == built["n"].values[1:3]
    assert found.provenance == whole.provenance
    assert found.guarantee == whole.guarantee
    assert any("chosen for being large" in note for note in found.notes)
    wanted = sorted(
        (-total, key[0]) for key, total, n in zip(whole.keys, whole["total"].values, whole["n"].values, strict=True)
        if key[0] is not None and n > 100
    )  # fmt: skip
    assert [key[0] for key in built.keys] == [town for _, town in wanted]
    assert whole.order_by("town").limit(2).keys == (("Bonn",), ("Trier",))
    assert whole.order_by("town").keys[-1] == (None,)
    assert whole.order_by("town").notes == whole.notes  # the order of public keys tells nothing about the values


@pytest.mark.parametrize(
    "key",
    [
        "CASE town WHEN 'Trier' THEN 1 WHEN 'Ulm' THEN 2 ELSE 3 END, town",
        "CASE WHEN town IS NULL THEN 0 ELSE LENGTH(town) END DESC, 1",
        "town = 'Ulm' DESC, town DESC NULLS LAST",
        "CASE WHEN town > 'T' THEN town END NULLS FIRST, town",
    ],
)
def test_groups_are_ordered_by_expressions_as_a_database_orders_them(book, visits, key):
    account = book.open(visits, nt.pure(1))
    found = account.sql(f"{SELECT} ORDER BY {key}", visits, keys=KEYS, **LIMITS)
    shown = pa.table({"town": [town for (town,) in found.keys], **{one.name: one.values for one in found.statistics}})
    with duckdb.connect() as connection:
        connection.register("shown", shown.take(pa.array(np.random.default_rng(1).permutation(len(shown)))))
        assert connection.sql(f"SELECT town FROM shown ORDER BY {key}").fetchall() == list(found.keys)
    assert not any("chosen for being large" in note for note in found.notes)  # public keys tell nothing of the values
    by_value = found.order_by("CASE WHEN n > 100 THEN town END")
    assert any("chosen for being large" in note for note in by_value.notes)
    question = nt.from_sql(f"{SELECT} ORDER BY {key}", visits, keys=KEYS)
    assert question_of(form_of(question), visits) == question
    with pytest.raises(QueryError, match=r"'paid' is (not in the table|no column of the SELECT)"):
        nt.from_sql(f"{SELECT} ORDER BY {key.replace('town', 'paid')}", visits, keys=KEYS)


@pytest.mark.parametrize(("key", "towns"), [("t = 'rest' DESC", ["rest", "Ulm"]), ("LENGTH(t), t", ["Ulm", "rest"])])
def test_order_by_an_expression_reads_names_of_select(book, visits, key, towns):
    group = "CASE WHEN town = 'Ulm' THEN town ELSE 'rest' END"
    text = f"SELECT {group} AS t, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY {key}"
    found = book.open(visits, nt.pure(1)).sql(text, visits, keys=["Ulm", "rest"], **LIMITS)
    assert [town for (town,) in found.keys] == towns


CONDITIONS = [
    "n > 2", "n >= 2 AND NOT (town = 'Ulm')", "town IS NULL OR big < 0", "big > 9223372036854775807", "N = n",
    "CASE WHEN n > 1 THEN town LIKE 'U%' END", "day >= DATE '2026-01-02' AND open", "isodow(day) IN (4, 5)",
    "n / 3 BETWEEN 0.5 AND 1 OR coalesce(town, '') = ''", "open = FALSE", "least(n, N) * 1e308 > 1e308",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_having_keeps_the_rows_of_the_reference_evaluation(condition):
    """Group values may pass 64 bits, and names may differ in their capitals alone. NaN is NULL."""
    keys = (
        ("Ulm", 2**70, dt.date(2026, 1, 1), True), (None, -1, None, False),
        ("Bonn", None, dt.date(2026, 1, 2), None), ("", 3, dt.date(2026, 1, 4), True),
    )  # fmt: skip
    numbers = {"n": (1.0, 2.0, 3.0, float("nan")), "N": (2, 2, 3, 10**20)}
    table = StatisticsTable(
        group_columns=("town", "big", "day", "open"), keys=keys, confidence=0.95, notes=(), provenance=NOWHERE,
        statistics=tuple(Statistic(name=n, what=n, values=v, lower=v, upper=v) for n, v in numbers.items()),
    )  # fmt: skip
    kinds = {"town": "text", "big": "integer", "day": "date", "open": "boolean", "n": "number", "N": "number"}
    term = RowExpression.parse(condition, {name: ColumnType(kind) for name, kind in kinds.items()}).term
    values = zip(*numbers.values(), strict=True)
    every = [
        (*key, *(None if math.isnan(one) else float(one) for one in some))
        for key, some in zip(keys, values, strict=True)
    ]
    rows = [dict(zip(kinds, one, strict=True)) for one in every]
    wanted = [key for key, row in zip(keys, rows, strict=True) if evaluate(term, row) is True]
    assert list(having(table, condition).keys) == wanted


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("HAVING n", "no condition"),
        ("HAVING paid > 3", "not in the table"),
        ("HAVING 2 / 0 > n", "other than 0"),
        ("ORDER BY paid", "is no column of the SELECT"),
        ("ORDER BY 9", "has 3 columns"),
        ("ORDER BY paid + 1", "not in the table"),
        ("ORDER BY LENGTH('Ulm')", "is no column of the SELECT"),
        ("LIMIT 10%", "private question|whole number|not SQL"),
        ("LIMIT n", "whole number"),
    ],
)
def test_unreleased_column_cannot_order_or_filter(visits, clause, says):
    with pytest.raises(QueryError, match=says):
        nt.from_sql(f"{SELECT} {clause}", visits, keys=KEYS)


@pytest.fixture
def release(book, visits):
    return book.open(visits, nt.pure(1)).sql(SELECT, visits, keys=KEYS, **LIMITS)


def with_values(release, keys, values, half, columns=("town",)):
    values = [float(value) for value in values]
    ends = [tuple(value + way * h for value, h in zip(values, half, strict=True)) for way in (0, -1, 1)]
    statistic = Statistic(name="n", what="count()", values=ends[0], lower=ends[1], upper=ends[2])
    return replace(release, group_columns=columns, keys=tuple(keys), statistics=(statistic,))


def test_a_ratios_bar_holds_every_ratio_of_its_parts_and_says_how_surely(release):
    draw = np.random.default_rng(3)
    n = Statistic(name="n", what="", values=(5.0, -3.0, 1.0), lower=(2.0, -4.0, -1.0), upper=(8.0, -2.0, 3.0))
    total = Statistic(name="total", what="", values=(-1.0, 6.0, 2.0), lower=(-7.0, 5.0, 1.0), upper=(5.0, 7.0, 3.0))
    made = replace(release, keys=((1,), (2,), (3,)), statistics=(n, total)).computed("each", "total / n")
    each = made["each"]
    assert each.values == (-0.2, -2.0, 2.0)
    assert each.confidence == pytest.approx(0.9)
    assert Release.from_json(made.to_json()) == made
    assert each.lower[2] is each.upper[2] is None
    cut = made.non_negative("each")["each"]  # a ratio that is not negative is known to be at least 0
    assert (cut.lower[2], cut.upper[2]) == (0, None)
    for i in range(2):
        drawn = draw.uniform(total.lower[i], total.upper[i], 20000) / draw.uniform(n.lower[i], n.upper[i], 20000)
        assert each.lower[i] <= drawn.min() < each.lower[i] + 0.1 * (each.upper[i] - each.lower[i])
        assert each.upper[i] >= drawn.max() > each.upper[i] - 0.1 * (each.upper[i] - each.lower[i])
    with pytest.raises(ParameterError, match="must be new"):
        made.computed("each", "total / n")
    with pytest.raises(QueryError, match="no statistic of the result"):
        made.computed("other", "total / m")


def test_a_part_of_all_rows_lies_between_0_and_1(release):
    rows = Statistic(
        name="n", what="count()", values=(10.0, 2.0, 90.0), lower=(4.0, -4.0, 85.0), upper=(16.0, 8.0, 95.0)
    )
    some = Statistic(
        name="k", what="count(x)", values=(9.0, 3.0, 45.0), lower=(3.0, -3.0, 40.0), upper=(15.0, 9.0, 50.0)
    )
    both = replace(release, keys=((1,), (2,), (3,)), statistics=(rows, some))
    part = both.computed("part", "k / n")
    assert part["part"].lower == (3 / 16, 0, 40 / 95)
    assert part["part"].upper == (1, 1, 50 / 85)
    assert part["part"].values == (0.9, 1, 0.5)
    whole = both.computed("over", "n / k")  # the near miss: no part of its bottom
    assert (whole["over"].lower[1], whole["over"].upper[1]) == (None, None)


def test_non_negative_cuts_values_and_bars_and_no_truth_leaves_its_bar(release):
    made = with_values(release, [(i,) for i in range(4)], [-5, -1, 2, 9], [3, 3, 3, 3])
    cut = made.non_negative("n")
    assert cut["n"].values == (0, 0, 2.0, 9.0)
    for low, high, now_low, now_high in zip(
        made["n"].lower, made["n"].upper, cut["n"].lower, cut["n"].upper, strict=True
    ):
        truths = [truth for truth in range(30) if low <= truth <= high]
        assert all(now_low <= truth <= now_high for truth in truths)
        assert now_low >= 0
    assert cut.guarantee == made.guarantee
    with pytest.raises(ParameterError, match="must be one of"):
        made.non_negative("m")


def test_monotone_gives_the_nearest_monotone_values_by_weighted_squares(release):
    from scipy.optimize import minimize

    draw = np.random.default_rng(5)
    for _ in range(5):
        values, half = draw.normal(0, 3, 7) + np.arange(7), draw.uniform(0.5, 4, 7)
        made = with_values(release, [(i,) for i in range(7)], values, half)
        for increasing in (True, False):
            fitted = np.array(made.monotone("n", increasing=increasing)["n"].values)
            sign = 1 if increasing else -1
            assert (np.diff(fitted) * sign >= -1e-12).all()
            limits = [{"type": "ineq", "fun": lambda x, i=i, sign=sign: sign * (x[i + 1] - x[i])} for i in range(6)]
            best = minimize(
                lambda x, v=values, h=half: float((((x - v) / h) ** 2).sum()), np.sort(values)[::sign],
                constraints=limits, tol=1e-12,
            )  # fmt: skip
            assert fitted == pytest.approx(best.x, abs=1e-4)
    assert made.monotone("n")["n"].lower == made["n"].lower


def test_parts_are_made_to_sum_to_their_wholes_by_least_squares(release):
    """Against the dense normal equations, over a tree of three levels with uneven parts and uneven bars."""
    draw = np.random.default_rng(6)
    states, towns = ["BW", "NRW", "HE"], {"BW": 4, "NRW": 1, "HE": 2}
    leaves = [(state, f"{state} {i}") for state in states for i in range(towns[state])]
    levels = [
        with_values(release, [()], [draw.normal(100, 9)], [4.0], ()),
        with_values(release, [(s,) for s in states], draw.normal(30, 9, 3), draw.uniform(1, 6, 3), ("state",)),
        with_values(release, leaves, draw.normal(15, 9, 7), draw.uniform(1, 6, 7), ("state", "town")),
    ]
    made = nt.make_consistent(*levels, name="n")
    rows = [[1.0] * 7]
    rows += [[float(leaf[0] == state) for leaf in leaves] for state in states]
    rows += np.eye(7).tolist()
    drawn = np.concatenate([level["n"].values for level in levels])
    half = np.concatenate([(np.array(level["n"].upper) - np.array(level["n"].lower)) / 2 for level in levels])
    best = np.linalg.lstsq(np.array(rows) / half[:, None], drawn / half, rcond=None)[0]
    assert np.concatenate([level["n"].values for level in made]) == pytest.approx(np.array(rows) @ best)
    assert made[1]["n"].lower == levels[1]["n"].lower
    assert all("bars are those of the values as drawn" in level.notes[-1] for level in made)
    shuffled = replace(levels[2], keys=levels[2].keys[::-1])
    for wrong, says in (
        ((levels[0],), "at least two"),
        ((levels[1], levels[0]), "group column of the next"),
        ((replace(levels[1], keys=(("BW",), ("NRW",), ("SN",))), shuffled), "without a whole"),
        ((replace(levels[1], keys=(("BW",), ("NRW",), ("HE",), ("SN",)), statistics=with_values(
            release, [()] * 4, [1, 2, 3, 4], [1, 1, 1, 1]).statistics), levels[2]), "without parts"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=says):
            nt.make_consistent(*wrong, name="n")


@pytest.mark.slow
def test_consistency_lowers_the_error_of_real_releases(book, visits):
    errors = {"as drawn": 0.0, "made to sum": 0.0}
    account = book.open(visits, nt.pure(100))
    keys = [*KEYS["town"][:4], *(f"empty {i}" for i in range(12))]
    truth = None
    for spend in (f"{100 + i}/1000" for i in range(12)):
        limits = {"spend": nt.pure(spend), "limits": nt.limits(max_rows_per_group=6, max_groups=4)}
        by_town = account.release(account.plan(visits.group_by("town", keys=keys).agg(n=nt.count()), **limits))
        whole = account.release(account.plan(visits.agg(n=nt.count()), **limits))
        if truth is None:
            exact = account.plan(visits.group_by("town", keys=keys).agg(n=nt.count()), **limits).plan.stage
            from neartwin.engines.duckdb import DuckdbEngine

            truth = sum(DuckdbEngine().aggregate(exact, salt=1).values["rows"].tolist())
        assert truth == 3000  # so the bounded whole is the sum of bounded parts, and both are about one number
        made, _ = nt.make_consistent(whole, by_town, name="n")
        errors["as drawn"] += abs(sum(by_town["n"].values) - truth)
        errors["made to sum"] += abs(made["n"].values[0] - truth)
    assert errors["made to sum"] < errors["as drawn"]


def test_sql_joins_say_the_same_as_python(visits):
    people = nt.table(pa.table({"who": [1], "town": ["Ulm"], "age": [3]}), unit="who", name="visits", snapshot="p")
    towns = nt.public_table(pa.table({"name": ["Ulm"], "state": ["BW"]}), name="towns", snapshot="t")
    prices = pa.table({"town": ["Ulm"], "price": [1.0]})
    lines = nt.table(prices, unit=nt.owned_by(visits, on="town"), name="lines", snapshot="l")
    given = {"people": people, "towns": towns, "lines": lines}
    same = [
        ("SELECT COUNT(*) FROM visits JOIN people USING (who, town)", visits.join(people, on=["who", "town"])),
        ("SELECT COUNT(*) FROM visits v JOIN people p ON p.who = v.who", visits.join(people, on="who", prefix="p_")),
        (
            "SELECT COUNT(*) FROM visits v LEFT JOIN towns t ON t.name = town",
            visits.join(towns, on={"town": "name"}, how="left"),
        ),
        (
            "SELECT COUNT(*) FROM visits INNER JOIN people ON visits.who = people.who JOIN towns ON people.town = name",
            visits.join(people, on="who", prefix="people_").join(towns, on={"people_town": "name"}),
        ),
        ("SELECT COUNT(*) FROM visits JOIN lines ON (visits.town = lines.town)", visits.join(lines)),
    ]
    for (text, built), (other, _) in itertools.product(same, same):
        assert (nt.from_sql(text, visits, tables=given) == built.agg(count=nt.count())) is True
        assert other == text or nt.from_sql(other, visits, tables=given) != built.agg(count=nt.count())
    text = "SELECT t.state, SUM(v.paid) FROM visits v JOIN towns t ON v.town = t.name WHERE t.state <> 'HE' GROUP BY t.state"
    built = (
        visits.join(towns, on={"town": "name"}).where("state <> 'HE'").group_by("state").agg(sum_paid=nt.sum("paid"))
    )
    found = nt.from_sql(text, visits, tables=given)
    assert (found.groups.columns, found.aggregates, found.table) == (
        built.groups.columns,
        built.aggregates,
        built.table,
    )


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        (", towns", "no join condition"),
        ("CROSS JOIN towns", "CROSS JOIN is not understood"),
        ("NATURAL JOIN people", "NATURAL JOIN is not understood"),
        ("RIGHT JOIN people USING (who)", "RIGHT JOIN is not understood"),
        ("FULL JOIN people USING (who)", "FULL JOIN is not understood"),
        ("JOIN towns", "no join condition"),
        ("JOIN towns ON town > name", "not an equality"),
        ("JOIN towns ON town = 'Ulm'", "not an equality"),
        ("JOIN towns ON town = name OR town = state", "not an equality"),
        ("JOIN towns ON town = visits.town", "of a column of 'towns' with a table before it"),
        ("JOIN towns ON town = name AND town = state", "equates one column with two"),
        ("JOIN strangers USING (who)", "must name one of the tables given"),
        ("JOIN (SELECT * FROM streets) t ON town = name", "must name one of the tables given"),
        ("JOIN read_csv('/etc/passwd') t ON town = name", "must name one of the tables given"),
        ("JOIN towns visits ON town = name", "names two tables"),
        ("JOIN people ON visits.town = people.town WHERE town = 'Ulm'", "rows of two people would meet"),
        ("JOIN people USING (who) WHERE town = 'Ulm'", "several tables"),
        ("JOIN people USING (who) WHERE people.nothing = 'Ulm'", "not a column of the tables"),
        ("JOIN towns ON town = towns.name WHERE name = 'Ulm'", None),
    ],
)
def test_sql_joins_that_are_no_equality_with_a_given_table_are_refused(visits, clause, says):
    people = nt.table(pa.table({"who": [1], "town": ["Ulm"]}), unit="who", name="visits")
    towns = nt.public_table(pa.table({"name": ["Ulm"], "state": ["BW"]}), name="towns")
    asked = f"SELECT COUNT(*) FROM visits {clause}"
    if says is None:
        assert nt.from_sql(asked, visits, tables={"people": people, "towns": towns}).table.joins
    else:
        with pytest.raises(QueryError, match=says):
            nt.from_sql(asked, visits, tables={"people": people, "towns": towns})
