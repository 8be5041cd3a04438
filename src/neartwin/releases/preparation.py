"""A release before it is paid: everything that follows from its plan, made once.

Between reserve and settle only three things run: ask the engine, add noise, settle. Sentences, names of columns, expected errors
and the digest of the code are made here, before. So a fault in any of them spends no budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.arrow import ARROW
from neartwin.planning.plan import Choice, Plan
from neartwin.queries.query import PostProcessing
from neartwin.releases.provenance import Description, describe, described_choices, library_version


@dataclass(frozen=True, kw_only=True)
class PreparedRelease:
    """A plan with all that a release of it says, apart from noisy numbers.

    Attributes:
        plan: What will be run.
        digest: The plan's, by which a repeated question is known.
        price: In words, as the ledger's history shows it.
        group_columns: Names of the release's group columns.
        numbers: Keys, values and ends of bars of a release over public groups; 0 where that is not known.
        after: What is done to the release, for nothing.
        guarantee: What is promised to each unit.
        description: Notes, explanation and method of the plan; where bounds are tuned, at the largest ones.
        at_largest: The same with a warning, where bounds are tuned: what is said if the chosen bounds cannot be described.
        version: Of this library.
        more_notes: Sentences that stand after all others.
    """

    plan: Plan
    digest: str
    price: str
    group_columns: tuple[str, ...]
    numbers: int
    after: PostProcessing
    guarantee: Guarantee
    description: Description
    at_largest: Description
    version: str
    more_notes: tuple[str, ...] = ()

    def describe(self, plan: Plan, choices: Sequence[Choice]) -> Description:
        """What is said of the plan that was run. It runs after the budget is spent, so it cannot fail.

        A plan without first stages was described before. Chosen bounds are described here; should that fail, the release says
        what was written before.
        """
        if not choices:
            return self.description
        try:
            return described_choices(plan, choices)
        except Exception:  # noqa: BLE001 - words must not cost an answer that was paid for
            return self.at_largest

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns known before any row is: statistics are doubles, for what they are computed from is rounded anyway."""
        types = self.plan.group_types
        groups = [pa.field(name, ARROW[types[name]] if name in types else pa.string()) for name in self.group_columns]
        statistics = [
            pa.field(part, pa.float64())
            for name, _ in self.description.columns
            for part in (name, f"{name}_lower", f"{name}_upper")
        ]
        return pa.schema([*groups, *statistics], metadata={"neartwin.plan": self.digest, "neartwin.price": self.price})


def prepare(plan: Plan, *more_notes: str) -> PreparedRelease:
    """Make everything that follows from a plan. Reads no row and spends nothing."""
    table, together = plan.stage.table, plan.together
    promise, units = (plan.price, 1) if together is None else (together.promise, together.units)
    description, group_columns = describe(plan), plan.group_columns
    return PreparedRelease(
        plan=plan,
        digest=plan.digest,
        price=str(plan.price),
        group_columns=group_columns,
        numbers=plan.public_rows * (len(group_columns) + 3 * len(description.columns)),
        after=plan.after,
        guarantee=Guarantee.of(promise, unit=table.unit_name, neighbours=table.neighbours, units=units),
        description=description,
        at_largest=_at_largest(description),
        version=library_version(),
        more_notes=more_notes,
    )


def _at_largest(found: Description) -> Description:
    warning = "Notes, mechanisms and expected errors are those at the largest bounds that first stages could choose."
    mechanisms = [one | {"for": f"at the largest bounds: {one['for']}"} for one in found.method["mechanisms"]]
    return replace(found, notes=(*found.notes, warning), method={**found.method, "mechanisms": mechanisms})
