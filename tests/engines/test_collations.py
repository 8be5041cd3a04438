"""Collations of DuckDB: rows are matched by bytes, and a unit with several spellings is one unit, hashed by one of them."""

import duckdb
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan

ANN = ["ann", "ANN", "Ann", "aNn"]


def units(connection, asked, **limits):
    made = plan(asked, spend=nt.approx(1, "1e-6"), limits=nt.limits(**limits))
    return DuckdbEngine().aggregate(made.stage, salt=1)


@pytest.mark.parametrize(("first", "second"), [('"binary"', "NOCASE"), ("NOCASE", '"binary"'), ("NOCASE", "NOCASE")])
def test_private_row_meets_its_own_unit_alone_whatever_the_collations(first, second):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people (who VARCHAR COLLATE {first})")
    connection.execute(f"CREATE TABLE bills (who VARCHAR COLLATE {second}, paid INT)")
    connection.executemany("INSERT INTO people VALUES (?)", [[who] for who in ANN])
    connection.execute("INSERT INTO bills VALUES ('ann', 1)")
    assert connection.execute("SELECT count(*) FROM people WHERE who COLLATE NOCASE = 'ann'").fetchone() == (4,)
    people, bills = (nt.table(connection, table=name, unit="who", name="p") for name in ("people", "bills"))
    asked = people.join(bills, on="who").agg(n=nt.count())
    assert units(connection, asked, max_rows_per_group=5).values["rows"].tolist() == [1]


@pytest.mark.parametrize("collation", ["NOCASE", '"binary"'])
def test_owned_row_meets_its_owner_alone_whatever_the_collations(collation):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who INT, visit VARCHAR)")
    connection.execute(f"CREATE TABLE bills (visit VARCHAR COLLATE {collation}, paid INT)")
    connection.executemany("INSERT INTO visits VALUES (?, ?)", list(enumerate(ANN)))
    connection.execute("INSERT INTO bills VALUES ('ANN', 1)")
    visits = nt.table(connection, table="visits", unit="who")
    bills = nt.table(connection, table="bills", unit=nt.owned_by(visits, on="visit"))
    asked = visits.join(bills).agg(n=nt.count_distinct_units())
    assert units(connection, asked, max_groups=1).values["units"].tolist() == [1]


def test_kept_groups_of_many_spellings_depend_on_own_rows_alone():
    """By the spelling met first they depended on the order of rows, and so on who else was there."""
    found = []
    for order in (ANN, ANN[::-1], ANN[2:] + ANN[:2]):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE visits (who VARCHAR COLLATE NOCASE, town INT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?)", [[who, town] for who in order for town in range(40)])
        connection.execute("INSERT INTO visits VALUES ('bob', 1)")
        rows = nt.table(connection, table="visits", unit="who")
        asked = rows.group_by("town", keys=range(40)).agg(n=nt.count_distinct_units())
        kept = units(connection, asked, max_groups=3).values["units"].tolist()
        assert sum(kept) == 3 + 1  # four spellings are one unit
        found.append(kept)
    assert found[0] == found[1] == found[2]
