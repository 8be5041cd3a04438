"""How a page is made: templates with every value escaped, and refusals as pages that say what to do."""

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from neartwin.errors import NeartwinError
from neartwin.web.access import COOKIE, Caller
from neartwin.web.faults import status_of, told
from neartwin.web.pages.amounts import short

Shape = Annotated[str, Query(max_length=5_000)]  # JSON of what is done to an answer when it is shown
_STATIC = Path(__file__).parent.parent / "static"
_TITLES = {401: "Please sign in", 403: "Not allowed", 404: "Not here", 402: "Not enough budget", 429: "Too fast"}


class PageRoute(APIRoute):
    """A route whose refusals are pages; a stranger is led to the entrance."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except NeartwinError as refusal:
                status = status_of(refusal)
                if status == 401:
                    return to_entrance(request)
                return page(request, "refused.html", status=status, fault=told(refusal), title=_title(status))
            except RequestValidationError:
                fault = {
                    "message": "this address or form is not one of this service's",
                    "remedy": "go back and try again",
                }
                return page(request, "refused.html", status=422, fault=fault, title=_title(422))

        return shown


def to_entrance(request: Request) -> Response:
    """Lead to the entrance, and forget a cookie that opens nothing."""
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
    made = Environment(
        loader=ChoiceLoader([PackageLoader("neartwin.web.pages"), PackageLoader("neartwin.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["short"] = short
    made.globals["address"] = address
    return made


def _title(status: int) -> str:
    return _TITLES.get(status, "That did not work")
