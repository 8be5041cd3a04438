"""Renders pages: templates with every value escaped, and refusals as pages with a remedy."""

import hashlib
import math
from collections.abc import Callable, Coroutine, Mapping
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment
from starlette.responses import HTMLResponse, RedirectResponse, Response

from neartwin.errors import NeartwinError
from neartwin.report.page import templates
from neartwin.web.auth import COOKIE, Caller
from neartwin.web.errors import as_dict, status_of

AfterJson = Annotated[str, Query(max_length=5_000)]  # JSON of what is done to an answer when it is shown
_STATIC = Path(__file__).parent.parent / "static"
_TITLES = {401: "Please sign in", 403: "Not allowed", 404: "Not here", 402: "Not enough budget", 429: "Too fast"}


class PageRoute(APIRoute):
    """A route whose refusals are pages. A caller without a token is sent to the sign-in page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its refusals turned into pages."""
        handle = super().get_route_handler()

        async def pages_for_refusals(request: Request) -> Response:
            try:
                return await handle(request)
            except NeartwinError as refusal:
                status = status_of(refusal)
                if status == 401:
                    return to_signin(request)
                return page(request, "refused.html", status=status, fault=as_dict(refusal), title=_title(status))
            except RequestValidationError:
                fault = {
                    "message": "this address or form is not one of this service's",
                    "remedy": "go back and try again",
                }
                return page(request, "refused.html", status=422, fault=fault, title=_title(422))

        return pages_for_refusals


def to_signin(request: Request) -> Response:
    """Send the browser to the sign-in page, and delete its cookie."""
    answer = RedirectResponse("/signin" + ("?ended=1" if request.cookies.get(COOKIE) else ""), 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def page(
    request: Request, template: str, *, status: int = 200, caller: Caller | None = None, **values: Any
) -> HTMLResponse:
    """Render a template.

    Args:
        request: The request.
        template: The template's file name.
        status: The HTTP status.
        caller: The caller who is signed in, or None. It decides the links at the top.
        values: The template's variables.
    """
    common = {"caller": caller, "path": request.url.path, "asset": asset, "host": str(request.base_url).rstrip("/")}
    return HTMLResponse(environment().get_template(template).render(**common, **values), status)


def first(form: Mapping[str, list[str]], name: str, default: str = "") -> str:
    """The first value of a field, stripped of blanks, or the default."""
    return form.get(name, [default])[0].strip()


def address(*parts: object) -> str:
    """A path of the service, made from quoted parts."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """The address of a static file. It changes with the file's contents, so browsers may cache it."""
    mark = hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={mark}"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this folder and of the reports."""
    jinja = templates("neartwin.web.pages", "neartwin.report")
    jinja.filters["short"] = short
    jinja.globals["address"] = address
    return jinja


def _title(status: int) -> str:
    return _TITLES.get(status, "That did not work")


def short(amount: object) -> str:
    """An exact amount in at most six digits. Only 0 is shown as 0.

    >>> short("1/3"), short("0"), short(Fraction(1, 10**7)), short("12345678")
    ('0.333333', '0', '1e-07', '12,345,678')
    """
    value = Fraction(str(amount))
    if value.denominator == 1:
        return f"{value.numerator:,}"
    return f"{float(value):.6g}"


def percent_up(share: float) -> str:
    """An upper bound of a share as a percentage, rounded up to a hundredth, as `Guarantee.describe` has it.

    >>> percent_up(0.73106), percent_up(0.5)
    ('73.11 %', '50 %')
    """
    return f"{min(100.0, math.ceil(share * 10_000 - 1e-9) / 100):g} %"


def digits_up(value: str) -> str:
    """A certified decimal in four digits, rounded up. Words are unchanged.

    >>> digits_up("0.333333333334"), digits_up("none"), digits_up("2")
    ('0.3334', 'none', '2')
    """
    try:
        return format(Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(value)).normalize(), "f")
    except InvalidOperation:
        return value
