"""Tables that stay where they are: hive folders, Delta, Iceberg and remote files answer as the same rows in memory do."""

import io
import json
import sys
import threading
from datetime import date

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from werkzeug import Request
from werkzeug.serving import make_server
from werkzeug.utils import send_file

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan

ROWS = pa.table(
    {
        "who": [i % 30 for i in range(300)],
        "paid": [i / 4 for i in range(300)],
        "day": [date(2026, 1 + i % 3, 1) for i in range(300)],
        "month": [None if i % 7 == 0 else f"0{i % 3}" for i in range(300)],
    }
)


def answers(rows, keys=("00", "01", "02", None)):
    """Exact counts and totals by month."""
    asked = rows.group_by("month", keys=list(keys)).agg(n=nt.count(), paid=nt.sum("paid", 0, 75, "1/4"))
    stage = plan(asked, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=100, max_groups=4)).stage
    return {name: values.tolist() for name, values in DuckdbEngine().aggregate(stage, salt=1).values.items()}


def opened(data, **more):
    return nt.table(data, unit="who", name="visits", **more)


def partitioned(folder):
    with duckdb.connect() as connection:
        connection.register("v", ROWS)
        connection.execute(f"COPY v TO '{folder}' (FORMAT parquet, PARTITION_BY (month))")
    return folder


def test_folders_of_partitions_are_columns_and_keys(tmp_path):
    rows = opened(partitioned(tmp_path / "v"))
    assert str(rows.table.schema["month"]) == "text"
    assert answers(rows) == answers(opened(ROWS))
    assert answers(opened(tmp_path / "v", types={"month": "integer"}), keys=(0, 1, 2, None)) == answers(rows)
    pq.write_table(ROWS, tmp_path / "v" / "x.parquet")
    with pytest.raises(SchemaError, match="has other folders with '='"):
        opened(tmp_path / "v")
    (tmp_path / "w" / "month=00").mkdir(parents=True)
    pq.write_table(ROWS, tmp_path / "w" / "month=00" / "x.parquet")
    with pytest.raises(SchemaError, match="has columns 'month' and 'month', which are one name"):
        opened(tmp_path / "w")


def test_delta_is_read_at_its_version_with_deleted_rows_gone(tmp_path):
    place = tmp_path / "v"
    write_deltalake(place, ROWS, partition_by=["month"])
    DeltaTable(place).delete("who >= 15")
    few = opened(ROWS.filter(pa.compute.less(ROWS["who"], 15)))
    rows = opened(place)
    write_deltalake(place, ROWS, mode="append")
    assert answers(rows) == answers(few)
    assert answers(opened(DeltaTable(place, version=0))) == answers(opened(ROWS)) != answers(opened(place))
    sources = [opened(data).table.source for data in (place, DeltaTable(place), DeltaTable(place, version=0))]
    assert sources[0] == sources[1]
    assert sources[0].location() == sources[2].location() == f"delta:{place}"
    assert sources[0].snapshot() != sources[2].snapshot()
    for one in (tmp_path, tmp_path / "v" / "**" / "*"):
        with pytest.raises(SchemaError, match="holds a Delta table"):
            opened(one)


@pytest.mark.slow
def test_iceberg_is_read_at_its_snapshot(tmp_path):
    catalog = InMemoryCatalog("here", warehouse=str(tmp_path))
    catalog.create_namespace("clinic")
    table = catalog.create_table("clinic.visits", ROWS.schema)
    with pytest.raises(SchemaError, match="has no snapshot yet"):
        opened(table)
    table.append(ROWS)
    table.delete("who >= 15")
    few = opened(ROWS.filter(pa.compute.less(ROWS["who"], 15)))
    rows = opened(table)
    path = table.metadata_location.removeprefix("file://")
    table.append(ROWS)
    assert answers(rows) == answers(opened(path)) == answers(few)
    assert opened(path).table.source == rows.table.source != opened(table).table.source
    with pytest.raises(SchemaError, match="holds an Iceberg table"):
        opened(path.rpartition("/metadata/")[0])


@pytest.fixture(scope="module")
def s3():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "k", "secret": "s", "endpoint_url": f"http://{host}:{port}"}
    before = dict(fsspec.config.conf)
    fsspec.config.conf["s3"] = options
    yield fsspec.filesystem("s3")
    fsspec.config.conf.clear()
    fsspec.config.conf.update(before)
    server.stop()


@pytest.mark.slow
def test_tables_of_an_s3_store_are_read_where_they_are(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s3.mkdir("clinic")
    s3.put(str(partitioned(tmp_path / "v")), "clinic/v", recursive=True)
    expected = answers(opened(ROWS))
    rows = opened("s3://clinic/v")
    assert answers(rows) == answers(opened("s3://clinic/v/*/*.parquet")) == expected
    before = rows.table.source.snapshot()
    pq.write_table(ROWS.drop_columns("month"), tmp_path / "x.parquet")
    s3.put(str(tmp_path / "x.parquet"), rows.table.source.paths[0].removeprefix("s3://"))
    assert rows.table.source.snapshot() != before
    lines = "".join(json.dumps(row, default=str) + "\n" for row in ROWS.to_pylist())
    s3.pipe("clinic/v.jsonl", lines.encode())
    types = {"who": "integer", "paid": "number", "day": "date"}
    assert answers(opened("s3://clinic/v.jsonl", types=types, into=tmp_path / "kept")) == expected
    for wrong, why in (("s3://clinic/none.parquet", "matches no file"), ("s3://a:b@clinic/v.parquet", "no password")):
        with pytest.raises(SchemaError, match=why):
            opened(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [True, False])
def test_files_of_a_web_server_are_read_and_its_absence_is_told(tmp_path, ranges):
    pq.write_table(ROWS, tmp_path / "v.parquet")

    @Request.application
    def app(request):
        content = io.BytesIO((tmp_path / "v.parquet").read_bytes())
        return send_file(content, request.environ, mimetype="application/octet-stream", conditional=ranges)

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v.parquet"
    try:
        if ranges:
            assert answers(opened(url)) == answers(opened(ROWS))
        else:  # a release would fail after it was paid
            with pytest.raises(SchemaError, match="sends no part of a file"):
                opened(url)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    with pytest.raises(SchemaError, match=r"matches no file|cannot be reached"):
        opened(url)
    with pytest.raises(SchemaError, match="no password and no query"):
        opened(f"{url}?token=1")


def test_missing_packages_are_named(tmp_path, monkeypatch):
    write_deltalake(tmp_path / "v", ROWS)
    for module, data, extra in (("deltalake", tmp_path / "v", "lakes"), ("s3fs", "s3://clinic/v.parquet", "remote")):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
        with pytest.raises(SchemaError, match=rf"pip install 'neartwin\[{extra}\]'"):
            opened(data)
