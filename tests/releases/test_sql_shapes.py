"""Ratios, values cut at 0 and windows over the groups, said in SQL: what the same steps give in Python, for nothing more."""

import json
import math
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import QueryError
from neartwin.queries.query import PostProcessing
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.releases.release import Release
from neartwin.report.page import charts

KEYS = {"town": ["Ulm", "Bonn", "Trier", "nowhere"]}
SURE = 10**6  # an epsilon that leaves next to no noise
LIMITS = {"spend": nt.pure(SURE), "limits": nt.limits(max_rows_per_group=6, max_groups=4)}
SELECT = "SELECT town, COUNT(*) AS n, SUM(paid) AS total"


@pytest.fixture
def place(tmp_path):
    draw = np.random.default_rng(5)
    rows = pa.table(
        {
            "who": np.arange(3000) % 700,
            "town": draw.choice(["Ulm", "Bonn", "Trier"], 3000),
            "paid": draw.integers(0, 41, 3000).astype(float),
        }
    )
    pq.write_table(rows, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@pytest.fixture
def visits(place):
    return nt.table(place, unit="who", columns={"paid": nt.bounds(0, 40)})


@pytest.fixture
def account(tmp_path, visits):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        yield book.open(visits, nt.pure(SURE))


def test_ratio_in_sql_equals_that_of_the_release_and_is_free(account, visits):
    plain = account.sql(f"{SELECT} FROM visits GROUP BY town", keys=KEYS, **LIMITS)
    assert account.remaining == {"epsilon": 0}
    built = plain.computed("each", '"total" / "n"')
    for written in ("SUM(paid) / COUNT(*)", "(SUM(paid)) / (COUNT(*))", "SUM(paid) / NULLIF(COUNT(*), 0)"):
        found = account.sql(f"{SELECT}, {written} AS each FROM visits GROUP BY town", keys=KEYS, **LIMITS)
        assert found["each"].values == built["each"].values
        assert (found["each"].lower, found["each"].upper) == (built["each"].lower, built["each"].upper)
    sorted_too = (
        f"{SELECT}, SUM(paid) / COUNT(*) AS each FROM visits GROUP BY town HAVING SUM(paid) / COUNT(*) > 15 AND n > 50"
    )
    best = built.having("each > 15 AND n > 50").order_by(("each", True)).limit(2)
    for order in ("each", "4", "SUM(paid) / COUNT(*)"):
        found = account.sql(f"{sorted_too} ORDER BY {order} DESC LIMIT 2", keys=KEYS, **LIMITS)
        assert (found.keys, found["each"].values) == (best.keys, best["each"].values)
    assert len(best) == 2
    assert best["each"].values[0] > best["each"].values[1]
    alone = nt.from_sql("SELECT town, COUNT(*) / SUM(paid) FROM visits GROUP BY town", visits, keys=KEYS)
    assert list(alone.aggregates) == ["count", "sum_paid"]  # what it is made of comes with it
    assert alone.after.computed == (("COUNT(*) / SUM(paid)", '"count" / "sum_paid"'),)


def test_a_share_by_two_counts_has_the_shorter_bar_of_a_share(account):
    limits = {"spend": nt.pure(100), "limits": nt.limits(max_rows_per_group=6, max_groups=4, loss_share=0)}
    parts = (
        "COUNT_IF(paid > 20) / COUNT(*) AS part",
        "COUNT_IF(paid > 20) AS many, COUNT_IF(paid > 20) / COUNT(*) AS part",
    )
    once, two = (account.sql(f"SELECT town, {text} FROM visits GROUP BY town", keys=KEYS, **limits) for text in parts)
    assert sum(once["part"].half_widths()[:3]) < sum(two["part"].half_widths()[:3])


def test_ratios_without_noise_equal_the_rows(tmp_path, place):
    line = [
        "query",
        str(place),
        "SELECT town, SUM(paid) / COUNT(DISTINCT who) AS each FROM visits GROUP BY town ORDER BY each",
    ]
    line += [
        "--unit",
        "who",
        "--ledger",
        str(tmp_path / "cli.db"),
        "--budget",
        "epsilon=1000000000000",
        "--spend",
        "epsilon=1000000000000",
        "--bounds",
        "paid=0:40",
    ]
    line += ["--keys", "town=Ulm,Bonn,Trier", "--max-rows-per-group", "20", "--max-groups", "3", "--json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    release = Release.from_json(done.stdout)
    rows = pq.read_table(place).to_pandas()
    truth = (rows.groupby("town").paid.sum() / rows.groupby("town").who.nunique()).sort_values()
    assert [key for (key,) in release.keys] == list(truth.index)
    assert release["each"].values == pytest.approx(truth.tolist(), abs=1e-6)


def test_ratio_over_a_possible_zero_has_no_bar_and_is_written_as_json(account):
    found = account.sql(f"{SELECT}, SUM(paid) / COUNT(*) AS each FROM visits GROUP BY town", keys=KEYS, **LIMITS)
    ends = dict(
        zip((key for (key,) in found.keys), zip(found["each"].lower, found["each"].upper, strict=True), strict=True)
    )
    assert ends["nowhere"] == (None, None)
    assert next(line[-1] for line in found.lines() if line[0] == "nowhere") == "(none)"
    assert all(0 < low <= high < 40 for name, (low, high) in ends.items() if name != "nowhere")
    assert Release.from_json(json.dumps(json.loads(found.to_json()), allow_nan=False)) == found


def test_counts_are_cut_at_0_as_in_python(account):
    asked = "SELECT town, COUNT(*) AS n, {} AS m FROM visits GROUP BY town"
    limits = LIMITS | {"spend": nt.pure("0.05")}  # wide bars
    plain = account.sql(asked.format("1"), keys=KEYS, **limits)
    cut = plain.non_negative("n")["n"]
    for written in ("GREATEST(0, COUNT(*))", "-LEAST(0, -COUNT(*))"):
        found = account.sql(asked.format(written), keys=KEYS, **limits)["m"]
        assert (found.values, found.lower, found.upper) == (cut.values, cut.lower, cut.upper)
    assert cut.lower != plain["n"].lower  # at nowhere the bar goes below 0
    assert account.remaining == {"epsilon": SURE - nt.pure("0.05").epsilon}


WINDOWS = [  # over the groups, which DuckDB counts on the rows
    ("SELECT town, big, n, RANK() OVER (ORDER BY n DESC) AS r FROM t", ""),
    ("SELECT town, big, n, ROW_NUMBER() OVER (PARTITION BY big ORDER BY n) AS r FROM t", ""),
    (
        "SELECT town, big, n, DENSE_RANK() OVER (ORDER BY ROUND(n / 99)) AS r, RANK() OVER (ORDER BY ROUND(n / 99)) AS s FROM t",
        "",
    ),
    ("SELECT town, big, n, n / SUM(n) OVER () AS p FROM t WHERE n > 300", ""),
    ("SELECT town, big, n, n / SUM(n) OVER (PARTITION BY big) AS p FROM t", ""),
    ("SELECT town, big, n, total / SUM(total) OVER (PARTITION BY big) AS p FROM t QUALIFY p > 0.33", ""),
    ("SELECT town, big, n FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY big ORDER BY total DESC) = 1", ""),
    ("SELECT town, big, 2 * n AS m FROM t QUALIFY RANK() OVER (ORDER BY m DESC) <= 2", ""),
    ("SELECT town, big, n AS m, SUM(n) OVER (PARTITION BY big ORDER BY town) AS s FROM t", ""),
    (
        "SELECT town, big, n FROM (SELECT town, big, n, RANK() OVER (ORDER BY n DESC) AS r FROM t) AS u WHERE r <= 2 AND n > 300",
        "",
    ),
    ("SELECT town, big, n, n - SUM(n) OVER () / 5 AS d FROM t WHERE n > 500", "QUALIFY"),
]


@pytest.mark.parametrize(("outer", "unlike"), WINDOWS)
def test_windows_over_groups_are_those_of_sql(account, place, outer, unlike):
    keys = {"town": ["Ulm", "Bonn", "Trier"], "big": [False, True]}
    inner = "SELECT town, paid > 10 AS big, COUNT(*) AS n, SUM(paid) AS total FROM visits GROUP BY town, paid > 10"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS {inner.replace('visits', repr(str(place)))}")
        truth = connection.sql(outer).to_arrow_table()
        if unlike:  # the near miss: the window over all groups
            other = connection.sql(outer.replace("WHERE", unlike)).to_arrow_table()
            assert len(truth) == len(other) > 0
            assert truth != other
    limits = LIMITS | {"limits": nt.limits(max_rows_per_group=20, max_groups=6)}
    release = account.sql(outer.replace("FROM t", f"FROM ({inner}) AS t"), keys=keys, **limits)
    found, wanted = (
        sorted(table.select(truth.column_names).to_pylist(), key=lambda row: (row["town"], row["big"]))
        for table in (release.to_arrow(), truth)
    )
    assert len(truth) > 1
    for row, true in zip(found, wanted, strict=True):
        assert row == {name: v if isinstance(v, str) else pytest.approx(float(v), abs=1e-3) for name, v in true.items()}
    for statistic in release.statistics:
        if statistic.name in {"r", "s"} and "PARTITION" not in outer:
            assert (set(statistic.lower), max(statistic.upper)) == ({1.0}, 6.0)


def test_a_bar_of_a_share_within_a_part_is_that_of_the_part_alone(account):
    keys = {"town": ["Ulm", "Bonn"], "big": [False, True]}
    asked = "SELECT town, paid > 10 AS big, COUNT(*) AS n, {} AS p FROM visits GROUP BY town, paid > 10"
    limits = {"spend": nt.pure("0.5"), "limits": nt.limits(max_rows_per_group=6, max_groups=4)}
    within = account.sql(asked.format("COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY paid > 10)"), keys=keys, **limits)
    plain = account.sql(asked.format("1"), keys=keys, **limits)
    for big in (False, True):
        part = plain.having(f"big = {big}").computed("share", "n / SUM(n) OVER ()")["share"]
        places = [i for i, key in enumerate(within.keys) if key[1] is big]
        for ends in ("values", "lower", "upper"):
            assert [getattr(within["p"], ends)[i] for i in places] == pytest.approx(getattr(part, ends))


@pytest.mark.parametrize(
    ("selected", "says"),
    [
        ("SUM(paid) || 5 AS e", "not understood"),
        ("COALESCE(SUM(paid), town) AS e", "no statistic of the result"),
        ("ROUND(SUM(paid), COUNT(*)) AS e", "after aggregation"),
        ("SUM(COUNT(*)) OVER (PARTITION BY paid) AS e", "single statistic|not understood"),
        ("RANK() OVER (PARTITION BY town ORDER BY COUNT(*)) / SUM(COUNT(*)) OVER () AS e", "share one PARTITION BY"),
        ("RANK() OVER (ORDER BY town) AS e", "not understood|no statistic"),
        ("NTILE(4) OVER (ORDER BY COUNT(*)) AS e", "places follow"),
        ("REGRESSION(paid, clip(who, 0, 700)) / COUNT(*) AS e", "a single statistic"),
        ("MONOTONE(COUNT(*)) AS e", "write release.monotone"),
        (
            "SUM(COUNT(*)) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) / COUNT(*) AS e",
            "goes over ROWS in an ORDER BY",
        ),
        ("COUNT(*) / SUM(paid) AS town", "two columns"),
        ("SUM(paid) / COUNT(*) AS e, COUNT(*) / SUM(paid) AS e", "two columns"),
    ],
)
def test_malformed_ratio_or_shape_is_refused_before_any_spend(account, selected, says):
    with pytest.raises(QueryError, match=says):
        account.sql(f"SELECT town, {selected} FROM visits GROUP BY town", keys=KEYS, **LIMITS)
    assert account.remaining == {"epsilon": SURE}


def test_a_ratio_of_having_is_released_beside_it(account):
    for clause in ("HAVING SUM(paid) / COUNT(*) > 3", "ORDER BY SUM(paid) / COUNT(*)"):
        query = nt.from_sql(f"{SELECT} FROM visits GROUP BY town {clause}", account.rows, keys=KEYS)
        assert [name for name, _ in query.after.computed] == ["SUM(paid) / COUNT(*)"]


def test_the_counts_of_a_histogram_are_what_having_and_order_by_name(account):
    asked = "SELECT HISTOGRAM(paid, [0, 10, 15, 40]) AS h FROM visits"
    limits = {"spend": nt.pure("0.5"), "limits": nt.limits(max_rows_per_group=6)}
    with pytest.raises(QueryError, match="integer and text"):  # h is the bin, and that is known before a row is read
        account.sql(f"{asked} HAVING h > 3", **limits)
    assert account.remaining == {"epsilon": SURE}
    plain = account.sql(asked, **limits)
    assert account.sql(f"{asked} HAVING count > 100 ORDER BY count DESC LIMIT 2", **limits) == (
        plain.having("count > 100").order_by(("count", True)).limit(2)
    )


def test_ratios_and_shapes_have_a_written_form_that_reads_back(visits):
    text = f"{SELECT}, SUM(paid) / COUNT(*) AS each FROM visits GROUP BY town HAVING each > 2 ORDER BY each DESC"
    question = nt.from_sql(text, visits, keys=KEYS)
    shapes = PostProcessing(monotone=(("n", False),), non_negative=("total",))
    question = replace(
        question,
        after=replace(question.after, **{name: getattr(shapes, name) for name in ("monotone", "non_negative")}),
    )
    form = form_of(question)
    assert form["after"] == {
        "monotone": {"n": "decreasing"}, "non_negative": ["total"], "computed": {"each": '"total" / "n"'},
        "having": "each > 2", "order_by": [["each", True]],
    }  # fmt: skip
    slope = form_of(
        nt.from_sql(
            "SELECT town, REGR_SLOPE(paid, clip(who, 0, 700)) AS e FROM visits GROUP BY town", visits, keys=KEYS
        )
    )
    with pytest.raises(QueryError, match="no finite bar"):
        question_of(slope | {"after": {"monotone": {"e": "increasing"}}}, visits)
    assert question_of(json.loads(json.dumps(form)), visits) == question
    for wrong in (
        {"computed": {"each": "total / paid"}}, {"computed": {"n": "total / n"}}, {"computed": {"each": ["total"]}},
        {"monotone": {"n": "up"}}, {"monotone": {"town": "increasing"}}, {"monotone": ["n"]}, {"non_negative": "n"},
        {"non_negative": ["town"]}, {"order_by": [["each", True]], "computed": {"other": "total / n"}},
    ):  # fmt: skip
        with pytest.raises(QueryError):
            question_of(form | {"after": wrong}, visits)


RATES = [
    "COUNT(*) / k",
    "1000.0 * COUNT(*) / NULLIF(k, 2)",
    "SUM(paid) * k - k",
    "CASE WHEN k > 1 THEN COUNT(*) / k ELSE COUNT(*) END",
    "ROUND(SUM(paid) / COUNT(*) / k, 2)",
    "COUNT(*) / k - LAG(COUNT(*)) OVER (ORDER BY k)",
    "COUNT(*) / SUM(COUNT(*)) OVER () * k",
]


@pytest.mark.parametrize("asked", RATES)
@pytest.mark.parametrize("group", ["k", "who % 3 + 1 AS k"])
def test_numbers_of_groups_are_reckoned_with_as_in_sql(tmp_path, place, asked, group):
    rows = pq.read_table(place)
    rows = rows if " " in group else rows.append_column("k", pa.array((rows["who"].to_numpy() % 3) + 1))
    table = nt.table(rows, unit="who", name="visits", columns={"paid": nt.bounds(0, 40)})
    text = f"SELECT {group}, {asked} AS each FROM visits GROUP BY 1 ORDER BY 1"
    truth = duckdb.sql(text.replace("visits", "rows")).fetchall()
    with nt.open_ledger(tmp_path / "other.db") as book:
        account = book.open(table, nt.pure(SURE))
        found = account.sql(
            text, keys={"k": [1, 2, 3]}, **LIMITS | {"limits": nt.limits(max_rows_per_group=9, max_groups=1)}
        )
    each = found["each"]
    for value, low, high, (_, true) in zip(each.values, each.lower, each.upper, truth, strict=True):
        assert value == pytest.approx(math.nan if true is None else float(true), abs=0.02, nan_ok=True)
        assert (low is None) if true is None else (low - 0.01 <= float(true) <= high + 0.01 < low + 0.2)


def test_a_group_is_a_number_or_refused_and_undefined_where_missing(account, visits):
    with pytest.raises(QueryError, match="town is no statistic of the result"):
        account.sql("SELECT town, COUNT(*) / town AS each FROM visits GROUP BY town", keys=KEYS, **LIMITS)
    assert account.remaining == {"epsilon": SURE}
    part = visits.with_column("k", "CASE WHEN who < 400 THEN 2 END").group_by("k", keys=[2, None]).agg(n=nt.count())
    found = account.release(account.plan(part, **LIMITS)).computed("each", "n / k")["each"]
    assert found.values[0] > 500
    assert math.isnan(found.values[1])
    release = account.release(account.plan(part, **LIMITS)).computed("each", "n / k")
    assert math.isnan(release.non_negative("each")["each"].values[1])
    assert release.to_arrow()["each"].to_pylist()[1] is None
    assert Release.from_json(release.to_json()) == release
    assert release.order_by("each").keys == release.order_by(("each", True)).keys == ((2,), (None,))  # NULL is last
    assert [release.having(one).keys for one in ("each > -1", "each IS NULL")] == [((2,),), ((None,),)]
    assert [" 2 groups of 2 " in one.spoken for one in charts(release)] == [True, False]
    assert [one.title for one in charts(release.having("each IS NULL"))] == ["n (count())"]  # nothing of each is left
    assert (found.lower[1], found.upper[1]) == (None, None)


@pytest.mark.parametrize(
    "asked",
    [
        "SUM(paid) / SUM(2)",
        "100 * SUM(paid) / SUM(5)",
        "SUM(2) - SUM(3)",
        "COUNT(*) / SUM(2)",
        "-SUM(paid) / COUNT(1) - COUNT(*)",
    ],
)
def test_sums_of_constants_keep_their_place_in_arithmetic(account, place, asked):
    found = account.sql(
        f"SELECT {asked} AS a FROM visits", spend=LIMITS["spend"], limits=nt.limits(max_rows_per_group=6)
    )
    truth = duckdb.sql(f"SELECT {asked} FROM '{place}'").fetchall()[0][0]
    assert found["a"].values[0] == pytest.approx(float(truth), rel=1e-3, abs=0.1)


def test_a_mean_over_all_rows_counts_nan_as_missing(tmp_path):
    rows = pa.table({"who": range(400), "x": [1.0, float("nan"), 3.0, None] * 100})
    table = nt.table(rows, unit="who", name="t", columns={"x": nt.bounds(0, 10)})
    with nt.open_ledger(tmp_path / "other.db") as book:
        account = book.open(table, nt.pure(SURE))
        for asked, mean in (("SUM(x) / COUNT(*)", 1), ("SUM(x) / COUNT(x)", 2)):
            found = account.sql(
                f"SELECT {asked} AS a FROM t", spend=nt.pure(1000), limits=nt.limits(max_rows_per_group=1)
            )
            assert found["a"].values[0] == pytest.approx(mean, abs=0.05), asked


@pytest.mark.filterwarnings("error")
def test_open_ends_of_negative_sums_warn_of_nothing(tmp_path):
    draw = np.random.default_rng(8)
    who = np.repeat(np.arange(500), 3)
    rows = pa.table({"who": who, "w": draw.uniform(0, 9, len(who)), "z": draw.uniform(-9, -1, len(who))})
    table = nt.table(rows, unit="who", name="t", columns={"w": nt.bounds(0, 9), "z": nt.bounds(-9, -1)})
    with nt.open_ledger(tmp_path / "other.db") as book:
        account = book.open(table, nt.pure(SURE))
        for k in range(5):
            account.sql("SELECT SUM(w) / SUM(z) AS a FROM t", spend=nt.pure(f"0.{k + 1}"))
