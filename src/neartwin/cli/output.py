"""Output of the terminal: data on stdout, messages on stderr, errors in one shape with one exit code each."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from neartwin.accounting.guarantee import Guarantee
from neartwin.checks import writable
from neartwin.errors import NeartwinError
from neartwin.interactive import aligned, visible
from neartwin.ledger.verify import Verdict
from neartwin.releases.release import FORMATS, Release

P = ParamSpec("P")
R = TypeVar("R")

NOT_WHOLE = 4  # the exit code of a check that found a fault


class Screen(Console):
    """A console that shows characters that steer a terminal as marks: the names of columns and statistics are other people's."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the parts of what is printed."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(visible(part.text), part.style)


stderr = Screen(stderr=True, highlight=False, soft_wrap=True)


def report_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a refusal into its message (or JSON, with --json) and its exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> R:
        try:
            return command(*args, **options)
        except NeartwinError as error:
            if options.get("as_json"):
                click.echo(json.dumps(error.as_dict()))
            else:
                stderr.print(f"[bold red]refused[/] [dim]{error.code}[/]", end=" ")
                stderr.print(str(error), markup=False)
            sys.exit(error.exit_code)

    return run


def show_restored(verdict: Verdict) -> None:
    """Print the head of restored records, and end with the exit code of a fault where they have one."""
    click.echo(str(verdict.head))
    if not verdict.whole:
        stderr.print(str(verdict), markup=False)
        sys.exit(NOT_WHOLE)


def show_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int, title: str | None = None) -> None:
    """Print a table on stdout. Its lines are as long as it needs.

    Args:
        header: The names of the columns.
        rows: The rows, with one cell a column.
        texts: The number of text columns, from the left. The others are numbers.
        title: A line above the table.
    """
    top, *lines = aligned([header, *rows], texts)
    click.echo("\n".join([*filter(None, [title]), click.style(top, bold=True), *lines]))


def show_release(release: Release, *, as_json: bool) -> None:
    """Print a release as JSON, or as a table with its guarantee."""
    if as_json:
        click.echo(release.to_json())
        return
    if release.headline:
        stderr.print(release.headline, markup=False)
    header, *body = release.lines()
    show_table(header, body, texts=len(release.group_columns))
    show_guarantee(release.guarantee, release.notes)
    left = (f"{pool} {float(Fraction(amount)):.6g}" for pool, amount in release.provenance.budget_after.items())
    stderr.print(f"left in the account: {', '.join(left)}")


def show_guarantee(guarantee: Guarantee, notes: Iterable[str]) -> None:
    """Print what a release promises, and its notes."""
    stderr.print(str(guarantee), style="bold", markup=False)
    for note in (guarantee.describe(), *(f"- {note}" for note in notes)):
        stderr.print(note, style="dim", markup=False)


def require_writable(out: str | None) -> None:
    """Refuse a file that the release cannot be written to, before anything is paid."""
    if out is not None:
        writable(endings=FORMATS, out=out)


def show_releases(releases: Sequence[Release], *, as_json: bool, out: str | None) -> None:
    """Print one release as `show_release` does, or several as one JSON document or one below the other.

    Args:
        releases: The releases.
        as_json: Whether to print JSON.
        out: A file to write the release to as well. Each of several goes to a file with its number.
    """
    if len(releases) > 1 and as_json:
        click.echo(json.dumps({"releases": [json.loads(release.to_json()) for release in releases]}))
    else:
        for earlier, release in enumerate(releases):
            if earlier:
                click.echo()
            show_release(release, as_json=as_json)
    if out:
        from neartwin.report.page import save

        place = Path(out)
        for number, release in enumerate(releases, start=1):
            name = place if len(releases) == 1 else place.with_stem(f"{place.stem}-{number}")
            stderr.print(f"wrote {save(release, name)}", markup=False)
