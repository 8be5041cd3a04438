"""Layers around every request: counts, traces and the audit log, a limit on its body, and headers that tell browsers what to do.

Traces are by OpenTelemetry, where its package is installed: a span for each request and for each task of a worker. A span has
no question and no value. It has a duration, which may depend on data: only who may see the data reads traces.
"""

import asyncio
import json
import logging
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neartwin.errors import AccessError
from neartwin.web.connections import address_of
from neartwin.web.errors import TOKEN, UnexpectedError

_LOG = logging.getLogger("neartwin.web")
AUDIT = logging.getLogger("neartwin.audit")  # silent unless `neartwin serve --audit-log` names a file
_METHODS = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def audit(**facts: object) -> None:
    """Write a line of the audit log, where one is wanted.

    Args:
        facts: The parts of the line, without a question and a value.
    """
    if AUDIT.isEnabledFor(logging.INFO):
        AUDIT.info(TOKEN.sub("nt_...", json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds")} | facts)))


class Watch:
    """Counts and traces answers, tells browsers what to do with them, and writes the audit log where it is wanted.

    A line of that log has no question, no value and no duration, which could depend on data. Caches may keep the pages'
    files and no other answer.
    """

    def __init__(self, app: ASGIApp, *, answered: Counter[tuple[str, int]], https: bool) -> None:
        """Wrap an application.

        Args:
            app: The application.
            answered: Where answers are counted, by method and status.
            https: Whether browsers reach the service by https alone.
        """
        self._app, self._answered = app, answered
        self._headers = HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if https else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, answered = scope.setdefault("state", {}), 0
        method = scope["method"] if scope["method"] in _METHODS else "other"

        async def watched(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                self._answered[method, answered] += 1
                headers, kept = MutableHeaders(scope=message), scope["path"].startswith("/static/")
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if not kept:
                    headers["Cache-Control"] = "no-store"
                    line = {"address": (scope["client"] or [""])[0], "method": method, "status": answered}
                    if caller := state.get("caller"):  # the path of a stranger is a stranger's own text
                        line |= {"caller": caller.name, "role": caller.role, "path": scope["path"]}
                    audit(**line)
            await send(message)

        with span(method) as traced:
            await self._app(scope, receive, watched)
            if traced is not None:
                route = getattr(scope.get("route"), "path_format", "")  # as declared, without names
                traced.update_name(f"{method} {route}")
                traced.set_attributes({"http.route": route, "http.response.status_code": answered})


class Guard:
    """Refuses what `Authenticator.check` refuses, and a body above a size, before they cost anything.

    A body is refused at once where the request says its size, else while it is read. The connection ends with a refusal. An
    unexpected exception becomes one uniform answer: the log gets its type, never its text.
    """

    def __init__(self, app: ASGIApp, *, most: int, seconds: float) -> None:
        """Wrap an application.

        Args:
            app: The application.
            most: The largest body, in bytes.
            seconds: The longest time in which a body may arrive.
        """
        self._app, self._most, self._seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body up to its limit, and pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, started = scope["app"].state, False
        waiting: list[Message] = []

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            authenticator, address = state.service.authenticator, address_of(scope["client"])
            size = self._size(dict(scope["headers"]))
            if authenticator.check(address, scope["method"], Request(scope).headers):
                # the bodies of strangers wait in memory: each 16 KiB are one more request
                authenticator.rates.take("address", address, 1 + min(size, self._most) / 2**14)
            if (body := await self._body(size, receive)) is not None:
                waiting.append({"type": "http.request", "body": body, "more_body": False})
                await self._app(scope, again, watched)
        except AccessError as fault:
            answer = await state.refusal(Request(scope), fault.as_dict(), fault.status, {"Connection": "close"})
        except Exception as fault:  # noqa: BLE001 - whatever it is, its text may hold a value
            _LOG.error("a request failed: %s", type(fault).__name__)
            answer = await state.refusal(Request(scope), UnexpectedError().as_dict(), 500)
        else:
            return
        if not started:
            await answer(scope, receive, send)

    def _size(self, headers: dict[bytes, bytes]) -> int:
        """The size that a body may have, as its request says."""
        said = headers.get(b"content-length", str(self._most * (b"transfer-encoding" in headers)).encode())
        return int(said[:20]) if said.isdigit() else self._most + 1

    async def _body(self, size: int, receive: Receive) -> bytes | None:
        """The body, or None where the sender went away."""
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._seconds):
                while more and max(size, len(body)) <= self._most:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            rule = f"must arrive within {self._seconds:g} seconds"
            raise AccessError(408, "body", "", rule, remedy="send it again") from None
        if max(size, len(body)) > self._most:
            raise AccessError(413, "body", "", f"must have at most {self._most} bytes", remedy="ask smaller questions")
        return bytes(body)


_INSTALLED = find_spec("opentelemetry") is not None


def span(name: str, **facts: str) -> AbstractContextManager[Any]:
    """A span below the one that surrounds it, or None where the package is not installed.

    Args:
        name: The span's name.
        facts: Its attributes.
    """
    if not _INSTALLED:
        return nullcontext()
    from opentelemetry import trace

    tracer = trace.get_tracer("neartwin")  # which records no exception: its text may hold a value
    return tracer.start_as_current_span(name, attributes=facts, record_exception=False, set_status_on_exception=False)
