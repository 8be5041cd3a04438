"""The game on whole releases, heavy users included, where starting a job is slow: ten thousand replicas are one job."""

import secrets
from dataclasses import replace

import pyarrow.compute as pc
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.audit.claims import claim_approx, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched, written
from neartwin.engines.postgres import PostgresEngine
from neartwin.engines.spark import SparkEngine
from tests.audit.whole_releases import (
    EVERYWHERE,
    ONE_COLUMN_MOVES,
    OWN_KEYS,
    WIDE,
    cap_on_groups_removed,
    counts,
    game,
    noise_shared_by_columns,
    sums,
    withstands,
    withstands_on_an_engine,
)

__all__ = ["noise_shared_by_columns"]  # a fixture
ENGINES = ["postgres", "spark"]
MANY = tuple((f"u{i}", "a", 1.0, 1.0) for i in range(24))  # enough units that the key is surely released
ONE_COLUMN_MOVED_OF_MANY = Twins(MANY, (*MANY, ("new", "a", 1.0, 0.0)), "one column moves")


@pytest.fixture
def where(request):
    """Puts the rows of a game where the engine reads them, and opens them there."""
    return request.getfixturevalue(f"in_{request.param}")


@pytest.fixture
def in_postgres(postgres_place):
    def opened(rows):
        name = f"replicas_{secrets.token_hex(8)}"
        with postgres_place.writing() as connection:
            kinds = {"int64": "BIGINT", "string": "TEXT", "double": "DOUBLE PRECISION"}
            columns = ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in rows.schema)
            connection.execute(f"CREATE TABLE {name} ({columns})")
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                    copy.write_row(row)
        return nt.table(postgres_place.url, table=name, unit="unit", name=name)

    return opened, PostgresEngine


@pytest.fixture
def in_spark(spark):
    return lambda rows: nt.table(spark.createDataFrame(rows), unit="unit", name="replicas"), SparkEngine


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES, indirect=True)
def test_planted_faults_are_caught_and_the_sound_path_is_not(where, monkeypatch):
    opened, engine = where
    single = game(ask=counts, groups=1, keys=WIDE, where=opened)  # noise for one group, rows in twelve
    heavy = [EVERYWHERE]
    assert withstands(single, claim_pure(1), heavy, runs=1_000)
    with monkeypatch.context() as patched:
        cap_on_groups_removed(patched, engine)
        found = audit(Batched(single), claim_pure(1), heavy, runs=1_000)
        assert found.refuted, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES, indirect=True)
def test_whole_releases_withstand_ten_thousand_replicas_a_side(where):
    opened, _ = where
    played = withstands_on_an_engine(runs=10_000, search_runs=1_000, where=opened)
    assert all(played.values()), played


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES, indirect=True)
@pytest.mark.usefixtures("noise_shared_by_columns")
def test_noise_shared_by_two_columns_is_caught(where):
    found = audit(Batched(game(ask=sums, where=where[0])), claim_pure(1), [ONE_COLUMN_MOVES], runs=2_000)
    assert found.refuted, str(found)


@pytest.mark.slow
def test_noise_of_workers_withstands_and_a_key_without_column_is_caught(in_spark, monkeypatch):
    discovered = game(spend=nt.approx(1, "0.01"), keys=None, ask=sums, where=in_spark[0], take=written)
    claim = claim_approx(1, "0.01")
    twins = [ONE_COLUMN_MOVED_OF_MANY]
    assert withstands(discovered, claim, [*twins, OWN_KEYS], runs=5_000, search_runs=500)
    honest = noise.keyed
    laws = []  # of the two sums, which differ by one part in 4096 of the spend: they get the first one's

    def without_column(sampler, **parts):
        if parts["column"].startswith("total"):
            laws.append(sampler)
            sampler = laws[0]
        return honest(sampler, **(parts | {"column": "any"}))

    def with_difference(account, proposal):  # what the attacker looks at: noise that is shared leaves it
        rows = written(account, proposal)
        return rows.set_column(rows.schema.get_field_index("t"), "t", pc.subtract(rows["t"], rows["s"]))

    monkeypatch.setattr(noise, "keyed", without_column)
    found = audit(Batched(replace(discovered, take=with_difference)), claim, twins, runs=2_000)
    assert found.refuted, str(found)
