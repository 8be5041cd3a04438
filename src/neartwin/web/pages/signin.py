"""Sign-in with a token or at an organisation's server, and sign-out. A token goes into a form once, never shown again."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from neartwin.errors import AccessError
from neartwin.web.auth import COOKIE, Anyone, Caller, Form, Provider
from neartwin.web.connections import address_of
from neartwin.web.pages.layout import first, host, page
from neartwin.web.service import Running, Service
from neartwin.web.tokens import Token

router = APIRouter()
_BEGUN = "neartwin_begun"
_HERE = "neartwin_signin"  # a cookie that no other site's form brings along


@router.get("/")
def home(_: Anyone) -> Response:
    """The start: the data sets."""
    return RedirectResponse("/data", 303)


@router.get("/signin")
def signin(request: Request, running: Running, ended: str = "") -> Response:
    """The sign-in form. It needs no token."""
    note = "Your session ended. Sign in again with your token." if ended else ""
    answer = _form(request, running, note=note)
    answer.set_cookie(_HERE, "1", httponly=True, samesite="strict")
    return answer


@router.post("/signin")
def sign_in(request: Request, running: Running, sent: Form) -> Response:
    """Exchange a token for a browser's session."""
    own = "same-origin" if _HERE in request.cookies else "unknown"  # a browser too old to say: its strict cookie does
    if request.headers.get("sec-fetch-site", own) not in {"same-origin", "none"}:
        raise AccessError(403, "sec-fetch-site", "", "must be this service's own page", remedy="sign in here")
    try:
        token = running.authenticator.by_token(first(sent, "token"), address_of(request.client))
    except AccessError as refusal:
        gone = "This token opens nothing: it is mistyped, expired or was revoked. The curator can make a new one."
        return _form(request, running, status=refusal.status, fault=gone if refusal.status == 401 else str(refusal))
    return _with_session(RedirectResponse("/data", 303), request, running, token)


@router.get("/signin/begin")
async def begin(request: Request, running: Running) -> Response:
    """Send the browser to the organisation's sign-in server."""
    provider, here = _provider(request, running)
    place, secret = await provider.start(here)
    answer = RedirectResponse(place, 303)
    flags: dict[str, Any] = {"httponly": True, "samesite": "lax", "secure": running.settings.https, "max_age": 600}
    answer.set_cookie(_BEGUN, secret, path="/signin", **flags)  # lax: it comes back with a link of another site
    return answer


@router.get("/signin/back")
async def back(request: Request, running: Running) -> Response:
    """Start a session of the person whom the sign-in server sent back."""
    provider, here = _provider(request, running)
    named = await provider.person(request.query_params, request.cookies.get(_BEGUN, ""), here)
    running.authenticator.rates.take("records", named.id)  # the token of each sign-in is a record
    token = await run_in_threadpool(running.directory.store.admit, named)
    answer = page(request, "signed_in.html", title="Signed in")
    answer.headers["Refresh"] = "0; url=/data"  # a redirection from another site would not carry the strict cookie
    return await run_in_threadpool(_with_session, answer, request, running, token)


def _form(request: Request, running: Running, *, status: int = 200, note: str = "", fault: str = "") -> Response:
    more = {"oidc": running.settings.oidc, "note": note, "fault": fault}
    return page(request, "signin.html", status=status, caller=None, title="Sign in", **more)


def _with_session(answer: Response, request: Request, running: Service, token: Token) -> Response:
    """An answer with the cookie of a new session, which scripts cannot read and other sites cannot send."""
    cookie = running.authenticator.sign_in(token)
    request.state.caller = Caller.of(token)
    answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=running.settings.https, path="/")
    return answer


def _provider(request: Request, running: Running) -> tuple[Provider, str]:
    """The sign-in server, and the address that it sends browsers back to."""
    if running.settings.oidc is None:
        raise AccessError(404, "sign-in", "", "is by token alone", remedy="sign in at /signin")
    return running.settings.oidc, f"{host(request)}/signin/back"


@router.post("/signout")
def sign_out(_: Anyone, request: Request, running: Running) -> Response:
    """End the session."""
    running.authenticator.sign_out(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/signin", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer
