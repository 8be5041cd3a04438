"""`neartwin ledger`: what was spent, on what, and what is left."""

import json
from fractions import Fraction
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from neartwin.cli.talk import refusing
from neartwin.ledger import Account, Ledger


@click.group()
def ledger() -> None:
    """The durable record of what was spent."""


@ledger.command()
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@refusing
def show(path: str, as_json: bool) -> None:  # noqa: FBT001 - a command's options
    """Show every account of a ledger with its history."""
    with Ledger.existing(path) as book:
        told = [_told(account) for account in book.accounts()]
    if as_json:
        click.echo(json.dumps(told))
        return
    console = Console(highlight=False)
    for account in told:
        console.print(
            f"[bold]{account['population']}[/]  unit {account['unit']}, {account['relation']}, {account['filter']}"
        )
        for pool in account["pools"]:
            cap, spent = Fraction(pool["cap"]), Fraction(pool["spent"])
            if not cap:  # a pool that this account was opened without
                continue
            filled = round(30 * float(spent / cap))
            console.print(
                f"  {pool['pool']:<8} [blue]{'█' * filled}[/][dim]{'░' * (30 - filled)}[/] "
                f"{float(spent):.6g} of {float(cap):.6g} spent, {float(cap - spent):.6g} left"
            )
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for name in ("#", "when", "what", "state", "price"):
            table.add_column(name)
        for entry in account["history"]:
            table.add_row(*(str(entry[name]) for name in ("position", "time", "kind", "state", "price")))
        console.print(table)


def _told(account: Account) -> dict[str, Any]:
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
