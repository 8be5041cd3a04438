"""How a page is made: templates with every value escaped, and refusals as pages that say what to do."""

import hashlib
import math
from collections.abc import Callable, Coroutine, Mapping
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

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
    """A route whose refusals are pages; a stranger is led to the sign-in page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
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

        return shown


def to_signin(request: Request) -> Response:
    """Lead to the sign-in page, and forget a cookie that opens nothing."""
    answer = RedirectResponse("/signin" + ("?ended=1" if request.cookies.get(COOKIE) else ""), 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def page(
    request: Request, template: str, *, status: int = 200, caller: Caller | None = None, **values: Any
) -> HTMLResponse:
    """A template as an answer. caller: who is signed in; decides the links at the top."""
    common = {"caller": caller, "path": request.url.path, "asset": asset, "host": str(request.base_url).rstrip("/")}
    return HTMLResponse(environment().get_template(template).render(**common, **values), status)


async def form_fields(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values."""
    return parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=500)


def first(form: Mapping[str, list[str]], name: str, default: str = "") -> str:
    """The first value of a field, without blanks around it."""
    return form.get(name, [default])[0].strip()


def address(*parts: object) -> str:
    """A path of the service from names, each quoted."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """A file's address, which changes with its contents, so that browsers may keep it."""
    mark = hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={mark}"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this folder and of the reports."""
    made = templates("neartwin.web.pages", "neartwin.report")
    made.filters["short"] = short
    made.globals["address"] = address
    return made


def _title(status: int) -> str:
    return _TITLES.get(status, "That did not work")


def short(amount: object) -> str:
    """An exact amount in at most six digits; never 0 for what is not.

    >>> short("1/3"), short("0"), short(Fraction(1, 10**7)), short("12345678")
    ('0.333333', '0', '1e-07', '12,345,678')
    """
    value = Fraction(str(amount))
    if value.denominator == 1:
        return f"{value.numerator:,}"
    return f"{float(value):.6g}"


def percent_up(share: float) -> str:
    """A share as a percentage, rounded up to a tenth: it is a bound.

    >>> percent_up(0.73106), percent_up(0.5)
    ('73.2 %', '50 %')
    """
    return f"{min(100.0, math.ceil(share * 1000 - 1e-9) / 10):g} %"


def digits_up(value: str) -> str:
    """A certified decimal in four digits, rounded up; words stay.

    >>> digits_up("0.333333333334"), digits_up("none"), digits_up("2")
    ('0.3334', 'none', '2')
    """
    try:
        return format(Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(value)).normalize(), "f")
    except InvalidOperation:
        return value
