"""An L2 norm clip: no unit moves all groups and statistics together by more than the limit, to the last bit on every engine."""

import random
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.accounting import budgets
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.planning.planner import plan
from neartwin.planning.stage import Coordinate, NormClip
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping, hostile_rows, row
from tests.oracles.memory import MemoryEngine

SPEND = nt.gdp(10**6, "1e-6")
STATISTICS = {
    "n": nt.count(),
    "people": nt.count_distinct_units(),
    "total": nt.sum("paid", -50, 50),
    "mean": nt.mean("paid", 0, 10),
    "wide": nt.sum("year", -(2**53), 2**53, 1),
    "v": nt.variance("paid", -20, 20, "1/4"),
}


def by_decimals(rows, stage, order):
    """The meaning, another way: each unit's own vector, its length and its quotients with 120 digits."""
    plain = replace(stage, clip=None, discovery_groups=None, groups_per_unit=None)
    plain = replace(plain, measures=tuple(name for name in stage.measures if name != "finders"))
    units = defaultdict(list)
    for one in rows:
        units[one["who"]].append(one)
    sums, found = defaultdict(lambda: defaultdict(int)), set()
    for unit, own in units.items():
        answer = MemoryEngine(own).aggregate(plain, salt=SALT)
        if unit is None or not any(answer.values[name].any() for name in plain.measures):
            continue
        entries = {
            (key, name): int(answer.values[name][i]) for i, key in enumerate(answer.keys) for name in plain.measures
        }
        with localcontext() as context:
            context.prec = 120
            lengths = [
                (Decimal(abs(value)) * stage.clip.coordinates[name].times / stage.clip.coordinates[name].over)
                .to_integral_value("ROUND_CEILING") for (_, name), value in entries.items()
            ]  # fmt: skip
            root = sum(length**2 for length in lengths).sqrt().to_integral_value("ROUND_CEILING")
            for (key, name), value in entries.items():
                parts = Decimal(value * stage.clip.coordinates[name].parts)
                share = parts * stage.clip.limit / root if root > stage.clip.limit else parts
                sums[key][name] += int(share.to_integral_value("ROUND_DOWN"))
        if stage.discovery_groups is not None:
            here = {key: answer.values["rows"][i] for i, key in enumerate(answer.keys) if answer.values["rows"][i]}
            for key in sorted(here, key=lambda key: (-here[key], order(unit, key)))[: stage.discovery_groups]:
                sums[key]["finders"] += 1
                found.add(key)
    keys = stage.keys if stage.keys is not None else found
    return {key: tuple(sums[key][name] for name in sorted(stage.measures)) for key in keys}


