"""MIN, MAX and quantiles of dates, times and texts: each engine counts the same code of each value."""

from collections import Counter
from datetime import date, timedelta

import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from neartwin.tables.types import ColumnType, of_code
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, hostile_rows

EPOCH = date(1970, 1, 1)


def days(value):
    return min(max((value - EPOCH).days, -25_567), 39_967)


def letters(value):
    first, second = ([*(min(ord(letter), 128) for letter in value[:2]), 0, 0])[:2]
    return 129 * first + second


CODES = {"day": days, "seen": lambda value: days(value.date()), "town": letters}


@pytest.mark.parametrize("place", [*ENGINES[:2], pytest.param(ENGINES[2], marks=pytest.mark.slow)])
@pytest.mark.parametrize("column", ["day", "seen", "town"])
def test_values_are_counted_under_their_code_on_every_engine(request, place, column):
    place = request.getfixturevalue(place)
    rows = hostile_rows("codes of dates", 150)
    made = plan(place.visits(rows, unit=nt.ROW).agg(least=nt.minimum(column)), spend=nt.pure(1))
    (split,) = made.splits.values()
    cells = place.engine.aggregate(split.stage, salt=SALT).cells
    found = dict(zip(cells.cell.tolist(), cells.count.tolist(), strict=True))
    wanted = {}
    for row in rows:
        if row[column] is not None:
            code = CODES[column](row[column]) + (25_567 if column != "town" else 0)  # cells start at the lower bound
            wanted[code] = wanted.get(code, 0) + 1
    parts = made.measures[next(iter(made.splits))].parts
    assert found == {code: number * parts for code, number in wanted.items()}
    assert len(wanted) > 3


@pytest.mark.parametrize("place", [*ENGINES[:2], pytest.param(ENGINES[2], marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("strftime(seen, '%d.%m.%y')", lambda day: f"{day:%d.%m.%y}"),
        ("CAST(year(seen) AS TEXT) || '-Q' || quarter(seen)", lambda day: f"{day.year}-Q{(day.month + 2) // 3}"),
        ("left(CAST(seen AS TEXT), 7)", lambda day: day.isoformat()[:7]),
    ],
)
def test_texts_of_days_between_two_ends_are_the_keys_of_every_engine(request, place, text, of):
    place = request.getfixturevalue(place)
    rows = hostile_rows("texts of days", 300)
    first, last = date(2023, 12, 30), date(2024, 12, 31)
    asked = place.visits(rows, unit=nt.ROW).where(f"seen >= '{first}' AND CAST(seen AS DATE) <= '{last}'")
    made = plan(asked.with_column("m", text).group_by("m").agg(n=nt.count()), spend=nt.pure(1))
    keys = [key for (key,) in made.stage.keys]
    assert keys == sorted({of(first + timedelta(more)) for more in range((last - first).days + 1)})
    found = place.engine.aggregate(made.stage, salt=SALT)
    ((name, measure),) = made.measures.items()
    wanted = Counter(of(row["seen"].date()) for row in rows if row["seen"] and first <= row["seen"].date() <= last)
    assert found.values[name].tolist() == [wanted[key] * measure.parts for (key,) in found.keys]
    assert sum(wanted.values()) > 3


def test_a_code_is_read_back_as_its_value():
    for day in (date(1900, 1, 1), date(1970, 1, 1), date(2024, 2, 29), date(2079, 6, 5)):
        assert of_code(ColumnType.DATE, float(days(day))) == day
    for text, shown in {"": "", "U": "U", "Ulm": "Ul", "Österreich": "\ufffds", "a\U0001f600": "a\ufffd"}.items():
        assert of_code(ColumnType.TEXT, letters(text)) == shown
    ordered = ["", "A", "Az", "Bonn", "Ulm", "a", "zz", "é"]
    assert sorted(ordered, key=letters) == ordered
