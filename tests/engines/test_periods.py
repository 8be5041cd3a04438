"""Units of one day, week or month: what one unit did in one period is protected, and said to be no more than that."""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import LedgerError, ParameterError, QueryError, SchemaError
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping, hostile_rows
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(10**6, "1e-6")


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("period", [nt.date("day"), nt.date_part("week start", "day")], ids=["day", "week"])
def test_every_engine_bounds_each_unit_in_each_period_as_the_oracle_does(request, place, period):
    place = request.getfixturevalue(place)
    rows = hostile_rows(f"periods {period.name}", 500)
    query = place.visits(rows, unit=("who", period)).group_by("town").agg(
        n=nt.count(), units=nt.count_distinct_units(), total=nt.sum("paid", -50, 50)
    )  # fmt: skip
    stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=2, max_groups=1000)).stage
    found = as_mapping(place.engine.aggregate(stage, salt=SALT))
    assert found == as_mapping(MemoryEngine(rows, order=lambda _, key: repr(key)).aggregate(stage, salt=SALT))


def made(names):
    days = [date(2024, 1, 1) + timedelta(days=i) for i in range(28)]
    rows = [
        {"who": who, "at": day, "town": f"t{i % 3}"} for who in names for i, day in enumerate(days) for _ in range(5)
    ]
    return pa.Table.from_pylist(rows)


def counts(unit, **bounds):
    query = (
        nt.table(made(["a", "b"]), unit=unit, name="visits")
        .group_by("town")
        .agg(n=nt.count(), units=nt.count_distinct_units())
    )
    answer = DuckdbEngine().aggregate(plan(query, spend=SPEND, **bounds).stage, salt=SALT)
    return sum(answer.values["rows"]), sum(answer.values["units"])


def test_units_of_a_day_or_week_are_bounded_once_in_each():
    bounds = {"limits": nt.limits(max_rows_per_group=2, max_groups=1)}
    assert counts("who", **bounds) == (2 * 2, 2)
    assert counts(("who", nt.date("at")), **bounds) == (2 * 28 * 2, 2 * 28)
    assert counts(("who", nt.date_part("week start", "at")), **bounds) == (2 * 4 * 2, 2 * 4)
    assert counts(("who", nt.date_part("month start", "at")), **bounds) == (2 * 2, 2)


def test_two_units_are_never_one_whatever_their_names_hold():
    names = ["a", "a/2024-01-01", "a/", "/a", ""]
    query = nt.table(made(names), unit=("who", nt.date("at")), name="visits").agg(units=nt.count_distinct_units())
    answer = DuckdbEngine().aggregate(plan(query, spend=SPEND).stage, salt=SALT)
    assert list(answer.values["units"]) == [28 * len(names)]


def test_people_are_counted_once_where_the_unit_is_one_of_their_days(tmp_path):
    """COUNT(DISTINCT who) counted days of people, ten times as many, without a word."""
    draw = np.random.default_rng(1)
    days = [date(2024, 1, 1 + int(day)) for day in draw.integers(0, 28, 6000)]
    frame = pa.table({"who": draw.integers(0, 500, 6000), "day": days, "paid": draw.uniform(0, 10, 6000)})
    rows = nt.table(frame, unit=("who", nt.date("day")), name="visits", columns={"paid": nt.bounds(0, 10)})
    high = len(set(frame["who"].to_numpy()[frame["paid"].to_numpy() > 9].tolist()))
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(10**6))
        for asked, true in (
            ("COUNT(DISTINCT who)", 500),
            ("APPROX_COUNT_DISTINCT(who)", 500),
            ("COUNT(DISTINCT CASE WHEN paid > 9 THEN who END)", high),
        ):
            found = account.sql(f"SELECT {asked} AS n FROM visits", spend=nt.pure(10**4))
            assert found["n"].values == (true,)
        alone = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(10**4)))
        assert alone["n"].values == (len(set(zip(frame["who"].to_pylist(), days, strict=True))),)
        with pytest.raises(QueryError, match=r"rows\.most_common"):  # and not that of the most people, by their days
            account.sql(
                "SELECT day FROM visits GROUP BY day ORDER BY COUNT(DISTINCT who) DESC LIMIT 1",
                spend=nt.pure(1),
                keys={"day": sorted(set(days))},
            )
        plain = nt.table(frame, unit="who", name="people")
        with pytest.raises(QueryError, match="is the unit; write"):  # the near miss
            plan(plain.agg(n=nt.count_distinct("who")), spend=nt.pure(1))


def test_the_weaker_meaning_is_in_the_guarantee_the_notes_and_the_account(tmp_path):
    rows = nt.table(made(["a"]), unit=("who", nt.date_part("week start", "at")), name="visits")
    query = rows.agg(n=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(2))
        proposal = account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=3))
        assert "unit who in one week of at" in str(proposal.explain())
        release = account.release(proposal)
        assert str(release.guarantee) == "epsilon = 1 for adding or removing one who in one week of at"
        assert any("protected as a group of m" in note for note in release.notes)
        for unit in ("who", ("who", nt.date("at"))):
            with pytest.raises(LedgerError, match="is registered with unit"):
                ledger.open(nt.table(made(["a"]), unit=unit, name="visits"), nt.pure(2))
    digests = {
        plan(
            nt.table(made(["a"]), unit=unit, name="visits").agg(n=nt.count()),
            spend=nt.pure(1),
            limits=nt.limits(max_rows_per_group=3),
        ).digest
        for unit in ("who", ("who", nt.date("at")), ("who", nt.date_part("week start", "at")))
    }
    assert len(digests) == 3


def test_near_miss_malformed_period_is_refused():
    frame = made(["a"])
    for unit, says in (
        (("who", nt.date_part("month", "at")), "named by its first day"),  # January of every year is no period
        (("who", nt.date_part("isodow", "at")), "named by its first day"),
        (("who", nt.bins("at", [date(2024, 1, 1), date(2024, 2, 1)])), "named by its first day"),
    ):
        with pytest.raises(SchemaError, match=says):
            nt.table(frame, unit=unit, name="visits")
    with pytest.raises(ParameterError, match="must name the column"):
        nt.table(frame, unit=(nt.ROW, nt.date("at")), name="visits")
    with pytest.raises(QueryError, match="not in the table"):
        nt.table(frame, unit=("who", nt.date("nothing")), name="visits")
    daily = nt.table(frame, unit=("who", nt.date("at")), name="visits")
    whole = nt.table(frame, unit="who", name="visits")
    lines = nt.table(frame, unit=nt.owned_by(whole, on="town"), name="lines")
    for asked in (
        lambda: daily.join(whole, prefix="w_"),
        lambda: whole.join(daily, prefix="d_"),
        lambda: daily.join(lines, on="town"),
    ):
        with pytest.raises(QueryError, match="unit"):
            asked()
    assert daily.join(nt.public_table(pa.table({"town": ["t0"], "state": ["BW"]})), on="town").table.joins
