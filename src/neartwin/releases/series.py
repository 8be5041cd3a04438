"""The walk for a series: one reservation, every question's stage and noise, one settlement; all answers or none."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neartwin import noise
from neartwin.accounting.budgets import Budget
from neartwin.engines.base import Engine
from neartwin.errors import ExecutionError
from neartwin.ledger import Account, Stored
from neartwin.planning.expected_errors import expected_errors
from neartwin.planning.explain import Explained, explain
from neartwin.planning.series import SeriesPlan
from neartwin.queries.query import TopK
from neartwin.releases.documents import SERIES_FORMAT
from neartwin.releases.postprocess import shaped
from neartwin.releases.preview import Preview, preview_of
from neartwin.releases.release import Release
from neartwin.releases.run import ACCOUNT_ALONE, Paid, Payer, released, require_document, written_down
from neartwin.statistics.base import ExpectedError
from neartwin.tables.snapshot import state_of

if TYPE_CHECKING:
    from neartwin.releases.accounts import Account as Opened


@dataclass(frozen=True, slots=True)
class SeriesProposal:
    """Several questions planned together, beside the account that would pay. Nothing is spent until it is released."""

    plan: SeriesPlan
    account: "Opened"

    @property
    def price(self) -> Budget:
        """What all of them cost together."""
        return self.plan.price

    def explain(self) -> Explained:
        """The plans as a tree, one under the other."""
        parts = tuple(explain(part) for part in self.plan.parts)
        line = f"series of {len(parts)} questions for one price: {self.plan.price}"
        return Explained(line, (*parts, Explained(f"how the spend is shared: {self.plan.why}")))

    def expected_errors(self) -> tuple[tuple[ExpectedError, ...], ...]:
        """The expected errors of each question's statistics, known before anything is spent."""
        return tuple(expected_errors(part) for part in self.plan.parts)

    def preview(self) -> Preview:
        """Cost, the budget after, and the expected errors, each named by its question's number and its own name."""
        errors = [
            replace(error, name=f"{number}: {error.name}")
            for number, part in enumerate(self.expected_errors(), start=1)
            for error in part
        ]
        return preview_of(self.account.book, self.plan.price, errors)


def run_series(
    account: Account,
    series: SeriesPlan,
    *,
    engine: Engine,
    payer: Payer = ACCOUNT_ALONE,
    source: noise.Source = noise.SYSTEM,
) -> tuple[Release, ...]:
    """Pay once, ask every question, and hand out all answers; a repeated series gets its stored answers for nothing.

    Each release's guarantee is that of all together. Errors: as of `run`.
    """
    noise.require_system(source)
    for part in series.parts:
        require_document(part)
    for place in {place for part in series.parts for place in part.stage.table.joined_locations()}:
        account.claim(place)
    ticket = account.reserve(
        series.digest, _snapshot(series), series.price, str(series.price), payers=payer.names, key=payer.key
    )
    if isinstance(ticket, Stored):
        return _shaped(series, _read(ticket.document))
    made = _attempt(Paid(account, ticket), series, engine, source)
    if made is None:  # raised here, outside any handler, so that the cause is not chained to it
        written_down(lambda: account.fail(ticket))
        raise ExecutionError
    body = {"format": SERIES_FORMAT, "releases": [json.loads(release.to_json()) for release in made]}
    if not written_down(lambda: account.settle(ticket, json.dumps(body, sort_keys=True).encode())):
        raise ExecutionError
    return _shaped(series, made)


def _snapshot(series: SeriesPlan) -> str:
    """Which state of the data all questions are about: those that join other tables look at these too."""
    states = list(dict.fromkeys(state_of(part.stage.table) for part in series.parts))
    return states[0] if len(states) == 1 else hashlib.sha256(repr(states).encode()).hexdigest()


def _attempt(paid: Paid, series: SeriesPlan, engine: Engine, source: noise.Source) -> tuple[Release, ...] | None:
    told = f"One of {len(series.parts)} answers that were paid for together: the guarantee is of all of them."
    try:
        made = []
        for part in series.parts:
            release = released(paid, replace(part, price=series.price), engine, source)
            made.append(replace(release, notes=(*release.notes, told)))
        return tuple(made)
    except Exception:  # noqa: BLE001 - every failure after reserve is one uniform error
        return None


def _read(document: bytes) -> tuple[Release, ...]:
    return tuple(Release.from_json(json.dumps(part)) for part in json.loads(document)["releases"])


def _shaped(series: SeriesPlan, made: tuple[Release, ...]) -> tuple[Release, ...]:
    return tuple(
        release if isinstance(part.query, TopK) else shaped(release, part.query.after)
        for release, part in zip(made, series.parts, strict=True)
    )
