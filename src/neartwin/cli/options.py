"""Options that several commands share, and their syntax.

Examples of the syntax: `epsilon=0.5,delta=1e-6`, `amount=0:200:0.01`, `town=Ulm,Bonn`, `cds=1:5`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from neartwin.accounting.budgets import budget_in
from neartwin.errors import ParameterError
from neartwin.planning.limits import Limits, known_names
from neartwin.queries.query import Grouping, date, date_part
from neartwin.tables.table import ROW, RowUnit
from neartwin.tables.types import ColumnType
from neartwin.web.datasets import KINDS, JoinableTable, bounds_in, keys_in, pairs

T = TypeVar("T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Sample(click.types.StringParamType):
    """Text, with a sample for the refusal of a command that lacks it."""

    def __init__(self, sample: str) -> None:
        """The sample is what a first question would have."""
        self.sample = sample

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The line to write."""
        return f"write {' '.join([*param.opts[:1] * (param.param_type_name == 'option'), self.sample])}"


def _spend_of_habit(_context: click.Context, option: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise click.BadParameter(f"is a part of --spend; write --spend {option.name}={given}")


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in their order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
out_option = click.option(
    "--out", type=click.Path(dir_okay=False), help="Also write .html, .json, .csv, .parquet or .xlsx."
)
picture_option = click.option(
    "--picture", type=click.Path(dir_okay=False), help="Draw the result to this .svg, .png or .pdf file."
)
dialect_option = click.option(
    "--dialect", default="duckdb", help="The SQL that the question is in: postgres, snowflake, ..."
)
reading_options = together(
    click.option("--into", default="", help="The folder of typed copies; by default .neartwin beside the file."),
    click.option(
        "--encoding", default="", help="The encoding of text, such as latin-1; by default the last one, or UTF-8."
    ),
)
table_options = together(
    click.option(
        "--unit",
        required=True,
        type=Sample("customer_id"),
        help="Who is protected: a column, 'each row', or 'who in one week of at'.",
    ),
    click.option("--name", default="", help="The name of these people; by default the file's or table's name."),
    click.option("--table", default="", help="The table of a database, or the sheet of Excel."),
    click.option("--neighbours", default="add_remove", show_default=True, help="add_remove or replace_one."),
    click.option("--types", multiple=True, help="A declared type: amount=number. Wanted for a CSV's columns."),
    click.option(
        "--bounds", multiple=True, help="A column's public bounds: amount=0:200, with a step amount=0:200:0.5."
    ),
    click.option("--keys", multiple=True, help="Public keys: town=Ulm,Bonn or year=1997:1998 or a file of them."),
    click.option("--public", multiple=True, help="A public table to JOIN: towns=towns.csv, of a database x.db#towns."),
    click.option(
        "--same-unit", multiple=True, help="A private table of the same people to JOIN: visits=visits.parquet."
    ),
    click.option(
        "--owned",
        multiple=True,
        help="A private table to JOIN, with the key of its owner: lines=lines.parquet by order.",
    ),
)
spend_options = together(
    click.option(
        "--spend",
        required=True,
        type=Sample("epsilon=0.5"),
        help="What this release may cost: epsilon=0.5 or epsilon=0.5,delta=1e-7.",
    ),
    click.option("--epsilon", hidden=True, expose_value=False, callback=_spend_of_habit),
    click.option("--max-rows-per-group", help="The most rows of a unit in one group. The plan chooses without limits."),
    click.option("--max-groups", help="The most groups of a unit; or private=256."),
    click.option("--rows", help="The most rows of a unit in all groups together; or private=256,groups=500."),
    click.option("--norm", help="Instead: the norm of a unit's whole vector, in rows; or private=256."),
    click.option("--values", help="The most distinct values that a unit stands for; or private=256."),
    click.option("--max-discovered-groups", help="In how many of its groups a unit helps to discover them."),
    click.option("--loss-share", help="The share of the spend that measures what the limits take: 0 or 1/20."),
    click.option(
        "--private-range", default="", help="Choose clip bounds privately, for 1/10 of the spend: 1/10,groups=500."
    ),
    click.option("--group-size", type=int, default=1, help="The number of units that the spend protects together."),
    click.option("--importance", multiple=True, help="How much a statistic's error matters: total=4; others 1."),
)


def arguments_of_plan(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `account.plan`, from the values of `spend_options`."""
    return {
        "spend": budget_in(given["spend"], "spend"),
        "limits": limits(dict(given)),
        "importance": pairs(given["importance"], "importance") or None,
        "group_size": given["group_size"],
    }


def joinable(given: Mapping[str, Any], unit: str) -> list[JoinableTable]:
    """The tables to join. Their keys are left out, because keys need the types of columns.

    Args:
        given: The values of `table_options`. Types and bounds of these tables are written NAME.column=...
        unit: The column of the units, which has one name in all tables.

    Raises:
        ParameterError: A text is not NAME=place.
    """
    found = []
    declared, bounded = pairs(given["types"], "types"), bounds_in(given["bounds"])
    for kind in KINDS:
        for name, text in pairs(given[kind], kind).items():
            where, by, key = text.rpartition(" by ") if kind == "owned" else (text, "", "")
            place, _, table = where.partition("#")
            if kind == "owned" and not by:
                raise ParameterError("owned", f"{name}={text}", "must name the key", remedy=f"{name}={text} by KEY")
            found.append(
                JoinableTable(
                    name=name,
                    kind=kind,
                    place=place,
                    table=table,
                    unit=unit if kind == "same_unit" else "",
                    on={
                        left: right or left for left, _, right in (one.partition("=") for one in key.split(",") if one)
                    },
                    types=of(name, declared),
                    bounds=of(name, bounded),
                )
            )
    return found


def unit(text: str) -> str | RowUnit | tuple[str, Grouping]:
    """Read a unit as releases write it: a column, `each row`, or a column's values within one period.

    >>> unit("customer in one week of at")
    ('customer', Grouping(name='at_week', of='at', around="date_trunc('week', {})"))
    """
    if text == "each row":
        return ROW
    found = re.fullmatch(r"(.+) in one (day|week|month|quarter|year) of (.+)", text)
    if found is None:
        return text
    column, word, of = found.groups()
    return column, date(of) if word == "day" else date_part(f"{word} start", of)


def limits(given: dict[str, Any]) -> Limits:
    """Read limits from single options.

    Args:
        given: The options by name. Limits are removed from it.

    >>> print(limits({"rows": 20, "max_groups": "3", "spend": "epsilon=1"}))
    nt.limits(max_groups=3, rows=20)
    """
    return Limits.from_dict({name: given.pop(name) for name in known_names() if given.get(name) is not None})


def keys(texts: tuple[str, ...], schema: Mapping[str, ColumnType]) -> Any:
    """Read public keys.

    Args:
        texts: `town=Ulm,Bonn` for a column, `cds=1:5` for a range with both ends, or one path of a file.
        schema: The types of the columns.

    Returns:
        The keys by column, whose product is taken, or the path, or None for no text.
    """
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        if "." not in texts[0]:
            column = next((name for name, kind in schema.items() if kind is ColumnType.TEXT), "column")
            raise ParameterError("keys", texts[0], "must name a file or a column", remedy=f"write {column}={texts[0]}")
        return texts[0]
    return {column: keys_in(text, schema.get(column)) for column, text in pairs(texts, "keys").items()}


def own(others: list[str], found: dict[str, T]) -> dict[str, T]:
    """The entries of the first table's columns: the names that do not start with another table's name."""
    theirs = tuple(f"{table}." for table in others)
    return {name: value for name, value in found.items() if not name.startswith(theirs)}


def of(table: str, found: dict[str, T]) -> dict[str, T]:
    """The entries of another table's columns, by their own names.

    >>> of("towns", {"towns.rent": "number", "age": "integer"})
    {'rent': 'number'}
    """
    return {name.removeprefix(f"{table}."): value for name, value in found.items() if name.startswith(f"{table}.")}
