"""What an expression may be, what follows from declared bounds, and which groups are public by themselves."""

import itertools
import json
import math
import pickle
import random
import re
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.noise import SYSTEM
from neartwin.planning.planner import plan
from neartwin.queries.query import values_in
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.tables.expressions import RowExpression
from neartwin.tables.functions import FUNCTIONS
from neartwin.tables.ranges import ANY, clipped, filled_by, range_of, value_of, where_true, without_idle_clips
from neartwin.tables.types import ColumnType
from tests.oracles.memory import MemoryEngine, evaluate


@pytest.fixture
def shop():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE shop (who INTEGER, price DOUBLE, discount DOUBLE, quantity INTEGER, town TEXT, open BOOLEAN, day DATE, "
        "seen TIMESTAMP, parts INTEGER[])"
    )
    columns = {
        "price": nt.bounds(0, 200, "0.01"),
        "discount": nt.bounds(0, "0.5", "0.01"),
        "quantity": nt.bounds(-3, 10, 1),
    }
    return nt.table(connection, table="shop", unit="who", columns=columns)


@pytest.mark.parametrize(
    ("text", "low", "high", "step"),
    [
        ("price * (1 - discount)", 0, 200, "1/10000"),
        ("price * quantity", -600, 2000, "1/100"),
        ("price - quantity", -10, 203, "1/100"),
        ("-quantity", -10, 3, "1"),
        ("abs(quantity)", 0, 10, "1"),
        ("quantity * quantity", -30, 100, "1"),
        ("price / 4", 0, 50, "1/400"),
        ("price / -0.5", -400, 0, "1/50"),
        ("least(price, 50)", 0, 50, "1/100"),
        ("least(price, quantity)", -3, 200, "1/100"),
        ("greatest(price, 50.5, discount)", "50.5", 200, "1/100"),
        ("coalesce(price, -1)", -1, 200, "1/100"),
        ("clip(price, -5, 20)", 0, 20, "1/100"),
        ("clip(who, 0, 7)", 0, 7, "1"),
        ("CASE WHEN open THEN price ELSE quantity END", -3, 200, "1/100"),
        ("CASE WHEN who > 3 THEN 1 ELSE 0 END", 0, 1, "1"),
        ("CASE WHEN who > 9 THEN 9 WHEN who < 2 THEN 2 ELSE who END", 2, 9, "1"),
        ("CASE WHEN 150 <= price THEN 150 ELSE price END", 0, 150, "1/100"),
        ("CASE WHEN price > 150 OR open THEN 150 ELSE price END", 0, 150, "1/100"),
        ("CASE WHEN price > 150 AND open THEN 150 ELSE price END", 0, 200, "1/100"),  # may be over 150 and closed
        ("CASE WHEN NOT (price > 150 OR open) THEN 150 ELSE price END", 0, 200, "1/100"),  # may be anything and open
        ("CASE WHEN price BETWEEN 10 AND 50 THEN price ELSE 20 END", 10, 50, "1/100"),
        ("CASE WHEN NOT price * 2 BETWEEN 10 AND 50 THEN NULL ELSE price * 2 END", 10, 50, "1/50"),
        ("CASE WHEN NOT (price >= 10 AND price <= 50) OR open THEN 0 ELSE price END", 0, 50, "1/100"),
        ("CASE WHEN price > 50 THEN 0 ELSE coalesce(price, 90) END", 0, 200, "1/100"),  # 90 for NULL
        ("CASE WHEN price = 150 THEN 150 ELSE price END", 0, 200, "1/100"),
        ("CASE WHEN price > CASE WHEN 1 > 2 THEN 5 END THEN 5 ELSE price END", 0, 200, "1/100"),  # above NULL is nobody
        ("CASE WHEN quantity > 1 THEN 0 ELSE coalesce(quantity, 9) END", -3, 10, "1"),
        ("CASE WHEN open THEN 0.25 END * quantity + 1", "0.25", "3.5", "1/4"),
        ("month(day) * 10", 10, 120, "10"),
        ("clip(day - DATE '2024-01-01', 0, 365)", 0, 365, "1"),
        ("width_bucket(price, 0, 100, 4)", 0, 5, "1"),
        ("nullif(quantity, 0) + hour(seen)", -3, 33, "1"),
        ("price > 3", 0, 1, "1"),
        ("open * 4 - (price > quantity)", -1, 4, "1"),
        ("floor(price / 10) - ceil(quantity / 3)", -4, 21, "1"),
        ("round(price * 2.5)", 0, 500, "1"),
        ("trunc(quantity / 2)", -2, 5, "1"),
        ("sqrt(price + 25)", 5, 15, "1/1000000"),
        ("exp(quantity - 10)", "11/5000000", 1, "1/10000000"),
        ("price / (discount + 1)", 0, 200, "1/10000"),
        ("mod(CAST(clip(who, 0, 50) AS INTEGER), 7)", 0, 6, "1"),
        ("who % 7", -6, 6, "1"),
        ("CAST(quantity / 3 AS INTEGER)", -1, 3, "1"),
        ("dayofweek(day) + minute(seen)", 0, 65, "1"),
        ("sign(price) - strpos(town, 'x') * 0", -1, 1, "1"),
        ("price * price * price", 0, 8_000_000, "1"),  # steps of 10**-6 would be far finer than any noise
    ],
)
def test_bounds_and_steps_follow_from_declared_ones(shop, text, low, high, step):
    found = nt.sum(text).value(shop.table).bounds
    assert (found.low, found.high, found.step) == (Fraction(low), Fraction(high), Fraction(step))


