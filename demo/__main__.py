"""`make demo`: private statistics of real people, the budget before and after, and one page to look at."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from rich.console import Console

import neartwin as nt
from demo import data, figures
from neartwin.errors import BudgetError
from neartwin.report.page import budget

FOLDER = Path("demo-output")
CONSOLE = Console(highlight=False)
DISEASES = ["dyslipidemia", "htn", "diabetes", "ang/isc", "stroke", "afib", "heart failure", "MI", "cardiac arrest"]


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page: its heading, what was found, its picture, its release and where the data come from."""

    title: str
    found: str
    figure: str
    release: nt.Release
    card: data.Card
    seconds: float


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Append how long the block took."""
    start = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - start)


def checked(book: Any, rows: Any) -> Any:
    """An account of epsilon 1 for `rows`, every value of which the owner has read once: no release can fail on one."""
    account = book.open(rows, nt.pure(epsilon=1))
    for fault in account.check():
        CONSOLE.print(fault)
    return account


def names(book: Any) -> Part:
    """Dwork and Roth, Example 3.3: all 10,000 counts at once, each within 12.2 with probability 95 %."""
    database = data.people_database(FOLDER)
    with duckdb.connect(str(database), read_only=True) as connection:
        published = connection.sql("SELECT name, people FROM published ORDER BY people DESC, name").to_arrow_table()
    people = nt.table(database, table="people", unit=nt.ROW, name="first names")
    account = checked(book, people)
    query = people.group_by("name", keys=published.select(["name"])).agg(people=nt.count())
    proposal = account.plan(query, spend=nt.pure(epsilon=1))
    seconds: list[float] = []
    with timed(seconds):
        release = account.release(proposal)
    true = published["people"].to_numpy()
    released = np.array(release["people"].values)
    worst, theorem = int(np.abs(released - true).max()), math.log(len(true) / 0.05)
    found = (
        f"{true.sum():,} people, {len(true):,} names, epsilon = 1: the worst of all {len(true):,} counts is off by {worst}. "
        f"The theorem says that all of them at once are within {theorem:.1f} with probability 95 %; the rarest of these names "
        f"was given to {true.min():,} people."
    )
    return Part(
        "10,000 first names of a whole country",
        found,
        figures.svg(figures.names(true, released, theorem)),
        release,
        data.NAMES,
        seconds[0],
    )


def earnings(book: Any) -> Part:
    """Mean earnings by gender and region, beside the true means, which only public data allows."""
    path = data.earnings(FOLDER)
    workers = nt.table(path, unit=nt.ROW, columns={"earnings": nt.bounds(0, 100)})
    keys = {"gender": ["female", "male"], "region": ["Midwest", "Northeast", "South", "West"]}
    account = checked(book, workers)
    query = workers.group_by("gender", "region", keys=keys).agg(workers=nt.count(), mean=nt.mean("earnings"))
    seconds: list[float] = []
    with timed(seconds):
        release = account.release(account.plan(query, spend=nt.pure(epsilon="0.5")))
    truth = {
        (g, r): m
        for g, r, m in duckdb.sql(f"SELECT gender, region, avg(earnings) FROM '{path}' GROUP BY ALL").fetchall()
    }
    true = [truth[key] for key in release.keys]
    inside = sum(
        low <= t <= high for t, low, high in zip(true, release["mean"].lower, release["mean"].upper, strict=True)
    )
    widest = max((h - l) / 2 for l, h in zip(release["mean"].lower, release["mean"].upper, strict=True))
    found = (
        f"Mean hourly earnings of {len(true)} groups at epsilon = 0.5, the widest bar ± ${widest:.2f}. "
        f"{inside} of {len(true)} bars hold the true mean; each does so with probability at least 95 %."
    )
    labels = [", ".join(map(str, key)) for key in release.keys]
    return Part(
        "Mean earnings by gender and region",
        found,
        figures.svg(figures.earnings(labels, release["mean"], true)),
        release,
        data.EARNINGS,
        seconds[0],
    )


def diseases(book: Any) -> Part:
    """Dwork and Roth, Example 3.4: a person may be in every count, and the noise does not grow with that."""
    path = data.diagnoses(FOLDER)
    patients = nt.table(path, unit="id", name="patients")
    account = checked(book, patients)
    query = patients.where("event <> 'nafld'").most_common("event", among=DISEASES)
    seconds: list[float] = []
    with timed(seconds):
        release = account.release(account.plan(query, spend=nt.pure(epsilon="0.1")))
    winner = str(release.keys[0][0])
    counts = dict(duckdb.sql(f"SELECT event, count(DISTINCT id) FROM '{path}' GROUP BY event").fetchall())
    found = (
        f"The most common diagnosis, by noisy maximum at epsilon = 0.1: {winner}. A patient can have many diagnoses; the noise "
        "does not grow with their number, because one patient moves all counts one way."
    )
    return Part(
        "The most common disease",
        found,
        figures.svg(figures.diseases(DISEASES, [counts[d] for d in DISEASES], winner)),
        release,
        data.DIAGNOSES,
        seconds[0],
    )


def refused(book: Any) -> str:
    """A second question that would overspend the earnings account."""
    workers = nt.table(data.earnings(FOLDER), unit=nt.ROW, columns={"earnings": nt.bounds(0, 100)})
    account = book.open(workers, nt.pure(epsilon=1))
    proposal = account.plan(workers.agg(total=nt.sum("earnings")), spend=nt.pure(epsilon="0.6"))
    try:
        account.release(proposal)
    except BudgetError as error:
        return str(error)
    raise AssertionError("the ledger must refuse what would overspend")


def main() -> None:
    """All four parts, told on the terminal and written as one page."""
    FOLDER.mkdir(exist_ok=True)
    parts = []
    with nt.open_ledger(FOLDER / "budget.db") as book:
        for make in (names, earnings, diseases):
            with CONSOLE.status("asking the data") if CONSOLE.is_terminal else CONSOLE.capture():
                part = make(book)
            parts.append(part)
            CONSOLE.print(f"\n[bold]{part.title}[/]  [dim]{part.seconds:.1f} s[/]")
            CONSOLE.print(part.found)
            told = part.release.provenance
            before, after = (
                ", ".join(f"{k} {float(Fraction(v)):g}" for k, v in m.items())
                for m in (told.budget_before, told.budget_after)
            )
            CONSOLE.print(
                f"[dim]budget of {told.account!r}: {before} before, {after} after. {part.release.guarantee.describe()}[/]"
            )
        refusal = refused(book)
    CONSOLE.print("\n[bold]One question too many[/]")
    CONSOLE.print(refusal, markup=False)
    target = FOLDER / "index.html"
    loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent), PackageLoader("neartwin.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    sections = [(part, budget(part.release)) for part in parts]
    target.write_text(
        environment.get_template("page.html").render(
            title="What neartwin says about real people", parts=sections, refusal=refusal
        )
    )
    CONSOLE.print(f"\nA page to look at: [bold]{target}[/]")


if __name__ == "__main__":
    main()
