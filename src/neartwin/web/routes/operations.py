"""Routes of operations: whether the process lives, whether it can do its work, and its figures for Prometheus."""

import asyncio
import json

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse

from neartwin.errors import AccessError
from neartwin.web.auth import Overseer
from neartwin.web.service import Running, Service

router = APIRouter(tags=["service"])
_READY_SECONDS = 4.0  # below the 5 s that probes wait, so that a part which hangs is named and not guessed


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process answers at all. This needs no token."""
    return {"status": "ok"}


@router.get("/readyz")
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


@router.get("/metrics", response_class=PlainTextResponse)
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