def test_no_value_of_any_row_leaves_the_range_that_was_propagated(shop):
    pick, table = random.Random(3), shop.table
    numbers = [None, math.nan, math.inf, -math.inf, 1e300, -7.0, 0.0, 0.1, 0.37, 55.55, 199.999, 200.0, 1e-9]
    texts = [
        "price * (1 - discount)", "price * quantity - discount * 3", "abs(price - 100) * abs(quantity)",
        "greatest(price, 3) * -discount", "CASE WHEN price > 1000 THEN quantity ELSE discount * 2 END",
        "least(price, quantity, 7)", "coalesce(price, quantity) / 7", "sqrt(price) + exp(quantity - 7) * ln(price + 2)",
        "floor(price / 7) - ceil(discount * 3) + round(price, 1) + trunc(quantity / 3)", "price / (discount - 2) + (price > 3)",
        "CAST(price / 3 AS INTEGER) + mod(CAST(price AS INTEGER), 7) - power(quantity, 3)", "log10(price + 10) * sign(quantity)",
        "(price + discount) * (price - quantity)", "clip(price, 10, 20) * quantity", "if(open, price, -price)",
        "CASE WHEN quantity < 3 THEN quantity WHEN price BETWEEN 7 AND 300 THEN price END",
        "CASE WHEN price > 55 THEN 55 WHEN price < 7 THEN discount WHEN quantity >= 2 THEN price ELSE price END",
        "CASE WHEN quantity < 0 OR NOT (price BETWEEN 7 AND 55) OR open THEN NULL ELSE price * quantity END",
        "CASE WHEN NOT (price >= 7 AND quantity <= 2) THEN discount ELSE least(price, quantity) END",
        "CASE WHEN price BETWEEN 7 AND 55 THEN price * 2 - 1 ELSE coalesce(quantity, discount) END",
        "CASE WHEN price > 55 OR quantity > 2 THEN 0 ELSE coalesce(price, discount) + greatest(quantity, price) END",
        "CASE WHEN NOT (price > 55 OR NOT (quantity > 0 AND open)) THEN price - quantity ELSE discount END",
        "CASE WHEN 2 <= quantity THEN discount WHEN price <= 55 THEN greatest(quantity, price) ELSE quantity END",
    ]  # fmt: skip
    reached = 0
    for text in texts:
        term = table.expression(text).term
        bounds, inner = range_of(term, table.columns), clipped(term, table.columns)
        for _ in range(400):
            row = {
                "price": pick.choice(numbers),
                "discount": pick.choice(numbers),
                "open": pick.choice([None, True, False]),
            }
            row |= {"quantity": pick.choice([None, -(2**63), -3, 0, 2, 10, 2**63 - 1]), "who": 1}
            value = evaluate(inner, row)
            if value is None or math.isnan(value):
                continue
            slack = 1e-9 * (1 + abs(value))
            assert float(bounds.low) - slack <= value <= float(bounds.high) + slack, (text, row)
            reached += value in (float(bounds.low), float(bounds.high))
        free = evaluate(term, {"price": 1e9, "discount": -5.0, "quantity": 4, "open": True, "who": 1})
        assert (
            text.startswith(("least", "clip", "CASE")) or not bounds.low <= free <= bounds.high
        )  # unclipped inputs would
    assert reached > 100  # and the ends are no needless slack


