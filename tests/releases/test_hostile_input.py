"""Hostile input is refused with an error of ours before anything is spent, in Python, in SQL and from a terminal.

The rows raise an error when they are read, so whoever reads one is caught; the ledger must be as it was, record by record.
"""

from dataclasses import replace

import duckdb
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import ExecutionError, NeartwinError, QueryError
from neartwin.planning.limits import known_names
from neartwin.queries.sql.parse import series_from_sql
from neartwin.releases import run

LIMITS = {"limits": nt.limits(max_rows_per_group=2, max_groups=2)}


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile") / "visits.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute(
            "CREATE VIEW visits AS SELECT error('a row was read')::INTEGER AS who, 'Ulm' AS town, 1.0::DOUBLE AS paid, DATE "
            "'2026-01-01' AS day, TRUE AS open, 'x' AS \"a \"\" b; DROP TABLE visits\" FROM range(3)"
        )
    return place


@pytest.fixture(scope="module")
def account(unreadable, tmp_path_factory):
    rows = nt.table(unreadable, table="visits", unit="who", columns={"paid": nt.bounds(0, 100)})
    with nt.open_ledger(tmp_path_factory.mktemp("book") / "budget.db") as book:
        yield book.open(rows, nt.approx(1, "1e-6"))


def unspent(account):
    return account.history(), account.spent


def test_release_beyond_a_document_is_refused_before_any_spend(account, monkeypatch):
    monkeypatch.setattr(run, "MOST_NUMBERS", 6 * 10)  # a key, a value and the ends of its two bars
    few, many = (
        account.rows.group_by("town", keys=["Ulm", *(f"town {i}" for i in range(1, towns))]).agg(n=nt.count())
        for towns in (10, 11)
    )
    before, spend = unspent(account), nt.pure("0.001")
    for refused in (
        lambda: account.release(account.plan(many, spend=spend, **LIMITS)),
        lambda: account.release_series(account.plan_series([many], spend=spend, **LIMITS)),
    ):
        with pytest.raises(QueryError, match=r"at most 60 keys.* have 66: write it with release_to_parquet"):
            refused()
    assert unspent(account) == before
    proposal = account.plan(few, spend=spend, **LIMITS)
    with pytest.raises(ExecutionError):  # it is paid, and then the rows cannot be read
        account.release(proposal)
    assert unspent(account) != before


TOWNS = {"town": ["Ulm"]}
OF_PYTHON = {
    "an unknown column": lambda rows: rows.agg(a=nt.sum("money", 0, 1)),
    "an unknown column in a condition": lambda rows: rows.where("money > 1").agg(a=nt.count()),
    "an unknown group": lambda rows: rows.group_by("city").agg(a=nt.count()),
    "text summed": lambda rows: rows.agg(a=nt.sum("town", 0, 1)),
    "a date in a histogram": lambda rows: rows.agg(a=nt.histogram("day", [0, 1])),
    "text compared with a number": lambda rows: rows.where("town > 1").agg(a=nt.count()),
    "a condition that is none": lambda rows: rows.where("paid").agg(a=nt.count()),
    "bounds the wrong way round": lambda rows: rows.agg(a=nt.sum("paid", 10, 1)),
    "bounds that are no numbers": lambda rows: rows.agg(a=nt.mean("paid", "a", "b")),
    "infinite bounds": lambda rows: rows.agg(a=nt.mean("paid", 0, float("inf"))),
    "bounds of NaN": lambda rows: rows.agg(a=nt.mean("paid", float("nan"), 1)),
    "one bound": lambda rows: rows.agg(a=nt.sum("paid", 0)),
    "a step of 0": lambda rows: rows.agg(a=nt.sum("paid", 0, 1, 0)),
    "edges that fall": lambda rows: rows.agg(a=nt.histogram("paid", [2, 1])),
    "edges that are one number": lambda rows: rows.agg(a=nt.histogram("paid", 5)),
    "edges that are a text": lambda rows: rows.agg(a=nt.histogram("paid", "12")),
    "bins of one number": lambda rows: rows.group_by(nt.bins("paid", 5)).agg(a=nt.count()),
    "a rank above 1": lambda rows: rows.agg(a=nt.quantile("paid", 2)),
    "a key of another type": lambda rows: rows.group_by("town", keys=[1]).agg(a=nt.count()),
    "a key of half a letter": lambda rows: rows.group_by("town", keys=["\ud800"]).agg(a=nt.count()),
    "a key that is a list": lambda rows: rows.group_by("town", keys=[["Ulm"]]).agg(a=nt.count()),
    "no key": lambda rows: rows.group_by("town", keys=[]).agg(a=nt.count()),
    "keys twice": lambda rows: rows.group_by("town", keys=["Ulm", "Ulm"]).agg(a=nt.count()),
    "division": lambda rows: rows.where("1 / 0 > paid").agg(a=nt.count()),
    "a subquery": lambda rows: rows.where("paid > (SELECT 1)").agg(a=nt.count()),
    "a function that reads a file": lambda rows: rows.where("read_text('/etc/passwd') = 'x'").agg(a=nt.count()),
    "two statements in a condition": lambda rows: rows.where("open; DROP TABLE visits").agg(a=nt.count()),
    "a condition that ends another": lambda rows: rows.where("open) OR (TRUE").agg(a=nt.count()),
    "a comment": lambda rows: rows.where("open -- AND FALSE\n; SELECT 1").agg(a=nt.count()),
    "a computed name that is a statement": lambda rows: rows.with_column("x; DROP TABLE visits", "1 / paid"),
    "an expression to group by that fails": lambda rows: rows.group_by("ln(paid)").agg(a=nt.count()),
    "a correlation with itself": lambda rows: rows.agg(a=nt.correlation("paid", "paid")),
    "a regression on text": lambda rows: rows.agg(a=nt.regression("paid", ["town"])),
    "most common among none": lambda rows: rows.most_common("town", among=[]),
    "margins of an unknown column": lambda rows: (
        rows.group_by("town", keys=["Ulm"]).marginals(["city"]).agg(a=nt.count())
    ),
    "no statistic": lambda rows: rows.agg(),
}


