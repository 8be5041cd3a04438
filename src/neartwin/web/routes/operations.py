"""Routes of operations: whether the process lives and can do its work, its figures for Prometheus, and who may ask it."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse

from neartwin.errors import AccessError
from neartwin.web import schemas
from neartwin.web.auth import Anyone, Caller, Curator, Overseer
from neartwin.web.service import Running, Service
from neartwin.web.tokens import Token

router = APIRouter()
TokenId = Annotated[str, Path(max_length=100, pattern=r"^[\w-]*$")]
_READY_SECONDS = 4.0  # below the 5 s that probes wait, so that a part which hangs is named and not guessed


@router.get("/healthz", tags=["service"])
async def healthz() -> dict[str, str]:
    """Whether the process answers at all. This needs no token."""
    return {"status": "ok"}


@router.get("/readyz", tags=["service"])
async def readyz(running: Running) -> dict[str, str]:
    """Whether the ledger can be written and a worker answers, within 4 s. Status 503 names the part that fails. No token."""
    part = "ledger"
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await asyncio.to_thread(running.directory.books.check_writable)  # which a timeout leaves to itself
            part = "worker"
            if not running.workers.alive:
                await running.ask({"do": "nothing"})  # for which a worker starts
    except TimeoutError:
        raise AccessError(503, part, "", f"must answer within {_READY_SECONDS:g} s", remedy="ask again") from None
    return {"status": "ready"}


@router.get("/metrics", tags=["service"], response_class=PlainTextResponse)
async def metrics(_: Overseer, request: Request, running: Running) -> PlainTextResponse:
    """Figures in Prometheus' text format: answers by status, workers, waiting tasks, records, and budgets spent."""
    answered = request.app.state.answered.items()
    lines = [f'neartwin_answers_total{{method="{one[0]}",status="{one[1]}"}} {n}' for one, n in answered]
    lines += await run_in_threadpool(_gauges, running)
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _gauges(running: Service) -> list[str]:
    book, workers = running.directory.books, running.workers
    figures = {"records": book.head().position, "workers": workers.alive, "waiting": workers.waiting}
    spent = {
        f'spent{{dataset={json.dumps(account.name, ensure_ascii=False)},pool="{pool}"}}': float(amount)
        for account in book.accounts()
        for pool, amount in account.spent.items()
    }
    return [f"neartwin_{name} {value!r}" for name, value in (figures | spent).items()]


@router.get("/v1/me", tags=["people"])
def me(caller: Anyone) -> Caller:
    """The caller's name, role and project, and the end of the token."""
    return caller


@router.get("/v1/tokens", tags=["people"])
def tokens(_: Overseer, running: Running) -> tuple[Token, ...]:
    """All tokens, without their secrets."""
    return running.directory.store.tokens()


@router.post("/v1/tokens", tags=["people"], status_code=201)
def mint(wish: schemas.TokenWish, caller: Curator, running: Running) -> schemas.NewToken:
    """Make a token. Only this answer holds its text."""
    token, shown = running.directory.mint(wish.name, wish.role, by=caller.name, project=wish.project, days=wish.days)
    return schemas.NewToken(**asdict(token), token=shown)


@router.delete("/v1/tokens/{identity}", tags=["people"], status_code=204)
def revoke(identity: TokenId, caller: Curator, running: Running) -> None:
    """Revoke a token, and end the sessions that it started."""
    if not running.directory.store.revoke(identity, by=caller.name):
        raise AccessError(404, "token", identity, "is not one of this service", remedy="list them at /v1/tokens")
