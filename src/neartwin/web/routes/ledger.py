"""Routes of the ledger: history, stored releases, certificates, the verification of the whole ledger, and requests for budget.

An analyst asks for more budget and says why, and a curator approves or declines.
"""

import json
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, budget_of
from neartwin.checks import text
from neartwin.errors import AccessError, LedgerError, ParameterError
from neartwin.ledger import Head
from neartwin.queries.wire.postprocess import after_read
from neartwin.releases.postprocess import shaped
from neartwin.releases.release import Release, one_of_parts, parts_in, release_of
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Anyone, Caller, Curator, Overseer
from neartwin.web.data_directory import ensure_allotments
from neartwin.web.datasets import decimals
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.service import Running, Service

router = APIRouter(prefix="/v1", tags=["ledger"])
Position = Annotated[int, Path(ge=1, le=2**53)]
Before = Annotated[int | None, Query(ge=1, le=2**53, description="Only records below this position.")]
Most = Annotated[int, Query(ge=1, le=1_000, description="The most records of one answer.")]
Part = Annotated[int, Query(ge=1, le=1_000, description="Of a series, which of its questions.")]


@router.get("/datasets/{name}/history", response_model=list[schemas.Entry])
def history(
    name: Named, caller: Anyone, running: Running, before: Before = None, limit: Most = 1_000
) -> list[books.Entry]:
    """The newest records of a data set below `before`, oldest first. An analyst sees what the analyst or project paid."""
    return list(islice(records(running, name, caller, before), limit))[::-1]


def records(running: Running, name: str, caller: Caller, before: int | None = None) -> Iterator[books.Entry]:
    """The records of a data set that the caller may see, newest first.

    Args:
        running: The service.
        name: The data set.
        caller: The caller.
        before: Only records below this position, or None for all.

    Yields:
        The records, as far as they are wanted.

    Raises:
        AccessError: Status 429. The caller kept the processor too long with earlier ones.
    """
    visible(running.directory, name, caller)
    take, holders = running.authenticator.rates.take, None if caller.sees_all else set(caller.holders)
    entries = running.directory.books.account(name).newest(before, holders)
    while True:
        begun, entry = time.thread_time(), next(entries, None)
        take("history", caller.holders[0], time.thread_time() - begun)
        if entry is None:
            return
        yield entry


