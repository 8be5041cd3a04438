"""`neartwin query`, `plan` and `release`: questions from SQL on the command line, or from a TOML file."""

import json
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from neartwin.cli import options
from neartwin.cli.output import report_errors, show_releases, stderr
from neartwin.errors import ParameterError, QueryError
from neartwin.planning.limits import Limits, known_names
from neartwin.planning.pilot_ranges import with_private_range
from neartwin.queries.open import table as open_table
from neartwin.queries.query import Rows
from neartwin.queries.sql.parse import explained_sql
from neartwin.queries.sql.series import series_from_sql
from neartwin.releases.accounts import Ledger, Proposal, SeriesProposal, open_ledger
from neartwin.releases.rehearsal import StandInPreview
from neartwin.statistics.clipping import read_range
from neartwin.tables.joins import OtherTable, owned_by, public_table

Options = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a command line or a TOML file asks, still as written there."""

    ledger: str
    data: str
    sql: str
    spend: str
    unit: str
    limits: Limits
    budget: str = ""
    name: str = ""
    table: str = ""
    neighbours: str = "add_remove"
    types: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    same_unit: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    group_size: int = 1
    private_range: str = ""
    importance: tuple[str, ...] = ()


def _question(given: Options) -> Question:
    """The question of what was given by name, its limits as one value."""
    given = dict(given)
    return Question(limits=options.limits(given), **{name: value for name, value in given.items() if value is not None})


def _asked(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that `query` and `plan` share."""
    shared: list[Callable[..., Any]] = [
        click.argument("data"),
        click.argument("sql"),
        click.option("--ledger", required=True, help="The ledger's file; made if it is missing."),
        click.option(
            "--spend", required=True, help="What this release may cost: epsilon=0.5 or epsilon=0.5,delta=1e-7."
        ),
        click.option(
            "--unit", required=True, help="The column of the people to protect, 'each row', or 'who in one week of at'."
        ),
        click.option("--budget", default="", help="The account's whole budget; by default what this question spends."),
        click.option("--name", default="", help="The name of these people in the ledger; by default the file's name."),
        click.option("--table", default="", help="The table of a DuckDB database."),
        click.option("--neighbours", default="add_remove", show_default=True, help="add_remove or replace_one."),
        click.option("--types", multiple=True, help="A declared type: amount=number. Wanted for a CSV's columns."),
        click.option(
            "--bounds", multiple=True, help="A column's public bounds: amount=0:200, with a step amount=0:200:0.5."
        ),
        click.option("--keys", multiple=True, help="Public keys: town=Ulm,Bonn or year=1997:1998 or a file of them."),
        click.option(
            "--public", multiple=True, help="A public table to JOIN: towns=towns.csv, of a database x.db#towns."
        ),
        click.option(
            "--same-unit", multiple=True, help="A private table of the same people to JOIN: visits=visits.parquet."
        ),
        click.option(
            "--owned", multiple=True, help="A private table to JOIN, whose rows belong to the unit with their key."
        ),
        options.limit_options,
        click.option(
            "--private-range",
            default="",
            help="Have clip bounds chosen privately, for 1/10 of the spend: 1/10,groups=500.",
        ),
        click.option("--group-size", type=int, default=1, help="The number of units that the spend protects together."),
        click.option("--importance", multiple=True, help="How much a statistic's error matters: total=4; others 1."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
    ]
    for option in reversed(shared):
        command = option(command)
    return command


@click.command()
@_asked
@click.option("--out", type=click.Path(dir_okay=False), help="Also write .html, .json, .csv or .parquet.")
@click.option("--table-out", help="Write a release too large for memory to a new Parquet file, some groups at a time.")
@report_errors
def query(as_json: bool, out: str | None, table_out: str | None, **arguments: Any) -> None:  # noqa: FBT001 - a command's options
    """Ask a table a SQL question, privately, and pay for it from a ledger; EXPLAIN SELECT shows the plan for nothing.

    Several SELECT statements with a semicolon between them are planned and paid as one series, each with its own answer.
    """
    if (inner := explained_sql(arguments["sql"])) is not None:
        with open_ledger(arguments["ledger"]) as book:
            explained = str(_proposal(book, _question(arguments | {"sql": inner})).explain())
        click.echo(json.dumps({"explain": explained}) if as_json else explained)
        return
    if table_out is not None:
        _written(_question(arguments), table_out, as_json=as_json)
        return
    _release(_question(arguments), out, as_json=as_json)


def _written(question: Question, place: str, *, as_json: bool) -> None:
    with open_ledger(question.ledger) as book:
        proposal = _proposal(book, question)
        if isinstance(proposal, SeriesProposal):
            raise QueryError("--table-out writes one answer; leave the others of the series out")
        with stderr.status("asking the data") if stderr.is_terminal else nullcontext():
            written = proposal.account.release_to_parquet(proposal, place)
    click.echo(written.to_json() if as_json else f"{written.place}  sha256 {written.digest}")
    stderr.print(f"[bold]{written.guarantee}[/]")
    for note in (written.guarantee.words(), *written.notes):
        stderr.print(f"- {note}", style="dim", markup=False)


@click.command()
@_asked
@click.option("--standin", help="A file of public or synthetic rows of the same columns, to try the question on.")
@report_errors
def plan(as_json: bool, standin: str | None, **arguments: Any) -> None:  # noqa: FBT001 - a command's options
    """Show what a question would do and cost. Free: it reads no private row and spends nothing."""
    with open_ledger(arguments["ledger"]) as book:
        proposal = _proposal(book, _question(arguments))
        preview, explained = proposal.preview(), proposal.explain()
        tried = _tried(proposal, standin)
    if as_json:
        left = {pool: str(amount) for pool, amount in preview.after.items()}
        errors = [
            {"name": e.name, "half_width": None if e.half_width is None else float(e.half_width), "by_size": e.by_size}
            for e in preview.errors
        ]
        given = {"price": str(preview.price), "left": left, "errors": errors, "explain": str(explained)}
        click.echo(json.dumps(given | ({} if tried is None else {"standin": asdict(tried)})))
        return
    click.echo(str(explained))
    click.echo()
    click.echo(str(preview))
    if tried is not None:
        click.echo(f"\n{tried}")


def _tried(proposal: Proposal | SeriesProposal, standin: str | None) -> StandInPreview | None:
    if standin is None:
        return None
    if isinstance(proposal, SeriesProposal):
        raise QueryError("--standin tries one question; leave the others of the series out")
    return proposal.preview_on(standin)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--out", type=click.Path(dir_okay=False), help="Also write .html, .json, .csv or .parquet.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@report_errors
def release(file: str, out: str | None, as_json: bool) -> None:  # noqa: FBT001 - a command's options
    """Run the question that a TOML file describes, or several with semicolons; paths in it are relative to the file."""
    _release(_from_toml(Path(file)), out, as_json=as_json)


def _release(question: Question, out: str | None, *, as_json: bool) -> None:
    with open_ledger(question.ledger) as book:
        proposal = _proposal(book, question)
        with stderr.status("asking the data") if stderr.is_terminal else nullcontext():
            if isinstance(proposal, SeriesProposal):
                answers = proposal.account.release_series(proposal)
            else:
                answers = (proposal.account.release(proposal),)
    show_releases(answers, as_json=as_json, out=out)


def _proposal(book: Ledger, question: Question) -> Proposal | SeriesProposal:
    others_of = {"public": question.public, "same-unit": question.same_unit, "owned": question.owned}
    joined = [name for kind, texts in others_of.items() for name in options.pairs(texts, kind)]
    rows = open_table(
        question.data,
        unit=options.unit(question.unit),
        name=question.name,
        table=question.table,
        neighbours=question.neighbours,
        types=options.own(joined, options.types(question.types)),
        columns=options.own(joined, options.bounds(question.bounds)),
    )
    spend = options.target(question.spend, "spend")
    account = book.open(rows, options.target(question.budget, "budget") if question.budget else spend)
    others = _others(question, rows)
    asked = series_from_sql(question.sql, rows, keys=lambda schema: options.keys(question.keys, schema), tables=others)
    clip = read_range(question.private_range or None)
    queries = [with_private_range(one, clip) for one in asked]
    given: Options = {
        "spend": spend,
        "limits": question.limits,
        "importance": options.pairs(question.importance, "importance") or None,
        "group_size": question.group_size,
    }
    return account.plan_series(queries, **given) if len(queries) > 1 else account.plan(queries[0], **given)


def _others(question: Question, rows: Rows) -> dict[str, Rows | OtherTable]:
    """The tables to join, by the name that SQL calls them. Types and bounds of theirs are written NAME.column=..."""
    types, bounds = options.types(question.types), options.bounds(question.bounds)
    found: dict[str, Rows | OtherTable] = {}
    for kind, texts in (("public", question.public), ("same-unit", question.same_unit), ("owned", question.owned)):
        for name, text in options.pairs(texts, kind).items():
            data, _, table = text.partition("#")
            more: dict[str, Any] = {
                "table": table,
                "types": options.of(name, types),
                "columns": options.of(name, bounds),
            }
            if kind == "same-unit":
                given: dict[str, Any] = {
                    "unit": rows.table.unit,
                    "name": rows.table.name,
                    "neighbours": rows.table.neighbours,
                }
                found[name] = open_table(data, **given, **more)
            else:
                found[name] = (public_table if kind == "public" else owned_by)(data, name=name, **more)
    return found


def _from_toml(path: Path) -> Question:
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise QueryError(f"{path.name} is not TOML: {error}") from None
    given: Options = {}
    for name, value in body.items():
        if name not in (known_fields := (*Question.__dataclass_fields__, *known_names())):
            known = ", ".join(known_fields)
            raise ParameterError("key", name, f"is unknown in {path.name}", remedy=f"known are {known}")
        table = isinstance(value, dict) and name != "limits"
        given[name] = tuple(f"{k}={v}" for k, v in value.items()) if table else value
    for name in ("ledger", "data"):
        if name in given and "://" not in str(given[name]):
            given[name] = str(path.parent / given[name])
    for name in ("public", "same_unit", "owned"):
        pairs = options.pairs(given.get(name, ()), name).items()
        given[name] = tuple(f"{table}={data if '://' in data else path.parent / data}" for table, data in pairs)
    try:
        return _question(given)
    except TypeError:
        wanted = [name for name in ("ledger", "data", "sql", "spend", "unit") if name not in given]
        raise ParameterError("key", wanted[0], f"is missing in {path.name}") from None
