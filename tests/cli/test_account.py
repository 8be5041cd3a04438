"""`neartwin account` prints certified intervals, as text, JSON and a picture, and refuses in one shape."""

import json

import pytest
from click.testing import CliRunner

from neartwin.accounting.usage_parser import NAMES
from neartwin.cli import main

MIX = "laplace(epsilon=0.05) * 50 + gaussian(sigma=10) * 50 + randomized_response(epsilon=0.3) * 20"


def run(*words):
    return CliRunner().invoke(main, ["account", *words])


def test_the_answer_is_an_interval_around_the_truth_with_the_curve_as_json():
    done = run(MIX, "--delta", "1e-6", "--epsilon", "7.5", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    first, second, last = told["answers"]
    assert first["lower"] - 1e-9 <= 7.566593620816312 <= first["upper"] + 1e-9
    assert 1e-6 < second["lower"] <= second["upper"] < 2e-6
    assert last["question"] == "attacker's advantage"
    curve = told["curve"]
    assert len(curve["alpha"]) == len(curve["lower"]) == len(curve["upper"])
    assert all(low <= high for low, high in zip(curve["lower"], curve["upper"], strict=True))


def test_a_reader_sees_both_ends_and_the_bet():
    done = run("gaussian(sigma=20) * 1000", "--delta", "1e-6")
    assert "epsilon at delta = 1e-6" in done.stdout
    assert "8.3062250" in done.stdout
    assert "best guess" in done.stderr


def test_replace_one_is_another_question():
    sampled = "subsampled_gaussian(sigma=2, rate=0.01) * 1000"
    one, two = (
        json.loads(run(sampled, "--delta", "1e-5", "--neighbours", n, "--json").stdout)
        for n in ("add_remove", "replace_one")
    )
    assert two["answers"][0]["lower"] > one["answers"][0]["upper"]


def test_the_help_names_every_mechanism_and_every_way_to_combine():
    told = run("--help").output
    assert all(f"{name}(" in told for name in NAMES)


def test_noise_that_is_given_twice_is_called_so():
    done = run("laplace(epsilon=0.1, scale=3)")
    assert done.exit_code == 2
    assert "is given beside scale" in done.output
    assert run("laplace(scale=3)", "--delta", "0.1").exit_code == 0


@pytest.mark.parametrize("words", [("gaussian(sigma=0)",), ("gaussian(sigma=1)", "--delta", "2"), ("open('x')",)])
def test_a_refusal_has_its_code_as_text_and_as_json(words):
    assert run(*words).exit_code == 2
    assert json.loads(run(*words, "--json").stdout)["code"] == "NT-100"
