"""Renders pages: templates with every value escaped, and every refusal as a page with a remedy."""

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request
from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from neartwin.errors import NeartwinError
from neartwin.report.page import templates
from neartwin.web.auth import COOKIE, Caller
from neartwin.web.errors import TITLES

AfterJson = Annotated[str, Query(max_length=5_000)]  # JSON of what is done to an answer when it is shown
_STATIC = Path(__file__).parent.parent / "static"
_PROGRAMS = ("/v1/", "/mcp", "/static/", "/openapi.json", "/healthz", "/readyz", "/metrics")


async def refusal(
    request: Request, fault: dict[str, str], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """A refusal: data for programs, and a page with its navigation and a way out for browsers.

    A browser without a session is sent to the sign-in page.

    Args:
        request: The refused request.
        fault: The error as data.
        status: The HTTP status.
        headers: More headers of the answer.
    """
    if request.scope["path"].startswith(_PROGRAMS):
        return JSONResponse(fault, status, headers)
    answer = await run_in_threadpool(_refusal_page, request, fault, status)
    answer.headers.update(headers or {})
    return answer


def _refusal_page(request: Request, fault: dict[str, str], status: int) -> Response:
    if status == 401:
        return to_signin(request)
    caller = None
    with suppress(NeartwinError):
        # whoever is too fast is not looked up again
        caller = None if status == 429 else request.app.state.service.authenticator.by_cookie(request)
    title = TITLES.get(status, "That did not work")
    return page(request, "refused.html", status=status, caller=caller, fault=fault, title=title)


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
    common = {"caller": caller, "path": request.url.path, "asset": asset, "host": host(request)}
    return HTMLResponse(environment().get_template(template).render(**common, **values), status)


def host(request: Request) -> str:
    """The service's own address, as the browser wrote it."""
    return str(request.base_url).rstrip("/")


def curl(method: str, place: str, body: object) -> str:
    """The command of a terminal that sends a request with JSON.

    Args:
        method: The request's method.
        place: Its address.
        body: Its body.
    """
    lines = (
        f"curl -X {method} {shlex.quote(place)} \\",
        '  -H "Authorization: Bearer $NEARTWIN_TOKEN" \\',
        "  -H 'Content-Type: application/json' \\",
        f"  -d {shlex.quote(json.dumps(body, indent=1, ensure_ascii=False))}",
    )
    return "\n".join(lines)


def first(form: Mapping[str, list[str]], name: str, default: str = "") -> str:
    """The first value of a field, stripped of blanks, or the default."""
    return form.get(name, [default])[0].strip()


def address(*parts: object) -> str:
    """A path of the service, made from quoted parts."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """The address of a static file. It changes with the file's contents, so browsers may cache it."""
    return f"/static/{name}?v={hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]}"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this folder and of the reports."""
    jinja = templates("neartwin.web.pages", "neartwin.report")
    jinja.filters["short"] = short
    jinja.globals["address"] = address
    return jinja


def short(amount: object) -> str:
    """An exact amount in at most six digits. Only 0 is shown as 0.

    >>> short("1/3"), short("0"), short(Fraction(1, 10**7)), short("12345678")
    ('0.333333', '0', '1e-07', '12,345,678')
    """
    value = Fraction(str(amount))
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):.6g}"


def amounts(by_pool: Mapping[str, Fraction]) -> str:
    """Amounts by pool in words, or "" for nothing.

    >>> amounts({"epsilon": Fraction(1, 3), "delta": Fraction(0)})
    'epsilon 0.333333'
    """
    return ", ".join(f"{pool} {short(amount)}" for pool, amount in by_pool.items() if amount)


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