@router.get("/datasets/{name}/releases/{position}", response_model=schemas.ReleaseAnswer)
def stored(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """A stored release, at no cost. `position` is that of its reservation, or of the record that settled it."""
    _, found = readable(running, name, position, caller)
    parts = parts_in(found.document)
    body = {"position": found.reserved, "release": one_of_parts(parts, part), "parts": len(parts)}
    return Response(json.dumps(body), media_type="application/json")


@router.get(
    "/datasets/{name}/releases/{position}/certificate",
    responses={200: {"description": "the certificate of a release", "content": {"application/json": {}}}},
)
def certificate(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """The certificate of a release: its question, its price, its guarantee, and its place in the ledger."""
    account, _ = readable(running, name, position, caller)
    issued = running.directory.certificate(account, position, part)
    return Response(issued.to_json(), media_type="application/json")  # as it is: every byte is signed


@router.get("/ledger")
def ledger(_: Overseer, running: Running) -> dict[str, Any]:
    """The head of the ledger and the names of its accounts. Keep the head elsewhere."""
    book = running.directory.books
    return {"head": str(book.head()), "accounts": [account.name for account in book.accounts()]}


@router.post("/ledger/verify", response_model=schemas.Verdict)
def verify(wish: schemas.Head, _: Overseer, running: Running) -> books.Verdict:
    """Verify all records. A head that was kept elsewhere, for example in a certificate, finds a rollback."""
    return running.directory.verify(Head.parse(wish.head) if wish.head else None)


@router.get("/ledger/acts", response_model=list[schemas.Act])
def acts(_: Overseer, running: Running, before: Before = None, limit: Most = 1_000) -> tuple[books.Act, ...]:
    """The newest acts of curators and sign-ins below `before`, oldest first."""
    return running.directory.books.acts(before=before, most=limit)


def readable(running: Service, name: str, position: int, caller: Caller) -> tuple[books.Account, books.Stored]:
    """A release that the caller may read, with its account.

    An analyst may read releases that the analyst or the project paid for, and those that the analyst was served.

    Raises:
        AccessError: Status 404 for any other release, 429 for a reader who read too much.
    """
    registered, _ = visible(running.directory, name, caller)
    account = running.directory.books.account(registered.name)
    gone = AccessError(404, "release", str(position), "is not one of yours", remedy="your history lists them")
    try:
        found = running.answer(account.name, position, caller.holders[0])
    except LedgerError:
        raise gone from None
    paid = caller.sees_all or set(caller.holders) & set(found.payers)
    if not paid and not running.directory.store.was_served(caller.name, registered.name, found.reserved):
        raise gone
    return account, found


def shown(parts: list[dict[str, Any]], part: int, after: Mapping[str, Any]) -> Release:
    """A stored release with its free post-processing.

    Args:
        parts: The releases of its document, as `parts_in` reads them.
        part: The number of the release, from 1.
        after: The post-processing as JSON data.

    Raises:
        AccessError: The release is a table that was written elsewhere.
        ParameterError: The post-processing does not fit the release.
    """
    stored = release_of(one_of_parts(parts, part))
    if not isinstance(stored, Release):
        raise AccessError(404, "release", stored.place, "is a table that was written there", remedy="read it there")
    return shaped(stored, after_read(after)) if after and stored.statistics else stored


# A request is an act in the ledger's chain. Whatever sets the holder's allotment afterwards answers it.
wishes = APIRouter(prefix="/v1/datasets/{name}/requests", tags=["data sets"])


@wishes.get("")
def requests(name: Named, caller: Anyone, running: Running) -> list[dict[str, Any]]:
    """The requests for budget, newest first. An analyst sees those for the analyst and the project.

    Each has its `position`, `time`, `who`, `holder`, `target`, `reason`, and its `answer` in words, "" while it waits.
    """
    visible(running.directory, name, caller)
    known = running.directory.store.requests(name)
    return [one for one in known if caller.sees_all or one["holder"] in caller.holders]


@wishes.post("", status_code=201)
def request(name: Named, wish: schemas.BudgetWish, caller: Analyst, running: Running) -> list[dict[str, Any]]:
    """Ask for more budget and say why. The next request may follow its answer. The answer lists the caller's requests."""
    directory, target = running.directory, budget_of(wish.target, "in all")
    _, rule = visible(directory, name, caller)
    account, holder = directory.books.account(name), wish.holder or caller.holders[0]
    if holder not in caller.holders:
        raise ParameterError("holder", holder, "must be you or your project")
    asked = account.rule.amounts(account.rule.caps(target))
    if rule is not None:
        ensure_allotments(account, rule, caller.holders[0])  # as the first release would
    part = allotment(account, holder)
    if all(amount <= part.caps[pool] for pool, amount in asked.items()):
        raise ParameterError("in all", str(target), "must be more than the present allotment", remedy="ask for more")
    reason = text(reason=wish.reason, at_least=1, at_most=1_000)
    running.authenticator.rates.take("records", caller.name)
    body = {"dataset": name, "holder": holder, "target": decimals(target), "reason": reason}
    directory.store.request(caller.name, "request", body)
    return requests(name, caller, running)


@wishes.put("/{position}", status_code=204)
def answer(name: Named, position: Position, reply: schemas.BudgetReply, caller: Curator, running: Running) -> None:
    """Approve a request, which sets the allotment, or decline it and say why. Nobody answers a request of her own."""
    directory = running.directory
    known = directory.store.requests(directory.dataset(name).name, position)
    one = next(one for one in known if one["position"] == position)
    if one["who"] == caller.name:
        raise AccessError(403, "request", str(position), "must be answered by somebody else than who asked")
    if reply.approve:
        target = budget_in(one["target"], "target")
        directory.allot(name, one["holder"], target, by=caller.name, answers=position)
    else:
        reason = text(reason=reply.reason, at_least=1, at_most=1_000)
        body = {"dataset": name, "holder": one["holder"], "reason": reason}
        directory.store.request(caller.name, "decline", body, position)


@wishes.delete("/{position}", status_code=204)
def withdraw(name: Named, position: Position, caller: Analyst, running: Running) -> None:
    """Withdraw a request of the caller's own that waits for its answer."""
    own = {one["position"]: one for one in requests(name, caller, running) if one["who"] == caller.name}
    if position not in own:
        raise AccessError(404, "request", str(position), "is not one of yours", remedy="look again")
    body = {"dataset": name, "holder": own[position]["holder"]}
    running.directory.store.request(caller.name, "withdraw", body, position)


def allotment(account: books.Account, holder: str) -> books.Allotment:
    """The allotment of a holder, or one of nothing."""
    nothing = dict.fromkeys(account.caps, Fraction(0))
    known = account.allotment(holder)
    return known or books.Allotment(account=account.name, holder=holder, caps=nothing, spent=nothing)