def test_rows_that_meet_a_condition_lie_where_it_says(shop):
    pick, table = random.Random(5), shop.table
    numbers = [None, math.nan, math.inf, -math.inf, -1e300, -7.0, 0.0, 2.9, 3.0, 3.1, 40.0, 90.0, 90.5, 1e9]
    cases = [
        ("price", "price BETWEEN 3 AND 90", (3, 90)), ("price", "3 < price AND 90 >= price AND open", (3, 90)),
        ("quantity", "quantity IN (3, -2, 90)", (-2, 90)), ("quantity", "quantity > 2.5 AND quantity < 40", (3, 39)),
        ("price - quantity", "price - quantity <= 90 AND price - quantity >= 0 AND price > 3", (0, 90)),
        ("price", "NOT (price < 3 OR price > 90)", (3, 90)), ("quantity", "NOT (quantity < 3 OR NOT quantity <= 90)", (3, 90)),
        ("quantity", "NOT quantity NOT BETWEEN 3 AND 90", (3, 90)),
        ("quantity", "quantity = 3", (3, 3)), ("price", "price < 3 AND price > 90", (-math.inf, 3)),  # of no row
        *((name, condition, (-math.inf, math.inf)) for name, condition in [  # which bound nothing
            ("price", "price <= quantity"), ("price", "price < 90 OR open"), ("price", "NOT (price > 90 AND open)"),
            ("price", "price <> 3"),
            ("price", "discount BETWEEN 3 AND 90"), ("price", "CASE WHEN open THEN price < 3 ELSE TRUE END"),
        ]),
    ]  # fmt: skip
    met = 0
    for text, said, ends in cases:
        term, condition = table.expression(text).term, table.expression(said).term
        reach = where_true(condition, term, ANY)
        assert (reach.low, reach.high) == ends, said
        for _ in range(300):
            row = {name: pick.choice(numbers) for name in ("price", "discount")} | {
                "open": pick.choice([None, True, False])
            }
            row["quantity"] = pick.choice([None, -(2**53), -3, -2, 0, 3, 39, 90, 2**53])
            value = evaluate(term, row)
            if evaluate(condition, row) is True and value is not None and not math.isnan(value):
                met += 1
                assert reach.low <= value <= reach.high, (said, row)
    assert met > 500


def test_a_clip_is_idle_only_where_conditions_keep_values_inside(shop):
    def kept(text, *conditions):
        rows = tuple(shop.table.expression(one).term for one in conditions)
        return any(
            one.operation == "clip"
            for one in without_idle_clips(shop.table.expression(text).term, shop.table, rows).walk()
        )

    assert not kept("clip(price, 0, 9)", "price >= 0", "price < 9")
    assert not kept("1 + clip(price, 0, 9) / 2", "price BETWEEN 1 AND 2")
    assert kept("clip(price, 0, 9)", "price < 9")
    assert kept("clip(price, 0, 9)", "price BETWEEN 0 AND 9.01")
    assert kept("clip(price, 0, 9)", "discount BETWEEN 0 AND 9")


def test_bounds_of_a_condition_narrow_declared_ones(shop):
    dear, cheap = shop.where("price >= 150"), shop.where("price < 50 AND quantity = 1").agg(it=nt.mean("price"))
    assert dear.agg(it=nt.sum("price")).aggregates["it"].value(shop.table).bounds == nt.bounds(150, 200, "0.01")
    assert cheap.aggregates["it"].value(shop.table).bounds == nt.bounds(0, 50, "0.01")
    assert shop.agg(it=nt.mean("price")).aggregates["it"] == cheap.aggregates["it"]  # the question differs in its rows
    given = shop.where("price < 50").agg(it=nt.mean("price", 0, 10)).aggregates["it"]
    assert given.value(shop.table).bounds == nt.bounds(0, 10)
    kids = shop.where("who BETWEEN 0 AND 17").agg(r=nt.correlation("who", "price")).aggregates["r"]
    assert [one.bounds.high for one in kids.sums(shop.table).columns] == [200, 17]
    filled = (
        shop.where("price >= 150").agg(it=nt.mean("price", fill=0)).aggregates["it"]
    )  # as AVG(COALESCE(price, 0)) is
    assert filled.value(shop.table).bounds == nt.bounds(0, 200, "0.01")
    both = shop.where("quantity IN (2, 5) AND who BETWEEN 0 AND 3").agg(it=nt.sum("price * quantity * who"))
    assert both.aggregates["it"].value(shop.table).bounds == nt.bounds(0, 3_000, "0.01")
    still = shop.where("open = TRUE AND town = 'Ulm' AND day > DATE '2024-01-01'").agg(it=nt.sum("quantity"))
    assert still.aggregates["it"].value(shop.table).bounds == nt.bounds(-3, 10, 1)
    far = shop.where("who BETWEEN 1.7e18 AND 1.8e18 AND price BETWEEN 0 AND 1e-300")  # no grid is so fine
    assert far.agg(it=nt.sum("quantity")).aggregates["it"].value(shop.table).bounds == nt.bounds(-3, 10, 1)
    for text, ends in [("who * 2 + 1", (1, 101)), ("least(who, 9) * who", (0, 450)), ("coalesce(who, -4)", (-4, 50))]:
        inside = shop.where("who BETWEEN 0 AND 50").agg(it=nt.sum(text)).aggregates["it"].value(shop.table).bounds
        assert (inside.low, inside.high) == ends, text
    for text in ("CAST(who * 1.0 AS INTEGER)", "who * 1.0", "date_diff('minute', seen, seen) * 1.0", "sqrt(who)"):
        with pytest.raises(QueryError, match="needs bounds"):  # no guard of a cast or function is a bound
            shop.where("who > 0").agg(it=nt.mean(text))
    with pytest.raises(QueryError, match="bound it in WHERE"):
        shop.where("who * 2 <= 17").agg(it=nt.mean("who * 2"))


