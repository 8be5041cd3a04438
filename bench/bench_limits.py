"""Error of counts at limits that a plan chooses, over that of the best fixed limit in hindsight, which pays for no choice.

Sizes of units are drawn from six laws, and real ones are those of CDNOW by month (`lifetimes`, whose file is read). Each
unit's rows fall on 1 to 79 groups. For each choice the chances of all limits are exact, so the mean over them is exact
too: nothing is drawn but the tables. A typical group is the median one.

A second table asks as people do: a count beside a mean and a share, by groups that nobody named, of sizes that most people have
about alike. The error is that of the count. A third one has the error of a count of people beside all of these.

Bars, at an epsilon of 0.5 and more: median at most 1.9 at 1,000 units, 1.5 at 4,000, 1.3 from 20,000. Never above 10 times
the best and 20 % of a typical group.
"""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

import neartwin as nt
from neartwin.mechanisms.additive import DiscreteLaplace
from neartwin.planning.limit_choice import bounded_plan
from neartwin.planning.planner import plan

SIZES = {
    "lognormal": lambda draw, n: np.ceil(draw.lognormal(1.5, 1.2, n)),
    "lognormal, wide": lambda draw, n: np.ceil(draw.lognormal(3, 2, n)),
    "Pareto 1.5": lambda draw, n: np.ceil(draw.pareto(1.5, n)),
    "Pareto 1": lambda draw, n: np.minimum(np.ceil(2 * draw.pareto(1.0, n)), 10_000),
    "one row": lambda _, n: np.ones(n),
    "about 50": lambda draw, n: draw.poisson(50, n),
}
ALIKE = {
    "about 50": SIZES["about 50"],
    "geometric, 12": lambda draw, n: draw.geometric(1 / 12, n),
    "1 to 30": lambda draw, n: draw.integers(1, 31, n),
    "4 or 60": lambda draw, n: 1 + np.where(draw.random(n) < 0.8, draw.poisson(3, n), draw.poisson(60, n)),
}
UNITS = (100, 1_000, 4_000, 20_000, 100_000)
GROUPS = {100: (1, 5, 20, 79), 1_000: (1, 5, 20, 79), 4_000: (1, 5, 20, 79), 20_000: (1, 20), 100_000: (1, 20)}
EPSILONS = ("0.1", "0.5", "1", "3")
MU = 0.25  # mu of normal noise for an epsilon of 1, about that of delta 1e-6


def drawn(units, groups, laws):
    """(name, rows by unit and group) for each law of sizes."""
    draw = np.random.default_rng([7, units, groups])
    favourites = np.maximum(draw.dirichlet(np.ones(groups)) * groups / 2, 1e-3)
    for name, sizes in laws.items():
        rows = np.clip(sizes(draw, units), 1, 10**5).astype(np.int64)
        shares = np.maximum(draw.gamma(favourites, size=(units, groups)), 1e-12)
        yield name, draw.multinomial(rows, shares / shares.sum(axis=1, keepdims=True))


def tables():
    """(name, rows by unit and group)"""
    for units in UNITS:
        for groups in GROUPS[units]:
            yield from drawn(units, groups, SIZES)
    package = find_spec("lifetimes")
    if package is not None:
        text = Path(next(iter(package.submodule_search_locations))) / "datasets" / "CDNOW_master.txt"
        lines = [line.split()[:2] for line in text.read_text(encoding="utf-8").splitlines()[1:]]
        who, month = (
            np.unique(column, return_inverse=True)[1] for column in zip(*((w, d[:6]) for w, d in lines), strict=True)
        )
        counts = np.zeros((who.max() + 1, month.max() + 1), dtype=np.int64)
        np.add.at(counts, (who, month), 1)
        yield "CDNOW", counts


def variance(noise):
    """That of Laplace or normal noise, whose rounding is far below these."""
    return 2 * float(noise.scale) ** 2 if isinstance(noise, DiscreteLaplace) else float(noise.variance)


def regret(counts, spend, keys, *, people=False, **beside):
    """The error of chosen limits over the best fixed one's, and over a typical group; of rows, or of people beside them."""
    frame = pa.table({"who": ["a"], "town": [0], "paid": [1.0], "new": [True]})
    query = nt.table(frame, unit="who", name="v").group_by("town", keys=keys).agg(n=nt.count(), **beside)
    choice = plan(query, spend=spend).first_stages[0]
    (search,) = (one for one in choice.searches if (one.name == "max_groups") is people)
    counts = (counts > 0).astype(np.int64) if people else counts
    laplace = search.name == "rows"
    length = counts.sum(axis=1) if laplace else np.sqrt((counts.astype(float) ** 2).sum(axis=1))
    limits = np.array([float(limit) for limit in search.candidates]) ** (0.5 if search.squared else 1)
    edges = np.array(search.stages[0].sizes.edges)
    size = length if laplace else length**2
    units = np.bincount(np.searchsorted(edges, np.round(size), side="right") - 1, minlength=len(edges))
    chances = search.mechanism.pmf(search.scores(units))
    # what every limit loses of each group: units sorted into the cells of limits, added up from the far end
    cell = np.searchsorted(limits, length - 1e-9)
    rows, directions = (
        np.stack([np.bincount(cell, column, len(limits) + 1) for column in values.T])
        for values in (counts, counts / length[:, None])
    )
    rows, directions = (values[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] for values in (rows, directions))
    lost = ((rows - limits * directions) ** 2).mean(axis=0)

    names = [one.name for one in choice.searches]

    def squared(budget):
        made = bounded_plan(query, spend=budget, limits=replace(choice.limits, **dict.fromkeys(names, 16)))
        found = dict(made.mechanisms())
        of_rows = [name for name in found if name == "rows" or name.startswith(("filled:paid", "empty:paid"))]
        return lost + (limits / (4 if search.squared else 16)) ** 2 * sum(
            variance(found[name]) / made.stage.parts.get(name, 1) ** 2 for name in (["units"] if people else of_rows)
        )

    own, best = float(chances @ squared(choice.rest)) ** 0.5, float(squared(spend).min()) ** 0.5
    typical = max(float(np.median(counts.sum(axis=0))), 1.0)
    return own / best, own / typical


def main():
    """Print, for each number of units, the ratio to the best fixed limit."""
    found = []
    for name, counts in tables():
        for epsilon in EPSILONS:
            found += [
                (len(counts), name, float(epsilon), "mu" in str(spend), *regret(counts, spend, range(counts.shape[1])))
                for spend in (nt.pure(epsilon), nt.gdp(round(float(epsilon) * MU, 6)))
            ]
    print(
        f"{'units, noise':28} {'median':>7} {'9 in 10':>8} {'worst':>7}   within twice or 5 %   above 10 times and 20 %"
    )
    for low, high in ((100, 100), (1_000, 1_000), (4_000, 4_000), (20_000, 10**6)):
        for normal in (False, True):
            for words, some in (("epsilon 0.5 to 3", lambda e: e >= 0.5), ("epsilon 0.1", lambda e: e < 0.5)):
                rows = [one for one in found if low <= one[0] <= high and one[3] is normal and some(one[2])]
                ratio, share = np.array([one[4] for one in rows]), np.array([one[5] for one in rows])
                where = f"{low:,}{'+' * (high > low)}, {'normal' if normal else 'Laplace'}, {words}"
                print(
                    f"{where:38} {np.median(ratio):7.2f} {np.quantile(ratio, 0.9):8.2f} {ratio.max():7.1f}"
                    f" {np.mean((ratio <= 2) | (share <= 0.05)):12.0%} {np.sum((ratio > 10) & (share > 0.2)):12}"
                )
    ratio = np.median([one[4] for one in found if one[2] >= 0.5])
    print(f"ratio of errors, chosen limit over the best in hindsight, median at epsilon 0.5 and more: {ratio:.2f}")
    beside = {"m": nt.mean("paid", 0, 240), "share": nt.mean("new")}
    for what, more in (("rows", {}), ("people, and one of rows,", {"people": True, "u": nt.count_distinct_units()})):
        print(
            f"a count of {what} beside a mean and a share, by 3 to 50 unknown groups, epsilon 0.5 to 3, where the best is "
            "within 20 %"
        )
        for units in (1_500, 6_000, 30_000):
            rows = [
                regret(counts, nt.approx(epsilon, "1e-8"), None, **beside, **more)
                for groups in (3, 6, 12, 25, 50)
                for _, counts in drawn(units, groups, ALIKE)
                for epsilon in EPSILONS[1:]
            ]
            ratio = np.array([own for own, share in rows if share / own <= 0.2])
            print(
                f"{units:6,} units: median {np.median(ratio):.2f}, 9 in 10 {np.quantile(ratio, 0.9):.2f}, "
                f"worst {ratio.max():.1f}"
            )


if __name__ == "__main__":
    main()
