"""An Ibis table as input: its SQL, on the engine that it is bound to. Ibis itself runs nothing, and is never imported here."""

from typing import Any

from neartwin.errors import SchemaError


def is_ibis(data: Any) -> bool:
    """Whether this is an Ibis table expression."""
    return type(data).__module__.startswith("ibis.expr.") and hasattr(data, "get_backend")


def bound(data: Any) -> tuple[str, Any, str]:
    """The name of its engine ("duckdb" or "pyspark"), the engine's own connection or session, and its SQL.

    Errors: `SchemaError` for a table bound to no engine, or to one that cannot be asked this way.
    """
    try:
        backend = data.get_backend()
        text = str(backend.compile(data))
    except Exception:  # noqa: BLE001 - of many kinds, and all mean this
        raise SchemaError("the Ibis table is bound to no engine; make it with a connection's .table(...)") from None
    match backend.name:
        case "duckdb":
            return "duckdb", backend.con, text
        case "pyspark":
            return "pyspark", backend._session, text  # noqa: SLF001 - Ibis has no other door to it
    raise SchemaError(
        f"an Ibis table of {backend.name} is not supported; of PostgreSQL, make a view and give the URL with table="
    )
