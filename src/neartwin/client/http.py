"""Requests to a service, and its refusals as the errors that the same mistake raises locally."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from neartwin import errors
from neartwin.errors import AccessError, BudgetError, NeartwinError, ParameterError


class _NoRedirects(HTTPRedirectHandler):
    """A token goes to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


_OPENER = build_opener(_NoRedirects)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """An address and a token. seconds: how long one answer may take."""

    address: str
    token: str = field(repr=False)
    seconds: float

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.username
            or parts.query
            or parts.fragment
        ):
            raise ParameterError("url", self.address, "must be http://host:port or https://host")
        if not self.token.isascii() or not self.token.isprintable():
            raise ParameterError("token", "", "must be the text that the curator gave you")

    def get(self, *path: str, **query: object) -> Any:
        """The JSON answer to a GET."""
        return json.loads(self.send("GET", path, query=query))

    def post(self, *path: str, body: object, headers: Mapping[str, str] | None = None, **query: object) -> Any:
        """The JSON answer to a POST."""
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
        """The answer's bytes. Raises the error that the service tells, or `AccessError` (503) where none answers."""
        place = "/".join(quote(part, safe="") for part in path)
        asked = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in (query or {}).items())
        request = Request(  # noqa: S310 - http and https alone, checked above
            f"{self.address.rstrip('/')}/v1/{place}" + (f"?{asked}" if asked else ""),
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"} | dict(headers or {}),
        )
        try:
            with _OPENER.open(request, timeout=self.seconds) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as refusal:
            with refusal:
                raise error_of(refusal.code, refusal.read()) from None
        except (URLError, TimeoutError, ConnectionError):
            remedy = "check that it runs; asking again is safe"
            raise AccessError(503, "service", self.address, "does not answer", remedy=remedy) from None


def error_of(status: int, content: bytes) -> NeartwinError:
    """The error that an answer tells, as its own class."""
    try:
        body = json.loads(content)
        return (
            raised(body, status) if isinstance(body, dict) else AccessError(status, "answer", "", "is no error of ours")
        )
    except ValueError:
        return AccessError(status, "answer", "", "is no answer of a neartwin service", remedy="check the url")


def raised(body: Mapping[str, Any], status: int = 422) -> NeartwinError:
    """An error from its data, with the message it had and the parts that its class has.

    >>> raised({"error": "QueryError", "message": "one SELECT statement is wanted, and nothing else"})
    QueryError('one SELECT statement is wanted, and nothing else')
    """
    kind = getattr(errors, str(body.get("error")), NeartwinError)
    if not (isinstance(kind, type) and issubclass(kind, NeartwinError)):
        kind = NeartwinError
    made: NeartwinError = kind.__new__(kind)
    made.args = (str(body.get("message", "the service refused")),)
    if isinstance(made, ParameterError | AccessError):
        made.name, made.rule, made.remedy = (str(body.get(part, "")) for part in ("name", "rule", "remedy"))
        made.value = str(body.get("value", ""))
    if isinstance(made, AccessError):
        made.status = status
    if isinstance(made, BudgetError):
        made.pool, made.remedies = str(body["pool"]), (str(body.get("remedy", "")),)
        made.requested, made.remaining = Fraction(body["requested"]), Fraction(body["remaining"])
    return made