def test_a_plan_finds_the_bounds_of_a_value_once_for_each_table(shop, monkeypatch):
    """Reading an expression again for each of a hundred trials of limits took nine tenths of a plan."""
    found = Mock(wraps=value_of)
    monkeypatch.setattr("neartwin.statistics.columns.value_of", found)
    asked = shop.where("price > 5").agg(a=nt.mean("price * quantity"), s=nt.sum("price * quantity"))
    plan(asked, spend=nt.pure(1))
    assert found.call_count == 4  # each as it is asked and as SQL writes it
    wider = replace(shop.table, columns={**shop.table.columns, "quantity": nt.bounds(0, 20, 1)})
    sent = pickle.loads(pickle.dumps(asked.aggregates["a"]))  # noqa: S301 - as to a worker, without table
    assert sent == asked.aggregates["a"]
    assert not sent.known
    ends = [asked.aggregates["a"].value(table).bounds for table in (shop.table, wider, shop.table)]
    assert ends == [nt.bounds(-600, 2_000, "0.01"), nt.bounds(0, 4_000, "0.01"), nt.bounds(-600, 2_000, "0.01")]


def test_inputs_are_clipped_to_own_bounds_and_given_ones_clip_the_result(shop):
    rows = [{"who": 1, "price": 1000.0, "discount": 0.9}]
    for statistic, steps in [
        (nt.sum("price * (1 - discount)"), 200 * 0.5 * 10_000),  # 1000 is clipped to 200, 0.9 to 0.5
        (nt.sum("price * (1 - discount)", 0, 500, "0.01"), 100 * 100),  # as it is: 1000 * 0.1
        (nt.sum("price * (1 - discount)", step="0.5"), 100 * 2),
    ]:
        made = plan(shop.agg(it=statistic), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
        (values,) = MemoryEngine(rows).aggregate(made.stage, salt=1).values.values()
        assert list(values) == [int(steps) * parts for parts in made.stage.parts.values()]


@pytest.mark.parametrize("text", ["rate", "clicks / shown", "clip(clicks / shown, 0, 5000)", "sqrt(rate)"])
def test_values_far_below_their_bounds_are_not_rounded_away(text):
    number = np.arange(20_000)
    columns = {"who": number, "rate": (number % 7) / 10_000, "clicks": number % 3, "shown": 1000 + number % 11}
    ends = {"rate": nt.bounds(0, 1), "clicks": nt.bounds(0, 10_000, 1), "shown": nt.bounds(1, 100_000, 1)}
    rows = nt.table(pa.table(columns), unit="who", name="shows", columns=ends)

    def held(step):
        asked = rows.agg(total=nt.sum(text, step=step), typical=nt.mean(text, step=step))
        made = plan(asked, spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1))
        answer = made.answer(engine_for(rows.table.source), SYSTEM)
        truth = eval(text, {"clip": lambda x, _, most: np.minimum(x, most), "sqrt": np.sqrt, **columns})  # noqa: S307
        found = [(float(one.values[0]), error) for one, error in zip(answer.columns, (2, 1e-4), strict=True)]
        return [abs(value - it) <= error for (value, error), it in zip(found, (truth.sum(), truth.mean()), strict=True)]

    assert held(None) == [True, True]
    assert held(1) == [False, False]  # near miss: each is nearer to 0 than to the next step


def test_the_step_that_nobody_chose_keeps_values_exact_in_doubles():
    ends = [(0, 1), (0, 200), (0, 10**6), (0, Fraction(1, 10**12)), (10**9, 10**9 + 1), (-(10**13) - 5, -(10**13))]
    assert [nt.bounds(*each).step * 10**7 for each in ends] == [1, 1000, 10**5, Fraction(1, 10**12), 10, 10**5]


