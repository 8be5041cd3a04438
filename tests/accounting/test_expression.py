"""A line of text becomes exactly what it says, and nothing in it is ever run."""

from fractions import Fraction

import pytest

from neartwin.accounting.usage import cost, for_group, parallel, subsample
from neartwin.accounting.usage_parser import LONGEST, NAMES, parse
from neartwin.errors import ParameterError
from neartwin.losses import (
    Approx,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    RandomizedResponse,
    Staircase,
    SubsampledGaussian,
)


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("gaussian(sigma=20) * 1000", 1000 * Gaussian(mu="0.05")),
        ("2 * 3 * laplace(epsilon=0.1)", 6 * Laplace(epsilon="0.1")),
        ("laplace(scale=3, sensitivity=1/2) + leak(delta=1e-9)", Laplace(epsilon="1/6") + Leak(delta="1e-9")),
        (
            "(gaussian(mu=1) + geometric(epsilon=1, sensitivity=2)) * 2",
            2 * (Gaussian(mu=1) + Geometric(epsilon=1, sensitivity=2)),
        ),
        ("approx(epsilon=1, delta=0.000001)", Approx(epsilon=1, delta="1e-6")),
        ("randomized_response(epsilon=1, answers=4)", RandomizedResponse(epsilon=1, answers=4)),
        ("staircase(epsilon=1, sensitivity=5, step=2)", Staircase(epsilon=1, sensitivity=5, step=2)),
        ("discrete_gaussian(sigma2=2.5, sensitivity=3)", DiscreteGaussian(sigma2="2.5", sensitivity=3)),
        ("sampled(gaussian(sigma=1), rate=0.01) * 10_000", 10_000 * SubsampledGaussian(mu=1, rate="0.01")),
        ("sampled(gaussian(sigma=2), rate=0.5)", subsample(Gaussian(mu="0.5"), "0.5")),
        ("group(gaussian(sigma=2), size=2)", for_group(Gaussian(mu="0.5"), 2)),
        ("parallel(gaussian(mu=1), laplace(epsilon=1))", parallel(Gaussian(mu=1), Laplace(epsilon=1))),
    ],
)
def test_a_line_says_what_the_values_say(text, done):
    assert cost(parse(text)) == cost(done)


def test_numbers_are_the_decimals_that_were_written():
    assert parse("pure(epsilon=0.1000000000000000000001)").factor.epsilon == Fraction(1, 10) + Fraction(1, 10**22)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "gaussian",
        "gaussian()",
        "gaussian(20)",
        "gaussian(sigma=20, colour=1)",
        "gaussian(sigma=0)",
        "gaussian(sigma=-1)",
        "gaussian(sigma=1e999)",
        "gaussian(sigma=1e-999999999)",
        "gaussian(sigma='1')",
        "gaussian(sigma=True)",
        "gaussian(sigma=1) * 0",
        "gaussian(sigma=1) * 1.5",
        "gaussian(sigma=1) * -1",
        "gaussian(sigma=1) + 1",
        "gaussian(sigma=1) * gaussian(sigma=1)",
        "gaussian(sigma=1) ** 2",
        "gaussian(sigma=1) / 2",
        "gaussian(sigma=1/0)",
        "gaussian(**{'sigma': 1})",
        "gaussian(sigma=[1 for _ in (1,)])",
        "gaussian.__class__",
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "open('x')",
        "parallel()",
        "sampled(gaussian(sigma=1), gaussian(sigma=1), rate=0.1)",
        "group(gaussian(sigma=1), size=1.5)",
        "approx(epsilon=1)",
        "gaussian(sigma=1); gaussian(sigma=1)",
        "(" * 3000 + "1" + ")" * 3000,
        "gaussian(sigma=1) +" * 400 + "gaussian(sigma=1)" + " " * 10_000,
        "-" * 5000 + "1",
        "9" * 9000,
    ],
)
def test_anything_else_is_refused_without_being_run(text):
    with pytest.raises(ParameterError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("approx(epsilon=1)", "delta"),
        ("group(gaussian(sigma=1))", "size"),
        ("staircase(epsilon=1, sensitivity=2)", "step"),
    ],
)
def test_a_number_that_is_missing_is_named(text, missing):
    with pytest.raises(ParameterError, match=f"'{missing}' is missing: give {missing}="):
        parse(text)


@pytest.mark.parametrize(("text", "noise"), [("gaussian(sigma=0)", "sigma"), ("laplace(scale=-1)", "scale")])
def test_noise_that_is_none_is_refused_by_its_name(text, noise):
    with pytest.raises(ParameterError, match=f"{noise}="):
        parse(text)


def test_every_name_is_known_to_the_refusal():
    with pytest.raises(ParameterError, match=", ".join(NAMES)):
        parse("eval(x=1)")


@pytest.mark.parametrize("text", ["gaussian(mu=2, mu=1)", "laplace(epsilon=1, epsilon=1)"])
def test_a_number_that_is_given_twice_is_refused(text):
    """The last one counted, so a slip of the pen could make a mechanism cheap."""
    with pytest.raises(ParameterError, match="each once"):
        parse(text)


def test_a_sum_is_answered_at_any_length_that_is_read():
    """Six hundred terms were read, and then overflowed the stack."""
    terms = LONGEST // len("+gaussian(mu=1)")
    found = cost(parse("+".join(["gaussian(mu=1)"] * terms))).epsilon("1e-6")
    assert found == (terms * Gaussian(mu=1)).epsilon("1e-6")
    with pytest.raises(ParameterError, match="characters"):
        parse("+".join(["gaussian(mu=1)"] * (terms + 1)))
