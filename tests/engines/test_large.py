"""Releases that are written as tables: right, unseen before they are settled, never in part, the same when asked again."""

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines import spark as spark_engine
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ExecutionError, LedgerError, ParameterError, QueryError
from neartwin.ledger import Account as Book
from neartwin.planning.plan import NoisyAnswer
from neartwin.releases import parquet
from neartwin.statistics.base import Estimate
from tests.engines.places import DuckdbPlace

SURE = {"spend": nt.approx(10**8, "1e-9"), "limits": nt.limits(max_rows_per_group=5, max_groups=40)}  # noise of no size
PLACES = ["duckdb_place", "postgres_place", "spark_place"]


def visits(size=3000, towns=60):
    pick = random.Random(2)
    names = [None, *(f"town {i}" for i in range(towns)), "ünïcode", "Z", "a"]
    return [
        {"who": f"p{i % 700}", "town": pick.choice(names), "year": pick.randrange(3), "paid": float(pick.randrange(50)),
         "open": True, "day": None}
        for i in range(size)
    ]  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as opened:
        yield opened


def proposed(ledger, rows, **more):
    account = ledger.open(rows, nt.approx(10**10, "1e-3"))
    asked = rows.group_by("town", "year").agg(people=nt.count_distinct_units(), total=nt.sum("paid", 0, 100))
    return account, account.plan(asked, **(SURE | more))


def read(place):
    if not Path(place).is_dir():
        return pq.read_table(place)
    return pa.concat_tables([pq.ParquetFile(file).read() for file in sorted(Path(place).glob("*.parquet"))])


@pytest.mark.parametrize("place", PLACES)
def test_written_table_is_near_the_data(request, place, ledger, tmp_path):
    given = visits()
    account, proposal = proposed(ledger, request.getfixturevalue(place).visits(given, name="visits"))
    written = account.release_to_parquet(proposal, tmp_path / "towns.parquet")
    found = {(row["town"], row["year"]): row for row in read(written.place).to_pylist()}
    units = Counter((town, year) for _, town, year in {(row["who"], row["town"], row["year"]) for row in given})
    assert len(units) > 180
    assert {key: row["people"] for key, row in found.items()} == {key: n for key, n in units.items() if n > 1}
    paid = Counter()
    for row in given:
        paid[row["town"], row["year"]] += row["paid"]
    assert {key: row["total"] for key, row in found.items()} == pytest.approx(
        {key: paid[key] for key in found}, abs=0.01
    )
    assert all(row["people_lower"] <= row["people"] <= row["people_upper"] for row in found.values())
    assert account.spent["epsilon"] == 10**8


@pytest.fixture
def asked(ledger):
    return proposed(ledger, DuckdbPlace().visits(visits(), name="visits", snapshot="first"))


def test_table_has_no_name_before_the_ledger_has_it(asked, tmp_path, monkeypatch):
    account, proposal = asked
    seen = []
    settle = Book.settle

    def watched(self, ticket, document):
        seen.append((tmp_path / "t.parquet").exists())
        seen.append([oct(path.stat().st_mode & 0o777) for path in tmp_path.glob(".t.parquet.*")])
        return settle(self, ticket, document)

    monkeypatch.setattr(Book, "settle", watched)
    account.release_to_parquet(proposal, tmp_path / "t.parquet")
    assert seen == [False, ["0o600"]]
    assert (tmp_path / "t.parquet").exists()
    assert not list(tmp_path.glob(".t.parquet.*"))


def test_failed_table_leaves_only_spent_budget_and_hides_its_cause(asked, tmp_path):
    account, proposal = asked

    class Broken:
        def aggregate(self, stage, *, salt):
            raise AssertionError

        def batches(self, stage, *, salt, groups):
            yield next(DuckdbEngine().batches(stage, salt=salt, groups=10))
            raise ValueError("town 7 is private")

    with pytest.raises(ExecutionError) as failed:
        account.release_to_parquet(proposal, tmp_path / "t.parquet", engine=Broken())
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    assert account.spent["epsilon"] == 10**8
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == []


def test_repeated_question_is_free_and_names_a_table_after_a_crash(asked, tmp_path):
    account, proposal = asked
    first = account.release_to_parquet(proposal, tmp_path / "t.parquet")
    content = Path(first.place).read_bytes()
    assert account.release_to_parquet(proposal, tmp_path / "other.parquet") == first
    assert not (tmp_path / "other.parquet").exists()
    Path(first.place).rename(first.unfinished)  # as if the power had failed between settling and renaming
    assert account.release_to_parquet(proposal, tmp_path / "other.parquet") == first
    assert Path(first.place).read_bytes() == content
    Path(first.place).rename(first.unfinished)
    Path(first.unfinished).write_bytes(content[:-1])
    with pytest.raises(LedgerError, match="is not the one"):
        account.release_to_parquet(proposal, tmp_path / "other.parquet")
    assert account.spent["epsilon"] == 10**8


