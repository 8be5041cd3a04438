"""A release before it is paid: everything that follows from its plan, made once.

Between reserve and settle only three things run: ask the engine, add noise, settle. Sentences, names of columns,
expected errors and the digest of the code are made here, before. So a fault in any of them spends no budget.

The origin of an answer as data: question, bounds and their authors, mechanisms and scales, expected errors.

It follows from the plan alone, before anything is spent. It is stored with the release, so a certificate can be written
years later without the plan.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.arrow import ARROW
from neartwin.planning.plan import Choice, Plan
from neartwin.queries.query import PostProcessing
from neartwin.tables.table import Table

_FOLLOWS = {"gram", "h"}  # fields of a strategy that follow from its table


@dataclass(frozen=True, slots=True)
class Description:
    """All texts about a plan. They follow from the plan alone, so they are written before anything is spent.

    Attributes:
        notes: Notes for the reader of the release, one sentence or two each.
        explanation: The whole plan as a tree in text.
        method: The plan as data, ready for JSON: question, bounds, mechanisms, expected errors, code.
        columns: The name and the description of each statistic.
    """

    notes: tuple[str, ...]
    explanation: str
    method: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]


def describe(plan: Plan) -> Description:
    """The description of a plan."""
    return Description(plan.notes(), str(plan.explain()), method_of(plan), plan.columns)


def described_choices(plan: Plan, choices: Sequence[Choice], before: str) -> Description:
    """The description of a plan at bounds that first stages chose, with these stages and their choices.

    Args:
        plan: The plan at the chosen bounds.
        choices: The choices, the first one first.
        before: The explanation of the plan before the first one.

    Returns:
        The description.
    """
    description = describe(plan)
    for choice in reversed(choices):
        text = "\n".join(["chosen by a first stage:", *choice.sentences, description.explanation])
        explanation = f"{before if choice is choices[0] else choice.before.explain()}\n\n{text}"
        method = _method_after(choice, description.method)
        description = Description((*description.notes, *choice.sentences), explanation, method, description.columns)
    return description


def _method_after(choice: Choice, method: Mapping[str, Any]) -> dict[str, Any]:
    """The method at chosen bounds, with their origin and the noise of the stage that chose them."""
    stage = choice.before.first_stages[0]
    origins = (stage.origin(choice.before, bound["what"]) for bound in method["bounds"])
    bounds = [
        bound if origin is None else bound | {"origin": origin}
        for bound, origin in zip(method["bounds"], origins, strict=True)
    ]
    noise = (_mechanism(name, mechanism) for name, mechanism in stage.mechanisms())
    return {**method, "bounds": bounds, "mechanisms": [*method["mechanisms"], *noise]}


def method_of(plan: Plan) -> dict[str, Any]:
    """The method of a plan, ready for JSON: text, whole numbers, lists and mappings, amounts exact as text."""
    return {
        "question": plan.question(),
        "bounds": plan.bounds(),
        "mechanisms": [
            _mechanism(name, mechanism, plan.parts_of_noise.get(name, 1)) for name, mechanism in plan.mechanisms()
        ]
        + [_mechanism(name, mechanism) for name, mechanism in (plan.loss.mechanisms() if plan.loss else ())],
        "errors": [
            {
                "name": error.name,
                "confidence": str(error.confidence),
                "half_width": None if error.half_width is None else str(error.half_width),
                "says": error.says,
            }
            for error in plan.expected_errors()
        ],
        "code": {"library": "neartwin", "version": library_version(), "digest": code_digest()},
    }


@lru_cache(maxsize=1)
def library_version() -> str:
    """The installed version, looked up once: the look-up reads the package's files."""
    return version("neartwin")


@lru_cache(maxsize=1)
def code_digest() -> str:
    """The SHA-256 of this library's modules, names and contents, so that a certificate names the code."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _mechanism(place: str, mechanism: Any, parts: int = 1) -> dict[str, Any]:
    """A mechanism by its class and its parameters, those of mechanisms within it included."""
    parameters: dict[str, str] = {"parts of a step": str(parts)} if parts > 1 else {}
    for field in fields(mechanism):
        part = getattr(mechanism, field.name)
        if is_dataclass(part) and not isinstance(part, type):
            inner = _mechanism("", part)
            parameters |= {f"{field.name}.{name}": text for name, text in inner["parameters"].items()}
            parameters[field.name] = inner["law"]
        elif isinstance(part, np.ndarray):
            if field.name not in _FOLLOWS:
                digest = hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest()
                parameters[field.name] = f"{' x '.join(map(str, part.shape))} {part.dtype}, sha256 {digest}"
        else:
            parameters[field.name] = str(part) if len(str(part)) <= 200 else f"{str(part)[:190]}..."
    return {"for": place or "answer", "law": type(mechanism).__name__, "parameters": parameters}


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
