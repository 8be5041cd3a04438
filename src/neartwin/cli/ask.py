"""`neartwin ask`: a question to a service, as `query` is one to a file of one's own."""

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neartwin.cli import options
from neartwin.cli.output import report_errors, show_releases
from neartwin.errors import ParameterError
from neartwin.queries.query import Query, TopK
from neartwin.queries.sql.parse import from_sql, grouped_rows
from neartwin.queries.sql.series import statements

if TYPE_CHECKING:
    from neartwin.client.service import ServedAccount

Options = dict[str, Any]


@click.command()
@click.argument("url")
@click.argument("dataset")
@click.argument("sql")
@click.option(
    "--token", default="", envvar="NEARTWIN_TOKEN", help="A file with your token; else NEARTWIN_TOKEN holds it."
)
@click.option("--spend", required=True, help="What this release may cost: epsilon=0.5 or epsilon=0.5,delta=1e-7.")
@click.option("--keys", multiple=True, help="Public keys: town=Ulm,Bonn; by default those that the data set declares.")
@options.limit_options
@click.option("--preview", is_flag=True, help="Show cost and expected error, and spend nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--out", type=click.Path(dir_okay=False), help="Also write .html, .json, .csv or .parquet.")
@report_errors
def ask(  # noqa: PLR0917 - a command's options
    url: str,
    dataset: str,
    sql: str,
    token: str,
    spend: str,
    keys: tuple[str, ...],
    preview: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
    out: str | None,
    **limits: str | None,
) -> None:
    """Ask a service's data set a SQL question; the service pays for it from your allotment.

    Several SELECT statements with a semicolon between them are planned and paid as one series, each with its own answer.
    """
    from neartwin.client import connect

    account = connect(url, _token(token)).open(dataset)
    asked = [_question(account, statement, keys) for statement in statements(sql)]
    told: Options = {"spend": options.target(spend, "spend"), "limits": options.limits(dict(limits))}
    proposal = account.plan(asked[0], **told) if len(asked) == 1 else account.plan_series(asked, **told)
    if preview:
        click.echo(f"{proposal.explain()}\n\n{proposal.preview()}")
        return
    show_releases(account.release_series(proposal), as_json=as_json, out=out)


def _question(account: "ServedAccount", sql: str, keys: tuple[str, ...]) -> Query | TopK:
    """One statement's question; of the keys, those of its own columns, by default those that the data set declares."""
    grouped, columns = grouped_rows(sql, account.rows, tables=account.tables)
    given = options.keys(keys, dict(grouped.table.schema))
    if isinstance(given, dict):
        given = {name: values for name, values in given.items() if name in columns} or None
    declared = account.declared_keys(grouped)
    if given is None and columns and all(column in declared for column in columns):
        given = _product(declared, columns)
    return from_sql(sql, account.rows, keys=given, tables=account.tables)


def _token(given: str) -> str:
    if given.startswith("nt_"):
        return given
    try:
        return Path(given).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        remedy = "give --token FILE, or set NEARTWIN_TOKEN"
        raise ParameterError("token", "", "is not there", remedy=remedy) from None


def _product(keys: Any, columns: tuple[str, ...]) -> list[Any]:
    """Declared keys of the columns; dates come as text over the wire and are read by the form's own rule."""
    found = list(product(*(keys[column] for column in columns)))
    return [key[0] for key in found] if len(columns) == 1 else found
