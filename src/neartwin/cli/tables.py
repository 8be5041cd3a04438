"""`neartwin import` and `check`, for the owner of a table; `query` and `plan`: questions in SQL, on the command line."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click
import pyarrow.parquet as pq
from rich.markup import escape

from neartwin.accounting.budgets import budget_in
from neartwin.cli import options
from neartwin.cli.output import report_errors, require_writable, show_guarantee, show_releases, stderr
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.interactive import visible
from neartwin.planning.pilots import with_private_range
from neartwin.queries.open import table as open_table
from neartwin.queries.sql.parse import series_from_sql
from neartwin.releases.accounts import Ledger, Proposal, SeriesProposal, open_ledger
from neartwin.releases.accounts import check as owner_check
from neartwin.statistics.clipping import read_range
from neartwin.tables.files import matched
from neartwin.tables.ingestion import Terms, fitting_types, imported
from neartwin.tables.joins import declared_types
from neartwin.tables.table import ROW
from neartwin.tables.types import column_type
from neartwin.web.datasets import KINDS, bounds_in, pairs

_TYPES = click.option("--types", multiple=True, help="A declared type: amount=number. Other columns are text.")


@click.command("import")
@click.argument("file")
@_TYPES
@click.option("--table", default="", help="The table of a SQLite file, or the sheet of Excel.")
@click.option("--null", multiple=True, help="A text that means no value: NA. By default those of the last one.")
@options.reading_options
@click.option("--accept-odd", is_flag=True, help="Leave odd lines out, and take odd values as NULL.")
@options.json_option
@report_errors
def import_(*, file: str, types: tuple[str, ...], table: str, as_json: bool, **terms: Any) -> None:
    """Read CSV, TSV, JSON lines, Excel or SQLite files once into typed columns, for questions with the same --types.

    This is the owner's own reading, and no release: it shows odd lines and values. A file that was written since becomes
    another snapshot.
    """
    declared, given = declared_types(pairs(types, "types")), Terms(refresh=True, **terms)
    with stderr.status(f"reading {escape(file)}") as status:
        found = imported(matched(file), declared, given, table, lambda rows: status.update(f"{rows:,} rows"))
        fits = fitting_types(found, declared)
    if as_json:
        click.echo(json.dumps(asdict(found) | {"fits": fits}))
        return
    click.echo(f"snapshot {found.number}: {found.rows:,} rows in {found.copy}")
    for line in found.listed:
        stderr.print(f"odd: {line}", markup=False)
    held = (f"{one.name} {column_type(str(one.type))}" for one in pq.read_schema(found.copy))
    stderr.print(f"public from now on: {', '.join(held)}", markup=False)
    if fits:
        line = " ".join(f"--types {column}={kind}" for column, kind in fits.items())
        stderr.print(f"as all values of these would fit, if you may say so of any person's: {line}", markup=False)


@click.command()
@click.argument("data")
@click.option("--table", default="", help="The table of a database, or the sheet of Excel.")
@_TYPES
@click.option("--unit", default="", help="With --key: the column of the people.")
@click.option("--key", default="", help="Columns that must belong to one unit each, as nt.owned_by says: visit,day.")
@click.option(
    "--ledger", default="", help="The ledger that remembers the check, with --unit. The people have an account."
)
@click.option("--name", default="", help="With --ledger: the name of these people, as in questions.")
@report_errors
def check(*, data: str, table: str, types: tuple[str, ...], unit: str, key: str, ledger: str, name: str) -> None:
    """Read each value of a table once, and name columns that a value makes unreadable, and keys of several units.

    Such a value would make releases fail, and only one of the units would own the rows of such a key. This is the
    owner's own reading, and no release. A guarantee says that data are unchecked, unless the ledger remembers a check.
    """
    declared = pairs(types, "types")
    rows = open_table(data, unit=unit or ROW, name=name or ("" if ledger else "check"), table=table, types=declared)
    keys = [one for one in key.split(",") if one]
    with stderr.status(f"reading each value of {escape(data)}"):
        if ledger:
            with open_ledger(ledger) as book:
                faults = book.open(rows).check(key=keys)
        else:
            faults = owner_check(rows, key=keys)
    for line in faults:
        stderr.print(line, markup=False)
    if faults:
        raise SchemaError(f"{len(faults):,} faults; mend them, or make a copy without these values")
    click.echo("every value can be read" + (", and each key belongs to one unit" if key else ""))


Options = Mapping[str, Any]
_question_options = options.together(
    click.argument("data", type=options.Sample("purchases.parquet")),
    click.argument("sql", type=options.Sample("'SELECT COUNT(*) FROM purchases'")),
    click.option(
        "--ledger", required=True, type=options.Sample("budget.db"), help="The ledger's file; made if it is missing."
    ),
    click.option(
        "--budget", default="", help="The whole budget of these people, which the first question opens: epsilon=1."
    ),
    options.table_options,
    options.reading_options,
    options.dialect_option,
    options.spend_options,
    options.json_option,
)


@click.command()
@_question_options
@options.out_option
@click.option("--table-out", help="Write a release too large for memory to a new Parquet file, some groups at a time.")
@report_errors
def query(*, as_json: bool, out: str | None, table_out: str | None, **arguments: Any) -> None:
    """Ask a table a question in SQL, and pay from a ledger.

    Several SELECT statements with a semicolon between them are planned and paid as one series, each with its own answer.
    """
    require_writable(out)
    with open_ledger(arguments["ledger"]) as book:
        proposal = _proposal(book, arguments)
        if table_out is not None:
            _write(proposal, table_out, as_json=as_json)
            return
        with stderr.status("asking the data"):
            if isinstance(proposal, SeriesProposal):
                answers = proposal.account.release_series(proposal)
            else:
                answers = (proposal.account.release(proposal),)
    show_releases(answers, as_json=as_json, out=out)


def _write(one: Proposal | SeriesProposal, place: str, *, as_json: bool) -> None:
    if isinstance(one, SeriesProposal):
        raise QueryError("--table-out writes one answer; leave the others of the series out")
    with stderr.status("asking the data"):
        written = one.account.release_to_parquet(one, place)
    click.echo(written.to_json() if as_json else f"{written.place}  sha256 {written.digest}")
    show_guarantee(written.guarantee, written.notes)


@click.command()
@_question_options
@report_errors
def plan(*, as_json: bool, **arguments: Any) -> None:
    """Show the plan and the cost of a question. This reads no private row and spends nothing."""
    with open_ledger(arguments["ledger"]) as book:
        proposal = _proposal(book, arguments)
        preview, explained = proposal.preview(), proposal.explain()
    if as_json:
        left = {pool: str(amount) for pool, amount in preview.after.items()}
        errors = [
            {"name": e.name, "half_width": None if e.half_width is None else float(e.half_width), "by_size": e.by_size}
            for e in preview.errors
        ]
        given = {"price": str(preview.price), "left": left, "errors": errors, "explain": str(explained)}
        click.echo(json.dumps(given))
        return
    click.echo(visible(f"{explained}\n\n{preview}"))


def _proposal(book: Ledger, arguments: Options) -> Proposal | SeriesProposal:
    names = [name for kind in KINDS for name in pairs(arguments[kind], kind)]
    if arguments["data"].lower().startswith("select"):
        line = f"write {arguments['sql']} {arguments['data']!r}"
        raise ParameterError("data", arguments["data"], "is the question, which comes behind the data", remedy=line)
    rows = open_table(
        arguments["data"],
        unit=options.unit(arguments["unit"]),
        types=options.own(names, pairs(arguments["types"], "types")),
        columns=options.own(names, bounds_in(arguments["bounds"])),
        **{name: arguments[name] for name in ("name", "table", "neighbours", "into", "encoding")},
    )
    plan_arguments = options.arguments_of_plan(arguments)
    budget = budget_in(arguments["budget"], "budget") if arguments["budget"] else None
    joinable = options.joinable(arguments, str(rows.table.unit))
    tables = {other.name: other.opened(rows, into=arguments["into"]) for other in joinable}
    asked = {"keys": lambda schema: options.keys(arguments["keys"], schema), "dialect": arguments["dialect"]}
    parsed = series_from_sql(arguments["sql"], rows, tables=tables, **asked)
    clip = read_range(arguments["private_range"] or None)
    queries = [with_private_range(one, clip) for one in parsed]
    account = book.open(rows, budget)  # not before the question is understood: its budget stays
    if len(queries) > 1:
        return account.plan_series(queries, **plan_arguments)
    return account.plan(queries[0], **plan_arguments)