def test_noise_is_scaled_to_the_propagated_bounds(shop):
    made = plan(shop.agg(it=nt.sum("price * (1 - discount)")), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=3))
    (measure,) = made.measures.values()
    assert measure.sensitivity.l1 == 3 * 200 * 10_000 * measure.parts
    assert "price * (1 - discount)" in str(nt.sum("price * (1 - discount)"))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("price * who", QueryError, "declare 'who' in"),
        ("price * (1 - who)", QueryError, r"clip\(price \* \(1 - who\), 0, 100\)"),
        ("town", SchemaError, "must be a number"),
        ("CASE WHEN open THEN town END", SchemaError, "must be a number"),
        ("nothing", SchemaError, "not in the table"),
        ("price + nothing", QueryError, "not in the table"),
        ("price +", QueryError, "is not SQL"),
        ("1 + 1", QueryError, "is constant"),
        ("price / quantity", QueryError, "needs bounds"),  # quantities may be near 0
        ("price / 0", QueryError, "other than 0"),
        ("price / 1e999", QueryError, "other than 0"),
        ("price % 2", QueryError, "whole numbers"),
        ("price // 2", QueryError, "is not allowed in a row"),
        ("ln(price)", QueryError, "needs bounds"),  # prices may be near 0
        ("sqrt(town)", QueryError, r"write sqrt\(x\): square root"),
        ("cbrt(price)", QueryError, "is not allowed in a row"),
        ("power(price, 1.5)", QueryError, "exponent must be"),
        ("power(price, quantity)", QueryError, "exponent must be"),
        ("round(price, quantity)", QueryError, "number of digits"),
        ('"cast number integer"(price)', QueryError, "is not allowed in a row"),
        ("length(substr(town, -3))", QueryError, "write substr"),
        ("length(replace(town, '', 'x'))", QueryError, "write replace"),
        (f"length(replace(town, 'x', '{'y' * 101}'))", QueryError, "write replace"),
        ("length(left(town, who))", QueryError, "write left"),
        ("length(town || price)", QueryError, "no cast from number to text"),
        ("length(strftime(day, '%W'))", QueryError, "formats are made of"),
        ("year(day + INTERVAL (town) DAY)", QueryError, "arithmetic takes numbers"),
        ("year(day + INTERVAL 5 MICROSECONDS)", QueryError, "a column of whole numbers"),
        ("sign(" * 12 + "price" + ")" * 12, QueryError, "too large"),
        ("parts[1]", QueryError, "is not allowed in a row"),
        ("sum(price)", QueryError, "is not allowed in a row"),
        ("random()", QueryError, "is not allowed in a row"),
        ("shop.price * 2", QueryError, "without a table name"),
        ("CAST(town AS DOUBLE)", QueryError, "needs bounds"),
        ("CAST(price AS TEXT)", QueryError, "no cast from number to text"),
        ("CAST(price AS TIME)", QueryError, "a cast goes to"),
        ("clip(price, 5, 1)", QueryError, "lower first"),
        ("clip(price, 0, quantity)", QueryError, "lower first"),
        ("clip(price, 0, 1e999)", QueryError, "lower first"),
        ("width_bucket(price, 5, 5, 2)", QueryError, "below high"),
        ("width_bucket(price, 0, 5, 1000000)", QueryError, "buckets"),
        ("extract(epoch FROM day)", QueryError, "parts are"),
        ("hour(day)", QueryError, "of a timestamp"),
        ("day - seen", QueryError, "arithmetic takes numbers"),
        ("date_diff('decade', day, day)", QueryError, "date_diff"),
        ("date_diff('hour', day, town)", QueryError, r"write CAST\(town AS DATE\), or declare"),
        ("date_trunc('decade', day) - day", QueryError, "periods are 'year'"),
        ("year(town)", QueryError, r"write CAST\(town AS DATE\), or declare"),
        ("date_trunc('month', town) < day", QueryError, r"write CAST\(town AS DATE\), or declare"),
        ("strftime(town, '%Y') = '2024'", QueryError, r"write CAST\(town AS DATE\), or declare"),
        ("coalesce(price, town)", QueryError, "number and text"),
        ("CASE WHEN price THEN 1 END", QueryError, "take conditions"),
        ("CASE WHEN open THEN NULL END", QueryError, "nothing but NULL"),
        ("(NULL)", QueryError, "NULL alone"),
        ("price IN (NULL)", QueryError, "IN a list without it"),
        ("greatest(town, 'x')", QueryError, "numbers or dates"),
        ("parts", SchemaError, "other"),
        ("(SELECT 1)", QueryError, "is not allowed in a row"),
        ("price; DROP TABLE shop", QueryError, "not SQL|is not allowed in a row"),
        ("price -- ' OR 1=1", SchemaError, "never"),
        ("+".join(["price"] * 100), QueryError, "too large"),
        ("(" * 5000 + "price" + ")" * 5000, QueryError, "nested too deep|too large"),
        ("clip(" * 12 + "price" + ", 0, 1)" * 12, QueryError, "too large"),
        ("price" + " " * 200_000, QueryError, "too long"),
        ("$1", QueryError, "is not allowed in a row"),
        ("'a' || town", SchemaError, "must be a number"),
    ],
)
def test_an_expression_that_could_fail_is_refused_before_anything_is_spent(shop, text, error, says):
    if says == "never":  # a comment is no part of an expression, and is not passed on
        assert nt.sum(text).value(shop.table).expression.text == "price"
        return
    with pytest.raises(error, match=says):
        shop.agg(it=nt.sum(text))


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("town LIKE price", "literal text"),
        ("town LIKE 'a!' ESCAPE '!'", "another follows"),
        ("town LIKE 'a!%' ESCAPE '!!'", "takes one letter"),
        ("town SIMILAR TO 'a!%' ESCAPE '!'", "is not allowed in a row"),
        ("town ILIKE price", "literal text"),
        ("regexp_matches(town, '(a+)+')", "write regexp_matches"),
        ("regexp_matches(town, '(a|b)*c')", "write regexp_matches"),
        ("regexp_matches(town, 'a*b*c*d*')", "write regexp_matches"),
        ("regexp_matches(town, '(a)\\1')", "write regexp_matches"),
        ("regexp_matches(town, '(?=a)')", "write regexp_matches"),
        ("regexp_matches(town, 'a++')", "write regexp_matches"),
        ("regexp_matches(town, '[z-a]')", "write regexp_matches"),
        ("regexp_matches(town, '[a&&b]')", "write regexp_matches"),
        ("regexp_matches(town, 'a', 'i')", "write regexp_matches"),
        ("regexp_replace(town, 'a', 'b') = 'b'", "write regexp_replace"),
        ("regexp_replace(town, '^a|b$', 'c') = 'b'", "write regexp_replace"),
        ("regexp_replace(town, '^(a)$', '\\2') = 'b'", "fewer groups"),
        ("price LIKE '1%'", "takes text"),
        ("town SIMILAR TO 'a'", "is not allowed in a row"),
        ("price BETWEEN SYMMETRIC 3 AND 1", "BETWEEN least AND largest"),
        ("town IS TRUE", "take conditions"),
        ("day = '1 January 2024'", "DATE '"),
        ("day > DATE '2024-02-30'", "no date"),
        ("seen > TIMESTAMP '2024-01-01 00:00:00+02'", "no zone"),
        ("day > '2024-02-30'", "date and text; write dates as DATE"),
        ("day > '2024-02-03 12:00:00'", "date and text; write dates as DATE"),
        ("seen > '2024-01-01 00:00:00+02'", "text and timestamp; write dates as DATE"),
        ("day IN ('2024-01-01', 'soon')", "date and text; write dates as DATE"),
        ("town > DATE '2024-01-01'", "date and text; write CAST.town AS DATE."),
        ("quantity = '1'", "integer and text; write values of one type"),
        ("COALESCE(town, NULL, 5) = 5", "integer and text; write CAST.town AS DOUBLE."),
        ("price = NULL", "IS NULL"),
        ("price IN (1, NULL)", "write price IN a list without it"),
        ("price <> NULL", "write price IS NOT NULL"),
        ("town = 'x\0y'", "no column can hold"),
        ("price IN (quantity, 3)", "list of literals"),
    ],
)
def test_a_condition_that_engines_read_differently_is_refused(shop, condition, says):
    with pytest.raises(QueryError, match=says):
        shop.where(condition)


