"""Requests to a service, and its refusals as the errors that the same mistake raises locally."""

import json
import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from multiprocessing.connection import wait
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from neartwin import errors
from neartwin.errors import AccessError, BudgetError, NeartwinError, ParameterError


class _KeptOpen(HTTPSHandler, HTTPHandler):
    """Gives the status and the body of an answer, and keeps each thread's last connection open for its next request."""

    _own = threading.local()

    def do_open(self, http_class: Any, req: Request, **arguments: Any) -> Any:
        """Send a request, and read the answer whole. A connection to a proxy serves one request."""
        if req.host != urlsplit(req.full_url).netloc:
            with super().do_open(http_class, req, **arguments) as answer:
                return answer.status, answer.read()
        place = (os.getpid(), http_class, req.host, req.timeout)  # a fork would share its parent's connection
        known, connection = self._own.__dict__.pop("kept", (None, None))
        if known != place or connection.sock is None or wait([connection.sock], 0):  # what waits there is its end
            connection = http_class(req.host, timeout=req.timeout, **arguments)
            connection.connect()
            weakref.finalize(connection, connection.sock.close)
        connection.request(req.get_method(), req.selector, req.data, {**req.headers, **req.unredirected_hdrs})
        answer = connection.getresponse()
        content = answer.read()
        self._own.kept = place, connection  # as far as the service keeps it open too
        return answer.status, content


_OPENER = OpenerDirector()  # without a handler of redirects, so that a token goes to the given address alone
for _handler in (ProxyHandler(), _KeptOpen()):
    _OPENER.add_handler(_handler)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """A service's address with a token.

    Attributes:
        address: http://host:port or https://host.
        token: The token, never shown.
        seconds: The longest wait for one answer.
    """

    address: str
    token: str = field(repr=False)
    seconds: float

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or any(parts[3:]):
            raise ParameterError("url", self.address, "must be http://host:port or https://host")
        if not self.token.isascii() or not self.token.isprintable():
            raise ParameterError("token", "", "must be the text that the curator gave you")

    def get(self, *path: str, **query: object) -> Any:
        """The JSON answer to a GET.

        Args:
            path: The parts of the path below /v1, unquoted.
            query: The parameters of the query.

        Returns:
            The JSON data.
        """
        return json.loads(self.send("GET", path, query=query))

    def post(self, *path: str, body: object, headers: Mapping[str, str] | None = None, **query: object) -> Any:
        """The JSON answer to a POST.

        Args:
            path: The parts of the path below /v1, unquoted.
            body: The JSON body.
            headers: More headers.
            query: The parameters of the query.

        Returns:
            The JSON data.
        """
        return json.loads(self.send("POST", path, body=body, headers=headers or {}, query=query))

    def send(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> bytes:
        """Send a request, and once more where its connection breaks: one that is kept may end just then.

        Args:
            method: The HTTP method.
            path: The parts of the path below /v1, unquoted.
            body: The JSON body, or None.
            headers: More headers.
            query: The parameters of the address.

        Returns:
            The bytes of the answer.

        Raises:
            NeartwinError: The service refused. The class is that of the service's error.
            AccessError: Status 503, where no service answers.
        """
        place = "/".join(quote(part, safe="") for part in path)
        parameters = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in (query or {}).items())
        request = partial(  # a proxy's handler changes what it is given
            Request,
            f"{self.address.rstrip('/')}/v1/{place}" + (f"?{parameters}" if parameters else ""),
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"} | dict(headers or {}),
        )
        try:
            try:
                answered: tuple[int, bytes] = _OPENER.open(request(), timeout=self.seconds)
            except (ConnectionError, HTTPException):  # the last where an answer breaks off
                answered = _OPENER.open(request(), timeout=self.seconds)
        except (OSError, HTTPException):
            remedy = "check that it runs; asking again is safe"
            raise AccessError(503, "service", self.address, "does not answer", remedy=remedy) from None
        if answered[0] >= HTTPStatus.MULTIPLE_CHOICES:  # redirects are not followed
            raise error_of(*answered)
        return answered[1]


def error_of(status: int, content: bytes) -> NeartwinError:
    """The error of an answer, in its own class.

    Args:
        status: The HTTP status of the answer.
        content: The body of the answer.
    """
    with suppress(ValueError):
        if isinstance(body := json.loads(content), dict):
            return raised(body, status)
    return AccessError(status, "answer", "", "is not from a neartwin service", remedy="check the url")


def raised(body: Mapping[str, Any], status: int = 422) -> NeartwinError:
    """An error from its data, with its message and the parts of its class.

    Args:
        body: The error as data.
        status: The HTTP status of an `AccessError`.

    >>> raised({"error": "QueryError", "message": "one SELECT statement is wanted, and nothing else"})
    QueryError('one SELECT statement is wanted, and nothing else')
    """
    kind = getattr(errors, str(body.get("error")), NeartwinError)
    if not (isinstance(kind, type) and issubclass(kind, NeartwinError)):
        kind = NeartwinError
    error: NeartwinError = kind.__new__(kind)
    error.args = (str(body.get("message", "the service refused")),)
    if isinstance(error, ParameterError | AccessError):
        error.name, error.rule, error.remedy = (str(body.get(part, "")) for part in ("name", "rule", "remedy"))
        error.value = str(body.get("value", ""))
    if isinstance(error, AccessError):
        error.status = status
    if isinstance(error, BudgetError):
        error.pool, error.remedies = str(body["pool"]), (str(body.get("remedy", "")),)
        error.requested, error.remaining = Fraction(body["requested"]), Fraction(body["remaining"])
    return error