@pytest.mark.parametrize("what", OF_PYTHON)
def test_a_hostile_question_is_refused_before_anything_is_spent(account, what):
    before = unspent(account)
    with pytest.raises(NeartwinError) as refused:
        account.release(account.plan(OF_PYTHON[what](account.rows), spend=nt.approx("1/2", "1e-7"), **LIMITS))
    assert "a row was read" not in str(refused.value)
    assert unspent(account) == before


@pytest.mark.parametrize(
    "more",
    [
        {"max_rows_per_group": 0}, {"max_rows_per_group": -1}, {"max_rows_per_group": 1.5}, {"max_groups": "many"},
        {"max_groups": 2**50 + 1}, {"max_groups": 2**70}, {"max_rows_per_group": 2**70},
        {"max_rows_per_group": None}, {"spend": nt.pure(1)}, {"spend": nt.gdp(1)}, {"spend": nt.approx(2, "1e-7")},
        {"importance": {"b": 1}}, {"importance": {"a": -1}}, {"max_discovered_groups": 0}, {"rows": 0},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_bounds_and_spends_are_refused_before_anything_is_spent(account, more):
    """What the account cannot pay is refused at the reservation, which writes a refusal and spends nothing."""
    _, spent = unspent(account)
    asked = account.rows.group_by("town").agg(a=nt.sum("paid"))
    changed = {name: value for name, value in more.items() if name in known_names()}
    told = {"spend": nt.approx("1/2", "1e-7")} | {name: value for name, value in more.items() if name not in changed}
    with pytest.raises(NeartwinError):
        account.release(account.plan(asked, limits=replace(LIMITS["limits"], **changed), **told))
    assert account.spent == spent


VALID = (
    "SELECT town, COUNT(*) AS n, AVG(paid) AS m FROM visits WHERE paid > 3 AND open GROUP BY town HAVING n > 5 ORDER BY m",
    "SELECT month(day) AS month, SUM(paid * 2) FROM visits WHERE town IN ('a', 'b') GROUP BY month",
    "SELECT QUANTILE_CONT(paid, 0.5), MIN(paid), CORR(paid, paid + 1) FROM visits",
    "SELECT town FROM visits GROUP BY town ORDER BY COUNT(DISTINCT who) DESC LIMIT 1",
    "SELECT town, COUNT(*) FROM visits GROUP BY GROUPING SETS ((town), ())",
    "SELECT REGRESSION(paid, width_bucket(paid, 0, 9, 3)) FROM visits; SELECT COUNT(*) FROM visits",
)
TOKENS = (
    "SELECT", "FROM", "visits", "WHERE", "GROUP BY", "town", "paid", "COUNT", "(", ")", "*", ",", ";", "'", '"', "--",
    "/*", "*/", "1e999", "-1", "0", "NULL", "TRUE", "CASE", "WHEN", "END", "OR", "NOT", "IN", "BETWEEN", "/", "||", "%",
    "::", "CAST", "AS", ".", "UNION", "DROP TABLE visits", "COPY visits TO 'x'", "ATTACH 'x'", "PRAGMA",
    "read_csv('x')", "OVER ()", "JOIN visits v", "\x00", "\ud800", "ä", "𝒳", "LIMIT", "OFFSET", "ORDER BY", "HAVING",
    "DISTINCT", "AVG", "SUM", "MEDIAN", "REGR_SLOPE", "HISTOGRAM", "[1, 2]", "{'a': 1}", "$1", "?", ":x", "@v", "CUBE",
    "ROLLUP", "INTERVAL '1' DAY", "DATE '2026-13-01'", "EXISTS", "EXPLAIN", "WITH a AS (SELECT 1)", "VALUES (1)",
    "month", "day", "who", "COLUMNS(*)", "x -> x + 1", "FILTER (WHERE open)",
)  # fmt: skip


def changed(text, moves):
    """The text with words left out, doubled, swapped or put in."""
    words = text.split(" ")
    for kind, place, other, token in moves:
        i, j = place % len(words), other % len(words)
        if kind == 0 and len(words) > 1:
            del words[i]
        elif kind == 1:
            words.insert(i, words[j])
        elif kind == 2:
            words[i], words[j] = words[j], words[i]
        elif kind == 3:
            words.insert(i, token)
        else:
            words[i] = token
    return " ".join(words)


MOVES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 60), st.sampled_from(TOKENS)),
    min_size=1,
    max_size=5,
)


