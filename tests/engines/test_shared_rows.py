"""One reading of the rows serves the choice of limits, the loss and the answer, with the bits of a reading for each."""

from dataclasses import replace
from fractions import Fraction
from itertools import islice

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine, text_of
from neartwin.engines.sql.statement import SharedRows
from neartwin.planning.planner import plan
from neartwin.planning.stage import ContributionSizes, RowCounts
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping, hostile_rows
from tests.oracles.memory import MemoryEngine

TOWNS = ["Ulm", "Bonn", None, "nowhere", ""]
APPROX = nt.approx(1, "1e-6")


def questions(rows):
    """(question, spend, limits): with limits given or chosen, of rows, groups or a length, by groups, cells or as a whole."""
    both = {"n": nt.count(), "y": nt.sum("paid", 0, 5), "m": nt.mean("paid", -1, 9)}
    towns = rows.where("paid > -50").group_by("town", keys=TOWNS)
    cells = rows.group_by("town", "open", keys={"town": TOWNS, "open": [True, None]})
    yield cells.marginals(["town"], ["open"]).agg(n=nt.count()), nt.gdp(1), None
    yield towns.agg(**both), nt.gdp(1), nt.limits(norm=2)
    yield towns.agg(y=nt.sum("paid", 0, 5)), nt.pure(1), None
    yield rows.group_by("town").agg(u=nt.count_distinct_units()), APPROX, nt.limits(max_groups=2)
    yield towns.agg(**both, v=nt.variance("paid", 0, 9), med=nt.median("paid", 0, 9, 1)), nt.gdp(1), None
    yield rows.group_by("town").agg(**both, u=nt.count_distinct_units()), APPROX, None
    yield rows.group_by("town", "open").agg(**both), APPROX, nt.limits(rows=4, max_groups=2)
    yield rows.group_by("town", "open").agg(**both), APPROX, nt.limits(rows=4, max_discovered_groups=2)
    yield rows.where("open").agg(n=nt.count()), nt.pure(1), nt.limits(max_rows_per_group=2)
    yield cells.marginals(["town"], ["town", "open"]).agg(n=nt.count()), nt.gdp(1), nt.limits(norm=3)


def same(one, engine, stages):
    """How many stages were answered, all with the same bits in one reading and in one each."""
    for stage in stages:
        found, expected = (either.aggregate(stage, salt=SALT) for either in (one, engine))
        assert as_mapping(found) == as_mapping(expected)
        if expected.cells is not None:
            cells = (sorted(zip(*part.T, strict=True)) for part in map(_cells, (found, expected)))
            assert next(cells) == next(cells)
    return len(stages)


def _cells(answer):
    import numpy as np

    groups = np.array([repr(key) for key in answer.keys], dtype=object)[answer.cells.group]
    return np.stack([groups, answer.cells.cell, answer.cells.count], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("many", [2, 10])
@pytest.mark.parametrize("place", ENGINES[:2])
def test_one_reading_gives_every_stage_the_bits_of_its_own(request, place, many):
    place = request.getfixturevalue(place)
    rows = hostile_rows("shared", 50 * many)
    for query, spend, limits in islice(questions(place.visits(rows)), many):
        made = plan(query, spend=spend, limits=limits)
        with place.engine.reading(made.all_stages) as one:
            assert same(one, place.engine, made.all_stages) > 1
            chosen, _ = made.resolve(one, noise.SYSTEM)
            assert same(one, place.engine, chosen.all_stages)


@pytest.mark.parametrize("place", [ENGINES[0], pytest.param(ENGINES[1], marks=pytest.mark.slow)])
def test_rows_in_all_are_those_that_count_where_groups_have_a_limit_too(request, place):
    """Sums over a unit's groups are read once for all rows; a limit in each group, or of groups, leaves fewer."""
    place = request.getfixturevalue(place)
    towns = place.visits(hostile_rows("capped", 300)).group_by("town", keys=TOWNS)
    made = plan(towns.agg(n=nt.count(), y=nt.sum("paid", 0, 5)), spend=nt.pure(1), limits=nt.limits(rows=3))
    capped = replace(made.stage, rows_per_group=2), replace(made.stage, groups_per_unit=1)
    assert SharedRows.of(made.all_stages).summed
    with place.engine.reading(made.all_stages) as one:
        assert same(one, place.engine, [made.stage, *capped]) == 3


WHOLE = [{"rows_per_group": 3}, {"rows_per_unit": 2}, {"norm": Fraction(5, 2)}, {"rows_per_group": 10**9}]


def counted(rows):
    """The stages of a count over all rows, by size, by loss and as an answer, within caps and lengths."""
    stage = plan(rows.where("open").agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2)).stage
    stage = replace(stage, measures=("rows", "units"))
    sizes = [ContributionSizes((1, 2, 3, 5, 9), power, lost=lost) for power in (0, 1, 2) for lost in {False, power < 2}]
    return [one for limits in WHOLE for one in _within(replace(stage, **limits), sizes)]


