"""Planning and previewing touch the schema only: a table whose every row raises an error can be planned."""

import math
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import (
    BudgetError,
    ExecutionError,
    LedgerError,
    ParameterError,
    PrivacyError,
    QueryError,
    SchemaError,
)
from neartwin.planning.planner import plan


class RefusingEngine:
    """Asked is caught."""

    def aggregate(self, stage, *, salt):
        raise AssertionError("rows were asked for")


@pytest.fixture
def unreadable():
    connection = duckdb.connect()
    connection.execute(
        "CREATE VIEW visits AS SELECT who, town, error('a row was read')::DOUBLE AS paid FROM "
        "(SELECT unnest(range(10)) AS who, 'Ulm' AS town)"
    )
    return nt.table(connection, table="visits", unit="who")


@pytest.fixture
def account(tmp_path, unreadable):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        yield book.open(unreadable, nt.approx(1, "1e-6"))


def question(rows):
    return (
        rows.where("paid > 0")
        .group_by("town")
        .agg(n=nt.count(), total=nt.sum("paid", 0, 10, "0.01"), typical=nt.mean("paid", 0, 10, "0.01"))
    )


def test_plan_explain_and_preview_read_no_row(account, unreadable):
    proposal = account.plan(
        question(unreadable), spend=nt.approx("0.5", "1e-7"), limits=nt.limits(max_rows_per_group=2, max_groups=1)
    )
    preview = proposal.preview()
    assert "sensitivity" in str(proposal.explain())
    assert preview.after == {"epsilon": Fraction(1, 2), "delta": Fraction(9, 10**7)}
    assert account.remaining == {"epsilon": 1, "delta": Fraction(1, 10**6)}
    with pytest.raises(ExecutionError):  # the near miss: a release does read, and this table then fails
        account.release(proposal)
    assert account.remaining == preview.after  # and the budget stays spent


def test_at_a_prompt_each_step_is_one_line(account, unreadable):
    proposal = account.plan(
        question(unreadable), spend=nt.approx("0.5", "1e-7"), limits=nt.limits(max_rows_per_group=2, max_groups=1)
    )
    asked = "n = count(), total = sum(paid), typical = mean(paid)"
    assert [
        repr(step) for step in (account, unreadable, unreadable.where("paid > 0"), question(unreadable), proposal)
    ] == [
        "<Account of 'visits', unit who: .remaining has the budget left>",
        "<Rows of 'visits', unit who: who integer, town text, paid number>",
        "<Rows of 'visits', unit who: who integer, town text, paid number; where paid > 0>",
        f"<Query of 'visits' by town: {asked}>",
        f"<Proposal to 'visits' for {proposal.price}: preview() shows its errors, explain() its steps>",
    ]


def test_a_refused_budget_asks_no_engine(account, unreadable):
    proposal = account.plan(
        question(unreadable), spend=nt.approx(2, "1e-7"), limits=nt.limits(max_rows_per_group=2, max_groups=1)
    )
    assert not proposal.preview().affordable
    with pytest.raises(BudgetError) as refusal:
        account.release(proposal, engine=RefusingEngine())
    assert (refusal.value.requested, refusal.value.remaining) == (2, 1)
    assert "difference 1" in str(refusal.value)
    assert len(refusal.value.remedies) == 2
    assert account.spent == {"epsilon": 0, "delta": 0}


