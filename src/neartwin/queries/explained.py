"""A tree of words, and what it says of a first stage that chooses bounds."""

from dataclasses import dataclass

from neartwin.queries.bounding_errors import CONFIDENCE, groups_counted
from neartwin.queries.plan import GroupPlan, OverGroups, Pilot


@dataclass(frozen=True, slots=True)
class Explained:
    """A node: one line, and what stands under it. `str` draws the tree."""

    line: str
    under: tuple["Explained", ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._drawn("", ""))

    def _drawn(self, first: str, rest: str) -> list[str]:
        lines = [first + self.line]
        for place, node in enumerate(self.under):
            last = place == len(self.under) - 1
            lines += node._drawn(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))  # noqa: SLF001
        return lines


def explained_pilot(plan: OverGroups) -> tuple[Explained, ...]:
    """What is chosen first, how, and by what: one node, or none where nothing is tuned."""
    pilot = plan.pilot
    if pilot is None:
        return ()
    bounds = {"rows_per_group": pilot.rows, "groups_per_unit": pilot.groups, "norm_per_unit": pilot.norm}
    tuned = [name for name, bound in bounds.items() if bound]
    bar = pilot.mechanism.half_width(CONFIDENCE) / 1024
    lines = (
        "sensitivity 1,024 parts: a unit's groups share one unit among the cells, however many they are",
        f"noise of ± {bar:.3g} units a cell; what it could be alone is taken for nothing",
        *_weighed(plan, pilot),
        f"the question then spends {pilot.rest}; below it is at the largest bounds, the worst",
    )
    return (
        Explained(
            f"first choose {' and '.join(tuned)} from noisy counts of units by groups and rows, in octaves",
            tuple(map(Explained, lines)),
        ),
    )


def _weighed(plan: OverGroups, pilot: Pilot) -> tuple[str, ...]:
    if isinstance(plan, GroupPlan):
        return ()
    answers = "a cell of each margin" if plan.query.groups.margins else "an answer, on average,"
    share = f"{groups_counted(plan):,.4g} of {pilot.expected_groups:,} groups"
    return (
        f"the bound is that with the least expected error, of noise and of rows lost: {answers} counts {share}, and so "  # noqa: ISC004
        "many shares of all rows that scaling takes; the release says about how many those are",
    )
