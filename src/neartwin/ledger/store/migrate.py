"""Schema versions with Alembic: a new database is migrated to the head, an older one from where it stands.

Alembic is imported only where there is something to migrate. All steps run in the caller's transaction.
"""

from pathlib import Path

import sqlalchemy as sa

from neartwin.errors import LedgerError


def version(connection: sa.Connection, table: str) -> str:
    """The version that a database says it has, or "" where it says none."""
    if not sa.inspect(connection).has_table(table):
        return ""
    column = sa.column("version_num", sa.Text)
    found = connection.execute(sa.select(column).select_from(sa.table(table, column))).scalar_one_or_none()
    return found or ""


def upgrade(connection: sa.Connection, folder: Path, table: str, *, standing: str = "") -> None:
    """Run the folder's migrations up to its head. standing: the version of a database that was made before versions.

    Raises `LedgerError` for a database of a version that the folder does not know.
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