def test_question_has_one_answer_in_one_form(ledger, tmp_path):
    rows = DuckdbPlace().visits(visits(), name="visits", snapshot="first")
    account, proposal = proposed(ledger, rows)
    account.release_to_parquet(proposal, tmp_path / "t.parquet")
    with pytest.raises(LedgerError, match=r"t\.parquet"):
        account.release(proposal)
    _, other = proposed(ledger, rows, limits=nt.limits(max_rows_per_group=4, max_groups=40))
    account.release(other)
    with pytest.raises(LedgerError, match="ordinary release"):
        account.release_to_parquet(other, tmp_path / "u.parquet")
    assert account.spent["epsilon"] == 2 * 10**8


def test_pieces_of_the_file_have_a_fixed_number_of_released_rows(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUPS", 16)
    account, proposal = proposed(ledger, DuckdbPlace().visits(visits(900, 200), name="visits"))
    place = account.release_to_parquet(proposal, tmp_path / "t.parquet").place
    pieces = pq.ParquetFile(place).metadata
    sizes = [pieces.row_group(i).num_rows for i in range(pieces.num_row_groups)]
    assert 80 < pieces.num_rows < 400  # many groups of one unit are left out
    assert set(sizes[:-1]) == {16}
    assert 0 < sizes[-1] <= 16
    keys = [(row["town"] is None, row["town"] or "", row["year"]) for row in read(place).to_pylist()]
    assert keys == sorted(keys)


def test_a_file_tells_nothing_of_the_parts_that_it_came_in(asked, tmp_path):
    """Parts end where exact groups do, which must not be seen: not in pieces, not in their pages."""
    _, proposal = asked
    rows = [((f"town {i:06}" + "." * 300, i % 3), float(i)) for i in range(6000)]  # more than a page of text
    files = []
    for size in (6000, 7, 1000, 1025):
        some = [rows[start : start + size] for start in range(0, len(rows), size)]
        answers = (
            NoisyAnswer(
                tuple(key for key, _ in part),
                tuple(
                    Estimate(name, **dict.fromkeys(("values", "lower", "upper"), tuple(x for _, x in part)))
                    for name in ("people", "total")
                ),
            )
            for part in some
        )
        parquet._write(proposal.prepared.schema, answers, str(tmp_path / f"{size}.parquet"))
        files.append((tmp_path / f"{size}.parquet").read_bytes())
    assert len(set(files)) == 1


def test_unwritable_release_is_refused_before_any_spend(asked, tmp_path):
    account, proposal = asked
    (tmp_path / "taken.parquet").touch()
    for place in ("taken.parquet", "nowhere/t.parquet"):
        with pytest.raises(ParameterError, match="place"):
            account.release_to_parquet(proposal, tmp_path / place)
    rows = proposal.plan.query.groups.rows
    choice = account.plan(rows.most_common("town", among=["a", "Z"]), spend=nt.pure(1))

    class Whole:
        def aggregate(self, stage, *, salt):
            raise AssertionError

    with pytest.raises(QueryError, match="ordinary release"):
        account.release_to_parquet(choice, tmp_path / "t.parquet", engine=Whole())
    assert account.spent["epsilon"] == 0


def quantile_of(values, rank):
    ordered = sorted(values)
    return next(value for place, value in enumerate(ordered, start=1) if place >= rank * len(ordered))


@pytest.mark.parametrize("place", PLACES)
def test_written_quantiles_and_bins_equal_the_rows_without_noise(request, place, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUPS_AT_ONCE", 100)  # groups and their cells go on from part to part
    monkeypatch.setattr(parquet, "CELLS", 900)
    monkeypatch.setattr(spark_engine, "CELLS", 900)
    given = visits(4000, 12)
    rows = request.getfixturevalue(place).visits(given, name="visits")
    account = ledger.open(rows, nt.approx(10**16, "1e-3"))
    limits = SURE | {
        "spend": nt.approx(10**15, "1e-9"),
        "limits": nt.limits(max_rows_per_group=4000, max_groups=50),
    }  # parts of rows
    ranks = rows.group_by("town", "year").agg(
        people=nt.count_distinct_units(), paid=nt.quantile("paid", [0.25, 0.75], 0, 100, 1)
    )
    table = read(account.release_to_parquet(account.plan(ranks, **limits), tmp_path / "ranks.parquet").place)
    assert table.column_names[3:] == [
        *("people_lower", "people_upper"),
        *(f"paid_{rank}{end}" for rank in ("p25", "p75") for end in ("", "_lower", "_upper")),
    ]
    values = {}
    for row in given:
        values.setdefault((row["town"], row["year"]), []).append(row["paid"])
    found = {(row["town"], row["year"]): row for row in table.to_pylist()}
    assert set(found) == set(values)
    for key, row in found.items():
        assert (row["paid_p25"], row["paid_p75"]) == (quantile_of(values[key], 0.25), quantile_of(values[key], 0.75))
    bins = rows.group_by("town", keys=["Z", "nowhere", None]).agg(paid=nt.histogram("paid", [0, 10, 30]))
    written = account.release_to_parquet(account.plan(bins, **limits), tmp_path / "bins.parquet")
    assert written.group_columns == ("town", "paid")
    counts = {
        (town, label): sum(row["town"] == town and low <= row["paid"] <= high for row in given)
        for town in ("Z", "nowhere", None)
        for label, low, high in (("[0, 10)", 0, 9), ("[10, 30]", 10, 30))
    }
    assert {(row["town"], row["paid"]): row["count"] for row in read(written.place).to_pylist()} == counts


@pytest.mark.parametrize("place", PLACES)
def test_winners_and_margins_are_written_as_in_an_ordinary_release(request, place, ledger, tmp_path):
    rows = request.getfixturevalue(place).visits(visits(), name="visits", snapshot="first")
    account = ledger.open(rows, nt.approx(10**10, "1e-3"))
    top = rows.most_common("town", among=["town 1", "town 2", "a", "nowhere"], k=3, counted=True)
    sides = rows.group_by("town", "year", keys={"town": ["a", "Z"], "year": [0, 1, 2]}).marginals(["town"], ["year"])
    for number, asked in enumerate([top, sides.agg(n=nt.count())]):
        limits = {"spend": nt.pure(10**7)} | (
            {"limits": nt.limits(max_rows_per_group=5, max_groups=6)} if number else {}
        )
        written = account.release_to_parquet(account.plan(asked, **limits), tmp_path / f"{number}.parquet")
        other = account.release(account.plan(asked, **(limits | {"spend": nt.pure(10**7 + 1)})))
        assert written.group_columns == other.group_columns
        lost = {written.notes[0]} if number else set()  # said first; beside an ordinary release it is the headline
        assert set(written.notes) - lost == set(other.notes)
        assert bool(lost) == bool(other.headline)
        (counted,) = other.statistics
        rows_told = [(*key, value) for key, value in zip(other.keys, counted.values, strict=True)]
        told = [
            tuple(row[name] for name in (*written.group_columns, counted.name))
            for row in read(written.place).to_pylist()
        ]
        assert told == [(*row[:-1], pytest.approx(row[-1])) for row in rows_told]


@pytest.mark.parametrize("place", PLACES)
def test_a_table_of_public_keys_has_them_all(request, place, ledger, tmp_path):
    rows = request.getfixturevalue(place).visits(visits(), name="visits", snapshot="first")
    account = ledger.open(rows, nt.approx(10**10, "1e-3"))
    asked = rows.group_by("town", keys=["Z", "nowhere", "a"]).agg(people=nt.count_distinct_units())
    table = read(account.release_to_parquet(account.plan(asked, **SURE), tmp_path / "t.parquet").place)
    order = ["Z", "nowhere", "a"] if place != "spark_place" else None  # there each key goes to the file that it says
    assert table["town"].to_pylist() == (order or table["town"].to_pylist())
    counts = dict(zip(table["town"].to_pylist(), table["people"].to_pylist(), strict=True))
    people = {town: {row["who"] for row in visits() if row["town"] == town} for town in ("Z", "nowhere", "a")}
    assert counts == {town: len(those) for town, those in people.items()}


@pytest.mark.parametrize("place", PLACES)
def test_the_bins_of_a_group_are_written_in_their_order(request, place, ledger, tmp_path):
    rows = request.getfixturevalue(place).visits(visits(), name="visits", snapshot="first")
    account = ledger.open(rows, nt.approx(10**16, "1e-3"))
    bins = nt.histogram("paid", [0, 5, 10, 30, 200])  # by their letters, [10 comes before [5
    limits = SURE | {"spend": nt.approx(10**15, "1e-9")}
    table = read(
        account.release_to_parquet(account.plan(rows.group_by("town").agg(paid=bins), **limits), tmp_path / "t").place
    )
    told = {}
    for row in table.to_pylist():
        told.setdefault(row["town"], []).append(row["paid"])
    assert len(told) == 64
    assert set(map(tuple, told.values())) == {("[0, 5)", "[5, 10)", "[10, 30)", "[30, 200]")}
