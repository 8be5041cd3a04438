"""`neartwin attack reconstruct`: everybody's secret bit from counts, and from private counts nothing."""

import json
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from neartwin.audit.reconstruction import Bits, least_squares, linear_program
from neartwin.audit.transition import Attempt, bounded_noise, laplace_noise, sweep
from neartwin.cli.talk import refusing, stderr
from neartwin.errors import ParameterError

_ATTACKERS = {"least squares": least_squares, "linear programme": linear_program}
_ROOTS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0)


@click.group()
def attack() -> None:
    """Attacks that private answers must withstand, and others do not."""


@attack.command()
@click.option("--people", default=100, show_default=True, help="How many secret bits, fair and random.")
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False), help="Attack a 0/1 column of this Parquet or CSV."
)
@click.option("--column", default="", help="The column of --data; its first --people rows are attacked.")
@click.option("--queries", default=500, show_default=True, help="How many subset counts the attacker may ask.")
@click.option("--epsilon", multiple=True, default=("0.5", "1", "3"), help="Budgets of the private answers; repeatable.")
@click.option("--seed", default=0, show_default=True, help="Repeats the same attack.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the phase transition to this .png or .svg file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@refusing
def reconstruct(as_json: bool, picture: str | None, **options: Any) -> None:  # noqa: FBT001 - a command's options
    """Rebuild everybody's bit from counts over random subsets (Dinur and Nissim 2003).

    First from answers with a bounded error, where it works below an error of about sqrt(people); then from answers with
    Laplace noise whose whole budget is epsilon, where no attacker can err less than the theorem says.
    """
    bounded, private = _attempts(**options)
    if picture:
        from neartwin.report.attack_figures import transition_figure

        transition_figure(bounded).savefig(picture)
        stderr.print(f"picture: {picture}", markup=False)
    if as_json:
        rows = [asdict(attempt) for attempt in bounded], [asdict(attempt) for attempt in private]
        click.echo(json.dumps({"bounded": rows[0], "laplace": rows[1]}))
        return
    _show(bounded, private)


def _attempts(
    *, people: int, data: str | None, column: str, queries: int, epsilon: tuple[str, ...], seed: int
) -> tuple[list[Attempt], list[Attempt]]:
    secret = None if data is None else _secret(Path(data), column, people)
    root = float(np.sqrt(people if secret is None else len(secret)))
    budgets = [float(Fraction(text)) for text in epsilon]
    settings: list[tuple[Any, float]] = [(bounded_noise, share * root) for share in _ROOTS]
    settings += [(laplace_noise, budget) for budget in budgets]
    rows = [
        sweep(made, [setting], _ATTACKERS, people=people, queries=queries, repeats=3, seed=seed, secret=secret)
        for made, setting in _watched(settings)
    ]
    split = len(_ROOTS)
    return [row for part in rows[:split] for row in part], [row for part in rows[split:] for row in part]


def _watched(settings: list[tuple[Any, float]]) -> Any:
    if not sys.stderr.isatty():
        return settings
    from rich.progress import track

    return track(settings, "attacking", console=stderr, transient=True)


def _secret(path: Path, column: str, people: int) -> Bits:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    rows = pacsv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    if column not in rows.column_names:
        raise ParameterError("column", column, "must be one of " + ", ".join(rows.column_names))
    values = np.array(rows[column].slice(0, people).to_pylist())
    if len(values) == 0 or not set(values.tolist()) <= {0, 1}:
        raise ParameterError("column", column, "must hold 0 and 1 alone")
    return values.astype(np.int8)


def _show(bounded: list[Attempt], private: list[Attempt]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("answers", "largest error", "in sqrt(people)", "attacker", "wrong"):
        table.add_column(name, justify="left" if name in {"answers", "attacker"} else "right")
    for label, attempts in (("bounded error {:.3g}", bounded), ("Laplace, epsilon {:g}", private)):
        for setting in sorted({attempt.setting for attempt in attempts}):
            for name in _ATTACKERS:
                group = [a for a in attempts if a.setting == setting and a.attacker == name]
                error, roots, wrong = (
                    float(np.mean([getattr(a, part) for a in group])) for part in ("error", "error_in_roots", "wrong")
                )
                table.add_row(label.format(setting), f"{error:.3g}", f"{roots:.3g}", name, f"{wrong:.1%}")
    Console(highlight=False).print(table)
    stderr.print(
        "A coin is wrong in 50 %. With budget epsilon nobody is wrong in less than 1 / (1 + e^epsilon) on average."
    )
