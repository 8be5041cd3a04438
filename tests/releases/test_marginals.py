"""Marginals: right without noise, consistent with any, within their bars as often as stated, and within their price."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.accounting.guarantee import whole_of
from neartwin.cli import main
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ParameterError, QueryError
from neartwin.mechanisms.linear.marginals import subsets
from neartwin.mechanisms.linear.workloads import Contribution
from neartwin.noise import SYSTEM
from neartwin.planning.workloads import _chernoff, _on_lattice
from neartwin.queries.wire.parse import form_of, question_of

KEYS = {"sex": ["f", "m"], "age": [1, 2, 3, 4], "town": ["Ulm", "Bonn", "Hof"]}
MARGINS = [["sex", "age"], ["town", "sex"], []]
ONCE = {"limits": nt.limits(max_rows_per_group=1, max_groups=1)}
SPENDS = [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("0.2"), nt.gdp("0.8"), nt.rdp(8, 1)]


def people(size=4000, seed=0):
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "who": np.arange(size),
            "sex": draw.choice(["f", "m"], size),
            "age": draw.integers(1, 6, size),  # 5 is no public key
            "town": draw.choice(["Ulm", "Bonn"], size),
            "paid": draw.integers(-5, 20, size).astype(float),
        }
    )


def table_of(frame, **more):
    return nt.table(frame, unit="who", name="people", snapshot="s", columns={"paid": nt.bounds(-5, 20)}, **more)


def question(rows, what=None):
    return rows.group_by(*KEYS, keys=KEYS).marginals(*MARGINS).agg(n=what or nt.count())


def released(tmp_path, rows, spend, what=None):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, spend)
        return account.release(account.plan(question(rows, what), spend=spend, **ONCE))


@pytest.mark.parametrize("spend", [nt.pure(10**7), nt.gdp(10**6)])
@pytest.mark.parametrize("what", [nt.count(), nt.sum("paid")], ids=str)
def test_margins_without_noise_equal_the_rows(tmp_path, spend, what):
    frame = people()
    release = released(tmp_path, table_of(frame), spend, what)
    data = {name: frame[name].to_numpy(zero_copy_only=False) for name in frame.column_names}
    known = np.isin(data["age"], KEYS["age"])
    value = np.ones(len(known)) if what == nt.count() else data["paid"]
    assert len(release) == 2 * 4 + 3 * 2 + 1
    for key, found in zip(release.keys, release["n"].values, strict=True):
        chosen = known.copy()
        for column, wanted in zip(KEYS, key, strict=False):
            chosen &= (data[column] == wanted) if wanted is not None else True
        assert abs(found - value[chosen].sum()) < 0.1, key
    assert [key[-1] for key in release.keys] == ["sex, age"] * 8 + ["sex, town"] * 6 + ["(all)"]


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_margins_are_consistent_with_stated_bars_within_the_price(tmp_path, spend):
    rows = table_of(people())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, spend)
        alone = nt.limits(max_rows_per_group=1, max_groups=1, loss_share=0)  # whose bars hold noise alone
        made = account.plan(question(rows), spend=spend, limits=alone)
        told = made.preview().errors
        release = account.release(made)
    if hasattr(spend, "rho") or hasattr(spend, "order"):
        rho = sum(measure.mechanism.rho for measure in made.plan.measures.values())
        assert rho <= (spend.rho if hasattr(spend, "rho") else spend.epsilon / spend.order)
    else:
        eps = np.array([0.1, 0.5, 1.0, 2.0])
        assert (made.plan.losses().delta(eps).lower <= whole_of(made.price).delta(eps).upper * (1 + 1e-9)).all()
    by_sex = [
        {sex: sum(v for key, v in zip(part.keys, part["n"].values, strict=True) if sex in key) for sex in KEYS["sex"]}
        for part in (release.margin("sex", "age"), release.margin("town", "sex"))
    ]
    assert all(abs(by_sex[0][sex] - by_sex[1][sex]) < 1e-6 for sex in KEYS["sex"])
    assert abs(sum(by_sex[0].values()) - release.margin()["n"].values[0]) < 1e-6
    for error, part in zip(told, ("sex, age", "sex, town", "(all)"), strict=True):
        place = [key[-1] for key in release.keys].index(part)
        half = release["n"].upper[place] - release["n"].values[place]
        assert np.isclose(float(error.half_width), half)


@pytest.mark.parametrize("weights", [(1.0, 0.25), (0.5, 0.5), (1.0, -0.3)])
def test_bar_of_two_weighted_draws_is_near_their_exact_law(weights):
    """Against the law by brute force over all pairs of draws, to 1e-12 of it."""
    scales, chance = (2.0, 3.0), 0.025
    terms = [(scale, np.array([weight]), np.array([1.0])) for scale, weight in zip(scales, weights, strict=True)]
    draws = np.arange(-90, 91)
    laws = [np.exp(-np.abs(draws) / scale) * np.tanh(0.5 / scale) for scale in scales]
    sums = np.abs(weights[0] * draws[:, None] + weights[1] * draws[None, :])
    joint = laws[0][:, None] * laws[1][None, :]
    bars = _on_lattice(terms, chance), _chernoff(terms, chance)
    for bar in bars:
        assert joint[sums > bar].sum() <= 2 * chance
    assert joint[sums > bars[0] * 0.97 - 0.3].sum() > 2 * chance  # the near miss: a slightly shorter one does not hold


def test_plan_of_margins_has_smaller_bars_than_separate_questions(tmp_path):
    rows = table_of(people(10))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.gdp(9))
        columns = [["sex"], ["age"], ["town"], ["sex", "age"], ["sex", "town"], ["age", "town"], []]
        together = account.plan(
            rows.group_by(*KEYS, keys=KEYS).marginals(*columns).agg(n=nt.count()), spend=nt.gdp(1), **ONCE
        )
        apart = account.plan_series(
            [
                (rows.group_by(*names, keys={n: KEYS[n] for n in names}) if names else rows).agg(n=nt.count())
                for names in columns
            ],
            spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=1, max_groups=1),
        )  # fmt: skip
        bars = [sum(float(error.half_width) for error in together.preview().errors), sum(
            float(error.half_width) for part in apart.expected_errors() for error in part)]  # fmt: skip
    assert bars[0] < 0.8 * bars[1]


def _vectors(rows, groups, total, cells):
    """Every way in which one unit's rows can lie in so few cells, as counts by cell."""
    for found in product(range(rows + 1), repeat=cells):
        if sum(map(bool, found)) <= groups and sum(found) <= total:
            yield found


