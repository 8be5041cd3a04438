"""Schema versions with Alembic. It migrates a new database, or an older one from its version, to the newest version.

Alembic is imported only if there is something to migrate. All steps run in the caller's transaction.
"""

from pathlib import Path

import sqlalchemy as sa

from neartwin.errors import LedgerError


def version(connection: sa.Connection, table: str) -> str:
    """The schema version of a database, or "" if it has none.

    Args:
        connection: A transaction.
        table: The table that holds the version.

    Returns:
        The version.
    """
    if not sa.inspect(connection).has_table(table):
        return ""
    column = sa.column("version_num", sa.Text)
    row = connection.execute(sa.select(column).select_from(sa.table(table, column))).scalar_one_or_none()
    return row or ""


def upgrade(connection: sa.Connection, folder: Path, table: str, *, standing: str = "") -> None:
    """Run the folder's migrations up to the newest version.

    Args:
        connection: A transaction that writes.
        folder: The folder of the migrations.
        table: The table that holds the version.
        standing: The version of a database that is older than versions, or "".

    Raises:
        LedgerError: The folder does not know the database's version.
    """
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
    from alembic.script.revision import RevisionError
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)

    def steps(revision: object, context: object) -> object:  # noqa: ARG001 - Alembic's own signature
        return script._upgrade_revs("head", revision)  # type: ignore[arg-type]  # noqa: SLF001 - as alembic.command does

    try:
        if standing:
            _run(EnvironmentContext(config, script), connection, table, lambda _, __: script._stamp_revs(standing, ()))  # noqa: SLF001
        _run(EnvironmentContext(config, script), connection, table, steps)
    except (RevisionError, CommandError):
        raise LedgerError(
            f"the database has schema version {version(connection, table)!r}, which this neartwin does not know; "
            "install a newer neartwin"
        ) from None


def _run(environment: object, connection: sa.Connection, table: str, steps: object) -> None:
    with environment as context:  # type: ignore[attr-defined]
        context.configure(connection=connection, fn=steps, version_table=table, transactional_ddl=True)
        context.run_migrations()
