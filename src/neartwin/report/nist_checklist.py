"""The 24 hazards of NIST SP 800-226 as a checklist, filled in from a certificate and from this system's properties.

Numbers are those of the public draft of December 2023, in our words; the final text of March 2025 may number them
otherwise. There are four states:

- "held": the system prevents the hazard.
- "stated": the certificate gives the numbers to judge it by.
- "yours": only people can judge it.
- "not covered": this system does nothing about it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from neartwin.releases.certificates import Certificate

State = Literal["held", "stated", "yours", "not covered"]
_Line = tuple[str, str, State, str]


@dataclass(frozen=True, slots=True)
class Hazard:
    """One line of the checklist.

    Attributes:
        number: The number of the hazard.
        section: The section of SP 800-226.
        hazard: The hazard in words.
        state: One of the four states.
        answer: The answer for this release.
    """

    number: int
    section: str
    hazard: str
    state: State
    answer: str


def hazards(certificate: Certificate) -> tuple[Hazard, ...]:
    """All 24 hazards, in their order."""
    body = certificate.body
    rows = [*_of_parameters(body), *_of_comparison(body), *_of_answers(body), *_of_methods(), *_of_deployment(body)]
    return tuple(Hazard(number, *line) for number, line in enumerate(rows, start=1))


def _of_parameters(body: Mapping[str, Any]) -> Iterator[_Line]:
    promise, currencies = body["guarantee"], body["guarantee"]["currencies"]
    guess, delta = float(currencies["best_guess_from_one_half"]) * 100, promise["promise"].get("delta", "0")
    judge = f"the best guess from 50 % is at most {guess:.1f} %; whether that is enough is for people to judge"
    yield "2.2", "a large epsilon may mean nothing", "stated", f"{promise['says']}: {judge}"
    catastrophe = "(epsilon, delta) may allow a catastrophe with probability delta"
    native = "no delta is part of this promise"
    if delta != "0":
        native = f"delta is {delta}; native parameters and the curve are in the certificate"
    yield "2.3", catastrophe, "held" if delta == "0" else "stated", native
    unit = f"the unit is {body['unit']!r}, its neighbours by {_relation(body)}; is one of these one person?"
    yield "2.4", "the unit must be what people fear to be told apart by", "yours", unit
    by_row = body["unit"] == "(each row)"
    rows = "rows are the unit here, on explicit request" if by_row else f"all rows of one {body['unit']} are protected"
    yield "2.4", "event-level privacy protects rows, not people", "yours" if by_row else "held", rows


def _of_comparison(body: Mapping[str, Any]) -> Iterator[_Line]:
    deltas = ", ".join(part["delta"] for part in body["guarantee"]["currencies"]["approximate"])
    stated = f"epsilon is given at each of the deltas {deltas}, the whole curve beside it"
    yield "2.5", "guarantees with different deltas are not comparable", "stated", stated
    same = f"each number is for one {body['unit']} by {_relation(body)}; compare with the same only"
    yield "2.5", "guarantees of different units are not comparable", "stated", same
    native = "the promise stands in the currency it was paid in; conversions are rounded to the safe side"
    yield "2.5", "converting with a large delta flatters epsilon", "held", native
    outside = f"the account {body['ledger']['account']!r} knows the releases of its ledger and no others"
    yield "2.6", "releases of the same data made outside are not covered", "not covered", outside


def _of_answers(body: Mapping[str, Any]) -> Iterator[_Line]:
    code = f"{body['code']['library']} {body['code']['version']}"
    own = (
        f"{code}: samplers are exact, guarantees certified and audited in its tests; no outside party has certified it"
    )
    yield "3", "home-made implementations have faults", "stated", own
    errors = "; ".join(f"{error['name']} {error['says']}" for error in body["error"]["expected"])
    small = f"expected errors, which weigh more in small groups: {errors or 'not kept with this release'}"
    yield "3.3.1", "noise hits small groups harder", "stated", small
    looks = "no count was floored or group dropped for looks; a mean is kept within its declared bounds"
    yield "3.3.2", "rounding and flooring for looks has costs", "stated", looks
    bias = "noise of counts and sums has mean 0; ratios, clipping and bounding have a bias that is not known"
    yield "3.3.3", "mechanisms can be biased", "stated", bias
    bounds = "; ".join(f"{bound['what']} {bound['value']} ({bound['origin']})" for bound in body["bounds"])
    limits = bounds or "the bounds were not kept with this release; they stand in its explanation"
    yield "3.4.1", "bounding what one person gives needs care and noise", "stated", limits
    keys = body["question"].get("keys", "groups are public, or discovered privately")
    yield "3.4.1", "bins or groups taken from the data leak", "held", keys


def _of_methods() -> Iterator[_Line]:
    none = "no synthetic data are in this release"
    yield "3.5", "machine learning is not private by itself", "held", "no model was trained"
    yield "3.6", "synthetic data without a guarantee leak", "held", none
    yield "3.6", "deep synthetic data can be weaker than marginals", "held", none
    yield "3.7", "the unit of unstructured data is unclear", "held", "only tables with a declared unit are read"


def _of_deployment(body: Mapping[str, Any]) -> Iterator[_Line]:
    rule, promise = body["ledger"]["rule"], body["ledger"]["whole_promise"]
    one = f"one budget by the rule {rule!r}, which holds for questions that follow from answers: {promise} in all"
    yield "4.1", "interactive querying is riskier than publishing once", "held", one
    trust = "central model: the machine, the owner who declares bounds, keys and units, and the engine are trusted"
    yield "4.2", "the trust model must hold in fact", "yours", trust
    sides = (
        "arithmetic is exact, and a failure after payment has one uniform error; how long a query takes is not covered"
    )
    yield "4.3", "implementations leak beside their outputs", "stated", sides
    yield "4.4", "data must be secured where they lie", "not covered", "storage and its encryption are the owner's"
    rights = "who may ask is the service's policy; the database's own rights are the owner's"
    yield "4.4", "access control can fail", "yours", rights
    retention = "what is collected, and for how long it is kept, is outside this system"
    yield "4.5", "privacy of outputs is no excuse to collect more", "not covered", retention


def _relation(body: Mapping[str, Any]) -> str:
    return "adding or removing one" if body["neighbours"] == "add_remove" else "replacing one"