def _within(stage, sizes):
    return [stage, replace(stage, parts={"rows": 2**20}), *map(stage.counting_units, sizes)]


@pytest.mark.parametrize("place", [ENGINES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in ENGINES[1:])])
def test_all_about_numbers_of_rows_follows_from_one_reading(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("profile", 300)
    stages, oracle = counted(place.visits(rows)), MemoryEngine(rows)
    for engine in (place.engine, oracle):
        profile = RowCounts.of(stages, engine)
        assert sum(n * units for n, units in profile.units.items()) == sum(
            row["who"] is not None and bool(row["open"]) for row in rows
        )
        assert same(profile, oracle, stages) == 28
    norm = next(stage for stage in stages if stage.norm and stage.parts)
    wrong = replace(
        norm, norm=None, rows_per_group=2, rows_per_unit=None
    )  # the near miss: its limit rounded down first
    assert as_mapping(profile.aggregate(wrong, salt=SALT)) != as_mapping(oracle.aggregate(norm, salt=SALT))


def test_a_profile_of_rows_serves_nothing_else(duckdb_place):
    rows = hostile_rows("profile", 60)
    table = duckdb_place.visits(rows)
    stages = counted(table)
    profile = RowCounts.of(stages, duckdb_place.engine)
    total = plan(table.where("open").agg(y=nt.sum("paid", 0, 5)), spend=nt.pure(1), limits=nt.limits(rows=2)).stage
    all_rows = replace(stages[0], conditions=())
    weighted = replace(stages[0], parts={"units": 8})
    by_town = replace(stages[0], group_columns=("town",), keys=(("Ulm",),))
    for odd in (
        total,
        all_rows,
        weighted,
        by_town,
        replace(stages[0], split="paid"),
        replace(stages[0], discovery_groups=1),
    ):
        assert RowCounts.of([stages[0], odd], duckdb_place.engine) is duckdb_place.engine
    for other in (total, all_rows, by_town):
        assert same(profile, duckdb_place.engine, [other])
    assert RowCounts.of(stages[:1], duckdb_place.engine) is duckdb_place.engine  # one stage alone reads its rows itself
    for units, kind in ((2**12 - 1, int), (2**12, object), (2**12 + 1, object)):  # 64 bits hold less than 2^63
        many = replace(profile, units={2**29: units})
        found = many.aggregate(replace(stages[0], rows_per_group=2**31, parts={"rows": 2**22}), salt=SALT).values[
            "rows"
        ]
        assert found.dtype == kind
        assert found.tolist() == [2**51 * units]


def test_a_count_asks_its_rows_once(tmp_path):
    """The rows are drawn anew at each reading, so that two readings would not agree."""
    connection, _ = lots()
    rows = nt.table(connection, table="visits", unit="who")
    asked = []

    class Asked:
        def aggregate(self, stage, *, salt):
            asked.append(stage)
            return DuckdbEngine().aggregate(stage, salt=salt)

    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(9))
        release = account.release(account.plan(rows.agg(n=nt.count()), spend=nt.pure(9)), engine=Asked())
    assert len(asked) == 1
    assert release.loss is not None
    assert any(note.startswith("Chosen privately: rows =") for note in release.notes)


