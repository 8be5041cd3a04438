"""What is said of a release is written before it is paid: a fault in a sentence costs no budget."""

import ast
import sys
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ExecutionError
from neartwin.ledger.account import Account
from neartwin.planning.explain import Explained
from neartwin.releases import preparation, run

SOURCE = Path(nt.__file__).parent
FILES = ["planning/explain.py", "accounting/guarantee.py", "releases/preparation.py"]
WORDS = {  # names of methods that say something
    "planning": {
        *(
            "explain",
            "notes",
            "sentences",
            "expected_errors",
            "question",
            "bounds",
            "mechanisms",
            "columns",
            "group_columns",
        ),
        *("explained", "explain_source", "explain_join", "explain_conditions", "explain_promise", "explain_keys"),
        *(
            "explain_clips",
            "explain_trees",
            "explain_bounds",
            "explain_noise",
            "explain_measure",
            "explanation",
            "origin",
        ),
        *("notes_of_answers", "statistics", "over_groups", "label", "loss_in_words"),
    },
    "statistics": {"expected", "explanation"},
}
NOT_SENTENCES = {  # of those files: checks, and what turns values into JSON
    *("Guarantee.as_dict", "Guarantee.delta", "Guarantee.from_dict"),
    "PreparedRelease.describe",
}


def defined_in(path):
    """The qualified name of every function and method of a file that has a body."""

    def walk(node, place):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                if any(isinstance(mark, ast.Name) and mark.id == "abstractmethod" for mark in child.decorator_list):
                    continue
                yield ".".join((*place, child.name))
                yield from walk(child, (*place, child.name, "<locals>"))
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, (*place, child.name))

    return list(walk(ast.parse(path.read_text()), ()))


def sentence_makers():
    """(file, qualified name) of every function that writes what is said of a plan."""
    found = {(str(SOURCE / file), name) for file in FILES for name in defined_in(SOURCE / file)}
    for room, words in WORDS.items():
        for path in (SOURCE / room).glob("*.py"):
            found |= {(str(path), name) for name in defined_in(path) if name.rpartition(".")[2].strip("_") in words}
    return {(file, name) for file, name in found if name not in NOT_SENTENCES}


SENTENCES = sentence_makers()
UNSEEN = {"guarantee.py: Guarantee.symbols", "preparation.py: PreparedRelease.schema"}  # of a page, of a Parquet file


class PlantedError(Exception):
    """A fault that nothing expects."""


STATES = count()


def rows(name):
    people = [1 + i % 40 for i in range(200)]
    towns = [["Ulm", "Bonn"][i % 2] for i in range(200)]
    table = pa.table(
        {"who": people, "town": towns, "kind": [i % 3 for i in range(200)], "paid": [i % 7 for i in range(200)]}
    )
    return nt.table(table, unit="who", name=name, snapshot=f"state {next(STATES)}")


TOWNS = ["Ulm", "Bonn"]
LIMITS = {"max_rows_per_group": 4, "max_groups": 2}
EVERYTHING = {
    "statistics": lambda at: (
        at.group_by("town", keys=TOWNS).agg(
            n=nt.count(),
            people=nt.count_distinct_units(),
            total=nt.sum("paid", 0, 9),
            typical=nt.mean("paid", 0, 9),
            dear=nt.share("paid > 5"),
        ),
        LIMITS | {"group_size": 2},
    ),
    "order": lambda at: (
        at.group_by("town", keys=TOWNS).agg(
            middle=nt.median("paid", 0, 9), top=nt.maximum("paid", 0, 9), wide=nt.interquartile_range("paid", 0, 9)
        ),
        LIMITS,
    ),
    "spread": lambda at: (at.group_by("town", keys=TOWNS).agg(spread=nt.variance("paid", 0, 9)), LIMITS),
    "histogram": lambda at: (at.group_by("town", keys=TOWNS).agg(shape=nt.histogram("paid", [0, 3, 9])), LIMITS),
    "unknown groups": lambda at: (at.group_by("town").agg(n=nt.count()), LIMITS),
    "threshold": lambda at: (at.group_by("town").agg(n=nt.count()), LIMITS | {"spend": nt.zcdp("0.1", "1e-6")}),
    "joined": lambda at: (
        at.join(nt.public_table(pa.table({"town": TOWNS, "land": ["BW", "NW"]}), name="towns"), on="town")
        .group_by("land", keys=["BW", "NW"])
        .agg(n=nt.count()),
        LIMITS,
    ),
    "total rows": lambda at: (at.group_by("town", keys=TOWNS).agg(n=nt.count()), LIMITS | {"rows": 5}),
    "norm": lambda at: (at.group_by("town", keys=TOWNS).agg(n=nt.count()), {"norm": 3}),
    "margins": lambda at: (
        at.group_by("town", "kind", keys={"town": TOWNS, "kind": [0, 1, 2]})
        .marginals(["town"], ["kind"])
        .agg(n=nt.count()),
        LIMITS,
    ),
    "workload": lambda at: (
        at.group_by("kind", keys=[0, 1, 2]).workload(nt.prefix_sums()).agg(n=nt.count()),
        {"max_rows_per_group": 4, "max_groups": 3},
    ),
    "most common": lambda at: (at.most_common("town", among=TOWNS, counted=True), {}),
    "where": lambda at: (at.where("paid > 1").group_by("town", keys=TOWNS).agg(n=nt.count()), LIMITS),
    "asked first": lambda at: (
        at.where("paid > $1", at.agg(m=nt.mean("paid", 0, 9))).group_by("town", keys=TOWNS).agg(n=nt.count()),
        LIMITS,
    ),
    "private limits": lambda at: (at.group_by("town", keys=TOWNS).agg(n=nt.count()), {}),
    "private norm": lambda at: (
        at.group_by("kind", keys=[0, 1, 2]).workload(nt.prefix_sums()).agg(n=nt.count()),
        {"norm": nt.private_limit(8)},
    ),
    "private norm of margins": lambda at: (
        at.group_by("town", "kind", keys={"town": TOWNS, "kind": [0, 1, 2]}).marginals(["town"]).agg(n=nt.count()),
        {"norm": nt.private_limit(8)},
    ),
    "private range": lambda at: (
        at.group_by("town", keys=TOWNS).agg(total=nt.sum("paid", 0, 9, clip=nt.private_range())),
        {"rows": nt.private_limit(8), "max_groups": 2},
    ),
}
TUNED = {name for name in EVERYTHING if name.startswith(("private", "asked first"))}


