"""Sign-in with a token, and sign-out. The token goes into a form once and is never shown again."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from neartwin.errors import AccessError
from neartwin.web.auth import COOKIE, Anyone, Caller, form_fields
from neartwin.web.pages.layout import first, page
from neartwin.web.routes.people import set_cookie
from neartwin.web.service import Running

router = APIRouter()
_HERE = "neartwin_signin"  # a cookie that no other site's form brings along


@router.get("/")
def home(_: Anyone) -> Response:
    """The start: the data sets."""
    return RedirectResponse("/data", 303)


@router.get("/signin")
def signin(request: Request, ended: str = "") -> Response:
    """The sign-in form. It needs no token."""
    note = "Your session ended. Sign in again with your token." if ended else ""
    answer = page(request, "signin.html", title="Sign in", note=note, fault=None)
    answer.set_cookie(_HERE, "1", httponly=True, samesite="strict")
    return answer


@router.post("/signin")
async def sign_in(request: Request, running: Running) -> Response:
    """Exchange a token for a browser's session."""
    own = "same-origin" if _HERE in request.cookies else "unknown"  # a browser too old to say: its strict cookie does
    if request.headers.get("sec-fetch-site", own) not in {"same-origin", "none"}:
        raise AccessError(403, "sec-fetch-site", "", "must be this service's own page", remedy="sign in here")
    shown = first(await form_fields(request), "token")
    try:
        token = await run_in_threadpool(
            running.authenticator.by_token, shown, request.client.host if request.client else ""
        )
    except AccessError as refusal:
        words = {
            401: "This token opens nothing: it is mistyped, expired or was revoked. The curator can make a new one."
        }
        note = words.get(refusal.status, str(refusal))
        return page(request, "signin.html", status=refusal.status, title="Sign in", note="", fault=note)
    cookie, _ = await run_in_threadpool(running.authenticator.sign_in, token)
    request.state.caller = Caller.of(token)
    answer = RedirectResponse("/data", 303)
    set_cookie(answer, cookie, https=running.settings.https)
    return answer


@router.post("/signout")
def sign_out(_: Anyone, request: Request, running: Running) -> Response:
    """End the session."""
    running.authenticator.sign_out(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/signin", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer
