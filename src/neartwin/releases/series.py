"""The walk for a series: one reservation, every question's stage and noise, one settlement; all answers or none."""

import json
from collections.abc import Sequence
from dataclasses import replace

from neartwin.ledger import Account, Stored
from neartwin.planning.series import SeriesPlan
from neartwin.planning.stage import Engine
from neartwin.releases.documents import SERIES_FORMAT, parts_in
from neartwin.releases.postprocess import shaped
from neartwin.releases.preparation import PreparedRelease, prepare
from neartwin.releases.release import Release
from neartwin.releases.run import ACCOUNT_ALONE, Payer, answer, require_document, reserve


def prepare_series(series: SeriesPlan) -> tuple[PreparedRelease, ...]:
    """Make everything that follows from the plans of a series. Each release has the promise of all together."""
    note = f"One of {len(series.parts)} answers that were paid for together: the guarantee is of all of them."
    return tuple(prepare(replace(part, price=series.price), note) for part in series.parts)


def run_series(
    account: Account,
    series: SeriesPlan,
    *,
    engine: Engine,
    payer: Payer = ACCOUNT_ALONE,
) -> tuple[Release, ...]:
    """Pay once, ask every question, and return all answers. A repeated series gets its stored answers at no cost.

    Args:
        account: The account that pays.
        series: The plans.
        engine: The engine.
        payer: The payers beside the account, and an idempotency key.

    Returns:
        The releases, in the order of the questions.

    Raises:
        BudgetError: The price does not fit. Nothing was read or spent.
        LedgerError: The ledger refuses. Nothing was read or spent.
        QueryError: The data changed since the plan. Nothing was read or spent.
        ExecutionError: Something failed later. The budget stays spent.
    """
    parts = prepare_series(series)
    for part in parts:
        require_document(part)
    ticket = reserve(account, parts, series.digest, payer)
    if isinstance(ticket, Stored):
        releases = tuple(Release.from_json(json.dumps(body)) for body in parts_in(ticket.document))
    else:
        releases = answer(account, ticket, parts, _document, engine)
    return tuple(shaped(release, part.after) for release, part in zip(releases, series.parts, strict=True))


def _document(releases: Sequence[Release]) -> bytes:
    body = {"format": SERIES_FORMAT, "releases": [json.loads(release.to_json()) for release in releases]}
    return json.dumps(body, sort_keys=True).encode()
