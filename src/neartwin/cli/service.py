"""`neartwin serve`, `register`, `token` and `mcp`: budgeted data sets for many analysts and agents, from this terminal."""

import gc
import logging
import os
import signal
import sys
import threading
import tomllib
from contextlib import ExitStack
from dataclasses import replace
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from neartwin.accounting.budgets import budget_in
from neartwin.checks import needed
from neartwin.cli import options
from neartwin.cli.output import report_errors, show_restored, stderr
from neartwin.errors import ParameterError
from neartwin.ledger import Head, anchors
from neartwin.ledger.wishes import CONSOLE
from neartwin.queries.query import table_of
from neartwin.tables.table import ROW
from neartwin.web.datasets import EACH_ROW_NAME, Dataset, Rule, bounds_in, pairs

if TYPE_CHECKING:
    from neartwin.web.data_directory import DataDirectory

PLACE = options.together(
    click.option(
        "--data", "directory", required=True, type=click.Path(file_okay=False), help="The service's directory."
    ),
    click.option(
        "--ledger",
        default="",
        envvar="NEARTWIN_LEDGER",
        help="A postgresql:// URL instead of a file in the directory. A password belongs in NEARTWIN_LEDGER, which no other "
        "user of the machine can list.",
    ),
)


@click.command()
@PLACE
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=8417, show_default=True, help="The port; 0 takes a free one.")
@click.option("--workers", default=2, show_default=True, help="Processes that ask the data.")
@click.option("--memory", default=4.0, show_default=True, help="Most GiB of private memory of one such process.")
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    envvar="NEARTWIN_ANCHOR",
    help="Where the newest head of the ledger is kept too: a file, a URL that takes PUT, or git:FOLDER. Repeatable.",
)
@click.option("--audit-log", default="", help="A file that gets a line of JSON for each request; - for the screen.")
@click.option(
    "--proxy", "proxies", multiple=True, help="The address of a proxy whose X-Forwarded-For is believed. Repeatable."
)
@click.option("--two-people", is_flag=True, help="For good: larger budgets and curators' tokens need two people.")
@click.option("--https", is_flag=True, help="Browsers reach it by https alone (a proxy or --certificate does that).")
@click.option(
    "--oidc",
    type=click.Path(exists=True, dir_okay=False),
    help="A TOML file that names a server of OpenID Connect where people sign in, and what each group may do.",
)
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="A TLS certificate, with --key.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Its private key.")
@report_errors
def serve(*, directory: str, ledger: str, **arguments: Any) -> None:
    """Serve the registered data sets. The first start prints a curator's token, once.

    Any number of them may serve one ledger: sessions, rates and releases under way are in its database.
    """
    (uvicorn,) = needed("web", "uvicorn")
    from neartwin.web.app import create_app
    from neartwin.web.auth import Provider
    from neartwin.web.connections import HeadLimit, allow_many_connections
    from neartwin.web.middleware import AUDIT
    from neartwin.web.service import Settings

    # uvicorn raises a signal again once it has stopped: without a handler the databases would not be closed
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    allow_many_connections()
    # A thread that hands a worker its next task waits so long for the one that answers requests. Python's own is 5 ms.
    sys.setswitchinterval(0.0005)
    https = arguments["https"] or bool(arguments["certificate"])
    with opened_directory(directory, ledger) as opened:
        if log := arguments["audit_log"]:
            AUDIT.setLevel("INFO")
            AUDIT.propagate = False  # a library that writes logs to the screen would write these there too
            AUDIT.addHandler(logging.StreamHandler() if log == "-" else WatchedFileHandler(log, encoding="utf-8"))
        for place in (opened.head_file, *arguments["anchors"]):
            opened.books.anchor(place)  # which refuses a ledger that was rolled back
        if token_text := opened.first_token():
            stderr.print(f"curator's token, shown this once: {token_text}", markup=False)
        if arguments["two_people"]:
            opened.books.need_two_people(by=CONSOLE)
        if not https and arguments["host"] not in {"127.0.0.1", "localhost", "::1"}:
            stderr.print("tokens travel unencrypted: put a proxy with https before it, or give --certificate and --key")
        settings = Settings(
            workers=arguments["workers"],
            https=https,
            memory=int(arguments["memory"] * 2**30),
            anchors=arguments["anchors"],
            oidc=Provider.read(arguments["oidc"]) if arguments["oidc"] else None,
        )
        gc.freeze()  # what is loaded by now stays: a full collection that looks through it holds requests up for 0.1 s
        uvicorn.run(
            create_app(opened, settings),
            host=arguments["host"],
            port=arguments["port"],
            http=HeadLimit,
            ssl_certfile=arguments["certificate"],
            ssl_keyfile=arguments["key"],
            proxy_headers=bool(arguments["proxies"]),
            forwarded_allow_ips=",".join(arguments["proxies"]),
            access_log=False,  # addresses would tell who asked what, and when
            log_level="info",
            server_header=False,
            timeout_keep_alive=30,
        )


