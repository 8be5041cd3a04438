"""The origin of an answer as data: question, bounds and their authors, mechanisms and scales, expected errors.

It follows from the plan alone, before anything is spent. It is stored with the release, so a certificate can be written
years later without the plan.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from neartwin.planning.plan import Choice, Plan

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
