"""Releases as tables and charts, and their certificates."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from neartwin.releases.release import parts_in
from neartwin.report.certificate import facts as certificate_facts
from neartwin.report.page import MOST_ROWS, facts
from neartwin.web.auth import Anyone
from neartwin.web.builder.options import json_object
from neartwin.web.pages.layout import AfterJson, page
from neartwin.web.routes.datasets import Named
from neartwin.web.routes.ledger import Part, Position, readable, shown
from neartwin.web.service import Running

router = APIRouter()


@router.get("/data/{name}/releases/{position}")
def release(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named,
    position: Position,
    request: Request,
    caller: Anyone,
    running: Running,
    after: AfterJson = "",
    part: Part = 1,
) -> Response:
    """A release that was paid for. `after` holds free post-processing: HAVING, ORDER BY and LIMIT, as JSON."""
    _, stored = readable(running, name, position, caller)
    parts = parts_in(stored.document)
    answer = shown(parts, part, json_object(after or "{}", "after"))
    return page(
        request,
        "release_page.html",
        caller=caller,
        title=f"Answer {stored.reserved} of {name}",
        name=name,
        position=stored.reserved,
        after=after,
        part=part,
        of_part=f"?part={part}" if part > 1 else "",
        parts=len(parts),
        price={pool: str(amount) for pool, amount in stored.price.items() if amount},
        # in their order, which may have been asked for
        **facts(answer) | {"body": answer.lines(range(len(answer))[:MOST_ROWS])[1:]},
    )


@router.get("/data/{name}/releases/{position}/csv")
def csv(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, position: Position, caller: Anyone, running: Running, after: AfterJson = "", part: Part = 1
) -> Response:
    """The released table as CSV."""
    _, stored = readable(running, name, position, caller)
    text = shown(parts_in(stored.document), part, json_object(after or "{}", "after")).to_csv()
    headers = {"Content-Disposition": f'attachment; filename="release-{position}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/data/{name}/releases/{position}/certificate")
def certificate(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, position: Position, request: Request, caller: Anyone, running: Running, part: Part = 1
) -> Response:
    """The certificate of a release, as a page."""
    account, _ = readable(running, name, position, caller)
    issued = running.directory.certificate(account, position, part)
    title = f"Certificate of answer {issued.body['ledger']['reserved']}"
    shown: dict[str, Any] = certificate_facts(issued) | {"of_part": f"?part={part}" if part > 1 else ""}
    return page(request, "certificate_page.html", caller=caller, title=title, name=name, position=position, **shown)
