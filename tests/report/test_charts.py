"""Charts of releases: time as an axis, groups in their own order, each title in a place of its own."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html import escape
from itertools import pairwise

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.report.page import charts, facts, page, shown_groups
from neartwin.report.svg import Bar, bars, over_time

MONTHS = [date(2024, month, 1) for month in range(1, 13)]
TOWNS = ["Ulm", "Bonn"]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    data = pa.table({"who": range(240), "town": TOWNS * 120, "month": [MONTHS[place % 12] for place in range(240)]})
    rows = nt.table(data, unit="who", name="visits")
    asked = rows.group_by("month", "town", keys={"month": MONTHS, "town": TOWNS}).agg(n=nt.count_distinct_units())
    with nt.open_ledger(tmp_path_factory.mktemp("charts") / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(9))
        return account.release(account.plan(asked, spend=nt.pure(9), limits=nt.limits(max_groups=1)))


def test_days_are_an_axis_of_time_with_a_chart_for_each_other_group(release):
    drawn = charts(release)
    assert [chart.title.rpartition(", ")[2] for chart in drawn] == TOWNS
    places = [float(x) for x in re.findall(r'class="dot" cx="([\d.]+)"', "".join(drawn[0].parts))]
    days = [(month - MONTHS[0]).days for month in MONTHS]
    assert places == pytest.approx([70 + 306 * day / days[-1] for day in days], abs=0.1)  # proportional to time
    assert places != pytest.approx([70 + 306 * step / 11 for step in range(12)], abs=0.1)


def test_open_end_over_time_is_dashed_to_the_edge(release):
    (one,) = release.statistics
    drawn = charts(replace(release, statistics=(replace(one, upper=(None,) * len(one.values)),)))
    assert "".join(drawn[0].parts).count('class="bar open"') == len(MONTHS)
    assert 'class="bar open"' not in "".join(charts(release)[0].parts)


def test_the_noise_beyond_open_ends_stays_in_the_picture(release):
    (one,), of = release.statistics, len(release.keys)
    wide = replace(one, lower=(None,) * of, upper=(None,) * of, noise=((-90.0,) * of, (120.0,) * of))
    over_days = charts(replace(release, statistics=(wide,)))
    named = charts(replace(release, group_columns=("a", "b"), statistics=(wide,)))
    for drawn in (over_days[0], named[0]):
        parts = "".join(drawn.parts)
        low, high = (0, drawn.height) if drawn is over_days[0] else (0, drawn.width)
        ends = re.findall(r'class="bar noise" x1="([-\d.]+)" y1="([-\d.]+)" x2="([-\d.]+)" y2="([-\d.]+)"', parts)
        assert ends
        along = [float(end) for x1, y1, x2, y2 in ends for end in ((y1, y2) if drawn is over_days[0] else (x1, x2))]
        assert low < min(along) < max(along) < high


def test_many_groups_stay_in_their_own_order(release):
    keys, (one,) = tuple((f"town {place}",) for place in range(50)), release.statistics
    many = tuple(place % 7 for place in range(50))
    shown = shown_groups(
        replace(
            release,
            group_columns=("town",),
            keys=keys,
            statistics=(replace(one, values=many, lower=many, upper=many, noise=None),),
        )
    )
    assert len(shown) == 30
    assert shown == sorted(shown)
    assert {place for place in range(50) if many[place] >= 3} <= set(shown)


def test_a_long_table_on_a_page_has_the_groups_of_its_chart(release):
    (one,), many = release.statistics, tuple((place * 37) % 201 for place in range(201))
    keys = tuple((f"town {place}",) for place in range(201))
    drawn = replace(one, values=many, lower=many, upper=many, noise=None)
    long = replace(release, group_columns=("town",), keys=keys, statistics=(drawn,))
    whole = replace(
        long, keys=keys[:200], statistics=(replace(drawn, values=many[:200], lower=many[:200], upper=many[:200]),)
    )
    assert [line[0] for line in facts(long)["body"]] == [f"town {place}" for place in range(201) if many[place] >= 171]
    assert [line[0] for line in facts(whole)["body"]] == [name for (name,) in keys[:200]]


def test_charts_over_time_draw_at_most_so_many_values_together(release):
    (one,), days = release.statistics, [(date(2000, 1, 1) + timedelta(place),) for place in range(5_001)]

    def marks(many, statistics):
        drawn = replace(one, values=(1,) * many, lower=(0,) * many, upper=(2,) * many, noise=None)
        asked = tuple(replace(drawn, name=f"n{place}") for place in range(statistics))
        changed = replace(release, group_columns=("day",), keys=tuple(days[:many]), statistics=asked)
        return "".join(part for chart in charts(changed) for part in chart.parts).count('class="dot"')

    assert [marks(5_000, 1), marks(2_500, 2)] == [5_000, 5_000]
    assert [marks(5_001, 1), marks(2_501, 2)] == [30, 60]  # the largest groups, as of any other column


def test_a_plot_names_the_question_and_no_two_titles_meet(release):
    svg = nt.plot(release)._repr_svg_()
    assert "visits: count_distinct_units() by month, town" in svg
    assert "count_distinct_units() by month, town" in page(release)
    tops = [float(top) for top in re.findall(r"translate\(0 ([\d.]+)\)", svg)]
    assert all(later - earlier > 188 for earlier, later in pairwise(tops))


def test_values_show_as_text_in_a_shell_and_a_notebook(release):
    guarantee = release.guarantee
    assert repr(guarantee) == str(guarantee)
    assert guarantee._repr_html_() == f"<pre>{guarantee}</pre>"
    towns = nt.public_table(pa.table({"town": ["Ulm"]}), name="towns")
    for value, text in (
        (release.provenance, "snapshot"), (release.statistics[0], "of 24 groups: "), (towns, "'towns' of public rows: town text"),
        (nt.private_limit(9, share="1/4"), "nt.private_limit(at_most=9, share='1/4')"),
    ):  # fmt: skip
        assert f"{type(value).__name__}(" not in repr(value)
        assert text in repr(value)
        assert escape(text) in value._repr_html_()
    assert repr(nt.plot(release)).startswith("<Drawing of visits: ")


def test_label_of_a_bar_is_whole_on_two_lines_and_a_longer_one_says_so():
    labels = ["Ulm", "Medizinische Klinik II", "one of many names that are too long"]
    drawn = bars([Bar(label, 1, 0, 2) for label in labels], name="n", title="n", spoken="n")
    shown = re.findall(r'class="label" x="116.0" y="([\d.]+)"[^>]*>([^<]*)<', "".join(drawn.parts))
    assert [text for _, text in shown] == ["Ulm", "Medizinische", "Klinik II", "one of many", "…t are too long"]
    heights = [float(y) for y, _ in shown]
    assert all(13 <= later - earlier < 40 for earlier, later in pairwise(heights))
    assert (heights[1] + heights[2]) / 2 - heights[0] == 26  # in the middle of its row


def test_labels_that_begin_alike_are_told_apart_by_their_ends():
    labels = [f"Department of long names and longer words, number {place:02}" for place in range(30)]
    drawn = bars([Bar(label, 1, 0, 2) for label in labels], name="n", title="n", spoken="n")
    ends = re.findall(r'class="label"[^>]*>(…[^<]*)<', "".join(drawn.parts))
    assert len(ends) == len(set(ends)) == 30


@pytest.mark.parametrize(
    ("days", "texts"),
    [
        (MONTHS, ["2024-01", "2024-04", "2024-07", "2024-10"]),
        ([date(year, 1, 1) for year in range(2018, 2025)], ["2018", "2020", "2022", "2024"]),
        ([date(2024, 3, day) for day in (1, 2, 3, 31)], ["2024-03-01", "2024-03-31"]),  # none lies on another
        (
            [datetime(2024, 5, 1, hour, tzinfo=UTC) for hour in range(0, 24, 8)],
            ["05-01 00:00", "05-01 08:00", "05-01 16:00"],
        ),
        (
            [datetime(2024, 5, 1, 9, 0, second, tzinfo=UTC) for second in (0, 30, 59)],
            ["09:00:00", "09:00:30", "09:00:59"],
        ),
    ],
)
def test_days_and_times_have_the_shortest_texts_that_differ(days, texts):
    drawn = over_time(days, [Bar("", 1, 0, 2) for _ in days], reach=(0, 2), name="n", title="n", spoken="n")
    shown = re.findall(r'class="tick" x="([\d.]+)" y="180.0"[^>]*>([^<]*)<', "".join(drawn.parts))
    assert [text for _, text in shown] == texts
    places = [float(x) for x, _ in shown]
    assert all(later - earlier >= 80 for earlier, later in pairwise(places))
    assert places[-1] + 40 <= drawn.width
    dots = set(re.findall(r'class="dot" cx="([\d.]+)"', "".join(drawn.parts)))
    assert len(dots) == len(days)  # minutes and seconds move a dot, too


@pytest.mark.parametrize(
    ("largest", "texts"),
    [(5e6, ["0", "1 M", "2 M", "3 M", "4 M", "5 M"]), (2e10, ["0", "5 B", "10 B", "15 B", "20 B"]), (1e3, None)],
)
def test_large_numbers_on_an_axis_leave_room_for_each_other(largest, texts):
    drawn = bars([Bar("Ulm", largest, largest, largest)], name="n", title="n", spoken="n")
    ticks = re.findall(r'class="tick" x="([\d.]+)"[^>]*>([^<]*)<', "".join(drawn.parts))
    assert [text for _, text in ticks] == (texts or ["0", "200", "400", "600", "800", "1,000"])
    halves = [(float(x), 3.7 * len(text)) for x, text in ticks]
    assert all(x + half < y - other for (x, half), (y, other) in pairwise(halves))
    assert sum(halves[-1]) < drawn.width


def test_an_open_end_points_away_and_a_dot_hides_a_shorter_bar():
    drawn = bars(
        [Bar("open", 1, None, None), Bar("near", 50, 49.9, 50.1), Bar("far", 50, 20, 100)],
        name="n", title="n", spoken="n",
    )  # fmt: skip
    parts = "".join(drawn.parts)
    lines = [
        tuple(map(float, found))
        for found in re.findall(r'class="bar(?: open)?" x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', parts)
    ]
    rows = [[one for one in lines if y - 13 < one[1] < y + 13] for y in (23, 49, 75)]
    assert [len(one) for one in rows] == [6, 2, 4]  # two dashes and two arrows; no ends; two ends
    assert {one[0] for one in rows[0][1:3]} == {126.0}  # right of the label, which ends at 116
    assert all(one[2] > 126 for one in rows[0][1:3])
    assert {one[0] for one in rows[0][4:]} == {396.0}
    assert all(one[2] < 396 for one in rows[0][4:])


def test_a_histogram_has_a_title_that_is_not_cut(tmp_path):
    rows = nt.table(pa.table({"who": range(90), "age": range(90)}), unit="who", name="visits")
    asked = rows.agg(ages=nt.histogram("age", [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]))
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(9))
        (drawn,) = charts(account.release(account.plan(asked, spend=nt.pure(9))))
    assert drawn.title == "count"