def test_each_error_bar_is_known_before_and_is_the_one_released(account, unreadable):
    proposal = account.plan(
        question(unreadable), spend=nt.approx("0.5", "1e-7"), limits=nt.limits(max_rows_per_group=2, max_groups=1)
    )
    counts, total, typical = proposal.preview().errors
    measures = proposal.plan.measures
    # discrete Laplace, by hand, in rows
    (column,), (below, above, empty) = proposal.plan.stage.grid.values(), measures.values()
    assert (column.low, column.high) == (0, 1000)
    assert below.mechanism == above.mechanism == empty.mechanism
    assert (below.paid, above.paid, empty.paid) == (False, True, True)
    scale = float(below.mechanism.scale / below.parts)
    # rows are the sum of all three: P(|X + Y + Z| > t) = (1 + 5 t / 8 b + t^2 / 8 b^2) exp(-t / b)
    t = float(counts.half_width) / scale
    assert (1 + 5 * t / 8 + t**2 / 8) * math.exp(-t) <= 0.05 < (1 + 5 * t / 8 + t**2 / 8) * math.exp(-t * 0.99)
    # the sum is 10 times the rows at the upper end: P(|X| > t) = exp(-t / b)
    assert (
        math.exp(-float(total.half_width) / 10 / scale) <= 0.05 < math.exp(-float(total.half_width) / 10 / scale * 0.99)
    )
    assert typical.half_width is None
    widths = [width for _, width in typical.by_size]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 10  # ten values tell nothing: the whole range
    assert widths[-1] < 0.05


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda t: t.agg(n=nt.sum("paid")), QueryError, "needs bounds"),
        (lambda t: t.agg(n=nt.sum("town", 0, 1)), SchemaError, "must be a number"),
        (lambda t: t.agg(n=nt.sum("nothing", 0, 1)), SchemaError, "not in the table"),
        (lambda t: t.agg(n=nt.sum("paid", 5, 1)), ParameterError, "must be above low"),
        (lambda t: t.agg(n=nt.sum("paid", 0, 1, "0.3")), ParameterError, "multiple of step"),
        (lambda t: t.agg(n=nt.sum("paid", 0, 1, fill=7)), QueryError, "fill"),
        (lambda t: t.agg(n=nt.sum("paid", 0, float("nan"))), ParameterError, "finite number"),
        (lambda t: t.agg(), QueryError, "at least one statistic"),
        (lambda t: t.agg(n=5), QueryError, "must be a statistic"),
        (lambda t: t.group_by("paid").agg(n=nt.count()), SchemaError, "group by integers"),
        (lambda t: t.group_by("town", "town").agg(n=nt.count()), QueryError, "each once"),
        (lambda t: t.group_by("town").agg(town=nt.count()), QueryError, "another name"),
        (lambda t: t.group_by("town", keys=["Ulm", "Ulm"]), QueryError, "given twice"),
        (lambda t: t.group_by("town", keys=[1]), QueryError, "not of the type of 'town', text"),
        (lambda t: t.group_by("who", keys=[True]), QueryError, "not of the type of 'who', integer"),
        (lambda t: t.group_by("town", keys="Ulm.txt" * 0 or 5), QueryError, "must be a list"),
        (lambda t: t.group_by("town", keys=[]), QueryError, "at least one key"),
        (lambda t: t.where("paid"), QueryError, "no condition"),
        (lambda t: t.where("paid > 'x'"), QueryError, "compares"),
        (lambda t: t.where("paid/0 > 2"), QueryError, "is not allowed in a row"),
        (lambda t: t.where("paid > (SELECT 1)"), QueryError, "not allowed"),
        (lambda t: t.where("nothing > 1"), QueryError, "not in the table"),
        (lambda t: t.where("who = 99999999999999999999"), QueryError, "64 bits"),
        (lambda t: t.where("paid >"), QueryError, "is not SQL"),
    ],
)
def test_a_wrong_question_is_refused_with_what_to_write_instead(unreadable, ask, error, says):
    with pytest.raises(error, match=says.replace("(", r"\(").replace(")", r"\)")):
        ask(unreadable)


def test_bounds_on_units_are_asked_for_and_never_guessed(account, unreadable):
    query = unreadable.group_by("town", keys=["Ulm", "Bonn"]).agg(n=nt.count())
    with pytest.raises(QueryError, match="max_rows_per_group is missing"):
        account.plan(query, spend=nt.pure(1), limits=nt.limits(max_groups=1))
    with pytest.raises(QueryError, match="max_groups is missing"):
        account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    assert account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, max_groups=1)).price == nt.pure(
        1
    )


def test_unknown_groups_cannot_be_paid_with_epsilon_alone(account, unreadable, tmp_path):
    query = unreadable.group_by("town").agg(n=nt.count_distinct_units())
    with pytest.raises(PrivacyError, match="needs a delta"):
        account.plan(query, spend=nt.pure(1), limits=nt.limits(max_groups=1))
    with nt.open_ledger(tmp_path / "pure.db") as book, pytest.raises(PrivacyError, match="no delta"):
        book.open(unreadable, nt.pure(1)).plan(query, spend=nt.approx(1, "1e-9"), limits=nt.limits(max_groups=1))


def test_groups_of_one_unit_are_not_discovered_but_may_be_public():
    rows = nt.table(pa.table({"who": [1, 2], "at": ["a", "b"]}), unit="who", name="visits")
    given = {"spend": nt.approx(1, "1e-6"), "limits": nt.limits(max_rows_per_group=1, max_groups=1)}
    for columns in (["who"], ["at", "who"]):
        with pytest.raises(QueryError, match=r"a group of 'who' is one unit.* GROUP BY 1\) AS t GROUP BY n"):
            plan(rows.group_by(*columns).agg(n=nt.count()), **given)
    for asked in (rows.group_by("at"), rows.group_by("who", keys=[1, 2])):
        assert plan(asked.agg(n=nt.count()), **given).stage


def test_an_account_answers_for_its_own_people_only(account, unreadable):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE others (who BIGINT)")
    others = nt.table(connection, table="others", unit="who")
    with pytest.raises(LedgerError, match="this account is of"):
        account.plan(others.agg(n=nt.count_distinct_units()), spend=nt.pure(1))


def test_the_schema_of_a_csv_does_not_depend_on_what_its_rows_hold(tmp_path):
    told = []
    for rows in (b"ada,1\n", b"\xff\xfe,2\n" * 50):
        place = tmp_path / "people.csv"
        place.write_bytes(b'who,"paid ""in\neuro"""\n' + rows)
        people = nt.table(str(place), unit="who", types={"who": "text"}, refresh=True, accept_odd=True)
        told.append(list(people.table.schema))
    assert told == [["who", 'paid "in\neuro"']] * 2