def told(attempt):
    """What a refusal says, or that there was none; any other error passes through."""
    try:
        attempt()
    except NeartwinError as refused:
        return str(refused)
    return "planned"


def asked_or_refused(account, text):
    before = unspent(account)

    def attempt():
        for question in series_from_sql(text, account.rows, keys=None):
            account.plan(question, spend=nt.approx("1/2", "1e-7"), **LIMITS).preview()

    said = told(attempt)
    assert said
    assert "a row was read" not in said
    assert unspent(account) == before


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(text=st.sampled_from(VALID), moves=MOVES)
def test_any_sql_is_planned_or_refused_by_our_errors(account, text, moves):
    asked_or_refused(account, changed(text, moves))


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, database=None)
@given(text=st.sampled_from(VALID), moves=MOVES)
def test_any_sql_is_planned_or_refused_at_length(account, text, moves):
    asked_or_refused(account, changed(text, moves))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def taken_or_refused(account, question):
    before = unspent(account)
    assert told(lambda: account.plan(question(account.rows), spend=nt.approx("1/2", "1e-7"), **LIMITS))
    assert unspent(account) == before


COLUMNS = st.sampled_from(["town", "day", "open", "who", "paid", "nothing"])


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(keys=VALUES, column=COLUMNS)
def test_any_keys_are_taken_or_refused_by_our_errors(account, keys, column):
    taken_or_refused(account, lambda rows: rows.group_by(column, keys=keys).agg(a=nt.count()))


@pytest.mark.slow
@settings(max_examples=75, derandomize=True, deadline=None, database=None)
@given(low=VALUES, high=VALUES, step=VALUES)
def test_any_bounds_are_taken_or_refused_by_our_errors(account, low, high, step):
    taken_or_refused(account, lambda rows: rows.agg(a=nt.mean("paid", low, high, step)))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, database=None)
@given(keys=VALUES, column=COLUMNS, bounds=st.tuples(VALUES, VALUES, VALUES))
def test_any_keys_and_bounds_are_taken_or_refused_at_length(account, keys, column, bounds):
    taken_or_refused(account, lambda rows: rows.group_by(column, keys=keys).agg(a=nt.count()))
    taken_or_refused(account, lambda rows: rows.agg(a=nt.mean("paid", *bounds)))


@pytest.mark.parametrize(
    "change",
    [
        ("--bounds", "paid=9:1"), ("--bounds", "paid=a:b"), ("--bounds", "money=0:1"), ("--keys", "city=Ulm"),
        ("--unit", "nobody"), ("--types", "paid=money"),
        ("--spend", "epsilon=0"), ("--spend", "epsilon=1/0"), ("--max-rows-per-group", "many"), ("--neighbours", "any"),
        ("--table", "visits; DROP TABLE visits"), ("--budget", "epsilon=-1"), ("--public", "towns=/etc/passwd"),
    ],
    ids=lambda it: str(it)[:40],
)  # fmt: skip
def test_a_terminal_refuses_hostile_options_and_keeps_the_budget(unreadable, tmp_path, change):
    usual = {"--unit": "who", "--table": "visits", "--spend": "epsilon=1,delta=1e-7", "--max-rows-per-group": "2",
             "--max-groups": "2", "--bounds": "paid=0:100"}  # fmt: skip
    options = [part for pair in (usual | dict([change])).items() for part in pair]
    text = "SELECT town, SUM(paid) AS s FROM visits GROUP BY town"
    done = CliRunner().invoke(main, ["query", str(unreadable), text, "--ledger", str(tmp_path / "b.db"), *options])
    assert done.exit_code in {1, 2, 3}
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "a row was read" not in done.output
    if (tmp_path / "b.db").exists():
        with nt.open_ledger(tmp_path / "b.db") as book:
            assert all(not any(account.spent.values()) for account in book.books.accounts())


def test_a_comment_behind_the_last_semicolon_is_no_statement(account):
    text = "SELECT COUNT(*) FROM visits;"
    assert series_from_sql(text + " -- later", account.rows) == series_from_sql(text, account.rows)
    with pytest.raises(QueryError, match="at least one SELECT"):
        series_from_sql("; -- later", account.rows)
