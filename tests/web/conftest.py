"""A data directory with a data set of made-up people, and the application on it, without a network in between."""

import shutil

import duckdb
import pytest
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.tables.table import bounds
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.service import Settings
from tests.web.server import without_processes

ONE = pure(1)
ASK = {
    "question": {
        "group_by": ["cds"],
        "keys": {"cds": [1, 2, 3]},
        "statistics": {"orders": {"ask": "count"}, "total": {"ask": "sum", "column": "amount", "low": 0, "high": 200}},
    },
    "spend": {"epsilon": "0.25"},
    "limits": {"max_rows_per_group": 5, "max_groups": 3},
}


@pytest.fixture(scope="session")
def purchases(tmp_path_factory):
    """A file of 40 000 purchases by 5 000 people."""
    place = tmp_path_factory.mktemp("data") / "purchases.parquet"
    duckdb.sql(
        "SELECT i % 5000 AS customer_id, 1 + i % 3 AS cds, (i * 37 % 20000) / 100 AS amount, 'Ulm' AS town "
        "FROM range(40000) t(i)"
    ).write_parquet(str(place))
    return place


def registered(place, purchases, *, budget=ONE, **more):
    """A data directory with the data set "purchases" of one epsilon, half of it for each analyst."""
    directory = DataDirectory(place, **more)
    dataset = Dataset(
        name="purchases",
        place=str(purchases),
        unit="customer_id",
        bounds={"amount": bounds(0, 200)},
        keys={"cds": (1, 2, 3)},
        budget=budget,
        policy=(Rule(allotment=pure("0.5") if budget == ONE else None),),
    )
    directory.register(dataset, by="console")
    return directory


@pytest.fixture(scope="session")
def houses(tmp_path_factory, purchases):
    """A closed data directory without tokens, one with a token of each role, and the texts of those. Tests open copies."""
    without, having = (tmp_path_factory.mktemp("houses") / name for name in ("without", "having"))
    registered(without, purchases).close()
    shutil.copytree(without, having)
    names = {"curator": "carol", "analyst": "ada", "auditor": "otto"}
    with DataDirectory(having) as opened:
        texts = {role: opened.mint(name, role, by="console")[1] for role, name in names.items()}
    return without, having, texts


@pytest.fixture
def directory(request, tmp_path, houses):
    without, having, _ = houses
    shutil.copytree(having if "tokens" in request.fixturenames else without, tmp_path / "house")
    with DataDirectory(tmp_path / "house") as opened:
        yield opened


@pytest.fixture
def tokens(directory, houses):
    """A token's text by role."""
    return dict(houses[2])


@pytest.fixture
def client(directory):
    """The application with one worker."""
    settings = Settings(workers=1, burst=10_000, per_second=10_000, plan_seconds=300)
    with without_processes(), TestClient(create_app(directory, settings)) as opened:
        yield opened


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def sign_in(client, token):
    """Start a browser's session; the answer has its cookie."""
    sent = {"data": {"token": token}, "headers": {"Sec-Fetch-Site": "same-origin"}}
    return client.post("/signin", **sent, follow_redirects=False)


def released(client, ask, headers, *, name="purchases"):
    """The job of a release once it is done, however long that takes."""
    job = client.post(f"/v1/datasets/{name}/releases?wait=30", json=ask, headers=headers).json()
    while job.get("state") in {"queued", "running"}:
        job = client.get(f"/v1/jobs/{job['job']}?wait=10", headers=headers).json()
    return job
