"""How many files and functions of neartwin a reader of one call walks through, counted by a call profiler.

    python tools/walks.py            a table
    python tools/walks.py --check    exit code 1 where a walk passes its bar
    python tools/walks.py --list     every function of each walk, by file

Each walk runs once unseen, on a ledger of its own, so that imports and first uses are over. The second run is counted.
It counts the distinct functions with a name that the call enters in its own thread. A comprehension, a generator
expression, a lambda and a module's top level have no name. A file counts when one of its functions does.
Figures are of Python 3.11.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import duckdb

import neartwin as nt
from neartwin.losses import Gaussian, Laplace, RandomizedResponse, SubsampledGaussian

PACKAGE = str(Path(nt.__file__).parent) + "/"
ROWS = "SELECT i % 5000 AS customer_id, 1 + i % 5 AS cds, (i * 37 % 20000) / 100 AS amount FROM range(40000) t(i)"

# Names of the interface stand from here to the end of WALKS, and nowhere else in this file.


class Shop:
    """The README's table, with a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        data = folder / "purchases.parquet"
        if not data.exists():
            duckdb.sql(f"COPY ({ROWS}) TO '{data}'")
        self.purchases = nt.table(str(data), unit="customer_id")
        ledger = tempfile.mkdtemp(dir=folder) + "/budget.db"
        self.account = nt.open_ledger(ledger).open(self.purchases, nt.pure(epsilon=1))

    def query(self, **statistics: object) -> object:
        """Statistics by the README's five public groups."""
        return self.purchases.group_by("cds", keys=range(1, 6)).agg(**statistics)

    def one(self) -> object:
        """A count by group."""
        return self.query(orders=nt.count())

    def three(self) -> object:
        """The README's three statistics by group."""
        return self.query(orders=nt.count(), total=nt.sum("amount", 0, 200), typical=nt.mean("amount", 0, 200))

    def plan(self, query: object) -> object:
        """The README's proposal, limits given."""
        return self.account.plan(
            query, spend=nt.pure(epsilon="0.5"), limits=nt.limits(max_groups=5, max_rows_per_group=5)
        )


@dataclass(frozen=True, slots=True)
class Walk:
    """A call to count, and its bars.

    Attributes:
        name: The call, as a reader would write it.
        prepared: Does what comes before the call, in a folder, and returns the call.
        files: The most files that it may enter; none where there is no bar.
        functions: The most functions that it may enter; none where there is no bar.
    """

    name: str
    prepared: Callable[[Path], Callable[[], object]]
    files: int | None = None
    functions: int | None = None


def _plan(folder: Path) -> Callable[[], object]:
    shop = Shop(folder)
    query = shop.three()
    return lambda: shop.plan(query)


def _preview(folder: Path) -> Callable[[], object]:
    shop = Shop(folder)
    return shop.plan(shop.three()).preview


def _release_one(folder: Path) -> Callable[[], object]:
    shop = Shop(folder)
    proposal = shop.plan(shop.one())
    return lambda: shop.account.release(proposal)


def _release_three(folder: Path) -> Callable[[], object]:
    shop = Shop(folder)
    proposal = shop.plan(shop.three())
    return lambda: shop.account.release(proposal)


def _whole(_: Path) -> Callable[[], object]:
    training = 10_000 * SubsampledGaussian(mu=1, rate="0.01")
    whole = training + 50 * Laplace(epsilon="0.05") + 20 * RandomizedResponse(epsilon="0.1")
    return lambda: whole.epsilon(delta=1e-5)


def _closed_form(_: Path) -> Callable[[], object]:
    return lambda: (10 * Gaussian(mu=1)).epsilon(1e-5)


WALKS = (
    Walk("account.plan(query)", _plan),
    Walk("proposal.preview()", _preview),
    Walk("account.release(proposal), one count", _release_one, files=40, functions=200),
    Walk("account.release(proposal), three statistics", _release_three),
    Walk("whole.epsilon(delta)", _whole, files=15, functions=100),
    Walk("(10 * Gaussian(mu=1)).epsilon(1e-5)", _closed_form),
)


def walked(call: Callable[[], object]) -> Counter[CodeType]:
    """How often a call enters each named function of neartwin."""
    entered: Counter[CodeType] = Counter()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered[frame.f_code] += 1

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    kept = {
        code: n
        for code, n in entered.items()
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    }
    return Counter(kept)


def counted(walk: Walk) -> Counter[CodeType]:
    """The functions that the second run of a walk enters, each with its number of calls."""
    with tempfile.TemporaryDirectory() as place:
        walk.prepared(Path(place))()
        return walked(walk.prepared(Path(place)))


def files_of(entered: Counter[CodeType]) -> list[str]:
    """The files that functions stand in, below the package."""
    return sorted({code.co_filename.removeprefix(PACKAGE) for code in entered})


def over(count: int, bar: int | None) -> bool:
    """Whether a count passes its bar."""
    return bar is not None and count > bar


def cell(count: int, bar: int | None) -> str:
    """A count beside its bar."""
    return f"{count}" if bar is None else f"{count} (bar {bar})"


def main(arguments: Sequence[str]) -> int:
    """Print the table; with --check, 1 where a walk passes its bar."""
    if sys.version_info[:2] != (3, 11):
        print(f"walks: the bars are of Python 3.11; this is {sys.version.split()[0]}", file=sys.stderr)
    failed = False
    print(f"{'walk':<46}{'files':>14}{'functions':>16}{'calls':>9}")
    for walk in WALKS:
        entered = counted(walk)
        files, functions = files_of(entered), len(entered)
        row = f"{cell(len(files), walk.files):>14}{cell(functions, walk.functions):>16}{entered.total():>9,}"
        print(f"{walk.name:<46}{row}")
        failed |= over(len(files), walk.files) or over(functions, walk.functions)
        if "--list" in arguments:
            for file in files:
                names = [code.co_qualname for code in entered if code.co_filename == PACKAGE + file]
                print(f"    {file}: {', '.join(names)}")
    return int(failed and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
