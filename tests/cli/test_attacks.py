"""The terminal shows attacks and risks, and refuses wrong calls with code 2."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

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
    assert "is right at most 73.1 % of the time" in answer.stdout
    picture = tmp_path / "risk.svg"
    told = json.loads(called("explain-risk", "--mu", 1, "--json", "--picture", picture).stdout)
    assert told["risks"][1]["at_most"] == pytest.approx(0.0923622, abs=1e-6)
    assert "<svg" in picture.read_text(encoding="utf-8")
    inverse = json.loads(called("explain-risk", "--advantage", "0.3829249225", "--json").stdout)
    assert inverse["mu"] == pytest.approx(1, abs=1e-6)


def test_risk_wants_one_guarantee():
    for arguments in ((), ("--epsilon", 1, "--mu", 1), ("--epsilon", -1), ("--mu", "much")):
        assert called("explain-risk", *arguments).exit_code == 2
