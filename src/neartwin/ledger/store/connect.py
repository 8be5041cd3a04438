"""Connections and transactions of a ledger: one SQLite file, or a PostgreSQL database.

A write transaction holds the whole ledger: BEGIN IMMEDIATE on SQLite, a lock on the ledger's one row on PostgreSQL. So
writers take turns, and each sees all earlier writes. A price is checked against the true sum. When `write` has
returned, the disk has the record, by WAL with synchronous=FULL or by PostgreSQL's synchronous commit.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from neartwin.errors import LedgerError
from neartwin.ledger.records import NO_HASH, Begun
from neartwin.ledger.store import schema
from neartwin.ledger.store.pages import Reading, Writing

PATIENCE = 30  # seconds a writer waits for its turn
_CREATION_LOCK = 0x6E656172  # any number, the same for every creator on one PostgreSQL database
_WRITES, _DURABLE = "neartwin_writes", "neartwin_durable"


class UnavailableError(LedgerError):
    """The database did not answer, or not as asked. Its own words may name the host, the driver and the user."""


def _address(where: str | os.PathLike[str]) -> sa.URL:
    written = os.fspath(where)
    if "://" not in written:
        if written in ("", ":memory:"):
            raise LedgerError("a ledger in memory would lose the spent budget; give a file, for instance budget.db")
        return sa.URL.create("sqlite", database=str(Path(written).absolute()))
    try:
        url = sa.make_url(written)
    except (exc.ArgumentError, ValueError):
        raise LedgerError("the ledger's URL cannot be read; write postgresql://user@host/database or a path") from None
    match url.get_backend_name():
        case "sqlite":
            return _address(url.database or "")
        case "postgresql" | "postgres":
            if find_spec("psycopg") is None:
                raise LedgerError('a ledger on PostgreSQL needs its driver: pip install "neartwin[postgres]"')
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise LedgerError(f"a ledger cannot be stored in {other!r}; give a path for SQLite, or a postgresql:// URL")


class Database:
    """An open ledger database. The caller closes it with `close()`.

    The file of a new SQLite ledger is readable by its owner alone. A forked process opens its own connections.

    Attributes:
        place: The file's path, or the URL without its password.
    """

    def __init__(self, where: str | os.PathLike[str], *, start: Callable[[Writing], None] | None) -> None:
        """Open; where there is no ledger yet, make the tables and `start` it in one transaction, or refuse (None)."""
        self._url = _address(where)
        self.place = self._url.render_as_string(hide_password=True)
        if self._url.get_backend_name() == "sqlite":
            self.place = self._url.database or ""
            _prepare_file(Path(self.place), create=start is not None)
        self._closed = False
        self._engine, self._process = self._connect(), os.getpid()
        try:
            with self._named_errors():
                if self._url.get_backend_name() == "sqlite":
                    self._check_file()
                self._make_tables(start)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give all connections back."""
        self._closed = True
        _dispose(self._engine, self._process)

    @cached_property
    def secret(self) -> bytes:
        """The ledger's random name, 128 bits, which never changes. Records of an account do not hold it."""
        with self.read() as page:
            first = page.record(1)[0].event
        if not isinstance(first, Begun):
            raise LedgerError("the first record must begin the ledger; verify it")
        return first.ledger.encode()

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """A transaction that holds the ledger alone and is on disk when the block ends. An error undoes all of it."""
        with self.connection(writes=True) as connection:
            if connection.dialect.name == "postgresql":
                # per transaction, so that a connection pooler in between cannot lose it
                connection.exec_driver_sql(
                    f"SELECT set_config('lock_timeout', '{PATIENCE}s', true), set_config('synchronous_commit', "
                    "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
                    "ELSE current_setting('synchronous_commit') END, true)"
                )
                connection.execute(sa.select(schema.ledger.c.id).with_for_update())
            yield Writing(connection)

    @contextmanager
    def read(self) -> Iterator[Reading]:
        """A view of the ledger at one moment. It waits for nobody."""
        with self._named_errors(), self._own().connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield Reading(connection)

    @contextmanager
    def connection(self, *, writes: bool, durable: bool = True) -> Iterator[sa.Connection]:
        """A transaction for the tables of another room in the same database. It does not hold the ledger.

        Args:
            writes: Whether the transaction writes.
            durable: Whether it waits for the disk. Else the end of a process loses nothing, and a power loss may.

        Yields:
            The connection.
        """
        with (
            self._named_errors(),
            self._own().connect().execution_options(**{_WRITES: writes, _DURABLE: durable}) as connection,
            connection.begin(),
        ):
            if not durable and connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
            yield connection

    def _own(self) -> sa.Engine:
        if self._closed:
            raise LedgerError(f"the ledger {self.place} was closed; open it again")
        if self._process != os.getpid():  # connections do not survive a fork
            self._engine.dispose(close=False)
            self._engine, self._process = self._connect(), os.getpid()
        return self._engine

    def _connect(self) -> sa.Engine:
        sqlite = self._url.get_backend_name() == "sqlite"
        if sqlite:
            engine = sa.create_engine(self._url, connect_args={"timeout": PATIENCE}, pool_size=8, max_overflow=56)
            sa.event.listen(engine, "begin", _begin_sqlite)
        else:
            engine = sa.create_engine(
                self._url, isolation_level="READ COMMITTED", pool_size=2, max_overflow=14, pool_pre_ping=True
            )
        sa.event.listen(engine, "connect", _set_up_sqlite if sqlite else _set_up_postgresql)
        weakref.finalize(self, _dispose, engine, os.getpid())  # for callers who never close
        return engine

    def _check_file(self) -> None:
        """Refuse a file of another program before anything in it is touched; turn on the log of a new one."""
        with closing(self._engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT name FROM sqlite_master")
            names = {name for (name,) in cursor.fetchall()}
            if names and schema.ledger.name not in names:
                raise LedgerError(f"{self.place} is another application's database; give the ledger a file of its own")
            until = time.monotonic() + PATIENCE
            while True:  # for this alone SQLite does not wait
                try:
                    cursor.execute("PRAGMA journal_mode=WAL")
                except sqlite3.OperationalError as fault:
                    if "locked" not in str(fault) or time.monotonic() > until:
                        raise
                    time.sleep(0.01)
                else:
                    return

    def _make_tables(self, start: Callable[[Writing], None] | None) -> None:
        """Make the tables and `start` them in one transaction, where there are none; refuse those of a newer neartwin."""
        with self.connection(writes=False) as connection:
            if sa.inspect(connection).has_table(schema.ledger.name):
                self._check_version(connection)
                return
        if start is None:
            raise LedgerError(f"there is no ledger in {self.place}; check the name, or make one by opening it")
        with self.connection(writes=True) as connection:
            if connection.dialect.name == "postgresql":  # one process at a time
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
            if not sa.inspect(connection).has_table(schema.ledger.name):  # else another process made it meanwhile
                schema.make(connection)
                row = {"id": 1, "version": schema.VERSION, "position": 0, "hash": NO_HASH}
                connection.execute(sa.insert(schema.ledger).values(row))
                start(Writing(connection))

    def _check_version(self, connection: sa.Connection) -> None:
        version = connection.execute(sa.select(schema.ledger.c.version)).scalar_one_or_none()
        if version is None:
            raise LedgerError(f"the ledger {self.place} lost its first row; restore it from an archive")
        if version > schema.VERSION:
            raise LedgerError(
                f"the ledger {self.place} has format {version}, this neartwin knows up to {schema.VERSION}; "
                "install a newer neartwin"
            )
        if (tables := schema.version(connection, schema.VERSIONS)) > schema.HEAD:
            raise LedgerError(f"the ledger's tables have version {tables!r}; install a newer neartwin")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """What a database says, as one `LedgerError` that says what to do. No statement or parameter is repeated."""
        try:
            yield
        except exc.DBAPIError as fault:
            raise UnavailableError(_in_words(self.place, str(fault.orig).strip())) from None
        except exc.SQLAlchemyError as fault:
            raise UnavailableError(f"the ledger {self.place} could not be used: {type(fault).__name__}") from None
        except self._engine.dialect.loaded_dbapi.Error as fault:  # of statements that are handed to the driver directly
            raise UnavailableError(_in_words(self.place, str(fault).strip())) from None


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections that a process opened. A fork of it leaves them alone."""
    engine.dispose(close=os.getpid() == process)


def _in_words(place: str, message: str) -> str:
    reasons = {
        "database is locked": f"another writer held the ledger {place} for {PATIENCE} s; try again",
        "lock timeout": f"another writer held the ledger {place} for {PATIENCE} s; try again",
        "file is not a database": f"{place} is no ledger: it is not a SQLite file, or was damaged; restore an archive",
        "malformed": f"the ledger {place} is damaged; restore it from an archive and compare heads",
        "readonly": f"the ledger {place} cannot be written; check who owns the file and its directory",
        "full": f"no room is left for the ledger {place}; make room and try again",
    }
    known = [reason for sign, reason in reasons.items() if sign in message]
    return known[0] if known else f"the ledger {place} could not be used: {message}"


def _prepare_file(path: Path, *, create: bool) -> None:
    if not path.parent.is_dir():
        raise LedgerError(f"the directory {path.parent} does not exist; create it first")
    if path.is_dir():
        raise LedgerError(f"{path} is a directory; give the ledger a file in it, for instance {path / 'budget.db'}")
    if path.exists():
        return
    if not create:
        raise LedgerError(f"there is no ledger {path}; check the name, or make one by opening it")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return  # another process was first
    except OSError as fault:
        raise LedgerError(f"the ledger {path} cannot be made: {fault.strerror}; choose another place") from None
    if os.name == "posix":
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # the new name itself must survive a power loss
        finally:
            os.close(directory)


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # the begin event says BEGIN, and says which
    # fullfsync: on macOS an ordinary fsync stops at the drive's cache
    for setting in ("synchronous=FULL", "fullfsync=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: sa.Connection) -> None:
    options, cursor = connection.get_execution_options(), connection.connection.cursor()
    if options.get(_WRITES, False):
        cursor.execute(f"PRAGMA synchronous={'FULL' if options.get(_DURABLE, True) else 'NORMAL'}")
        cursor.execute("BEGIN IMMEDIATE")
    else:
        cursor.execute("BEGIN")


def _set_up_postgresql(connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("SHOW fsync")
    ((fsync,),) = cursor.fetchall()
    cursor.close()
    connection.rollback()
    if fsync != "on":
        connection.close()  # SQLAlchemy 2.0 leaves it open where this raises
        raise LedgerError("PostgreSQL runs with fsync=off, so a power loss could undo spent budget; set fsync=on")
