"""`neartwin ask`: a question to a service, with the options of `neartwin query`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neartwin.cli import options
from neartwin.cli.output import report_errors, show_releases
from neartwin.errors import ParameterError
from neartwin.planning.pilots import with_private_range
from neartwin.queries.query import Query, TopK
from neartwin.queries.sql.parse import statement_of
from neartwin.queries.sql.series import statements
from neartwin.statistics.clipping import read_range

if TYPE_CHECKING:
    from neartwin.client.service import ServedAccount


@click.command()
@click.argument("url")
@click.argument("dataset")
@click.argument("sql")
@click.option(
    "--token", default="", envvar="NEARTWIN_TOKEN", help="A file with your token; else NEARTWIN_TOKEN holds it."
)
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

    account = connect(url, _token(token)).open(dataset)
    clip = read_range(arguments["private_range"] or None)
    texts = statements(sql, arguments["dialect"])
    queries = [with_private_range(_question(account, part, arguments["keys"]), clip) for part in texts]
    proposal = account.plan_series(queries, **options.arguments_of_plan(arguments))
    if preview:
        click.echo(f"{proposal.explain()}\n\n{proposal.preview()}")
        return
    show_releases(account.release_series(proposal), as_json=as_json, out=out)


def _question(account: "ServedAccount", sql: str, keys: tuple[str, ...]) -> Query | TopK:
    """The question of one statement. Its keys are the given ones of its columns, or else the declared ones."""
    read = statement_of(sql, account.rows, tables=account.tables)
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
