"""Several units together have what the theorems for groups say: noise, guarantee and charge follow one another."""

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.accounting.budgets import Approx, Gdp, Pure, Zcdp
from neartwin.accounting.guarantee import Guarantee
from neartwin.accounting.unit_groups import of_one, of_units
from neartwin.cli import main
from neartwin.errors import ParameterError, PrivacyError
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.planning.planner import plan
from neartwin.tradeoff import epsilon_delta, group
from tests.engines.places import SALT
from tests.oracles.memory import MemoryEngine

ALPHAS = np.linspace(0, 1, 401)


@pytest.mark.parametrize(("epsilon", "delta", "units"), [("1/2", "1e-3", 2), ("1/5", "1e-2", 3), (1, "1e-6", 4)])
def test_worst_mechanism_of_a_unit_keeps_its_group_promise_tightly(epsilon, delta, units):
    """f_{epsilon,delta} after k steps (Dong, Roth, Su 2022, Thm 2.14), against the promised curve."""
    one = nt.approx(epsilon, delta)
    promised = of_units(one, units)
    reached = np.asarray(group(epsilon_delta(one.epsilon, one.delta), units).beta(ALPHAS).upper)
    floor = np.asarray(epsilon_delta(promised.epsilon, promised.delta).beta(ALPHAS).lower)
    assert (reached >= floor - 1e-12).all()
    less = np.asarray(epsilon_delta(promised.epsilon, promised.delta * Fraction(9, 10)).beta(ALPHAS).upper)
    assert (reached < less - 1e-9).any()  # near miss: nine tenths of the delta is not kept


def test_pure_gaussian_and_concentrated_promises_to_groups_are_exact():
    for units in (2, 3, 10):
        noise = DiscreteLaplace(scale=Fraction(5), sensitivity=1)
        assert of_units(Pure(noise.epsilon), units) == Pure(
            DiscreteLaplace(scale=Fraction(5), sensitivity=units).epsilon
        )
        normal, moved = (Gaussian(variance=Fraction(4), l2_squared=change**2) for change in (1, units))
        assert of_units(Gdp(normal.mu, Fraction(0)), units).mu ** 2 == moved.mu_squared
        assert of_units(Zcdp(normal.rho, Fraction(0)), units).rho == moved.rho


@pytest.mark.parametrize("spend", [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("1/2"), nt.rdp(8, 1), nt.gdp(1)], ids=str)
def test_promise_to_one_unit_gives_the_group_at_most_the_spend(spend):
    for units in (1, 2, 7, 50):
        back = of_units(of_one(spend, units), units)
        for name in type(spend).__slots__:
            wanted, got = getattr(spend, name), getattr(back, name)
            assert wanted * (1 - Fraction(1, 10**9)) <= got <= wanted
    with pytest.raises(ParameterError):
        of_one(spend, 0)


def people(**more):
    rows = [{"who": f"u{i}", "town": f"t{(i + j) % 4}"} for i in range(5) for j in range(1 + i % 3)]
    return rows, nt.table(pa.Table.from_pylist(rows), unit="who", name="visits", **more)


def test_noise_covers_any_three_units_that_leave_together():
    rows, table = people()
    query = table.group_by("town", keys=[f"t{i}" for i in range(4)]).agg(n=nt.count())
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, max_groups=3), group_size=3)
    (measure,) = made.measures.values()
    counts = [
        MemoryEngine([row for row in rows if row["who"] not in away]).aggregate(made.stage, salt=SALT).values[measure.name]
        for away in ((), *combinations([f"u{i}" for i in range(5)], 3))
    ]  # fmt: skip
    farthest = max(int(abs(counts[0] - less).sum()) for less in counts[1:])
    assert farthest / measure.mechanism.scale <= 1  # epsilon of this group
    alone = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, max_groups=3))
    assert measure.mechanism.scale == 3 * alone.measures[measure.name].mechanism.scale
    assert farthest / alone.measures[measure.name].mechanism.scale > 1  # near miss: ordinary noise does not cover it