class Watch:
    """Runs a question under a profiler, which notes the functions that are entered and may raise in one of them.

    Runs share their ledgers, one a currency; each asks about another state of the table, so none is answered before.
    """

    def __init__(self, book, question, faulty=None):
        self.paid, self.before, self.after, self.faulty = False, set(), set(), faulty
        self.book, self.question, self.release, self.cause = book, question, None, None

    def entered(self, frame, event, _):
        if event != "call":
            return
        code = frame.f_code
        if code is Account.settle.__code__:
            self.paid = False
        place = code.co_filename, code.co_qualname
        if place in SENTENCES:
            (self.after if self.paid else self.before).add(place)
            if self.faulty and self.faulty(place, self.paid):
                raise PlantedError(place)

    def run(self, monkeypatch):
        """Whether the question was paid."""
        preparation.library_version.cache_clear()
        preparation.code_digest.cache_clear()
        honest, made = Account.reserve, run._released

        def reserve(*args, **kwargs):
            ticket = honest(*args, **kwargs)
            self.paid = True
            return ticket

        def released(*args):
            try:
                return made(*args)
            except Exception as error:  # the account's error hides it, as it may hold data
                self.cause = error
                raise

        at = rows("concentrated" if self.question == "threshold" else "visits")
        query, limits = EVERYTHING[self.question](at)
        more = {"spend": nt.approx(1, "1e-6")}
        more |= {name: limits[name] for name in ("spend", "group_size") if name in limits}
        limits = {name: limit for name, limit in limits.items() if name not in more and name != "group_size"}
        budget = nt.zcdp(100, "1e-3") if self.question == "threshold" else nt.approx(1000, "1e-3")
        account = self.book.open(at, budget)
        spent = account.spent
        with monkeypatch.context() as patch:
            patch.setattr(Account, "reserve", reserve)
            patch.setattr(run, "_released", released)
            sys.setprofile(self.entered)
            try:
                proposal = account.plan(query, limits=nt.limits(**limits), **more)
                said = proposal.preview(), proposal.prepared.guarantee, proposal.prepared.guarantee.describe()
                assert all(map(str, said))
                self.release = account.release(proposal)
            except PlantedError:
                pass
            except ExecutionError as error:
                raise error from self.cause
            finally:
                sys.setprofile(None)
        return account.spent != spent


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    with nt.open_ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def uses(book):
    """The sentence makers that each question enters, before it is paid and after."""
    found = {}
    for question in EVERYTHING:
        watch = Watch(book, question)
        with pytest.MonkeyPatch.context() as patch:
            assert watch.run(patch)
        assert watch.release is not None
        found[question] = watch.before, watch.after
    return found


def test_only_chosen_bounds_are_described_between_reserve_and_settle(uses):
    for question, (before, after) in uses.items():
        assert before
        assert bool(after) == (question in TUNED), (question, after)


def test_the_questions_use_every_sentence_there_is(uses):
    seen = {place for before, after in uses.values() for place in before | after}
    never = {f"{Path(file).name}: {name}" for file, name in SENTENCES - seen}
    assert never <= UNSEEN, never - UNSEEN


@pytest.mark.slow
def test_a_fault_in_any_sentence_spends_no_budget(uses, book, monkeypatch):
    first = {}
    for question, (before, _) in uses.items():
        for place in before:
            first.setdefault(place, question)
    assert len(first) > 50
    for place, question in sorted(first.items()):
        watch = Watch(book, question, lambda entered, _, place=place: entered == place)
        assert not watch.run(monkeypatch), (place, question)
        assert watch.release is None, place


@pytest.mark.slow
def test_faults_in_all_words_of_chosen_bounds_cost_no_answer(uses, book, monkeypatch):
    assert all(uses[question][1] for question in TUNED)
    for question in sorted(TUNED):
        watch = Watch(book, question, lambda _, paid: paid)
        assert watch.run(monkeypatch)
        assert any("before bounds were chosen" in note for note in watch.release.notes), question


@pytest.mark.slow
def test_fault_in_the_words_of_chosen_bounds_costs_no_answer(uses, book, monkeypatch):
    first = {}
    for question in sorted(TUNED, reverse=True):
        for place in uses[question][1]:
            first.setdefault(place, question)
    assert set(first.values()) == set(TUNED)
    for place, question in sorted(first.items()):
        watch = Watch(book, question, lambda entered, paid, place=place: paid and entered == place)
        assert watch.run(monkeypatch)
        assert watch.release is not None, place
        assert any("before bounds were chosen" in note for note in watch.release.notes)


def test_a_sentence_between_reserve_and_settle_is_seen(book, monkeypatch):
    """The watch itself: an engine that explains while it is asked is caught."""
    honest = DuckdbEngine.aggregate

    def talking(self, stage, **more):
        str(Explained("said too late"))
        return honest(self, stage, **more)

    monkeypatch.setattr(DuckdbEngine, "aggregate", talking)
    watch = Watch(book, "statistics")
    assert watch.run(monkeypatch)
    assert watch.after
