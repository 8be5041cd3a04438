"""Charts of releases: time as an axis, groups in their own order, each title in a place of its own."""

import re
from dataclasses import replace
from datetime import date
from itertools import pairwise

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.report.page import charts, page, shown_groups
from neartwin.report.svg import Bar, bars

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
    assert places == pytest.approx([62 + 314 * day / days[-1] for day in days], abs=0.1)  # proportional to time
    assert places != pytest.approx([62 + 314 * step / 11 for step in range(12)], abs=0.1)


def test_open_end_over_time_is_dashed_to_the_edge(release):
    (one,) = release.statistics
    drawn = charts(replace(release, statistics=(replace(one, upper=(None,) * len(one.values)),)))
    assert "".join(drawn[0].parts).count('class="bar open"') == len(MONTHS)
    assert 'class="bar open"' not in "".join(charts(release)[0].parts)


def test_many_groups_stay_in_their_own_order(release):
    keys, (one,) = tuple((f"town {place}",) for place in range(50)), release.statistics
    many = tuple(place % 7 for place in range(50))
    shown = shown_groups(
        replace(
            release, group_columns=("town",), keys=keys, statistics=(replace(one, values=many, lower=many, upper=many),)
        )
    )
    assert len(shown) == 30
    assert shown == sorted(shown)
    assert {place for place in range(50) if many[place] >= 3} <= set(shown)


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


def test_label_of_a_bar_is_whole_on_two_lines_and_a_longer_one_says_so():
    labels = ["Ulm", "Medizinische Klinik II", "one of many names that are too long"]
    drawn = bars([Bar(label, 1, 0, 2) for label in labels], name="n", title="n", spoken="n")
    shown = re.findall(r'class="label" x="106.0" y="([\d.]+)"[^>]*>([^<]*)<', "".join(drawn.parts))
    assert [text for _, text in shown] == ["Ulm", "Medizinische", "Klinik II", "one of many", "names that are…"]
    heights = [float(y) for y, _ in shown]
    assert all(13 <= later - earlier < 40 for earlier, later in pairwise(heights))
    assert (heights[1] + heights[2]) / 2 - heights[0] == 26  # in the middle of its row