@pytest.mark.parametrize("high", [2**24, 2**42])
def test_sums_of_small_values_alone_are_in_doubles(high):
    """An odd sum above 2^53 is in no double. Values of up to 2^24 steps are small."""
    connection, many = duckdb.connect(), 20_001
    connection.execute(f"CREATE TABLE visits AS SELECT 'a' AS who, {high // 4 + 1} AS paid FROM range({many})")
    rows = nt.table(connection, table="visits", unit="who")
    made = plan(rows.agg(y=nt.sum("paid", 0, high, step=1)), spend=nt.pure(1), limits=nt.limits(rows=1))
    stage = replace(made.stage, rows_per_group=many, rows_per_unit=None, parts={})
    ((name, column),) = stage.grid.items()
    with DuckdbEngine()._opened_places(stage) as (_, places, _):
        text = text_of(stage, places)
    assert ("SUM(CAST(x0 AS DOUBLE))" in text) == (high == 2**24)
    exact = many * (high // 4 + 1 - column.centre)
    assert DuckdbEngine().aggregate(stage, salt=SALT).values[f"total:{name}"].tolist() == [exact]
    assert (int(float(exact)) == exact) == (high == 2**24)


def test_a_unit_in_thousands_of_groups_has_the_length_of_its_own():
    """Its squared length in parts of 1 / FINE needs more than 64 bits, from 2,048 groups on."""
    connection = duckdb.connect()
    connection.execute("CREATE VIEW visits AS SELECT range % 2 AS who, range AS town FROM range(6000)")
    rows = nt.table(connection, table="visits", unit="who").group_by("town")
    query = rows.agg(n=nt.count(), u=nt.count_distinct_units())
    limits = nt.limits(norm=2, max_groups=4, max_discovered_groups=4)
    stages = plan(query, spend=APPROX, limits=limits).all_stages
    assert stages[0].units_norm == 2
    with DuckdbEngine().reading(stages) as one:
        assert same(one, DuckdbEngine(), stages) > 1


def lots():
    """A view that draws other rows at every reading."""
    connection = duckdb.connect()
    drawn = "range % 40 AS who, range % 3 AS town, (range % 7)::DOUBLE AS paid FROM range(600) WHERE random() < 0.5"
    connection.execute(f"CREATE VIEW visits AS SELECT {drawn}")
    rows = nt.table(connection, table="visits", unit="who")
    return connection, rows.group_by("town", keys=range(3)).agg(n=nt.count(), y=nt.sum("paid", 0, 5))


@pytest.mark.slow
def test_rows_are_read_once_for_choice_loss_and_answer():
    connection, query = lots()
    made = plan(query, spend=nt.pure(1))
    choice, main, loss, *clipped = made.all_stages

    def totals(engine):
        by_size = engine.aggregate(choice, salt=1).values["units"]
        whole = replace(main, rows_per_unit=10**6, rows_per_group=10**6)
        rows = engine.aggregate(whole, salt=1).values["rows"].sum() // main.parts["rows"]
        return by_size.sum(), engine.aggregate(loss, salt=1).values["units"].sum(), rows

    readings = set()
    for _ in range(4):
        with DuckdbEngine().reading(made.all_stages) as one:
            assert totals(one) == totals(one)
            for stage in clipped:
                assert one.aggregate(stage, salt=1).values["units"].sum() == totals(one)[0]
            readings.add(totals(one))
    assert len(readings) > 1
    assert len({totals(DuckdbEngine()) for _ in range(6)}) > 1  # the near miss: a reading for each
    with pytest.raises(duckdb.CatalogException):
        connection.execute("FROM neartwin_units")


def test_sums_by_unit_are_read_once_where_several_stages_ask_for_them(duckdb_place):
    rows = duckdb_place.visits(hostile_rows("sums", 80))
    query = rows.group_by("town", keys=TOWNS).agg(n=nt.count(), y=nt.sum("paid", 0, 5))
    caps, length = nt.limits(max_rows_per_group=2, max_groups=2), nt.limits(norm=2)
    for spend, limits, summed in ((nt.pure(1), caps, False), (nt.pure(1), None, True), (nt.gdp(1), length, True)):
        made = plan(query, spend=spend, limits=limits)
        rows_once = SharedRows.of(made.all_stages)
        with duckdb_place.engine.reading(made.all_stages) as one, one._opened_places(made.stage) as (_, places, _):
            assert same(one, duckdb_place.engine, made.all_stages) > 2
            asked = replace(rows_once, summed=True)  # the near miss: a table that one stage reads, or none
            texts = [text_of(stage, places, shared=asked) for stage in made.all_stages]
            assert rows_once.summed is summed is (sum("neartwin_by_unit" in text for text in texts) > 1)


def test_shared_rows_go_where_a_stage_fails():
    connection, query = lots()
    made = plan(query, spend=nt.pure(1))
    unreadable = replace(made.stage, parts=dict.fromkeys(made.stage.parts, "no number"))
    with DuckdbEngine().reading(made.all_stages) as one, pytest.raises(TypeError):
        one.aggregate(unreadable, salt=1)
    with pytest.raises(duckdb.CatalogException):
        connection.execute("FROM neartwin_units")
    with DuckdbEngine().reading(made.all_stages) as one:
        assert one.aggregate(made.stage, salt=1).groups == 3


def test_stages_of_other_rows_or_values_are_read_on_their_own():
    _, query = lots()
    made = plan(query, spend=nt.pure(1))
    rows = SharedRows.of(made.all_stages)
    assert all(map(rows.serves, made.all_stages))
    stage = made.stage
    other = plan(lots()[1], spend=nt.pure(1)).stage
    narrow = plan(replace(query, aggregates={"y": nt.sum("paid", 0, 4)}), spend=nt.pure(1)).stage
    some = nt.table(lots()[0], table="visits", unit="who").where("paid > 1").agg(n=nt.count())
    fewer = replace(stage, conditions=some.groups.rows.conditions)
    for odd in (other, narrow, fewer, replace(stage, keys=((0,), (1,))), replace(stage, length_by=(0,))):
        assert not rows.serves(odd)
    assert SharedRows.of([stage]) is None  # one stage alone reads its rows itself
    frame = nt.table(pa.table({"town": [1], "paid": [2.0]}), unit=nt.ROW, name="v")
    assert SharedRows.of(plan(frame.agg(n=nt.count()), spend=nt.pure(1)).all_stages * 2) is None


def test_a_joined_database_is_read_twice_without_waiting(tmp_path):
    with duckdb.connect(str(tmp_path / "towns.db")) as other:
        other.execute("CREATE TABLE towns AS SELECT range AS town, range % 2 AS big FROM range(3)")
    connection, _ = lots()
    rows = nt.table(connection, table="visits", unit="who")
    rows = rows.join(nt.public_table(tmp_path / "towns.db", table="towns"), on="town").group_by("big", keys=[0, 1])
    made = plan(rows.agg(n=nt.count(), med=nt.median("paid", 0, 6, 1)), spend=nt.pure(1))
    with DuckdbEngine().reading(made.all_stages) as one:
        assert [one.aggregate(stage, salt=1).groups for stage in made.stages] == [2, 2]
        assert one.aggregate(made.loss.stage, salt=1).values["units"].sum() == 40


def test_sums_beyond_what_a_double_holds_are_exact():
    """Of values up to 2^32 - 1 a double holds every sum of 2^21 rows, and not every one of more."""
    largest, rows = 2**32 - 1, 2**53 // (2**32 - 1) + 3
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW visits AS SELECT 1 AS who, {largest}.0::DOUBLE AS paid FROM range({rows})")
    table = nt.table(connection, table="visits", unit="who")
    query = table.agg(y=nt.sum("paid", 0, largest, step=1))
    stages = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).all_stages
    with DuckdbEngine().reading(stages) as one:
        found = one._shared[0].execute("SELECT n, s_x0 FROM neartwin_units").fetchall()
    assert found == [(rows, rows * largest)]
    assert float(rows * largest) != rows * largest  # the near miss: a sum in doubles
