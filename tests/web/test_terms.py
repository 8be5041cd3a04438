"""A curator names the encoding of a file at every door, and a refresh reads it so again."""

import json

import duckdb
from click.testing import CliRunner

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable
from tests.web.conftest import bearer

TOWNS = ["Köln", "Ulm"]
WISH = {"unit": "who", "types": {"paid": "number"}, "bounds": {"paid": ["0", "9"]}, "budget": {"epsilon": "1"}}


def written(place, rows=9):
    lines = [f"{row};{TOWNS[row % 2]};{row}\n" for row in range(rows)]
    place.write_text("".join(["who;town;paid\n", *lines]), encoding="cp1252")


def towns_of(directory, dataset):
    copy = directory.rows(dataset).table.source.copy
    return set(duckdb_column(copy, "town"))


def duckdb_column(copy, name):
    return [value for (value,) in duckdb.sql(f"SELECT {name} FROM '{copy}'").fetchall()]


def test_file_is_registered_with_its_encoding_over_http(client, directory, tokens):
    written(directory.files / "visits.csv")
    wish, headers = WISH | {"name": "visits", "file": "visits.csv"}, bearer(tokens["curator"])
    assert client.post("/v1/datasets", json=wish, headers=headers).status_code == 422  # no valid UTF-8
    assert client.post("/v1/datasets", json=wish | {"encoding": "cp1252"}, headers=headers).status_code == 201
    assert towns_of(directory, directory.dataset("visits")) == set(TOWNS)
    written(directory.files / "visits.csv", rows=20)
    assert towns_of(directory, directory.refresh("visits", by="console")) == set(TOWNS)


def test_terminal_registers_an_encoding_and_a_folder_of_copies(tmp_path):
    written(tmp_path / "visits.csv")
    words = ["register", str(tmp_path / "visits.csv"), "--data", str(tmp_path / "house"), "--unit", "who"]
    words += ["--budget", "epsilon=1", "--into", str(tmp_path / "copies")]
    assert CliRunner().invoke(main, words).exit_code == 2
    assert CliRunner().invoke(main, [*words, "--encoding", "cp1252"]).exit_code == 0
    assert len(list((tmp_path / "copies").rglob("*.parquet"))) == 1
    assert not (tmp_path / ".neartwin").exists()
    with DataDirectory(tmp_path / "house") as opened:
        dataset = opened.dataset("visits")
        assert towns_of(opened, dataset) == set(TOWNS)
        assert Dataset.from_dict(json.loads(dataset.to_json())) == dataset


def test_table_to_join_has_an_encoding_of_its_own_and_the_folder(tmp_path):
    (tmp_path / "people.csv").write_text("who,town\n1,Köln\n", encoding="utf-8")
    (tmp_path / "towns.csv").write_text("town;state\nKöln;NW\n", encoding="cp1252")
    towns = JoinableTable(name="towns", kind="public", place=str(tmp_path / "towns.csv"), encoding="cp1252")
    place, into = str(tmp_path / "people.csv"), str(tmp_path / "copies")
    dataset = Dataset(name="people", place=place, unit="who", budget=pure(1), tables=(towns,), into=into)
    assert Dataset.from_dict(json.loads(dataset.to_json())) == dataset
    found = dataset.others(refresh=None)["towns"].source
    assert duckdb_column(found.copy, "town") == ["Köln"]
    assert not (tmp_path / ".neartwin").exists()