@pytest.mark.parametrize("place", ENGINES)
def test_every_engine_scales_long_vectors_down_as_the_oracles_do(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("norms", 900)
    people = place.visits(rows)
    some = {name: STATISTICS[name] for name in ("n", "total", "wide")}  # Spark takes seconds to compile more
    asked = [plan(people.group_by("town").agg(**some), spend=SPEND, limits=nt.limits(norm=2, max_discovered_groups=3))]
    if "spark" not in type(place).__name__.lower():
        asked += [
            plan(
                people.group_by("town").agg(**STATISTICS),
                spend=SPEND,
                limits=nt.limits(norm=2, max_discovered_groups=3),
            )
        ]
        public = people.where("paid < 40 OR open").group_by("town", keys=["Ulm", None, "nowhere", "Bonn"])
        asked += [
            plan(public.agg(**STATISTICS), spend=SPEND, limits=nt.limits(norm=norm)) for norm in ("1/3", 4, 10**4)
        ]
        asked.append(
            plan(people.agg(n=nt.count(), total=nt.sum("paid", -50, 50)), spend=SPEND, limits=nt.limits(norm=3))
        )
    for made in asked:
        own = place.order(made.stage, rows) if made.stage.discovery_groups else None
        found = as_mapping(place.engine.aggregate(made.stage, salt=SALT))
        assert found == as_mapping(MemoryEngine(rows, order=own).aggregate(made.stage, salt=SALT))
        assert found == by_decimals(rows, made.stage, own)
        assert any(any(value) for value in found.values())


@pytest.mark.parametrize("place", ENGINES)
def test_sums_and_squares_beyond_64_bits_are_clipped_exactly(request, place):
    place = request.getfixturevalue(place)
    rows = [row("heavy", year=2**53) for _ in range(3000)] + [row("light", year=-(2**53) + 1) for _ in range(1025)]
    query = place.visits(rows).group_by("town", keys=["Ulm", "nowhere"]).agg(s=nt.sum("year", -(2**53), 2**53, 1))
    made = plan(query, spend=SPEND, limits=nt.limits(norm=2000))
    (name,) = made.stage.measures
    (found, nothing) = place.engine.aggregate(made.stage, salt=SALT).values[name]
    assert (found, nothing) == by_decimals(rows, made.stage, None)["Ulm",] + (0,)
    assert abs(found - (2000 * 2**53 - 1025 * (2**53 - 1))) < 2**53  # a row's rounding at most


def tables(seed, size, groups=6):
    pick = random.Random(seed)
    rows = [
        {"who": pick.choice("abcdef"), "town": f"t{pick.randrange(groups)}", "paid": pick.choice([None, -5.0, 0.3, 5.0])}
        for _ in range(size)
    ]  # fmt: skip
    return rows + [{"who": "a", "town": f"t{i}", "paid": 5.0} for i in range(groups) for _ in range(8)]


def vector(stage, rows):
    answer = MemoryEngine(rows).aggregate(stage, salt=SALT)
    return {
        (key, name): int(answer.values[name][i]) for i, key in enumerate(answer.keys) for name in stage.clip.coordinates
    }


def squared(clip, change):
    return sum((value * clip.coordinates[name].weight) ** 2 for (_, name), value in change.items())


@pytest.mark.parametrize("low", [0, -5])
@pytest.mark.parametrize("norm", ["1/2", 3, 20])
def test_removed_unit_moves_all_measures_by_at_most_the_norm(low, norm):
    table = nt.table(pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]}), unit="who", name="v")
    query = table.group_by("town", keys=[f"t{i}" for i in range(6)])
    query = query.agg(
        n=nt.count(), people=nt.count_distinct_units(), s=nt.sum("paid", low, 5, 1), m=nt.mean("paid", -5, 5)
    )
    made = plan(query, spend=nt.gdp(1), limits=nt.limits(norm=norm))
    clip, farthest = made.stage.clip, Fraction(0)
    for seed in range(6):
        rows = tables(seed, 80)
        whole = vector(made.stage, rows)
        for unit in "abcdef":
            less = vector(made.stage, [one for one in rows if one["who"] != unit])
            farthest = max(farthest, squared(clip, {place: whole[place] - less[place] for place in whole}))
    assert farthest <= clip.limit**2 == made.shared.l2_squared
    assert farthest > Fraction(99, 100) * clip.limit**2  # near miss: a limit lower by half a percent would be passed


@pytest.mark.parametrize(("low", "times"), [(0, 2), (-5, 4)])
def test_replacing_a_unit_moves_everything_by_what_its_signs_allow(low, times):
    table = nt.table(
        pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]}), unit="who", name="v", neighbours="replace_one"
    )
    query = table.group_by("town", keys=["x", "y"]).agg(s=nt.sum("paid", low, 5, 1))
    made = plan(query, spend=nt.zcdp(1), limits=nt.limits(norm=3))
    assert made.shared.l2_squared == times * made.stage.clip.limit**2
    ways = [
        [{"who": "a", "town": town, "paid": paid} for town, number in zip("xy", numbers, strict=True) for _ in range(number)]
        for numbers in ((0, 9), (9, 0), (9, 9), (1, 0), (0, 0)) for paid in (float(low), 5.0, 1.0)
    ]  # fmt: skip
    vectors = [vector(made.stage, rows) for rows in ways]
    farthest = max(
        squared(made.stage.clip, {place: one[place] - other[place] for place in one})
        for one in vectors for other in vectors
    )  # fmt: skip
    assert Fraction(99, 100) * made.shared.l2_squared < farthest <= made.shared.l2_squared


def test_near_miss_rounding_half_up_after_the_clip_breaks_the_bound():
    """The fault: 10,000 entries of half a step each, which half-up rounding doubles."""
    clip = NormClip(limit=50, coordinates={"rows": Coordinate(1, 1, 1)})
    rows = [{"who": "a", "town": f"t{i}"} for i in range(10_000)]
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="v")
    query = table.group_by("town", keys=[f"t{i}" for i in range(10_000)]).agg(n=nt.count())
    stage = replace(plan(query, spend=nt.gdp(1), limits=nt.limits(norm=1)).stage, clip=clip)
    assert squared(clip, vector(stage, rows)) <= clip.limit**2
    half_up = {(one["town"], "rows"): int(Fraction(50, 100) + Fraction(1, 2)) for one in rows}
    assert squared(clip, half_up) == 4 * clip.limit**2


