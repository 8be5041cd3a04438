"""An Ibis table is read as the SQL that it stands for."""

import duckdb
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan
from tests.engines.places import SALT


class Backend:
    """What is used of an Ibis backend."""

    def __init__(self, name, con, text):
        self.name, self.con, self.text = name, con, text

    def compile(self, _expression):
        return self.text


def expression(backend):
    class Table:
        __module__ = "ibis.expr.types.relations"

        def get_backend(self):
            if backend is None:
                raise ValueError("unbound")
            return backend

    return Table()


def asked(rows):
    stage = plan(
        rows.agg(total=nt.sum("twice", 0, 9, "0.01")),
        spend=nt.approx(10**6, "1e-6"),
        limits=nt.limits(max_rows_per_group=2),
    ).stage
    (name,) = stage.measures
    return engine_for(rows.table.source).aggregate(stage, salt=SALT).values[name][0] / stage.parts[name]


@pytest.fixture
def connection():
    opened = duckdb.connect()
    opened.execute("CREATE TABLE payments AS SELECT * FROM (VALUES ('a', 1.5), ('b', 2.0), ('b', 3.0)) AS t(who, paid)")
    return opened


TEXT = "SELECT who, paid * 2 AS twice FROM payments WHERE paid > 1.5"


def test_an_ibis_table_of_duckdb_is_its_sql(connection):
    rows = nt.table(expression(Backend("duckdb", connection, TEXT)), name="payments", unit="who")
    assert {name: kind.value for name, kind in rows.table.schema.items()} == {"who": "text", "twice": "number"}
    assert asked(rows) == 1000


def test_unbound_ibis_expression_is_refused(connection):
    for backend, why in [
        (None, "bound to no engine"),
        (Backend("postgres", None, TEXT), "make a view"),
        (Backend("duckdb", connection, "SELECT * FROM nowhere"), "second cursor"),
    ]:
        with pytest.raises(SchemaError, match=why):
            nt.table(expression(backend), name="payments", unit="who")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis calls older names of DuckDB
def test_the_real_ibis_says_the_same():
    import ibis

    bound = ibis.duckdb.connect()
    bound.con.execute(
        "CREATE TABLE payments AS SELECT * FROM (VALUES ('a', 1.5), ('b', 2.0), ('b', 3.0)) AS t(who, paid)"
    )
    payments = bound.table("payments")
    twice = payments.filter(payments.paid > 1.5).select("who", twice=payments.paid * 2)
    assert asked(nt.table(twice, name="payments", unit="who")) == 1000
