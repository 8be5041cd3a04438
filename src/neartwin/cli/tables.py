"""`neartwin import` and `neartwin check`: what the owner of a table does before anybody asks it."""

import json
from dataclasses import asdict
from typing import Any

import click
import pyarrow.parquet as pq
from rich.markup import escape

from neartwin.cli import options
from neartwin.cli.output import report_errors, stderr
from neartwin.errors import SchemaError
from neartwin.queries.open import table as open_table
from neartwin.releases.accounts import check as owner_check
from neartwin.releases.accounts import open_ledger
from neartwin.tables.files import matched
from neartwin.tables.ingestion import Terms, fitting_types, imported
from neartwin.tables.joins import declared_types
from neartwin.tables.table import ROW
from neartwin.tables.types import column_type
from neartwin.web.datasets import pairs

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