def test_the_release_says_whom_it_protects_and_the_account_pays_for_one(tmp_path):
    _, table = people()
    query = table.agg(n=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(table, nt.pure(1))
        proposal = account.plan(query, spend=nt.pure("0.6"), limits=nt.limits(max_rows_per_group=3), group_size=3)
        assert "promised to up to 3 units together: epsilon=0.6" in str(proposal.explain())
        release = account.release(proposal)
        assert account.remaining == {"epsilon": Fraction(4, 5)}
        assert str(release.guarantee) == "epsilon = 0.6 for adding or removing up to 3 who together"
        assert "whether up to 3 who together are in the data" in release.guarantee.describe()
        assert any("one alone has epsilon=0.2" in note for note in release.notes)
        assert Guarantee.from_dict(release.guarantee.as_dict()) == release.guarantee
        assert account.release(proposal) == release  # stored, with its guarantee
        assert (
            account.plan(query, spend=nt.pure("0.2"), limits=nt.limits(max_rows_per_group=3)).plan.digest
            != proposal.plan.digest
        )
        body = nt.certify(release, book).body
        assert body["guarantee"]["promise"]["units"] == "3"
        assert "up to 3 who together" in body["guarantee"]["says"]
        chosen = account.release(
            account.plan(table.most_common("town", among=["t0", "t1"]), spend=nt.pure("0.3"), group_size=2)
        )
        assert chosen.guarantee.units == 2
        assert account.remaining == {"epsilon": Fraction(13, 20)}
    other = Guarantee.of(nt.gdp(1), unit="who", neighbours="replace_one", units=4)
    assert "which of two sets of values up to 4 who together have" in other.describe()
    assert "units" not in Guarantee.of(nt.gdp(1), unit="who", neighbours="replace_one").as_dict()


def test_discovery_for_several_units_follows_the_epsilon_delta_rule():
    _, table = people()
    query = table.group_by("town").agg(n=nt.count())
    limits = {"limits": nt.limits(max_rows_per_group=2, max_groups=2), "group_size": 2}
    made = plan(query, spend=nt.approx(1, "1e-6"), **limits)
    assert made.together.promise == nt.approx(1, "1e-6")
    assert made.price == of_one(nt.approx(1, "1e-6"), 2)
    assert isinstance(made.price, Approx)
    for spend in (nt.gdp(1, "1e-6"), nt.zcdp(1, "1e-6")):
        with pytest.raises(PrivacyError, match="no theorem for groups"):
            plan(query, spend=spend, **limits)
        public = table.group_by("town", keys=["t0"]).agg(n=nt.count())
        assert plan(public, spend=spend, **limits).together.promise.delta == 0


def test_the_terminal_takes_it_too(tmp_path):
    rows, _ = people()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "visits.parquet")
    asked = ["query", str(tmp_path / "visits.parquet"), "SELECT COUNT(*) AS n FROM visits", "--unit", "who", "--json"]
    asked += [
        "--ledger",
        str(tmp_path / "b.db"),
        "--budget",
        "mu=1",
        "--spend",
        "mu=1",
        "--norm",
        "3",
        "--group-size",
        "2",
    ]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert told["guarantee"]["units"] == "2"
    several = CliRunner().invoke(main, [*asked[:2], asked[2] + "; " + asked[2].replace("n F", "m F"), *asked[3:]])
    assert several.exit_code != 0
    assert "one at a time" in several.output


@pytest.mark.parametrize("epsilon", [800, 1000, 2000, 10**6])
def test_group_promise_that_leaves_a_unit_no_delta_is_refused(epsilon):
    assert 0 < of_one(nt.approx(200, "1e-5"), 2).delta < Fraction(1, 10**40)
    with pytest.raises(PrivacyError, match="spend a smaller epsilon"):
        of_one(nt.approx(epsilon, "1e-5"), 2)
