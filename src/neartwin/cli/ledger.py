"""`neartwin ledger`: the accounts of a ledger, their history, and its verification, export and import."""

import json
import sys
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import click

from neartwin.accounting.budgets import budget_in
from neartwin.cli.options import Sample, json_option
from neartwin.cli.output import NOT_WHOLE, Screen, report_errors, show_restored, show_table
from neartwin.ledger import Account, Book, Head, anchors


@click.group()
def ledger() -> None:
    """Show, verify, export or import a ledger of spending."""


@ledger.command()
@click.argument("path", type=click.Path(), envvar="NEARTWIN_LEDGER")
@json_option
@report_errors
def show(*, path: str, as_json: bool) -> None:
    """Show every account of a ledger with its history. Without PATH it is NEARTWIN_LEDGER, which no list of processes shows."""
    with Book.existing(path) as book:
        accounts = [_summary(account) for account in book.accounts()]
    if as_json:
        click.echo(json.dumps(accounts))
        return
    console = Screen(highlight=False)
    for account in accounts:
        console.print("{population}  unit {unit}, {relation}, {filter}".format(**account), markup=False)
        for pool in account["pools"]:
            cap, spent = Fraction(pool["cap"]), Fraction(pool["spent"])
            if not cap:  # a pool that this account was opened without
                continue
            filled = round(30 * float(spent / cap))
            console.print(
                f"  {pool['pool']:<8} [blue]{'█' * filled}[/][dim]{'░' * (30 - filled)}[/] "
                f"{float(spent):.6g} of {float(cap):.6g} spent, {float(cap - spent):.6g} left"
            )
        names = ("position", "time", "kind", "state", "price")
        rows = [[str(entry[name]) for name in names] for entry in account["history"]]
        show_table(("#", "when", "what", "state", "price"), rows, texts=5)


@ledger.command()
@click.argument("path", type=click.Path(), envvar="NEARTWIN_LEDGER")
@click.option(
    "--head",
    "heads",
    multiple=True,
    help="A head kept elsewhere (position:hash), or the file of a certificate, which has one. Repeatable; the newest says most.",
)
@click.option(
    "--anchor",
    "places",
    multiple=True,
    envvar="NEARTWIN_ANCHOR",
    help="A place that keeps a head, as for `neartwin serve`; PATH.head without being named. Repeatable.",
)
@json_option
@report_errors
def verify(*, path: str, heads: tuple[str, ...], places: tuple[str, ...], as_json: bool) -> None:
    """Find changed, removed and reordered records; with a head kept elsewhere, a rollback or a restored backup.

    Without PATH it is NEARTWIN_LEDGER, which no list of processes shows.

    Where a service keeps its data sets and tokens beside the ledger, they are compared with the curators' recorded acts.
    Exit code 4 when anything is wrong. A certificate's signature is checked by `neartwin certificate verify`.
    """
    from neartwin.web.store import integrity

    known_heads = [_head(text) for text in heads]
    known_heads += [head for place in (*places, *_beside(path)) if (head := anchors.kept(place)) is not None]
    with Book.existing(path) as book:
        verdict = book.verify(also=integrity.faults)
        faults = list(verdict.faults)
        for head in known_heads:
            faults += [fault for fault in book.verify(head).faults if fault not in faults]
    if as_json:
        told = {"whole": not faults, "head": str(verdict.head), "faults": list(map(asdict, faults))}
        click.echo(json.dumps(told))
    else:
        click.echo("\n".join(map(str, faults)) or str(verdict))
    if faults:
        sys.exit(NOT_WHOLE)


@ledger.command()
@click.argument("path", type=click.Path())
@click.argument("places", nargs=-1)
@report_errors
def anchor(*, path: str, places: tuple[str, ...]) -> None:
    """Keep the newest head of a ledger in PLACES: files, URLs that take PUT, git:FOLDER; PATH.head without any.

    A place whose head is not in this ledger keeps it, and the command fails: the ledger was rolled back.
    """
    with Book.existing(path) as book:
        for place in places or _beside(path):
            click.echo(f"{book.anchor(place)}  {place}")


@ledger.command("raise")
@click.argument("path", type=click.Path())
@click.argument("name")
@click.option("--budget", required=True, type=Sample("epsilon=2"), help="The new whole budget, of the same kind.")
@click.option("--reason", default="", help="Why, for the record.")
@report_errors
def raise_cap(path: str, name: str, budget: str, reason: str) -> None:
    """Raise the whole budget of an account, for ever and on record. The promise to its people weakens to the new one.

    NAME is the account's, as `show` lists it. No budget is ever lowered.
    """
    with Book.existing(path) as book:
        left = book.raise_cap(name, budget_in(budget, "budget"), reason).remaining
    click.echo(", ".join(f"{pool} {float(amount):.6g} left" for pool, amount in left.items()))


@ledger.command("export")
@click.argument("path", type=click.Path())
@click.argument("archive", type=click.Path(dir_okay=False))
@report_errors
def export(path: str, archive: str) -> None:
    """Write a whole ledger to a new ARCHIVE of JSON lines, verified. Prints its head: keep it elsewhere."""
    with Book.existing(path) as book:
        head = book.export(archive)
    click.echo(str(head))


@ledger.command("import")
@click.argument("archive", type=click.Path(exists=True, dir_okay=False))
@click.argument("path", type=click.Path())
@click.option("--head", default="", help="The head that was kept when the archive was written.")
@report_errors
def restore(archive: str, path: str, head: str) -> None:
    """Make a new ledger at PATH (a file or a postgresql:// URL) from an ARCHIVE, verified. Prints its head.

    Import only where the old ledger is gone: two living copies of one ledger are two budgets for the same people.
    """
    known_head = _head(head) if head else None
    with Book.restored(archive, path) as book:
        verdict = book.verify(known_head)
    show_restored(verdict)


def _beside(path: str) -> tuple[str, ...]:
    """The file beside a ledger's that keeps a head, where a service or `neartwin ledger anchor` writes it."""
    return () if "://" in path else (f"{path}.head",)


def _head(text: str) -> Head:
    """A head from its text, or from the file of a certificate."""
    if text.partition(":")[0].isdigit():
        return Head.parse(text)
    from neartwin.releases.certificates import read_certificate

    return read_certificate(text).head


def _summary(account: Account) -> dict[str, Any]:
    caps, spent = account.caps, account.spent
    population = account.population
    return {
        "population": account.name,
        "unit": population.unit,
        "relation": population.relation,
        "filter": account.filter.kind,
        "pools": [{"pool": pool, "cap": str(cap), "spent": str(spent[pool])} for pool, cap in caps.items()],
        "history": [
            {
                "position": entry.position,
                "time": entry.time[:19],
                "kind": entry.kind,
                "state": entry.state,
                "price": ", ".join(f"{pool} {float(amount):.4g}" for pool, amount in entry.price.items()),
                "plan": entry.plan_digest,
            }
            for entry in account.history()
        ],
    }
