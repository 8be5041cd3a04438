"""Linear workloads over public groups: right, consistent, within the spend, with bars that hold; hostile ones refused."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin import noise
from neartwin.cli import main
from neartwin.errors import NeartwinError, ParameterError, QueryError
from neartwin.planning.planner import plan
from neartwin.planning.stage import Aggregates
from tests.queries.test_sensitivity import empty_table

AGES = range(18, 30)
SPENDS = [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("1/10"), nt.gdp("1/2")]


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(6)
    return pa.table(
        {
            "who": np.arange(900) // 3,
            "age": draw.integers(15, 33, 900),
            "paid": draw.integers(-5, 30, 900).astype(float),
        }
    )


def released(folder, people, asked, what, **more):
    rows = nt.table(people, unit="who", name="people")
    groups = rows.group_by("age", keys=AGES).workload(asked)
    with nt.open_ledger(folder / "budget.db") as book:
        account = book.open(rows, nt.approx(10**9, "1e-3"))
        limits = {"spend": nt.pure(10**8), "limits": nt.limits(max_rows_per_group=3, max_groups=3)} | more
        return account.release(account.plan(groups.agg(found=what), **limits))


def test_workloads_without_noise_equal_the_rows(people, tmp_path):
    ages, paid = people["age"].to_numpy(), people["paid"].to_numpy()
    release = released(tmp_path, people, nt.prefix_sums(), nt.count())
    assert release.group_columns == ("age_to",)
    for (to,), value in zip(release.keys, release["found"].values, strict=True):
        assert value == pytest.approx(((ages >= 18) & (ages <= to)).sum(), abs=1e-3)
    release = released(tmp_path, people, nt.range_sums(), nt.sum("paid", -10, 20, 1))
    assert release.group_columns == ("age_from", "age_to")
    assert len(release) == 12 * 13 // 2
    for (low, high), value in zip(release.keys, release["found"].values, strict=True):
        assert value == pytest.approx(np.clip(paid, -10, 20)[(ages >= low) & (ages <= high)].sum(), abs=1e-2)
    release = released(tmp_path, people, nt.range_sums([2, 5]), nt.count())
    assert {high - low for low, high in release.keys} == {1, 4}
    assert len(release) == 11 + 8
    release = released(tmp_path, people, nt.moving_sums(2, 1), nt.count())
    assert release.group_columns == ("age",)
    for (age,), value in zip(release.keys, release["found"].values, strict=True):
        near = (ages >= max(age - 2, 18)) & (ages <= min(age + 1, 29))
        assert value == pytest.approx(near.sum(), abs=1e-3)
    weights = {"years": {age: age for age in AGES}, "odd less even": {age: 1 if age % 2 else -1 for age in AGES}}
    release = released(tmp_path, people, weights, nt.count())
    assert release.keys == (("years",), ("odd less even",))
    inside = ages[(ages >= 18) & (ages < 30)]
    assert release["found"].values == pytest.approx([inside.sum(), (inside % 2).sum() * 2 - len(inside)], abs=1e-2)


@pytest.mark.parametrize("epsilon", [10**10, 10**12, 10**15, 10**17])
def test_negligible_noise_leaves_the_answers_of_a_workload(people, tmp_path, epsilon):
    """Noise is drawn in parts of a row so fine that counts in parts pass 64 bits."""
    ages = people["age"].to_numpy()
    rows = nt.table(people, unit="who", name="people")
    asked = rows.group_by("age", keys=AGES).workload(nt.prefix_sums()).agg(found=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(epsilon))
        release = account.release(
            account.plan(asked, spend=nt.pure(epsilon), limits=nt.limits(max_rows_per_group=3, max_groups=3))
        )
    truth = [((ages >= 18) & (ages <= to)).sum() for (to,) in release.keys]
    assert release["found"].values == pytest.approx(truth, abs=1e-6)


def test_answers_of_one_release_add_up(people, tmp_path):
    release = released(tmp_path, people, nt.range_sums(), nt.count(), spend=nt.approx("1/2", "1e-6"))
    value = dict(zip(release.keys, release["found"].values, strict=True))
    for middle in range(18, 29):
        assert value[18, middle] + value[middle + 1, 29] == pytest.approx(value[18, 29], abs=1e-6)
    assert any(abs(one - round(one)) > 1e-3 for one in value.values())  # noisy, and one estimate


def made_of(asked, spend, *, neighbours="add_remove", rows=2, groups=2, all_rows=None, what=None, **more):
    query = empty_table(neighbours).group_by("who", keys=range(12)).workload(asked).agg(n=what or nt.count())
    return plan(
        query,
        spend=spend,
        limits=nt.limits(max_rows_per_group=rows, max_groups=groups, rows=all_rows, loss_share=0),
        **more,
    )


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_price_of_a_workload_covers_its_loss_within_the_spend(spend, neighbours):
    for what in (nt.count(), nt.sum("paid", -5, 20, 1)):
        made = made_of(nt.range_sums(), spend, neighbours=neighbours, what=what)
        losses, mechanism, change = made.losses(), made.measure.mechanism, made.measure.sensitivity
        if isinstance(made.price, type(nt.approx(1, "1e-6"))):
            assert losses.epsilon(Fraction(1, 10**6)).upper <= 1 + 1e-6
        if hasattr(mechanism, "variance"):
            mu = float(change.l2_squared / mechanism.variance) ** 0.5
            known = {"gdp": 0.5, "zcdp": 0.2**0.5}
            assert mu <= known.get(type(spend).__name__.lower(), 10) * (1 + 1e-12)
        else:
            assert change.l1 / mechanism.scale == 1


def test_strategy_with_the_least_mean_bar_is_chosen_and_explained():
    one = made_of(nt.prefix_sums(), nt.zcdp("1/10"))
    long = empty_table("add_remove").group_by("who", keys=range(60)).workload(nt.prefix_sums()).agg(n=nt.count())
    many = plan(long, spend=nt.zcdp("1/10"), limits=nt.limits(max_rows_per_group=2, max_groups=1))
    assert all(line.startswith("less good: ") for line in many.why[1:])
    assert many.strategy.name != "each cell alone"
    assert made_of(nt.range_sums([1]), nt.zcdp("1/10")).strategy.name == "each cell alone"
    for made in (one, many):
        (told,) = made.expected_errors()
        assert float(told.half_width) == pytest.approx(made.bars.max())
        assert made.strategy.name in str(made.explain())
        assert made.error == pytest.approx(made.bars.mean())


def test_more_reach_of_a_unit_and_another_workload_are_other_plans():
    plans = [
        made_of(nt.range_sums(), nt.pure(1)),
        made_of(nt.range_sums([1, 2]), nt.pure(1)),
        made_of(nt.prefix_sums(), nt.pure(1)),
        made_of(nt.moving_sums(1, 2), nt.pure(1)),
        made_of(nt.moving_sums(2, 1), nt.pure(1)),
        made_of(nt.range_sums(), nt.pure(1), groups=3),
        made_of({"a": {0: 1}}, nt.pure(1)),
        made_of({"a": {0: 2}}, nt.pure(1)),
        made_of({"a": {0: 1}}, nt.pure(1), all_rows=3),
    ]
    assert len({one.digest for one in plans}) == len(plans)
    assert made_of(nt.range_sums(), nt.pure(1)).digest == plans[0].digest
    bars = [made_of(nt.prefix_sums(), nt.pure(1), rows=4, groups=4, all_rows=most).error for most in (None, 16, 8)]
    assert bars[0] == bars[1] > bars[2]


@pytest.mark.parametrize("spend", [nt.pure(1), nt.gdp(1)], ids=str)
def test_bars_of_a_workload_cover_as_stated(spend):
    made = made_of(nt.range_sums(), spend)
    exact = np.array([3, 50, 0, 7, 900, 1, 2, 3, 4, 5, 6, 7])
    source, held, runs = noise.ScriptedSource(b"bars"), 0, 300
    for _ in range(runs):
        answer = made.noised([Aggregates(12, made.stage.keys, {made.stage.measures[0]: exact})], source)
        (found,) = answer.columns
        truth = np.array([exact[a : b + 1].sum() for a, b in answer.keys])
        held = held + ((found.lower <= truth) & (truth <= found.upper))
    share = held / runs
    assert share.min() >= 0.95 - 6.2 * (0.05 * 0.95 / runs) ** 0.5
    assert share.mean() < (0.985 if spend == nt.pure(1) else 0.965)  # nor needlessly wide


def test_a_workload_is_written_to_a_table_and_shaped(people, tmp_path):
    rows = nt.table(people, unit="who", name="people")
    asked = rows.group_by("age", keys=AGES).workload(nt.range_sums([3])).agg(n=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        limits = {"limits": nt.limits(max_rows_per_group=3, max_groups=3)}
        release = account.release(account.plan(asked, spend=nt.pure(10**7), **limits))
        account.release_to_parquet(account.plan(asked, spend=nt.pure(10**7 + 1), **limits), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert list(zip(table["age_from"].to_pylist(), table["age_to"].to_pylist(), strict=True)) == list(release.keys)
    assert table["n"].to_pylist() == pytest.approx(release["n"].values, abs=1e-2)
    assert list(release.having("age_from >= 26").keys) == [(26, 28), (27, 29)]


def test_workload_is_asked_and_certified_from_sql_and_a_terminal(people, tmp_path):
    pq.write_table(people, tmp_path / "people.parquet")
    text = "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS n FROM people GROUP BY age ORDER BY age DESC LIMIT 3"
    rows = nt.table(people, unit="who", name="people")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.gdp(1))
        told = {"keys": AGES, "spend": nt.gdp(1), "limits": nt.limits(max_rows_per_group=3, max_groups=3)}
        assert "answers (prefixes), by least squares" in str(
            account.plan(nt.from_sql(text, rows, keys=told.pop("keys")), **told).explain()
        )
        told["keys"] = AGES
        release = account.sql(text, **told)
        certified = nt.certify(release, book).body
    assert [key for (key,) in release.keys] == [29, 28, 27]
    assert [(part["for"], part["law"]) for part in certified["mechanisms"]] == [
        ("measure", "Gaussian"),
        ("strategy", "Strategy"),
        ("what the limits take", "Gaussian"),
    ]
    assert "int64, sha256 " in certified["mechanisms"][1]["parameters"]["table"]
    assert certified["question"]["workload"] == "prefixes"
    asked = ["query", str(tmp_path / "people.parquet"), text, "--unit", "who", "--ledger", str(tmp_path / "b.db"), "--budget",
             "mu=1",
             "--spend",
             "mu=1", "--max-rows-per-group", "3", "--max-groups", "3", "--keys", "age=18:29"]  # fmt: skip
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()[1:5]] == ["age_to", "29", "28", "27"]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda rows: rows.group_by("age").workload(nt.prefix_sums()), "public keys"),
        (lambda rows: rows.group_by("age", keys=range(2000)).workload(nt.prefix_sums()), "at most 512"),
        (lambda rows: rows.group_by("age", keys=AGES).workload({}), "weights by name|{key: weight}|takes"),
        (lambda rows: rows.group_by("age", keys=AGES).workload({"a": {99: 1}}), "99 in 'a' is not among the public keys"),
        (lambda rows: rows.group_by("age", keys=AGES).workload({"a": {18: 0}}), "are 0"),
        (lambda rows: rows.group_by("age", keys=AGES).workload({"a": 3}), "must be a name with weights"),
        (lambda rows: rows.group_by("age", keys=AGES).workload(nt.range_sums([13])), "at most the number of keys, 12"),
        (lambda rows: rows.group_by("age", "who", keys=[(1, 1)]).workload(nt.range_sums()), "go over one column"),
        (lambda rows: rows.group_by("age", keys=AGES).marginals(["age"]).workload(nt.range_sums()), "two questions"),
        (lambda rows: rows.group_by("age", keys=AGES).workload(nt.range_sums()).agg(n=nt.count(), m=nt.count()), "one count"),
        (lambda rows: rows.group_by("age", keys=AGES).workload(nt.range_sums()).agg(n=nt.count_distinct_units()), "one count"),
        (lambda rows: rows.group_by("age", keys=AGES).workload(nt.prefix_sums()).agg(age_to=nt.count()), "another name"),
        (lambda rows: rows.group_by("age", keys=AGES).workload(nt.prefix_sums()).marginals(["age"]), "two questions"),
        (lambda _: nt.moving_sums(0), "at least 1"),
        (lambda _: nt.moving_sums(-1, 3), "at least 0"),
        (lambda _: nt.range_sums([0]), "at least 1"),
        (lambda _: nt.range_sums([2, 2]), "each once"),
    ],
)  # fmt: skip
def test_malformed_workload_is_refused_before_any_spend(people, ask, says):
    with pytest.raises(NeartwinError, match=says) as refused:
        ask(nt.table(people, unit="who", name="people"))
    assert isinstance(refused.value, QueryError | ParameterError)
