"""`create_app(directory)`: the whole service as one ASGI application."""

import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from neartwin.errors import AccessError, NeartwinError
from neartwin.web import errors, pages
from neartwin.web.auth import Authenticator
from neartwin.web.data_directory import DataDirectory
from neartwin.web.middleware import Guard, Watch
from neartwin.web.routes import datasets, operations
from neartwin.web.schemas import Refusal, first_fault
from neartwin.web.service import Service, Settings
from neartwin.web.workers import Jobs, Workers

_ABOUT = """Private statistics from tables about people. Amounts are exact: decimal text or fractions such as "1/3".

Sign requests with `Authorization: Bearer nt_...`. Every error has one shape: code, error, message, name, value, rule, remedy.
"""
_LOG = logging.getLogger("neartwin.web")
_BEAT = 10  # seconds


def create_app(directory: DataDirectory, settings: Settings | None = None) -> FastAPI:
    """Make the application of a data directory. Its workers start and end with the application.

    Args:
        directory: The opened data directory. The caller closes it.
        settings: The settings of the service, or None for the defaults.
    """
    chosen = settings or Settings()

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        run = app.state.service = service(directory, chosen)
        stop, books = threading.Event(), directory.books
        beats: dict[Callable[[], object], float] = {run.authenticator.rates.settle: 1, run.jobs.say_alive: _BEAT}
        beats |= {partial(books.anchor, place): _BEAT for place in (directory.head_file, *chosen.anchors)}
        # A thread each: a place that hangs delays no other.
        hearts = [threading.Thread(target=_repeat, args=(beat, seconds, stop)) for beat, seconds in beats.items()]
        for heart in hearts:
            heart.start()
        try:
            async with _with_agents(app):
                yield {"check": run.authenticator.check}  # where each connection finds it
        finally:
            run.workers.close()
            stop.set()
            for heart in hearts:
                heart.join()

    app = FastAPI(
        title="neartwin",
        version=version("neartwin"),
        description=_ABOUT,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # its own hold searches and errors' texts
        lifespan=running,
        exception_handlers={NeartwinError: _refused, RequestValidationError: _unreadable, HTTPException: _elsewhere},
        responses={status: {"model": Refusal, "description": words} for status, words in errors.TITLES.items()},
        redirect_slashes=False,
    )
    # the most asked first
    for router in (datasets.questions, datasets.router, datasets.wishes, datasets.of_ledger, operations.router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.include_router(pages.router, include_in_schema=False)
    app.state.refusal = pages.refusal  # for the layers around the application too
    app.add_middleware(Guard, most=chosen.body_bytes, seconds=chosen.body_seconds)
    app.state.answered = Counter()
    app.add_middleware(Watch, answered=app.state.answered, https=chosen.https)  # added last, so outermost
    return app


async def _refused(request: Request, error: NeartwinError) -> Response:
    status = errors.status_of(error)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(status)
    return await pages.refusal(request, errors.as_dict(error), status, headers)


async def _unreadable(request: Request, error: RequestValidationError) -> Response:
    name, rule = first_fault(error.errors())
    value = str(error.errors()[0].get("input", ""))[: errors.SHOWN]
    fault = AccessError(422, name or "request", value, rule, remedy=_way_out(request))
    return await pages.refusal(request, errors.as_dict(fault) | {"code": "NT-100", "error": "ParameterError"}, 422)


async def _elsewhere(request: Request, error: HTTPException) -> Response:
    rule = {404: "has an unknown address", 405: "has a refused method"}.get(error.status_code, "is refused")
    fault = AccessError(error.status_code, "request", "", rule, remedy=_way_out(request))
    return await pages.refusal(request, errors.as_dict(fault), error.status_code, error.headers)


def _way_out(request: Request) -> str:
    program = request.scope["path"].startswith("/v1/")
    return "see /openapi.json" if program else "go back to the page before, and try again from there"


def _repeat(beat: Callable[[], object], seconds: float, stop: threading.Event) -> None:
    """Do something every so many seconds, and once more at the end."""
    ended = False
    while not ended:
        ended = stop.wait(seconds)
        try:
            beat()
        except NeartwinError as fault:  # the next beat tries again
            _LOG.critical("the service cannot share its rates, say that it lives, or keep its head: %s", fault)


def service(directory: DataDirectory, settings: Settings) -> Service:
    """Build the parts of a running service."""
    workers = Workers(
        count=settings.workers,
        place=str(directory.place),
        ledger=directory.ledger_place,
        waiting=settings.waiting,
        memory=settings.memory,
    )
    authenticator = Authenticator(directory.store, burst=settings.burst, per_second=settings.per_second)
    jobs = Jobs(workers, directory.store, authenticator.rates, seconds=settings.release_seconds)
    return Service(directory=directory, settings=settings, authenticator=authenticator, workers=workers, jobs=jobs)


def _with_agents(app: FastAPI) -> AbstractAsyncContextManager[None]:
    """The tools of agents at /mcp, where their extra is installed."""
    if find_spec("mcp") is None:
        return nullcontext()
    from neartwin.web import agents

    return agents.serving(app, app.state.service)
