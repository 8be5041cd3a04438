"""Weights of a unit's rows are those of the rows that are counted, even where a source gives others at every reading."""

import duckdb

import neartwin as nt
from neartwin.engines import duckdb as engine
from neartwin.engines.duckdb import DuckdbEngine, text_of
from neartwin.planning.planner import plan


def test_rows_changed_during_a_read_are_weighed_as_read(monkeypatch):
    """A view may draw lots: were its rows read once for the weights and again for the counts, a unit could count for more."""
    connection = duckdb.connect()
    connection.execute("CREATE VIEW visits AS SELECT 1 AS who, 5.0 AS paid FROM range(200) WHERE random() < 0.5")
    rows = nt.table(connection, table="visits", unit="who")
    (split,) = plan(
        rows.agg(m=nt.median("paid", 0, 10, 1)), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=10)
    ).splits.values()
    most = 10 * split.stage.split_parts

    def counted():
        return [int(DuckdbEngine().aggregate(split.stage, salt=1).cells.count.sum()) for _ in range(60)]

    assert all(0.999 * most < found <= most for found in counted())

    def read_twice(*asked, **more):
        return (
            text_of(*asked, **more)
            .replace(" AS MATERIALIZED (", " AS (")
            .replace(" AS (SELECT", " AS NOT MATERIALIZED (SELECT")
        )

    monkeypatch.setattr(engine, "text_of", read_twice)
    assert not all(found <= most for found in counted())  # the near miss
