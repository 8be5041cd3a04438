"""A place for a ledger, on each database that can hold one."""

import secrets

import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import pure
from neartwin.ledger import Book, Population

PEOPLE = Population(name="purchases", unit="customer_id", relation="add_remove", source="duckdb:purchases.parquet")


@pytest.fixture
def sqlite_place(tmp_path):
    return str(tmp_path / "budget.db")


@pytest.fixture
def postgres_place(postgres_url):
    """A fresh database of its own on the session's server."""
    name = f"ledger_{secrets.token_hex(8)}"
    server = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        poolclass=sa.NullPool,  # a test may kill the server's connections
    )
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield sa.make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    server.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    """Where a new ledger can be made: a path, or a URL."""
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
def ledger(place):
    with Book(place) as opened:
        yield opened


@pytest.fixture
def account(ledger):
    """An account of one epsilon."""
    return ledger.open(PEOPLE, pure(1))
