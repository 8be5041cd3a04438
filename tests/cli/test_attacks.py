"""The terminal shows attacks and risks, and refuses wrong calls with code 2."""

import json
import math

import pyarrow as pa
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.cli.attack import SECRETS


def called(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_reconstruction_works_below_the_root_and_fails_against_releases(tmp_path):
    picture = tmp_path / "transition.svg"
    budgets = ("--epsilon", "0.5", "--epsilon", "1000000", "--mu", "0.5")
    sizes = ("--people", 36, "--queries", 180)
    answer = called("attack", "reconstruct", *sizes, *budgets, "--json", "--picture", picture)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert max(row["wrong"] for row in told["bounded"] if row["error"] < 0.25 * 6) == 0
    by_budget = {0.5: [], 1_000_000.0: []}
    for row in told["epsilon"]:
        by_budget[row["setting"]].append(row["wrong"])
    # 108 fair bits, of which 0.38 and 0.40 are wrong at the least on average: 0.05 is seven deviations below
    assert all(sum(part) / 3 > 0.05 for part in (by_budget[0.5][::2], by_budget[0.5][1::2]))
    assert sum(row["wrong"] for row in told["mu"][::2]) / 3 > 0.05
    assert max(by_budget[1_000_000.0]) == 0  # the same releases without privacy fall: the attack is real
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_reconstruction_attacks_real_people_of_the_demo_data_by_name():
    answer = called(
        "attack", "reconstruct", "--demo", "women", "--people", 24, "--queries", 96, "--epsilon", 1, "--json"
    )
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert {row["people"] for row in told["bounded"]} == {24}
    assert min(row["wrong"] for row in told["bounded"]) == 0
    women = SECRETS["women"]()
    assert (len(women), int(women.sum())) == (61_395, 27_047)  # as the data's own page counts them
    assert called("attack", "reconstruct", "--demo", "nobody").exit_code == 2


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
        saved = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure("0.25")))
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