def test_no_row_is_dropped_and_short_vectors_are_exact():
    rows = [{"who": f"u{i}", "town": f"t{j}", "paid": 2.0} for i in range(5) for j in range(100)]
    table = nt.table(pa.Table.from_pylist(rows), unit="who", name="v")
    query = table.group_by("town", keys=[f"t{i}" for i in range(100)]).agg(n=nt.count(), s=nt.sum("paid", 0, 2))
    exact = (
        MemoryEngine(rows).aggregate(plan(query, spend=nt.gdp(1), limits=nt.limits(norm=10)).stage, salt=SALT).values
    )
    assert list(exact["rows"]) == [5 * 1024] * 100  # sqrt(100) rows: just within
    short = plan(query, spend=nt.gdp(1), limits=nt.limits(norm=5))
    halved = MemoryEngine(rows).aggregate(short.stage, salt=SALT).values
    assert all(abs(int(value) - 5 * 512) <= 5 for value in halved["rows"])  # every group keeps its part


@pytest.mark.parametrize(
    "spend", [nt.gdp("1/2", "1e-6"), nt.zcdp("1/8", "1e-6"), nt.approx(1, "1e-6"), nt.rdp(8, 1)], ids=str
)
def test_normed_measures_are_one_mechanism_within_the_spend(spend):
    table = nt.table(pa.table({"who": ["a"], "town": ["b"], "paid": [1.0], "year": [1]}), unit="who", name="v")
    asked = {name: statistic for name, statistic in STATISTICS.items() if name != "wide"}
    made = plan(table.group_by("town", keys=list("abc")).agg(**asked), spend=spend, limits=nt.limits(norm=9))
    for name, one in made.stage.clip.coordinates.items():
        noise = made.measures[name].mechanism
        assert noise.variance * one.weight**2 >= made.shared.variance  # in lengths, each entry has at least this noise
        assert noise.mu_squared <= made.shared.mu_squared
    match spend:
        case budgets.Gdp(mu=mu):
            assert Fraction(9999, 10000) * mu**2 < made.shared.mu_squared <= mu**2
        case budgets.Approx(epsilon=epsilon, delta=delta):
            assert 0.99 * epsilon < made.losses().epsilon(delta).upper <= epsilon
        case budgets.Zcdp(rho=rho):
            assert Fraction(9999, 10000) * rho < made.shared.rho <= rho
        case _:
            assert made.shared.rho * spend.order <= spend.epsilon
    assert "norm = 9 rows" in str(made.explain())


def test_a_release_with_a_norm_says_so_and_its_bars_hold(tmp_path):
    rows = tables(3, 4000)
    table = nt.table(pa.Table.from_pylist(rows), unit="who", name="v")
    query = table.group_by("town", keys=[f"t{i}" for i in range(6)])
    query = query.agg(n=nt.count(), s=nt.sum("paid", 0, 5), m=nt.mean("paid", 0, 5), sd=nt.stddev("paid", 0, 5))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(table, nt.gdp(30))
        proposal = account.plan(query, spend=nt.gdp(20), limits=nt.limits(norm=400))
        release = account.release(proposal)
        assert "norm of 400 rows; no row is dropped" in release.notes[1]
        assert {bound["what"] for bound in release.provenance.method["bounds"]} >= {"norm"}
        assert "rows_per_group" not in {bound["what"] for bound in release.provenance.method["bounds"]}
        assert nt.certify(release, book).body["guarantee"]["promise"]["mu"] == "20"
    true = defaultdict(list)
    for one in rows:
        true[one["town"]].append(one["paid"])
    for i, (town,) in enumerate(release.keys):
        values = np.clip([paid for paid in true[town] if paid is not None], 0, 5)
        for name, truth in {"n": len(true[town]), "s": values.sum(), "m": values.mean(), "sd": values.std()}.items():
            low, high = release[name].lower[i], release[name].upper[i]
            width = 2 * (high - low)  # far beyond: five half-widths, once in 1e9 or less
            assert low - width <= truth <= high + width
            assert high - low < {"n": 300, "s": 1500, "m": 5.1, "sd": 5.1}[name]


