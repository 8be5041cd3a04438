"""`neartwin account`: the privacy of mechanisms used together, from one line, for people who only need a number."""

import json
import math
from typing import Any

import click
import numpy as np

from neartwin.accounting.usage import Cost, cost
from neartwin.accounting.usage_parser import parse
from neartwin.cli import options
from neartwin.cli.output import report_errors, show_table
from neartwin.errors import ParameterError
from neartwin.exact import Interval


@click.command()
@click.argument("expression")
@click.option("--delta", "deltas", multiple=True, help="Give the least epsilon at this delta; may be repeated. [1e-6]")
@click.option("--epsilon", "epsilons", multiple=True, help="Give the least delta at this epsilon; may be repeated.")
@click.option(
    "--neighbours",
    type=click.Choice(["add_remove", "replace_one"]),
    default="add_remove",
    show_default=True,
    help="The neighbour relation: which two data sets are compared.",
)
@options.json_option
@report_errors
def account(
    *, expression: str, deltas: tuple[str, ...], epsilons: tuple[str, ...], neighbours: str, as_json: bool
) -> None:
    """Compute the privacy of mechanisms used together, certified.

    \b
      neartwin account "gaussian(sigma=20) * 1000 + laplace(epsilon=0.1) * 10" --delta 1e-6
      neartwin account "subsampled_gaussian(sigma=1, rate=0.01) * 10000" --delta 1e-5 --json
      neartwin account "parallel(laplace(epsilon=1), gaussian(mu=1))" --epsilon 1

    Mechanisms, each with its numbers by name:

    \b
      gaussian(sigma, sensitivity=1) or gaussian(mu)     laplace(scale, sensitivity=1) or laplace(epsilon)
      geometric(epsilon, sensitivity=1)                  discrete_gaussian(sigma2, sensitivity=1)
      randomized_response(epsilon, answers=2)            exponential(epsilon)
      staircase(epsilon, sensitivity, step)
      subsampled_gaussian(sigma or mu, rate)             subsampled_laplace(scale or epsilon, rate)
      random_allocation(sigma or mu, steps)
      pure(epsilon)  approx(epsilon, delta)  zcdp(rho)  gdp(mu)  leak(delta)

    \b
      a + b, 10 * a        a and b together; a ten times, with fresh noise
      parallel(a, b)       each on its own part of the people
      sampled(a, rate)     a on a secret random sample
      group(a, size)       the guarantee for a group of people

    Every number is an interval that holds the true one. The guarantee is its upper end.
    """  # noqa: D301 - click reads \b
    total = cost(parse(expression), neighbours=neighbours)
    answers = _answers(total, deltas or (() if epsilons else ("1e-6",)), epsilons)
    if as_json:
        click.echo(
            json.dumps({"expression": expression, "neighbours": neighbours} | answers | {"curve": _curve(total)})
        )
        return
    rows = [
        [line["question"], _digits(line["lower"]), _digits(line["upper"]), line["method"]]
        for line in answers["answers"]
    ]
    show_table(("", "from", "to", "method"), rows, texts=4)
    best = math.ceil(10_000 * (1 + answers["advantage"]["upper"]) / 2) / 100
    click.echo(f"best guess whether someone is in the data, from 50 %: at most {min(best, 100.0):g} %", err=True)


def _answers(total: Cost, deltas: tuple[str, ...], epsilons: tuple[str, ...]) -> dict[str, Any]:
    answers = [_answer(f"epsilon at delta = {delta}", total.epsilon(delta)) for delta in deltas]
    answers += [_answer(f"delta at epsilon = {eps}", total.delta(_number(eps))) for eps in epsilons]
    advantage = _answer("attacker's advantage", total.advantage())
    return {"answers": [*answers, advantage], "advantage": {key: advantage[key] for key in ("lower", "upper")}}


def _answer(question: str, interval: Interval[float]) -> dict[str, Any]:
    ends = {end: value if math.isfinite(value := getattr(interval, end)) else "infinite" for end in ("lower", "upper")}
    return {"question": question} | ends | {"method": interval.method}


def _digits(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError("epsilon", text, "must be a number") from None


def _curve(total: Cost) -> dict[str, list[float]]:
    alpha = np.unique(np.concatenate([np.geomspace(1e-4, 0.1, 40), np.linspace(0, 1, 101)]))
    bounds = total.tradeoff(alpha)
    return {"alpha": alpha.tolist(), "lower": bounds.lower.tolist(), "upper": bounds.upper.tolist()}
