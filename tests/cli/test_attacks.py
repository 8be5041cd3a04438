"""The terminal shows attacks and risks, and refuses wrong calls with code 2."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main


def called(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_reconstruction_works_below_the_root_and_fails_against_private_answers(tmp_path):
    picture = tmp_path / "transition.png"
    answer = called("attack", "reconstruct", "--people", 36, "--queries", 180, "--json", "--picture", picture)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert max(row["wrong"] for row in told["bounded"] if row["error"] < 0.25 * 6) == 0
    assert min(row["wrong"] for row in told["laplace"]) > 0.1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_reconstruction_of_a_column_of_a_file(tmp_path):
    where = tmp_path / "bits.parquet"
    pq.write_table(pa.table({"smokes": [i % 3 == 0 for i in range(30)], "age": list(range(30))}), where)
    answer = called("attack", "reconstruct", "--data", where, "--column", "smokes", "--queries", 120)
    assert answer.exit_code == 0, answer.output
    assert "linear programme" in answer.stdout
    for column in ("age", "nothing"):
        assert called("attack", "reconstruct", "--data", where, "--column", column).exit_code == 2


def test_risk_is_explained_in_words_and_as_data(tmp_path):
    answer = called("explain-risk", "--epsilon", 1)
    assert answer.exit_code == 0
    assert "is right at most 73.2 % of the time" in answer.stdout
    picture = tmp_path / "risk.svg"
    told = json.loads(called("explain-risk", "--mu", 1, "--json", "--picture", picture).stdout)
    assert told["risks"][1]["at_most"] == pytest.approx(0.0923622, abs=1e-6)
    assert "<svg" in picture.read_text(encoding="utf-8")
    concentrated = json.loads(called("explain-risk", "--rho", "0.5", "--delta", "1e-6", "--json").stdout)
    assert concentrated["risks"][1]["at_most"] > told["risks"][1]["at_most"]  # rho = 1/2 allows more than mu = 1


def test_risk_of_a_saved_release_is_that_of_its_guarantee(tmp_path):
    rows = nt.table(pa.table({"who": ["a", "b"]}), unit="who", name="visits", neighbours="replace_one")
    with nt.open_ledger(tmp_path / "book.db") as book:
        account = book.open(rows, nt.pure(1))
        saved = account.release(account.plan(rows.agg(n=nt.count_units()), spend=nt.pure("0.25")))
    saved.write(tmp_path / "release.json")
    told = called("explain-risk", tmp_path / "release.json")
    assert told.exit_code == 0, told.output
    assert "which of two records" in told.stdout
    assert "at most 56.3 %" in told.stdout  # (1 + tanh(1/8)) / 2 = 0.56217...
    assert called("explain-risk", tmp_path / "book.db").exit_code != 0


def test_the_noise_for_a_wanted_risk_keeps_it():
    gain = json.loads(called("explain-risk", "--advantage", "0.3829249225", "--json").stdout)
    assert gain["mu"] == pytest.approx(1, abs=1e-6)
    assert gain["gaussian_noise"] == pytest.approx(1, abs=1e-6)
    assert gain["laplace_noise"] == pytest.approx(math.sqrt(2) / gain["epsilon"])
    caught = json.loads(called("explain-risk", "--caught", "0.0923622", "--json").stdout)
    assert caught["mu"] == pytest.approx(1, abs=1e-5)
    assert caught["epsilon"] == pytest.approx(math.log(9.23622), abs=1e-5)
    told = called("explain-risk", "--caught", "0.05", "--false-alarms", "0.001").stdout
    assert "Gaussian noise of standard deviation" in told


def test_risk_wants_one_guarantee_or_one_wish():
    for arguments in (
        (),
        ("--epsilon", 1, "--mu", 1),
        ("--epsilon", -1),
        ("--mu", "much"),
        ("--advantage", "0.1", "--caught", "0.1"),
        ("--caught", "0.001"),
    ):
        assert called("explain-risk", *arguments).exit_code == 2
