"""Workloads and margins within a norm: right, moved by no unit beyond the bound, attacked, and with bars that hold."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.audit.claims import claim_gdp
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import PrivacyError
from neartwin.mechanisms.linear.workloads import strategies
from neartwin.planning import workloads
from neartwin.planning.planner import plan
from neartwin.planning.stage import Aggregates
from neartwin.planning.workloads import NormContribution, entry_parts, norm_contribution
from tests.audit.verdicts import stands
from tests.queries.test_sensitivity import empty_table

KEYS, NORM = tuple("abcdefgh"), 3
MARGINS = ([], ["key"], ["side"], ["key", "side"])
ASKED = {
    "prefixes": nt.prefix_sums(),
    "ranges": nt.range_sums(),
    "signed": {"odd less even": {key: 1 - 2 * (i % 2) for i, key in enumerate(KEYS)}, "first": {"a": 1}},
}


def people_of(rows):
    columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(("unit", "key", "side"))}
    return nt.table(pa.table(columns), unit="unit", name="people")


def made_of(rows, asked, **limits):
    people, told = people_of(rows), {"spend": nt.gdp(1), "limits": nt.limits(norm=NORM)} | limits
    if asked == "margins":
        keys = {"key": KEYS, "side": ["l", "r"]}
        return plan(people.group_by("key", "side", keys=keys).marginals(*MARGINS).agg(n=nt.count()), **told)
    return plan(people.group_by("key", keys=KEYS).workload(ASKED[asked]).agg(n=nt.count()), **told)


def rows_of(unit, *keys, side="l"):
    return tuple((unit, key, side) for key in keys)


CROWD = rows_of("p", "a", "b", "h") + rows_of("q", "c") + rows_of("r", "a", "d", side="r")
TWINS = [
    Twins(CROWD, CROWD + rows_of("new", *("a" * 40)), "many rows in the key that is in most sums"),
    Twins(CROWD, CROWD + rows_of("new", *KEYS, *KEYS, *KEYS), "rows in every key"),
    Twins(
        CROWD, CROWD + rows_of("new", *("a" * 8), *("b" * 7), *("c" * 6), *("d" * 5), *("e" * 4)), "more in the first"
    ),
    Twins(CROWD, CROWD + rows_of("new", "h"), "one row in the key that is in fewest"),
]


def drawn(asked, rows, runs):
    """Every answer of so many releases of one exact table; (runs, answers)."""
    made = made_of(rows, asked)
    exact = DuckdbEngine().aggregate(made.stage, salt=1)
    return np.array([made.noised([exact], noise.SYSTEM).columns[0].values for _ in range(runs)])


@pytest.mark.parametrize("asked", [*ASKED, "margins"])
def test_norm_leaves_units_within_it_and_cuts_others_to_it(asked):
    # the heavy one is 50 long: cut to 3, it counts 9/5 and 12/5. In the margin of all it is 70 long
    rows = CROWD + rows_of("heavy", *("a" * 30), *("c" * 40))
    length = 70 if asked == "margins" else 50
    cut = (3 * 30 / length, 3 * 40 / length)
    release = {}
    for norm in (100, NORM):
        made = made_of(rows, asked, spend=nt.gdp(10**7), limits=nt.limits(norm=norm))
        exact = DuckdbEngine().aggregate(made.stage, salt=1)
        answer = made.noised([exact], noise.SYSTEM)
        release[norm] = dict(zip(answer.keys, answer.columns[0].values, strict=True))
    for norm, heavy in ((100, (30, 40)), (NORM, cut)):
        counts = Counter((key, side) for unit, key, side in rows if unit != "heavy")
        counts["a", "l"] += heavy[0]
        counts["c", "l"] += heavy[1]

        def total(*, key=None, side=None, counts=counts):
            return sum(n for (k, s), n in counts.items() if key in (None, k) and side in (None, s))

        for key, value in release[norm].items():
            match asked:
                case "prefixes":
                    wanted = sum(total(key=k) for k in KEYS if k <= key[0])
                case "ranges":
                    wanted = sum(total(key=k) for k in KEYS if key[0] <= k <= key[1])
                case "signed":
                    wanted = sum(weight * total(key=k) for k, weight in ASKED["signed"][key[0]].items())
                case _:
                    wanted = total(key=key[0], side=key[1])
            assert value == pytest.approx(wanted, abs=5e-3), (asked, norm, key)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("statistic", [nt.count(), nt.sum("paid", -1, 1, 1)], ids=str)
def test_noise_of_normed_sums_covers_every_vector_and_one_attains_it(neighbours, statistic):
    asked = empty_table(neighbours).group_by("who", keys=range(12)).workload(nt.range_sums()).agg(n=statistic)
    made = plan(asked, spend=nt.gdp(1), limits=nt.limits(norm=NORM))
    draw, most = np.random.default_rng(4), made.measure.mechanism.l2_squared / made.measure.parts**2
    signed = isinstance(statistic, type(nt.sum("paid", 0, 1)))
    top = np.linalg.eigh(made.strategy.gram.astype(float))[1][:, -1]
    tried = [top, -top, *draw.normal(size=(300, 12)), *np.eye(12)]
    reached = 0.0
    for one in tried:
        x = NORM * one / np.linalg.norm(one)
        y = NORM * np.roll(one, 5) / np.linalg.norm(one)
        x, y = (x, -x) if signed else (np.abs(x), np.abs(y))
        if not signed:
            x, y = (NORM * v / np.linalg.norm(v) for v in (x, y))
        moved = x if neighbours == "add_remove" else x - y
        reached = max(reached, float(((made.strategy.table @ moved) ** 2).sum()) / most)
    assert reached <= 1 + 1e-9
    if neighbours == "add_remove" or signed:
        assert reached > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["prefixes", "signed", "margins"])
def test_releases_withstand_units_of_any_length(asked):
    assert stands(Batched(lambda rows, runs: drawn(asked, rows, runs)), claim_gdp(1), TWINS, runs=300, search_runs=50)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["prefixes", "margins"])
def test_near_miss_noise_for_half_the_norm_is_caught(asked, monkeypatch):
    def first(rows, runs):
        answers = drawn(asked, rows, runs)
        return answers[:, 0] if asked == "prefixes" else answers  # a margin alone has a share of the price

    def half(base):
        honest = norm_contribution(base)
        return NormContribution(honest.squared // 4, honest.alone // 4, honest.groups)

    heavy = Twins((), rows_of("new", *("a" * 40)), "all of the norm in the first key")
    assert stands(Batched(first), claim_gdp(1), [heavy], runs=1_500)
    monkeypatch.setattr(workloads, "norm_contribution", half)
    assert audit(Batched(first), claim_gdp(1), [heavy], runs=3_000).refuted


@pytest.mark.parametrize("queries", [nt.prefix_sums(), nt.range_sums(), nt.range_sums([2, 5])], ids=str)
def test_each_group_alone_has_the_least_error_under_a_norm(queries):
    """Variances q . G^-1 q of every strategy that caps would choose from, at noise for a unit anywhere within the norm."""
    asked = empty_table("add_remove").group_by("who", keys=range(24)).workload(queries).agg(n=nt.count())
    resolved = plan(asked, spend=nt.gdp(1), limits=nt.limits(norm=NORM)).resolved.queries
    found = {}
    for one in strategies(resolved, prefixes=True):
        largest = np.linalg.eigvalsh(one.gram.astype(float))[-1]
        found[one.name] = np.sqrt(resolved.variances(one.h) * largest)
    alone = found.pop("each cell alone")
    assert len(found) > 5
    assert all((other >= alone * (1 - 1e-9)).all() for other in found.values())


@pytest.mark.parametrize("asked", ["prefixes", "margins"])
def test_bars_hold_and_are_no_wider_than_normal_ones(asked):
    made = made_of(CROWD, asked, spend=nt.gdp("1/3"))
    source, held, inner = noise.ScriptedSource(asked.encode()), [], []
    (name,) = made.stage.measures
    size = len(made.stage.keys)
    exact = Aggregates(size, made.stage.keys, {name: np.full(size, 500 * entry_parts(made.stage), dtype=np.int64)})
    for _ in range(400):
        answer = made.noised([exact], source)
        (one,), truth = answer.columns, 500 * np.arange(1, 9)
        if asked == "margins":
            truth = np.array([500 * (1 if k[0] else 8) * (1 if k[1] else 2) for k in answer.keys])
        low, high = np.array(one.lower), np.array(one.upper)
        held.append((low <= truth) & (truth <= high))
        inner.append(np.abs((low + high) / 2 - truth) <= (high - low) / 2 * 0.6)
    assert np.mean(held, axis=0).min() >= 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / 400)
    assert np.mean(inner, axis=0).max() < 0.9  # six tenths of a normal bar hold about 76 %


def test_norm_is_explained_and_needs_normal_noise():
    for asked in ("prefixes", "margins"):
        made = made_of(CROWD, asked, spend=nt.approx(1, "1e-6"))
        assert "norm = 3: " in str(made.explain())
        with pytest.raises(PrivacyError, match="normal"):
            made_of(CROWD, asked, spend=nt.pure(1))
        assert made.digest != made_of(CROWD, asked, spend=nt.approx(1, "1e-6"), limits=nt.limits(norm=4)).digest