def test_comments_and_quotes_are_never_passed_on(shop):
    asked = shop.where("price > 1 /* ' */ AND town = 'a''; DROP TABLE shop; --' -- and more")
    assert asked.conditions[0].text == "price > 1 AND town = 'a''; DROP TABLE shop; --'"


def keys(query):
    return query.agg(n=nt.count()).groups.keys


def test_groups_whose_values_are_public_by_themselves_need_no_keys(shop):
    assert keys(shop.group_by(nt.date_part("month", "day"))) == (*((month,) for month in range(1, 13)), (None,))
    assert keys(shop.group_by(nt.bins("price", [0, 10, "99.5"]))) == (("[0, 10)",), ("[10, 99.5]",), (None,))
    assert keys(shop.group_by("price > 5")) == ((False,), (True,), (None,))
    assert keys(shop.group_by("CASE WHEN price > 5 THEN 'b' WHEN open THEN 'a' END")) == (("b",), ("a",), (None,))
    assert len(keys(shop.group_by(nt.date_part("isodow", "seen"), nt.date_part("hour", "seen")))) == 8 * 25
    both = shop.group_by("town", nt.date_part("quarter", "day"), keys={"town": ["Ulm"]})
    assert keys(both) == (*(("Ulm", quarter) for quarter in range(1, 5)), ("Ulm", None))
    named = keys(shop.group_by(nt.date_part("quarter", "day"), keys=[1, None]))
    assert named == ((1,), (None,))
    assert keys(shop.group_by("dayofweek(day)")) == (*((day,) for day in range(7)), (None,))
    assert keys(shop.group_by("open")) == ((False,), (True,), (None,))
    assert keys(shop.group_by("coalesce(open, FALSE)")) == ((False,), (True,))
    assert keys(shop.where("open IS NOT NULL").group_by("open")) == ((False,), (True,))
    assert keys(shop.where("open").group_by("open")) == ((False,), (True,))
    for open_ended in (nt.date_part("year", "day"), nt.date_part("month start", "day"), "town"):
        assert keys(shop.group_by(open_ended)) is None  # the near miss: these are discovered


