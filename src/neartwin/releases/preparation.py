"""A release before it is paid: everything that follows from its plan, made once.

Between reserve and settle only three things run: ask the engine, add noise, settle. Sentences, names of columns,
expected errors and the digest of the code are made here, before. So a fault in any of them spends no budget.
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
from neartwin.tables.table import Table


@dataclass(frozen=True, kw_only=True)
class PreparedRelease:
    """A plan with all texts of its release, apart from noisy numbers.

    Attributes:
        plan: The plan.
        tables: The tables of all its questions.
        digest: The digest of the plan, which identifies a repeated question.
        group_columns: Names of the release's group columns.
        numbers: The number of keys, values and ends of bars of a release over public groups; 0 if it is unknown.
        after: The steps on the release, at no cost.
        guarantee: The promise to each unit. It says that data are unchecked unless the ledger has a check of the snapshot.
        description: Notes, explanation and method of the plan; with private bounds, at the largest ones.
        before_choices: The description with a warning, in case the chosen bounds cannot be described.
        version: The version of this library.
        more_notes: Sentences after all other notes.
    """

    plan: Plan
    tables: tuple[Table, ...]
    digest: str
    group_columns: tuple[str, ...]
    numbers: int
    after: PostProcessing
    guarantee: Guarantee
    description: Description
    before_choices: Description
    version: str
    more_notes: tuple[str, ...] = ()

    def describe(self, plan: Plan, choices: Sequence[Choice]) -> Description:
        """The description of the plan that was run. It runs after the budget is spent, so it cannot fail.

        A plan without first stages was described before. Chosen bounds are described here. If that fails, the release
        has the earlier description.

        Args:
            plan: The plan at the chosen bounds.
            choices: The choices of its first stages.

        Returns:
            The description.
        """
        if not choices:
            return self.description
        try:
            description = described_choices(plan, choices, self.description.explanation)
        except Exception:  # noqa: BLE001 - words must not cost an answer that was paid for
            description = self.before_choices
        answers = [list(one) for choice in choices for one in choice.asked_first]
        return replace(description, method={**description.method, "asked_first": answers}) if answers else description

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the released table. Statistics are doubles, because their inputs are rounded anyway."""
        types = self.plan.group_types
        groups = [pa.field(name, ARROW[types[name]] if name in types else pa.string()) for name in self.group_columns]
        statistics = [
            pa.field(part, pa.float64())
            for name, _ in self.description.columns
            for part in (name, f"{name}_lower", f"{name}_upper")
        ]
        return pa.schema(
            [*groups, *statistics], metadata={"neartwin.plan": self.digest, "neartwin.price": str(self.plan.price)}
        )


def prepare(plan: Plan, *more_notes: str) -> PreparedRelease:
    """Make everything that follows from a plan. It reads no row and spends nothing.

    Args:
        plan: The plan.
        more_notes: Sentences after all other notes.

    Returns:
        The prepared release.
    """
    table, together = plan.stage.table, plan.together
    promise, units = (plan.price, 1) if together is None else (together.promise, together.units)
    description, group_columns = describe(plan), plan.group_columns
    return PreparedRelease(
        plan=plan,
        tables=(table, *plan.first_stages[0].tables) if plan.first_stages else (table,),
        digest=plan.digest,
        group_columns=group_columns,
        numbers=plan.public_rows
        * (len(group_columns) + (5 if plan.loss or plan.first_stages else 3) * len(description.columns)),
        after=plan.after,
        guarantee=Guarantee.of(
            promise, unit=table.unit_name, neighbours=table.neighbours, units=units, unchecked=not table.typed
        ),
        description=description,
        before_choices=_before_choices(description),
        version=library_version(),
        more_notes=more_notes,
    )


def _before_choices(text: Description) -> Description:
    warning = (
        "Notes, mechanisms and expected errors are those of the plan before bounds were chosen: its noise is another."
    )
    mechanisms = [one | {"for": f"before bounds were chosen: {one['for']}"} for one in text.method["mechanisms"]]
    return replace(text, notes=(*text.notes, warning), method={**text.method, "mechanisms": mechanisms})
