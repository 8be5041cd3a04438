"""The terminal says what the Python face says; data on stdout, talk on stderr, one exit code for one kind of end.

Commands run in this process, for an interpreter takes seconds to start; two run in one of their own.
"""

import contextlib
import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from neartwin.cli import main


@pytest.fixture
def purchases(tmp_path):
    size = 4000
    table = pa.table(
        {"customer": [i % 900 for i in range(size)], "cds": [1 + i % 5 for i in range(size)], "amount": [9.5] * size}
    )
    pq.write_table(table, tmp_path / "purchases.parquet")
    return tmp_path


def neartwin(*words, where):
    with contextlib.chdir(where):
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def program(*words, where):
    """`python -m neartwin`, as a shell runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "neartwin", *words], capture_output=True, text=True, cwd=where, check=False
    )
    return done.returncode, done.stdout, done.stderr


ASK = (
    "purchases.parquet", "SELECT cds, COUNT(*) AS n, AVG(amount) AS typical FROM purchases GROUP BY cds",
    "--unit", "customer", "--bounds", "amount=0:200", "--keys", "cds=1:5",
    "--max-rows-per-group", "5", "--max-groups", "5", "--ledger", "budget.db",
)  # fmt: skip


def test_plan_is_free_and_query_pays_once(purchases):
    code, out, _ = program("plan", *ASK, "--spend", "epsilon=0.5", "--budget", "epsilon=1", where=purchases)
    assert code == 0
    assert "sensitivity 25" in out
    assert "epsilon 1 -> 0.5" in out
    code, out, err = neartwin("query", *ASK, "--spend", "epsilon=0.5", "--budget", "epsilon=1", where=purchases)
    assert code == 0
    assert out.splitlines()[0].split() == ["cds", "n", "typical"]
    assert len(out.splitlines()) == 6
    assert "62.25 %" in err
    assert "62.25 %" not in out
    code, again, _ = neartwin("query", *ASK, "--spend", "epsilon=0.5", "--budget", "epsilon=1", where=purchases)
    assert (code, again) == (0, out)  # the stored answer, for nothing
    code, out, _ = neartwin("ledger", "show", "budget.db", "--json", where=purchases)
    assert json.loads(out)[0]["pools"] == [{"pool": "epsilon", "cap": "1", "spent": "1/2"}]
    code, out, _ = neartwin("ledger", "show", "budget.db", where=purchases)
    assert "0.5 of 1 spent" in out


def test_a_refused_first_question_opens_no_account(purchases):
    spend = ("--unit", "customer", "--ledger", "budget.db", "--spend", "epsilon=0.5", "--budget")
    code, _, err = neartwin(
        "query", "purchases.parquet", "SELECT AVG(amount) AS a FROM purchases", *spend, "epsilon=100", where=purchases
    )
    assert code == 2
    assert "needs bounds" in err
    assert (
        neartwin(
            "query", "purchases.parquet", "SELECT COUNT(*) AS n FROM purchases", *spend, "epsilon=1", where=purchases
        )[0]
        == 0
    )
    out = neartwin("ledger", "show", "budget.db", "--json", where=purchases)[1]
    assert json.loads(out)[0]["pools"] == [{"pool": "epsilon", "cap": "1", "spent": "1/2"}]


def test_a_ledger_is_named_by_a_variable_too(purchases, monkeypatch):
    ask = [*ASK, "--spend", "epsilon=0.5", "--budget", "epsilon=1"]
    assert neartwin("query", *ask, where=purchases)[0] == 0
    assert neartwin("ledger", "show", where=purchases)[0] == 2
    monkeypatch.setenv("NEARTWIN_LEDGER", "budget.db")
    assert neartwin("ledger", "verify", where=purchases)[0] == 0
    code, out, _ = neartwin("ledger", "show", where=purchases)
    assert (code, "0.5 of 1 spent" in out) == (0, True)


def test_a_later_question_needs_no_budget_and_pays_from_the_open_account(purchases):
    first = [*ASK, "--spend", "epsilon=0.5"]
    assert neartwin("query", *first, "--budget", "epsilon=2", where=purchases)[0] == 0
    other = [word.replace("cds, COUNT(*) AS n, ", "cds, ") for word in ASK]
    assert neartwin("query", *other, "--spend", "epsilon=0.25", where=purchases)[0] == 0
    code, _, err = neartwin("query", *other, "--spend", "epsilon=0.25", "--budget", "epsilon=1", where=purchases)
    assert (code, "has an account already" in err) == (2, True)
    code, out, _ = neartwin("ledger", "show", "budget.db", "--json", where=purchases)
    assert json.loads(out)[0]["pools"] == [{"pool": "epsilon", "cap": "2", "spent": "3/4"}]


def test_an_account_in_another_currency_shows_the_pools_that_it_has(purchases):
    code, out, err = neartwin(
        "query", *ASK, "--spend", "epsilon=0.5", "--budget", "mu=1", "--out", "r.html", where=purchases
    )
    assert code == 0, err
    code, out, _ = neartwin("ledger", "show", "budget.db", where=purchases)
    assert "mu_squared" in out
    assert "of 0 spent" not in out
    page = (purchases / "r.html").read_text()
    assert "mu_squared" in page
    assert "of 0</div>" not in page


def test_expressions_groups_of_them_and_moments_are_asked_from_a_terminal(purchases):
    text = (
        "SELECT width_bucket(amount, 0, 200, 4) AS size, SUM(amount * 0.5) AS half, STDDEV_POP(amount) AS spread "
        "FROM purchases WHERE amount / 2 BETWEEN 0 AND 1e6 GROUP BY size"
    )
    code, out, err = neartwin(
        "query", "purchases.parquet", text, "--unit", "customer", "--bounds", "amount=0:200", "--keys", "size=1:4",
        "--max-rows-per-group", "5", "--max-groups", "4", "--ledger", "sizes.db",
        "--spend", "epsilon=5", "--budget", "epsilon=5", "--json",
        where=purchases,
    )  # fmt: skip
    assert code == 0, err
    told = json.loads(out)
    assert (told["group_columns"], told["keys"]) == (["size"], [[1], [2], [3], [4]])
    assert [one["what"] for one in told["statistics"]] == ["sum(amount * 0.5)", "stddev(amount)"]
    assert all(0 <= value <= 100 for value in told["statistics"][1]["values"])


SERIES = (
    "SELECT COUNT(*) AS n FROM purchases; "
    "SELECT cds, SUM(amount) AS total FROM purchases GROUP BY cds; "
    "SELECT cds FROM purchases GROUP BY cds ORDER BY COUNT(DISTINCT customer) DESC LIMIT 2"
)


def test_several_statements_on_a_command_line_are_one_series(purchases):
    asked = (ASK[0], SERIES, *ASK[2:], "--spend", "epsilon=1", "--budget", "epsilon=1")
    code, out, err = neartwin("plan", *asked, where=purchases)
    assert code == 0, err
    assert out.startswith("series of 3 questions")
    assert "2: total: " in out
    code, out, err = neartwin("query", *asked, "--json", "--out", "answer.csv", where=purchases)
    assert code == 0, err
    made = json.loads(out)["releases"]
    assert [len(one["keys"]) for one in made] == [1, 5, 2]
    assert (purchases / "answer-2.csv").read_text().startswith('"cds","total"')
    code, out, _ = neartwin(
        "query", *asked[:1], "SELECT COUNT(*) FROM purchases; SELECT 1", *asked[2:], where=purchases
    )
    assert (code, out) == (2, "")


def test_a_large_answer_goes_to_a_file_some_groups_at_a_time(purchases):
    text = "SELECT cds, count(*) AS n, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS typical FROM purchases GROUP BY cds"
    ask = (*ASK[:1], text, *ASK[2:], "--spend", "epsilon=90", "--budget", "epsilon=90", "--table-out", "t.parquet")
    code, out, err = neartwin("query", *ask, "--json", where=purchases)
    assert code == 0, err
    table = pq.read_table(purchases / "t.parquet")
    assert table["cds"].to_pylist() == [1, 2, 3, 4, 5]
    assert all(abs(value - 9.5) < 1 for value in table["typical"].to_pylist())
    assert json.loads(out)["columns"] == [["n", "count()"], ["typical", "median(amount)"]]
    code, again, _ = neartwin("query", *ask[:-1], "u.parquet", where=purchases)
    assert (code, again.split()) == (0, ["t.parquet", "sha256", json.loads(out)["digest"]])
    code, _, err = neartwin("query", ask[0], text + " ORDER BY n", *ask[2:-1], "v.parquet", where=purchases)
    assert (code, "read it with them" in err) == (2, True)


def test_names_that_steer_a_terminal_are_shown_with_marks(tmp_path):
    steering = "\x1b[31mred\u202e"
    pq.write_table(pa.table({"who": [1, 2, 3], steering: [1, 2, 3]}), tmp_path / "evil.parquet")
    sql = f'SELECT "{steering}", COUNT(*) AS "n\x9b2J" FROM evil GROUP BY 1'
    words = (
        "query",
        "evil.parquet",
        sql,
        "--unit",
        "who",
        "--keys",
        f"{steering}=1,2",
        "--spend",
        "epsilon=1",
        "--ledger",
        "b.db",
    )
    for command in ("plan", "query"):
        code, out, said = neartwin(command, *words[1:], "--budget", "epsilon=2", "--rows", "1", where=tmp_path)
        assert code == 0, said
        assert "\ufffd[31mred\ufffd" in out
        assert not set("\x1b\x9b\u202e") & set(out + said)
    code, out, said = neartwin(*words[:2], sql.replace("COUNT", "NOUN"), *words[3:], "--rows", "1", where=tmp_path)
    assert code
    assert not set("\x1b\x9b\u202e") & set(out + said)


@pytest.mark.slow
def test_a_refused_budget_is_exit_code_3_with_the_numbers(purchases):
    code, out, err = program("query", *ASK, "--spend", "epsilon=2", "--budget", "epsilon=1", where=purchases)
    assert (code, out) == (3, "")
    assert "requested epsilon 2, remaining 1, difference 1" in err
    code, out, err = neartwin("query", *ASK, "--spend", "epsilon=2", "--budget", "epsilon=1", "--json", where=purchases)
    assert (code, err) == (3, "")
    assert json.loads(out) | {"message": "", "remedy": ""} == {
        "code": "NT-400", "error": "BudgetError", "message": "", "pool": "epsilon", "requested": "2", "remaining": "1",
        "name": "epsilon", "value": "2", "rule": "must be at most 1", "remedy": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("--spend", "epsilon=-1"), "must be positive"),
        (("--spend", "much"), "must be name=value"),
        (("--spend", "epsilon=1", "--unit", "nobody"), "not in the table"),
        (("--spend", "epsilon=1", "--bounds", "amount=9"), "column=low:high"),
        (("--spend", "epsilon=1", "--keys", "cds=a"), "integer"),
        (("--spend", "epsilon=1", "--max-groups", "0"), "at least 1"),
        ((), "Missing option '--spend'"),
    ],
)
def test_a_wrong_call_is_exit_code_2_and_spends_nothing(purchases, change, says):
    code, out, err = neartwin("query", *ASK, "--budget", "epsilon=1", *change, where=purchases)
    assert (code, out) == (2, "")
    assert says in err


def test_completion_scripts_name_the_program():
    for shell in ("bash", "zsh", "fish"):
        done = CliRunner().invoke(main, [], prog_name="neartwin", env={"_NEARTWIN_COMPLETE": f"{shell}_source"})
        assert done.exit_code == 0
        assert "_NEARTWIN_COMPLETE" in done.stdout


def test_joins_order_and_explain_work_from_the_terminal(purchases):
    (purchases / "regions.csv").write_text("cds,region\n1,north\n2,north\n3,south\n4,south\n5,south\n")
    ask = (
        "purchases.parquet", "--unit", "customer", "--bounds", "amount=0:200", "--keys", "region=north,south,west",
        "--public", "regions=regions.csv", "--types", "regions.cds=integer", "--types", "regions.region=text",
        "--max-rows-per-group", "5", "--max-groups", "3", "--ledger", "budget.db", "--spend", "epsilon=1",
        "--budget", "epsilon=1",
    )  # fmt: skip
    text = (
        "SELECT region, COUNT(*) AS n FROM purchases JOIN regions USING (cds) GROUP BY region ORDER BY n DESC LIMIT 2"
    )
    code, explained, err = neartwin("plan", *ask, text, where=purchases)
    assert code == 0, err
    assert "join 'regions' (public) on cds" in explained
    code, out, _ = neartwin("ledger", "show", "budget.db", "--json", where=purchases)
    assert json.loads(out)[0]["pools"][0]["spent"] == "0"
    code, out, err = neartwin("query", *ask, text, where=purchases)
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == ["region", "south", "north"]
    code, _, err = neartwin("query", *ask, text.replace("regions USING", "elsewhere USING"), where=purchases)
    assert code == 2
    assert "which are: 'purchases', 'regions'" in err


def test_a_cap_on_all_rows_of_a_unit_is_asked_in_a_terminal(purchases):
    told = [*ASK, "--spend", "epsilon=1", "--budget", "epsilon=1", "--rows", "7"]
    for option in ("--max-rows-per-group", "--max-groups"):
        place = told.index(option)
        del told[place : place + 2]
    code, out, err = neartwin("plan", *told, where=purchases)
    assert code == 0, err
    assert "rows = 7" in out
    code, _, err = neartwin("query", *told, "--rows", "0", where=purchases)
    assert code == 2
    assert "rows=0" in err


def test_weights_share_the_spend_as_in_python(purchases):
    text = "SELECT cds, COUNT(*) AS n, SUM(amount) AS total FROM purchases GROUP BY cds"
    told = [ASK[0], text, *ASK[2:], "--spend", "epsilon=1", "--budget", "epsilon=1"]
    shares = []
    for weights in ((), ("--importance", "total=1000", "--importance", "n=1/2")):
        code, out, err = neartwin("plan", *told, *weights, where=purchases)
        assert code == 0, err
        shares.append(float(re.search(r"shares rows ([0-9.]+)", out)[1]))
    assert shares[1] < 0.1 * shares[0]
    code, _, err = neartwin("plan", *told, "--importance", "paid=2", where=purchases)
    assert (code, "paid" in err) == (2, True)


def test_table_shows_names_with_brackets_as_they_are(tmp_path):
    """A name in brackets was taken for a style, and left out."""
    pq.write_table(pa.table({"[/b]": range(60), "town": ["[red]", "[/]", "Ulm"] * 20}), tmp_path / "v.parquet")
    code, out, words = neartwin(
        "query", "v.parquet", "SELECT town, COUNT(*) AS n FROM v GROUP BY town", "--unit", "[/b]", "--ledger", "b.db",
        "--budget", "epsilon=1", "--spend", "epsilon=1", "--keys", "town=[red],[/],Ulm", "--rows", "1", where=tmp_path,
    )  # fmt: skip
    assert code == 0
    header, *lines = out.splitlines()
    assert header.split() == ["town", "n"]
    assert [line.split()[0] for line in lines] == ["[red]", "[/]", "Ulm"]
    assert "adding or removing one [/b]" in words
    assert "unit [/b], add_remove" in neartwin("ledger", "show", "b.db", where=tmp_path)[1]