GROUPED = [  # an expression with finitely many values, and what leaves its NULL out
    ("month(day)", "day > DATE '2024-01-15'"),
    ("dayofweek(day) + 1 > 3", "day IS NOT NULL AND price > 0"),
    ("CAST(extract(dow FROM day) AS INTEGER) = 2", ""),
    ("quantity % 3", "quantity <> 1"),
    ("width_bucket(quantity, 0, 4, 3)", ""),
    ("price > quantity", "price < quantity + 1"),
    ("open = TRUE", "NOT open"),
    ("open", "open = TRUE"),
    ("coalesce(open, price > 3)", ""),
    ("CASE WHEN price > 1 THEN 'a' WHEN open THEN 'b' END", "CASE WHEN price > 1 THEN 'a' WHEN open THEN 'b' END <> 'c'"),
    ("CASE WHEN day IS NULL THEN 'none' WHEN open THEN 'b' ELSE 'c' END", "TRUE"),
    ("coalesce(month(day), 0)", "TRUE"),
    ("nullif(quantity > 3, FALSE)", "nullif(quantity > 3, FALSE)"),
    ("TRY_CAST(town AS INTEGER) > 3", ""),
    ("price / quantity > 1", ""),
]  # fmt: skip
CONDITIONS = [
    "least(price, quantity) > 0",
    "coalesce(quantity, 3) > 1",
    "open IS NOT FALSE",
    "NOT quantity IN (1, 2)",
    "NOT (day IS NULL OR who > 7)",
    "quantity <> 1 OR quantity IN (1, 2)",
    "quantity NOT BETWEEN 3 AND who",
    "open OR NOT open",
    "day IS NOT NULL AND (price > 0 OR quantity > 1)",
    "TRUE",
]


@pytest.mark.parametrize(("text", "filled"), GROUPED)
def test_null_is_a_possible_value_where_some_row_has_it(shop, text, filled):
    """The oracle evaluates rows of every mix of NULL; each condition that excludes NULL stands beside some that do not."""
    grouped = shop.with_column("g", text)
    values = {
        "who": [1, 9], "day": [None, date(2024, 1, 7), date(2024, 5, 1)], "price": [None, 0.5, 2.0, math.nan],
        "quantity": [None, 0, 1, 4], "open": [None, False, True], "town": [None, "4", "Ulm"],
    }  # fmt: skip
    rows = [dict(zip(values, row, strict=True)) for row in itertools.product(*values.values())]
    for condition in [*CONDITIONS, filled] if filled else CONDITIONS:
        asked = grouped.where(condition)
        met = [row for row in rows if all(evaluate(one.term, row) for one in asked.conditions)]
        found = {evaluate(asked.table.computed["g"].term, row) for row in met}
        possible = values_in(asked.table, "g", asked.conditions)
        assert found <= set(possible), condition
        assert met
        for term in filled_by(asked.conditions[0].term):
            assert all(evaluate(term, row) is not None for row in met), (condition, term)
    if filled:
        assert None not in possible
        assert keys(asked.group_by("g")) == tuple((value,) for value in possible)


def test_text_compared_with_a_date_is_read_as_a_date(shop):
    for said, plain in [
        ("day > '2024-02-03'", "day > DATE '2024-02-03'"),
        ("day IN ('2024-02-03', DATE '2024-02-04')", "day IN (DATE '2024-02-03', DATE '2024-02-04')"),
        ("'2024-02-03 12:30:00' <= seen", "TIMESTAMP '2024-02-03 12:30:00' <= seen"),
        (
            "seen BETWEEN '2024-02-03' AND DATE '2024-02-04'",
            "seen BETWEEN TIMESTAMP '2024-02-03' AND TIMESTAMP '2024-02-04'",
        ),
    ]:
        assert shop.table.expression(said).term == shop.table.expression(plain).term
    assert (
        shop.table.expression("town = '2024-02-03'").term.parts[1].value == "2024-02-03"
    )  # the near miss stays a text


