"""`neartwin mcp`: the registered data sets as tools for an agent's program on this machine."""

import click

from neartwin.accounting.budgets import budget_in
from neartwin.checks import needed
from neartwin.cli.output import report_errors
from neartwin.cli.service import PLACE, opened_directory
from neartwin.errors import ParameterError
from neartwin.ledger.wishes import CONSOLE


@click.command()
@PLACE
@click.option("--name", default="agent", show_default=True, help="The name under which the agent spends.")
@click.option(
    "--allot", multiple=True, help="What it may spend of a data set without asking you: purchases:epsilon=0.2."
)
@report_errors
def mcp(*, directory: str, ledger: str, name: str, allot: tuple[str, ...]) -> None:
    """Let an agent ask the registered data sets: an MCP server on standard input and output.

    Without --allot the agent's program asks you before each release, which your policy's allotment pays.
    """
    needed("mcp", "mcp")
    from neartwin.web.agents import Desk
    from neartwin.web.app import service
    from neartwin.web.auth import Caller
    from neartwin.web.service import Settings

    caller = Caller(name=name, role="agent" if allot else "analyst", project="", expires="")
    with opened_directory(directory, ledger) as opened:
        for text in allot:
            dataset, _, amount = text.rpartition(":")
            if not dataset:
                raise ParameterError("allot", text, "must name the data set", remedy="write purchases:epsilon=0.2")
            opened.allot(dataset, caller.holders[0], budget_in(amount, "allot"), by=CONSOLE)
        running = service(opened, Settings(workers=1))
        try:
            Desk(running, lambda _: caller).run()
        finally:
            running.workers.close()