@pytest.mark.parametrize("reach", [(1, 1, 1), (2, 2, 4), (2, 3, 6), (3, 2, 4)])
@pytest.mark.parametrize("replaced", [False, True])
def test_sensitivity_of_margins_covers_every_pair_of_neighbours(reach, replaced):
    """By brute force over all data of one unit in a table of 2 x 2 cells."""
    rows, groups, total = reach
    found = Contribution(rows=rows, groups=groups, total=total, replaced=replaced, signed=False)
    units = [np.array(one).reshape(2, 2) for one in _vectors(rows, groups, total, 4)]
    others = units if replaced else [np.zeros((2, 2), dtype=int)]
    for margin in subsets((0, 1)):
        away = tuple(i for i in (0, 1) if i not in margin)
        moved = [np.atleast_1d(one - other).sum(axis=away).reshape(-1) for one in units for other in others]
        cells = 2 ** len(away)
        squared = max(int((move**2).sum()) for move in moved)
        assert squared <= found.l2_squared(cells)
        assert max(int(np.abs(move).sum()) for move in moved) <= found.l1
        assert max(int(np.abs(move).max()) for move in moved) <= found.cell(cells)
        if not replaced and total == rows * groups:
            assert squared == found.l2_squared(cells)  # no more than is needed


SQL = (
    "SELECT sex, age, town, COUNT(*) AS n FROM people GROUP BY GROUPING SETS ((sex, age), (town, sex), ()) "
    "HAVING n > -1e9 ORDER BY margin, n DESC"
)


def test_sql_python_and_json_say_the_same_question(tmp_path):
    rows = table_of(people(50))
    asked = nt.from_sql(SQL, rows, keys=KEYS)
    built = question(rows)
    assert (asked.groups, asked.aggregates) == (built.groups, built.aggregates)
    assert question_of(form_of(asked), rows) == asked
    cube = nt.from_sql(
        "SELECT COUNT(*) AS n FROM people GROUP BY CUBE (sex, age)", rows, keys={n: KEYS[n] for n in ("sex", "age")}
    )
    assert cube.groups.margins == ((0, 1), (0,), (1,), ())
    roll = nt.from_sql(
        "SELECT SUM(paid) FROM people GROUP BY age, ROLLUP (sex)", rows, keys={n: KEYS[n] for n in ("age", "sex")}
    )
    assert roll.groups.margins == ((0, 1), (0,))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = book.open(rows, nt.pure(1)).sql(SQL, keys=KEYS, spend=nt.pure(1), **ONCE)
    names = [key[-1] for key in release.keys]
    assert names == sorted(names)


