"""`neartwin explain-risk`: a guarantee as an attacker's chances, in words, and the noise for a largest risk."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from neartwin.accounting.budgets import budget_of
from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import claim_of
from neartwin.audit.risk import Keeping, Risk, advantage_of, keeping, percent, power_at, risks
from neartwin.cli.options import json_option, picture_option
from neartwin.cli.output import report_errors, show_table, stderr
from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.releases.release import Release


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
