"""`neartwin ask`: a question to a service, with the options of `neartwin query`; and `request`: for budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neartwin.accounting.budgets import budget_in, parts_of
from neartwin.cli import options
from neartwin.cli.output import report_errors, require_writable, show_releases
from neartwin.errors import ParameterError
from neartwin.interactive import visible
from neartwin.planning.pilots import with_private_range
from neartwin.queries.query import Query, TopK
from neartwin.queries.sql.parse import Statement, statement_of
from neartwin.queries.sql.spelling import trees
from neartwin.statistics.clipping import read_range

if TYPE_CHECKING:
    from neartwin.client.service import ServedAccount

_TOKEN = click.option(
    "--token", default="", envvar="NEARTWIN_TOKEN", help="A file with your token; else NEARTWIN_TOKEN holds it."
)


@click.command()
@click.argument("url")
@click.argument("dataset")
@click.argument("sql")
@_TOKEN
@click.option("--keys", multiple=True, help="Public keys: town=Ulm,Bonn; by default those that the data set declares.")
@options.dialect_option
@options.spend_options
@click.option("--preview", is_flag=True, help="Show cost and expected error, and spend nothing.")
@options.json_option
@options.out_option
@report_errors
def ask(
    *, url: str, dataset: str, sql: str, token: str, preview: bool, as_json: bool, out: str | None, **arguments: Any
) -> None:
    """Ask a service's data set a question in SQL.

    The service pays for the answer from your allotment.

    Several SELECT statements with a semicolon between them are planned and paid as one series, each with its own answer.
    """
    from neartwin.client import connect

    require_writable(out)
    account = connect(url, _token(token)).open(dataset)
    clip = read_range(arguments["private_range"] or None)
    read = (statement_of(tree, account.rows, tables=account.tables) for tree in trees(sql, arguments["dialect"]))
    queries = [with_private_range(_question(account, one, arguments["keys"]), clip) for one in read]
    proposal = account.plan_series(queries, **options.arguments_of_plan(arguments))
    if preview:
        click.echo(visible(f"{proposal.explain()}\n\n{proposal.preview()}"))
        return
    show_releases(account.release_series(proposal), as_json=as_json, out=out)


@click.command()
@click.argument("url")
@click.argument("dataset")
@_TOKEN
@click.option("--budget", default="", help="What you want to spend in all, what is spent included: epsilon=2.")
@click.option("--holder", default="", help="project:NAME, to ask for your project; else it is for you.")
@click.option("--reason", default="", help="Why you ask, or decline. The other side reads it.")
@click.option("--withdraw", type=int, help="The number of a request of yours that waits.")
@click.option("--approve", type=int, help="The number of a request that you approve, as a curator.")
@click.option("--decline", type=int, help="The number of a request that you decline, as a curator.")
@report_errors
def request(*, url: str, dataset: str, token: str, budget: str, holder: str, reason: str, **ends: int | None) -> None:
    """Ask for more budget of a service's data set, or answer a request; then list the requests that you may see."""
    from neartwin.client.http import HttpClient

    http, place = HttpClient(url, _token(token), 60), ("datasets", dataset, "requests")
    if budget:
        http.post(*place, body={"target": parts_of(budget_in(budget, "budget")), "reason": reason, "holder": holder})
    for end, position in ends.items():
        if position is not None:
            reply = {"approve": end == "approve", "reason": reason}
            http.send("DELETE" if end == "withdraw" else "PUT", (*place, str(position)), body=reply)
    for one in http.get(*place):
        answer = one["answer"] or "waits for a curator"
        click.echo(f"{one['position']}  {one['holder']!r}  {one['target']}  {one['reason']!r}: {answer!r}")


def _question(account: "ServedAccount", read: Statement, keys: tuple[str, ...]) -> Query | TopK:
    """The question of one statement. Its keys are the given ones of its columns, or else the declared ones."""
    given = read.own(options.keys(keys, dict(read.rows.table.schema)))
    declared = account.declared_keys(read.rows)
    if given is None and read.groups and all(column in declared for column in read.groups):
        given = {column: declared[column] for column in read.groups}
    return read.question(given)


def _token(given: str) -> str:
    if given.startswith("nt_"):
        return given
    try:
        return Path(given).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        remedy = "give --token FILE, or set NEARTWIN_TOKEN"
        raise ParameterError("token", "", "is missing", remedy=remedy) from None