def test_meaningless_norm_is_refused_with_a_remedy():
    frame = pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]})
    table = nt.table(frame, unit="who", name="visits")
    counts = table.group_by("town").agg(n=nt.count())
    public = table.agg(n=nt.count())
    wide = nt.gdp(1, "1e-6")
    for query, more, spend, wrong, says in (
        (counts, {}, wide, QueryError, "max_discovered_groups is missing"),
        (counts, {"max_discovered_groups": 3, "max_groups": 9}, wide, ParameterError, "cannot be combined with"),
        (public, {"max_rows_per_group": 9}, wide, ParameterError, "cannot be combined with"),
        (public, {"rows": 9}, wide, ParameterError, "cannot be combined with"),
        (public, {"norm": 0}, wide, ParameterError, "positive"),
        (public, {"norm": 2**20 + 1}, wide, ParameterError, "at most 1,048,576"),
        (public, {}, nt.pure(1), PrivacyError, "its noise is normal"),
        (counts, {"max_discovered_groups": 3}, nt.gdp(1), PrivacyError, "needs a delta"),
        (table.agg(m=nt.median("paid", 0, 9)), {}, nt.pure(1), PrivacyError, "its noise is normal"),
        (table.agg(h=nt.histogram("paid", [0, 9])), {"norm": 2**20 + 1}, wide, ParameterError, "at most 1,048,576"),
        (
            table.agg(h=nt.histogram("paid", [0, 9])),
            {"max_rows_per_group": 9},
            wide,
            ParameterError,
            "cannot be combined with",
        ),
        (
            table.group_by("town").agg(m=nt.median("paid", 0, 9)),
            {},
            wide,
            QueryError,
            "max_discovered_groups is missing",
        ),
        (nt.table(frame, unit=nt.ROW, name="v").agg(n=nt.count()), {}, wide, ParameterError, "its own unit"),
        (public, {"max_rows_per_group": nt.private_limit()}, wide, ParameterError, "cannot be combined with"),
    ):
        with pytest.raises(wrong, match=says):
            plan(query, spend=spend, limits=nt.limits(**{"norm": 5} | more))


def test_another_norm_is_another_plan():
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="v")
    query = table.agg(n=nt.count())
    made = [plan(query, spend=nt.gdp(1), **bound).digest for bound in (
        {"limits": nt.limits(norm=5)}, {"limits": nt.limits(norm="5.5")}, {"limits": nt.limits(max_rows_per_group=5)}
    )]  # fmt: skip
    assert len(set(made)) == 3


def heavy_tailed(size=1500, towns=40):
    draw = np.random.default_rng(4)
    activity = np.exp(draw.normal(0, 1.5, size))
    who = np.repeat(np.arange(size), np.ceil(activity).astype(int))
    return {"who": who, "town": draw.zipf(1.5, len(who)) % towns, "paid": draw.uniform(0, 10, len(who)).round(2)}


def test_a_norm_can_be_tuned_and_is_nearly_as_good_as_the_best_fixed_one(tmp_path):
    columns = heavy_tailed()
    rows = nt.table(pa.table(columns), unit="who", name="visits")
    groups = rows.group_by("town", keys=range(40))
    query = groups.agg(n=nt.count(), s=nt.sum("paid", 0, 10))
    truth = np.bincount(columns["town"], minlength=40)
    tuned = plan(query, spend=nt.zcdp("1/2"), limits=nt.limits(norm=nt.private_limit(512)))
    assert tuned.price == nt.zcdp("1/2")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.zcdp(2))
        release = account.release(
            account.plan(query, spend=nt.zcdp("1/2"), limits=nt.limits(norm=nt.private_limit(512)))
        )
        assert account.remaining["rho"] == Fraction(3, 2)
    assert release.notes[-1].startswith("Chosen privately: norm = ")
    origins = {bound["what"]: bound["origin"] for bound in release.provenance.method["bounds"]}
    assert origins["norm"].startswith("chosen by")
    norm = float(release.notes[-1].split("= ")[1].split(",")[0])

    def error(norm, spend):
        made = plan(query, spend=nt.zcdp(spend), limits=nt.limits(norm=norm))
        exact = MemoryEngine(pa.table(columns).to_pylist()).aggregate(made.stage, salt=SALT).values["rows"]
        lost = np.abs(exact.astype(float) / 1024 - truth).mean()
        return lost + 0.41 * float(made.measures["rows"].half_width(0.95))

    assert error(norm, "9/20") < 1.6 * min(error(fixed, "9/20") for fixed in (2, 8, 32, 128))
    assert error(norm, "9/20") < error(512, "1/2") / 3  # near miss: the limit of the search


def test_a_tuned_norm_finds_unknown_groups_and_stands_alone():
    rows = nt.table(pa.table(heavy_tailed(50)), unit="who", name="visits")
    query = rows.group_by("town").agg(n=nt.count())
    made = plan(query, spend=nt.gdp(1, "1e-6"), limits=nt.limits(norm=nt.private_limit(64, groups=30)))
    assert (
        made.stage.discovery_groups,
        made.first_stages[0].stage.discovery_groups,
        made.first_stages[0].stage.clip,
    ) == (64, None, None)
    for more in ({"max_rows_per_group": 5}, {"max_groups": nt.private_limit(8, groups=30)}, {"rows": 5}):
        with pytest.raises((ParameterError, QueryError)):
            plan(query, spend=nt.gdp(1, "1e-6"), limits=nt.limits(norm=nt.private_limit(64, groups=30), **more))
    with pytest.raises(PrivacyError, match="noise is normal"):
        plan(rows.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(norm=nt.private_limit(64)))