def test_margins_are_asked_from_a_terminal(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(people(200), tmp_path / "people.parquet")
    asked = ["query", str(tmp_path / "people.parquet"), SQL, "--unit", "who", "--ledger", str(tmp_path / "b.db"), "--budget",
             "mu=1",
             "--spend",
             "mu=1", "--max-rows-per-group", "1", "--max-groups", "1", "--keys", "sex=f,m", "--keys", "age=1:4",
             "--keys", "town=Ulm,Bonn,Hof"]  # fmt: skip
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("The limits cut ")
    assert done.output.splitlines()[1].split() == ["sex", "age", "town", "margin", "n"]
    assert "All margins are of one table" in done.output


def test_margins_that_cannot_be_are_refused_before_anything_is_spent(tmp_path):
    rows = table_of(people(50))
    groups = rows.group_by("sex", "age", keys={"sex": ["f", "m"], "age": [1, 2]})
    for make, says in (
        (lambda: rows.group_by("sex").marginals(["sex"]), "need public keys"),
        (lambda: groups.marginals(["town"]), "not among the group columns"),
        (lambda: groups.marginals("sex"), "a list of columns"),
        (lambda: groups.marginals(["sex"], ["sex"]), "each list once"),
        (groups.marginals, "at least one"),
        (lambda: groups.marginals(["sex"]).agg(n=nt.count(), m=nt.sum("paid")), "one count"),
        (lambda: groups.marginals(["sex"]).agg(m=nt.median("paid")), "one count"),
        (lambda: rows.group_by("sex", "age", keys=[("f", 1), ("m", 2)]).marginals(["sex"]), "a product"),
    ):
        with pytest.raises(QueryError, match=says):
            make()
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        asked = groups.marginals(["sex"]).agg(n=nt.count())
        with pytest.raises(QueryError, match="max_rows_per_group"):
            account.plan(asked, spend=nt.pure(1), limits=nt.limits(max_groups=2))
        release = account.release(account.plan(asked, spend=nt.pure("0.5"), **ONCE))
        with pytest.raises(ParameterError, match="must be one of: sex"):
            release.margin("age")
        assert account.spent == {"epsilon": 0.5}


def test_a_series_may_hold_margins(tmp_path):
    rows = table_of(people(500))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.gdp(1))
        series = account.plan_series([question(rows), rows.agg(m=nt.median("paid", 0, 20))], spend=nt.gdp(1), **ONCE)
        margins, _ = account.release_series(series)
        assert margins.group_columns == (*KEYS, "margin")
        certified = nt.certify(margins, book)
    assert [part["for"] for part in certified.body["mechanisms"]] == [
        *series.plan.parts[0].measures,
        "what the limits take",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("spend", [nt.pure(1), nt.gdp(1)], ids=str)
def test_bars_of_margins_cover_as_stated_and_are_not_needlessly_wide(tmp_path, spend):
    """500 draws of 15 answers: a bar that misses more often than 5 % and 6 deviations of a single answer would fail."""
    rows = table_of(people(300))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        plan = book.open(rows, spend).plan(question(rows), spend=spend, **ONCE).plan
    exact = DuckdbEngine().aggregate(plan.stage, salt=1)
    whole = np.asarray(exact.values["units"]).reshape(plan.design.sizes)
    truth = np.concatenate([whole.sum(axis=away).reshape(-1) for away in (2, 1, (0, 1, 2))])
    times, missed = 500, np.zeros(len(truth))
    for _ in range(times):
        (found,) = plan.noised([exact], SYSTEM).columns
        missed += (np.array(found.lower) > truth) | (np.array(found.upper) < truth)
    assert (missed <= times * 0.05 + 6 * np.sqrt(times * 0.05 * 0.95)).all()
    if spend == nt.gdp(1):  # the law is known: the bar is as short as it can be
        assert missed.mean() > times * 0.05 * 0.8