def test_bins_hold_their_edges_once(shop):
    edges = [date(2024, 1, 1), date(2024, 2, 1), date(2024, 3, 1)]
    for grouping, given, expected in [
        (nt.bins("quantity", [0, 5, 10]), {"quantity": [-1, 0, 4, 5, 10, 11, None]}, [2, 2, 3]),
        (nt.bins("price", [0, "0.3", 1]), {"price": [-1e-9, 0.0, 0.3, 0.29, 1.0, math.nan, math.inf]}, [2, 2, 3]),
        (nt.bins("day", edges), {"day": [date(2023, 12, 31), *edges, date(2024, 3, 2), None]}, [1, 2, 3]),
        (nt.bins("seen", [datetime(2024, 1, 1), datetime(2024, 1, 2)]), {"seen": [datetime(2024, 1, 2)] * 2}, [2, 0]),  # noqa: DTZ001
        (nt.bins("price * quantity", [0, 8], name="b"), {"price": [2.0, 3.0], "quantity": [4, 4]}, [1, 1]),
    ]:
        size = len(next(iter(given.values())))
        rows = [{"who": i, **{name: values[i] for name, values in given.items()}} for i in range(size)]
        made = plan(
            shop.group_by(grouping).agg(n=nt.count()),
            spend=nt.pure(1),
            limits=nt.limits(max_rows_per_group=1, max_groups=1),
        )
        (counts,) = MemoryEngine(rows).aggregate(made.stage, salt=1).values.values()
        assert list(counts) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: nt.bins("price", [1]),
        lambda: nt.bins("price", [1, 1]),
        lambda: nt.bins("price", [2, 1]),
        lambda: nt.bins("price", [1, date(2024, 1, 1)]),
        lambda: nt.bins("price", [0, float("nan")]),
        lambda: nt.bins("price", "01"),
        lambda: nt.bins("price", range(1000)),
        lambda: nt.date_part("weekday", "day"),
        lambda: nt.date_part("month end", "day"),
    ],
)
def test_bins_and_parts_that_mean_nothing_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_computed_columns_can_be_named_everywhere(shop):
    rows = shop.with_column("net", "price * (1 - discount)").with_column("dear", "net > 100")
    query = rows.where("net >= 1").group_by("dear").agg(total=nt.sum("net"), twice=nt.mean("net * 2"))
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=1))
    data = [{"who": 1, "price": 150.0, "discount": 0.1, "town": "Ulm"}, {"who": 2, "price": 0.5, "discount": 0.0}]
    found = MemoryEngine(data).aggregate(made.stage, salt=1)
    assert found.keys == ((False,), (True,))
    (name,) = (name for name in found.values if name.startswith("total:net["))
    assert list(found.values[name]) == [0, 1_350_000 * made.stage.parts[name]]
    other = shop.with_column("net", "price * 2").with_column("dear", "net > 100")
    same = other.where("net >= 1").group_by("dear").agg(total=nt.sum("net"), twice=nt.mean("net * 2"))
    assert plan(same, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=1)).digest != made.digest
    for name in ("price", ""):
        with pytest.raises(SchemaError, match="column already"):
            shop.with_column(name, "quantity")
    with pytest.raises(SchemaError, match="not in the table"):
        shop.agg(it=nt.sum("net"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows: rows.agg(total=nt.sum("price * (1 - discount)")),
        lambda rows: rows.group_by(nt.date_part("month start", "day"), keys=[date(2024, 1, 1)]).agg(n=nt.count()),
        lambda rows: rows.with_column("net", "price - discount").where("net > 3").group_by("net > 5").agg(n=nt.count()),
        lambda rows: rows.with_column("a", "price * 2").with_column("b", "a + 1").agg(n=nt.mean("b", step="0.5")),
    ],
)
def test_a_question_with_expressions_has_a_written_form_that_is_read_back(shop, ask):
    question = ask(shop)
    form = json.loads(json.dumps(form_of(question), sort_keys=True))
    assert question_of(form, shop) == question


def test_whole_doubles_and_times_can_be_grouped_by(shop):
    for text, kind in [
        ("floor(price / 10) * 10", "integer"),
        ("who + 3", "integer"),
        ("date_trunc('hour', seen)", "text"),
        ("seen + INTERVAL 5 MINUTES", "text"),
        ("upper(left(town, 1))", "text"),
    ]:
        query = nt.from_sql(f"SELECT {text} AS g, COUNT(*) AS n FROM shop GROUP BY g", shop)
        assert query.table.schema["g"] == kind
        assert question_of(json.loads(json.dumps(form_of(query))), shop) == query
        (name,) = shop.group_by(text).columns
        assert shop.group_by(text).rows.table.schema[name] == kind
    for text in ("price / 4", "round(price, 1)"):  # the near miss: no whole numbers
        with pytest.raises(SchemaError, match="is number; group by"):
            shop.group_by(text)


def test_every_function_of_the_table_is_read_and_has_its_line_in_the_docs():
    page = (Path(__file__).parents[2] / "docs/how-to/compute-columns.md").read_text(encoding="utf-8")
    kinds = {"x": "number", "y": "number", "w": "integer", "t": "text", "d": "date", "s": "timestamp", "b": "boolean"}
    schema = {name: ColumnType(kind) for name, kind in kinds.items()}
    for function in FUNCTIONS.values():
        for text in filter(None, re.split(r"(?<=[)y]), ", function.spelling)):
            plain = text.replace("x", "w").replace("y", "w") if "mod" in text or "%" in text else text
            assert RowExpression.parse(plain, schema).type is not ColumnType.OTHER, text
        assert not function.spelling or f"| `{function.spelling}` | {function.meaning} |" in page
    with pytest.raises(QueryError):  # the near miss: a part of others
        RowExpression.parse('"months later"(s)', schema)


def test_a_length_counts_to_65536_in_sums_and_says_so(tmp_path):
    texts = pa.table({"who": [1, 2, 3], "t": ["ab", "x" * 70_000, None]})
    rows = nt.table(texts, unit="who", name="texts")
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(10**8))
        query = nt.from_sql("SELECT SUM(LENGTH(t)) AS s FROM texts", rows)
        proposal = account.plan(query, spend=nt.pure(10**7), limits=nt.limits(max_rows_per_group=1))
        assert "[0, 65536]" in str(proposal.explain())
        (total,) = account.release(proposal)["s"].values
    assert abs(total - 65_538) < 1
    with pytest.raises(QueryError, match="needs bounds"):
        nt.from_sql("SELECT SUM(LENGTH(t) * 2) AS s FROM texts", rows)