@click.command()
@click.argument("place")
@PLACE
@options.table_options
@options.reading_options
@click.option("--budget", required=True, help="The whole budget: epsilon=1, or mu=1,delta=1e-9.")
@click.option("--each-analyst", default="", help="What each analyst may spend: epsilon=0.5. Else a curator allots.")
@click.option("--policy", type=click.Path(exists=True, dir_okay=False), help="A TOML file of [[rules]].")
@click.option("--about", default="", help="A sentence for analysts.")
@report_errors
def register(*, place: str, directory: str, ledger: str, **arguments: Any) -> None:
    """Register a data set with its budget and its public facts.

    PLACE is a file, a DuckDB database or a PostgreSQL URL.

    Types, bounds and keys of tables to join are written NAME.column=...; the unit's column has one name in all of them.
    """
    name = arguments["name"] or arguments["table"] or Path(place).name.partition(".")[0]
    tables = [replace(side, place=_absolute(side.place)) for side in options.joinable(arguments, arguments["unit"])]
    joined = [side.name for side in tables]
    probe = Dataset(
        name=name,
        place=_absolute(place),
        unit=EACH_ROW_NAME if options.unit(arguments["unit"]) is ROW else arguments["unit"],
        types=options.own(joined, pairs(arguments["types"], "types")),
        bounds=options.own(joined, bounds_in(arguments["bounds"])),
        budget=budget_in(arguments["budget"], "budget"),
        **{one: arguments[one] for one in ("table", "neighbours", "about", "encoding")},
        into=_absolute(arguments["into"]) if arguments["into"] else "",
    )
    columns = dict(probe.rows(refresh=None).table.schema)
    for side in tables:
        theirs = table_of(side.opened(probe.rows())).schema
        columns |= {f"{side.name}.{column}": kind for column, kind in theirs.items()}
    keys = options.keys(arguments["keys"], columns) or {}
    if isinstance(keys, str):
        raise click.UsageError("--keys takes column=values")
    listed = {column: tuple(values) for column, values in keys.items()}
    each = budget_in(arguments["each_analyst"], "each-analyst") if arguments["each_analyst"] else None
    dataset = replace(
        probe,
        keys=options.own(joined, listed),
        policy=_policy(arguments["policy"]) if arguments["policy"] else (Rule(allotment=each),),
        tables=tuple(replace(side, keys=options.of(side.name, listed)) for side in tables),
    )
    with opened_directory(directory, ledger) as opened:
        opened.register(dataset, by=CONSOLE)
    stderr.print(f"registered {name!r}: {dataset.budget} for each {dataset.unit}", markup=False)


@click.command()
@click.argument("name")
@PLACE
@report_errors
def refresh(*, name: str, directory: str, ledger: str) -> None:
    """Declare that the data of a data set changed: its files are read again, and questions asked before pay anew."""
    with opened_directory(directory, ledger) as opened:
        changed = opened.refresh(name, by=CONSOLE)
    stderr.print(f"{name!r} is asked as snapshot {changed.snapshot} from now on", markup=False)


@click.command()
@click.argument("name")
@PLACE
@click.option(
    "--role", type=click.Choice(["analyst", "agent", "auditor", "curator"]), default="analyst", show_default=True
)
@click.option("--project", default="", help="The analyst's project; its allotment pays too.")
@click.option("--days", default=90, show_default=True, help="Until it expires.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="A new file that you alone can read, instead of the screen."
)
@report_errors
def token(*, name: str, directory: str, ledger: str, role: str, project: str, days: int, out: str | None) -> None:
    """Make a token for someone and print it, this once."""
    with ExitStack() as open_things:
        written = open_things.enter_context(_new_file(out)) if out else None
        opened = open_things.enter_context(opened_directory(directory, ledger))
        record, token_text = opened.mint(name, role, by=CONSOLE, project=project, days=days)
        stderr.print(f"{role} {name}, until {record.expires}; it is shown this once:", markup=False)
        click.echo(token_text, file=written)


@click.command()
@click.argument("path", type=click.Path(dir_okay=False))
@PLACE
@report_errors
def backup(*, path: str, directory: str, ledger: str) -> None:
    """Write a whole service to a new file PATH, verified, while it runs. Prints its head: keep it elsewhere.

    The file holds the ledger, data sets, policies, tokens' hashes and the signing key, and no rows of people.
    """
    with opened_directory(directory, ledger) as opened:
        click.echo(str(opened.backup(path)))


@click.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@PLACE
@click.option("--head", default="", help="The newest head that was kept elsewhere.")
@report_errors
def restore(*, path: str, directory: str, ledger: str, head: str) -> None:
    """Make a new service from the backup PATH, in another kind of database too. Prints its head.

    Restore only where the old service is gone: two living copies are two budgets for the same people.
    """
    needed("web", "argon2")
    from neartwin.web.data_directory import DataDirectory

    with DataDirectory.restored(path, directory, ledger) as opened:
        known_head = Head.parse(head) if head else None
        verdict = opened.verify(known_head)
        if known_head and not verdict.whole:
            anchors.keep(known_head, opened.head_file)  # so that nobody serves it unawares
    show_restored(verdict)


def opened_directory(directory: str, ledger: str) -> "DataDirectory":
    """A service's directory, for a command. The caller closes it."""
    needed("web", "argon2")
    from neartwin.web.data_directory import DataDirectory

    return DataDirectory(directory, ledger)


def _new_file(path: str) -> TextIO:
    """A file for its owner alone. One that is there already may be open to others, and is refused."""
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii")
    except OSError as fault:
        raise ParameterError("out", path, f"cannot be made: {fault.strerror}", remedy="name a new file") from None


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _policy(path: str) -> tuple[Rule, ...]:
    (pydantic,) = needed("web", "pydantic")
    from neartwin.web.schemas import Policy, first_fault

    remedy = "write [[rules]] tables, such as who = '*' and max_spend = 'epsilon=0.1', and nothing else"
    try:
        rules = Policy.model_validate(tomllib.loads(Path(path).read_text(encoding="utf-8"))).rules
    except pydantic.ValidationError as fault:
        name, rule = first_fault(fault.errors())
        raise ParameterError(f"policy {name}", path, rule, remedy=remedy) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ParameterError("policy", path, f"is not TOML: {fault}", remedy=remedy) from None
    return tuple(Rule.from_dict(rule.model_dump()) for rule in rules)


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
