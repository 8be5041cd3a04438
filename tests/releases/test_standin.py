"""A stand-in shows noise and the loss of bounding on public rows; private rows and the budget stay as they are."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import PrivacyError, QueryError, SchemaError
from neartwin.releases.accounts import Proposal


def visits(size, users, seed):
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "who": draw.integers(0, users, size),
            "town": draw.choice(["Ulm", "Bonn", "Hof"], size, p=[0.6, 0.3, 0.1]),
            "paid": draw.gamma(2.0, 15.0, size),
        }
    )


@pytest.fixture
def place(tmp_path):
    pq.write_table(visits(3000, 300, 1), tmp_path / "visits.parquet")
    return tmp_path


def proposed(place, query=None, **more):
    rows = nt.table(place / "visits.parquet", unit="who", columns={"paid": nt.bounds(0, 100)})
    account = nt.open_ledger(place / "budget.db").open(rows, nt.approx(5, "1e-5"))
    asked = query(rows) if query else rows.group_by("town").agg(n=nt.count(), total=nt.sum("paid"))
    return account, account.plan(
        asked, **({"spend": nt.approx(1, "1e-6"), "limits": nt.limits(max_rows_per_group=2, max_groups=2)} | more)
    )


def test_rehearsal_separates_bounding_from_noise_and_spends_nothing(place, monkeypatch):
    account, proposal = proposed(place)
    (place / "visits.parquet").unlink()  # whoever reads a private row now fails
    standin = visits(6000, 300, 2)  # 20 rows a user, of which 2 a town count in 2 towns
    found = proposal.preview_on(nt.public_table(standin), runs=4)
    assert account.spent == {"epsilon": 0, "delta": 0}
    errors = {error.name: error for error in found.errors}
    assert found.groups == 3
    kept = {}
    for who, town in zip(standin["who"].to_pylist(), standin["town"].to_pylist(), strict=True):
        kept.setdefault(who, {}).setdefault(town, []).append(1)
    # by hand: a user with m rows in a town loses at least max(0, m - 2) of them
    least = sum(max(0, len(rows) - 2) for towns in kept.values() for rows in towns.values()) / 3
    assert least * 0.9 < errors["n"].bounding < 6000 / 3
    assert 0 < errors["n"].noise < 100
    assert abs(errors["n"].total - errors["n"].bounding) <= errors["n"].noise + 1e-9
    assert "no guarantee is needed" in str(found)


def test_loose_bounds_lose_nothing_and_make_more_noise(place):
    def counts(rows):
        return rows.group_by("town", keys=["Ulm", "Bonn", "Hof"]).agg(n=nt.count())

    _, tight = proposed(place, counts)
    _, loose = proposed(place, counts, limits=nt.limits(max_rows_per_group=60, max_groups=3))
    standin = visits(3000, 300, 2)
    small, large = (one.preview_on(nt.public_table(standin)).errors[0] for one in (tight, loose))
    assert large.bounding == 0 < small.bounding
    assert large.noise > small.noise


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.most_common("town", among=["Ulm", "Bonn", "Hof"], k=2),
        lambda rows: rows.agg(q=nt.median("paid"), m=nt.mean("paid")),
        lambda rows: rows.agg(h=nt.histogram("paid", [0, 20, 100])),
        lambda rows: rows.group_by("town", keys=["Ulm", "Bonn"]).marginals(["town"], []).agg(n=nt.count()),
    ],
    ids=["most common", "quantiles", "histogram", "marginals"],
)
def test_every_kind_of_question_has_a_stand_in(place, query):
    more = (
        {"limits": nt.limits(max_rows_per_group=None, max_groups=None)}
        if "most_common" in str(query.__code__.co_names)
        else {}
    )
    _, proposal = proposed(place, query, **more)
    found = proposal.preview_on(nt.public_table(visits(2000, 200, 3)), runs=2)
    assert 0 < found.discovered <= 1
    assert all(np.isfinite(error.total) for error in found.errors)


def test_tuned_bounds_are_tried_as_they_would_be_tuned(place):
    _, proposal = proposed(place, limits=nt.limits(rows=nt.private_limit(64, groups=3), max_groups=2))
    found = proposal.preview_on(nt.public_table(visits(3000, 300, 2)), runs=1)
    assert {error.name for error in found.errors} == {"n", "total"}


def test_the_private_table_itself_and_other_columns_are_refused(place):
    account, proposal = proposed(place)
    with pytest.raises(PrivacyError, match="the private table itself"):
        proposal.preview_on(nt.public_table(place / "visits.parquet"))
    for undeclared in (place / "visits.parquet", visits(10, 5, 1), nt.table(visits(10, 5, 1), unit="who", name="v")):
        with pytest.raises(PrivacyError, match="must be declared public"):
            proposal.preview_on(undeclared)
    with pytest.raises(SchemaError):
        proposal.preview_on(nt.public_table(visits(10, 5, 1).drop_columns(["who"])))
    with pytest.raises(SchemaError, match="'paid' is text"):
        proposal.preview_on(nt.public_table(pa.table({"who": [1], "town": ["Ulm"], "paid": ["5"]})))
    frame = visits(10, 5, 1)
    rows = nt.table(frame, unit="who", name="frame")
    own = nt.open_ledger(place / "other.db").open(rows, nt.pure(1))
    with pytest.raises(PrivacyError, match="the private table itself"):
        own.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1)).preview_on(nt.public_table(frame))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    rows = nt.table(connection, table="visits", unit="who")
    own = nt.open_ledger(place / "third.db").open(rows, nt.pure(1))
    asked = own.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1))
    with pytest.raises(PrivacyError, match="the private table itself"):
        asked.preview_on(nt.public_table(connection.cursor(), table="visits"))
    assert isinstance(proposal, Proposal)
    assert account.spent == {"epsilon": 0, "delta": 0}


def test_a_terminal_tries_a_question_on_a_stand_in(place):
    pq.write_table(visits(2000, 200, 5), place / "public.parquet")
    asked = ["plan", str(place / "visits.parquet"), "SELECT town, COUNT(*) AS n FROM visits GROUP BY town", "--unit", "who",
             "--ledger", str(place / "b.db"), "--budget", "epsilon=1,delta=1e-6", "--spend", "epsilon=1,delta=1e-6",
             "--max-rows-per-group", "2",
             "--max-groups", "2", "--standin", str(place / "public.parquet")]  # fmt: skip
    shown = CliRunner().invoke(main, asked)
    assert shown.exit_code == 0, shown.output
    assert "bounding" in shown.output
    told = json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)
    assert told["standin"]["errors"][0]["name"] == "n"
    several = CliRunner().invoke(main, [*asked[:2], f"{asked[2]}; {asked[2]}", *asked[3:]])
    assert several.exit_code == QueryError.exit_code
