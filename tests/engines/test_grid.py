"""Rounding to the grid: half up to the last bit, and inside the bounds, whichever words an engine uses for it."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.engines.sql.rendering import can_leave, is_on_grid
from neartwin.planning.planner import plan
from neartwin.tables.table import bounds as as_bounds

NEAR_HALVES = [0.0, 0.49999999999999994, 0.5, 0.5000000000000001, 1.5, 2.5, 4503599627370495.5, 4503599627370496.0]
NEAR_HALVES += [4503599627370497.0, 9007199254740991.0, 9007199254740992.0, 1e300, math.inf, 5e-324]


@pytest.mark.parametrize("low", [0, -(2**53)])  # DuckDB rounds by another function where nothing is negative
def test_values_are_rounded_half_up_to_the_last_bit(low):
    values = NEAR_HALVES + [-value for value in NEAR_HALVES]
    rows = nt.table(pa.table({"who": list(range(len(values))), "x": values}), unit="who", name="edges")
    asked = rows.group_by("who", keys=range(len(values))).agg(total=nt.sum("x", low, 2**53, 1))
    stage = plan(asked, spend=nt.pure(16), limits=nt.limits(max_rows_per_group=1, max_groups=1)).stage
    found = DuckdbEngine().aggregate(stage, salt=1).values["total:" + next(iter(stage.grid))]
    for value, total in zip(values, found.tolist(), strict=True):
        inside = Fraction(min(max(value, low), 2**53))
        assert total == math.floor(inside + Fraction(1, 2))


@pytest.mark.slow
def test_second_clip_is_omitted_only_if_rounding_stays_in_bounds():
    random, left_out = np.random.default_rng(6), 0
    for _ in range(4000):
        step = Fraction(int(random.integers(1, 2**20)), int(random.integers(1, 2**20)))
        low, wide = int(random.integers(-(2**53), 2**53)) >> int(random.integers(0, 52)), int(random.integers(1, 2**20))
        if abs(low + wide) > 2**53 or can_leave(bounds := as_bounds(low * step, (low + wide) * step, step)):
            continue
        left_out += 1
        ends = np.array([float(bounds.low), float(bounds.high)])
        near = np.clip(np.concatenate([ends, np.nextafter(ends, 0), ends * (1 - 1e-15), ends * (1 + 1e-15)]), *ends)
        steps = near * float(step.denominator) / float(step.numerator)
        rounded = [math.floor(Fraction(float(one)) + Fraction(1, 2)) for one in steps]
        assert all(bounds.low_units <= one <= bounds.high_units for one in rounded)
    assert left_out > 1000


def test_a_bound_that_floats_round_away_from_its_step_is_clipped_again():
    bounds = next(
        bounds
        for steps in range(2**53 - 2000, 2**53)
        for step in (Fraction(1, 3), Fraction(1, 7), Fraction(1, 49))
        if can_leave(bounds := as_bounds(0, steps * step, step))
    )
    rows = nt.table(pa.table({"who": [1], "x": [math.inf]}), unit="who", name="edges")
    stage = plan(
        rows.agg(total=nt.sum("x", bounds.low, bounds.high, bounds.step)),
        spend=nt.pure(16),
        limits=nt.limits(max_rows_per_group=1),
    ).stage
    (found,) = DuckdbEngine().aggregate(stage, salt=1).values["total:" + next(iter(stage.grid))]
    assert int(found) == bounds.high_units
    assert not can_leave(as_bounds(0, 100))


@pytest.mark.parametrize(
    ("text", "bounds", "on_grid"),
    [
        ("CASE WHEN x < 5 THEN 0 ELSE 3 END", (0, 3, 1), True),
        ("CASE WHEN x < 5 THEN 0 ELSE 4 END", (0, 3, 1), False),  # may lie above
        ("CASE WHEN x < 5 THEN -1 ELSE 3 END", (0, 3, 1), False),  # or below
        ("CASE WHEN x < 5 THEN 0 ELSE 3 END", (0, 3, "1/2"), False),  # or be no whole number of steps
        ("CASE WHEN x < 5 THEN 0 ELSE x END", (0, 3, 1), False),  # or anything
        ("CASE WHEN x < 5 THEN 0.0 ELSE 3.0 END", (0, 3, 1), False),
    ],
)
def test_values_surely_on_the_grid_pass_and_others_are_clipped(text, bounds, on_grid):
    rows = nt.table(pa.table({"who": [1, 2, 3], "x": [0, 5, 90]}), unit="who", name="few")
    stage = plan(rows.agg(total=nt.sum(text, *bounds)), spend=nt.pure(16), limits=nt.limits(max_rows_per_group=1)).stage
    (column,) = stage.grid.values()
    assert is_on_grid(column) == on_grid
    step, found = Fraction(bounds[2]), []
    for x in (0, 5, 90):
        low = Fraction(-1) if "-1" in text else Fraction(0)
        value = low if x < 5 else Fraction(x) if "ELSE x" in text else Fraction(4 if "4" in text else 3)
        found.append(min(max(value, Fraction(0)), Fraction(3)) / step - column.centre)
    name = "total:" + next(iter(stage.grid))
    assert DuckdbEngine().aggregate(stage, salt=1).values[name].tolist() == [sum(found) * stage.parts[name]]
