"""Fifty analysts at once, on both ledgers: no overspend, no lost record, settled answers again for nothing."""

import time

import pytest

from neartwin.accounting.budgets import pure
from tests.ledger.conftest import postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.web import load
from tests.web.conftest import registered
from tests.web.server import serving

ANALYSTS = 50


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def team(request, tmp_path, purchases):
    """A data directory with one epsilon, and fifty analysts who may spend a tenth each: twice what they will ask for."""
    place = request.getfixturevalue("postgres_place") if request.param == "postgres" else ""
    with registered(tmp_path / "house", purchases, ledger=place) as directory:
        tokens = [directory.mint(f"analyst {who}", "analyst", by="console")[1] for who in range(ANALYSTS)]
        for who in range(ANALYSTS):
            directory.allot("purchases", f"analyst:analyst {who}", pure("0.1"), by="console")
        yield directory, tokens


def codes(said):
    return {job["error"]["code"] for _, job in said if "release" not in job or job["release"] is None}


@pytest.mark.slow
def test_fifty_analysts_at_once_spend_what_there_is_and_no_more(team):
    directory, tokens = team
    with serving(directory) as address:
        said = load.crowd(lambda: address, tokens, rounds=1)
        load.check_books(directory, said)
        assert len(said) == ANALYSTS
        assert len(load.served(said)) == 25  # one epsilon in parts of 1/25, whoever came first
        assert directory.books.account("purchases").remaining == {"epsilon": 0}
        assert codes(said) == {"NT-400"}
        load.check_replays(directory, address, tokens[0], load.served(said)[::8])


@pytest.mark.slow
def test_fifty_analysts_for_a_minute_spend_what_there_is_and_no_more(team):
    directory, tokens = team
    directory.books.raise_cap("purchases", pure(1000))  # one question for each fifth analyst, whose second is refused
    for who in range(ANALYSTS):
        directory.allot("purchases", f"analyst:analyst {who}", pure(20 if who % 5 else "0.04"), by="console")
    with serving(directory) as address:
        end = time.monotonic() + 60
        said = load.crowd(lambda: address, tokens, over=lambda: time.monotonic() > end)
        load.check_books(directory, said)
        assert codes(said) == {"NT-400"}
        print(f"{len(load.served(said))} releases and {len(said)} answers in a minute")
        load.check_replays(directory, address, tokens[0], load.served(said)[::10])  # of some thousands
