"""Routes of people: sessions and tokens."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from neartwin.errors import AccessError
from neartwin.web import schemas
from neartwin.web.auth import COOKIE, Anyone, Caller, Curator, Overseer, address_of
from neartwin.web.service import Running
from neartwin.web.tokens import Token

router = APIRouter()
TokenId = Annotated[str, Path(max_length=100)]


@router.post("/session", tags=["people"])
def sign_in(wish: schemas.SignIn, request: Request, response: Response, running: Running) -> Caller:
    """Exchange a token for a browser's session: a cookie that scripts cannot read and other sites cannot send."""
    token = running.authenticator.by_token(wish.token, address_of(request))
    cookie, csrf = running.authenticator.sign_in(token)
    set_cookie(response, cookie, https=running.settings.https)
    request.state.caller = Caller.of(token, csrf)
    return Caller.of(token, csrf)


@router.delete("/session", tags=["people"], status_code=204)
def sign_out(_: Anyone, request: Request, response: Response, running: Running) -> None:
    """End a browser's session. Its cookie is then invalid."""
    running.authenticator.sign_out(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, path="/")


@router.get("/me", tags=["people"])
def me(caller: Anyone) -> Caller:
    """The caller's name, role and project, and the end of the token."""
    return caller


@router.get("/tokens", tags=["people"])
def tokens(_: Overseer, running: Running) -> tuple[Token, ...]:
    """All tokens, without their secrets."""
    return running.directory.store.tokens()


@router.post("/tokens", tags=["people"], status_code=201)
def mint(wish: schemas.TokenWish, caller: Curator, running: Running) -> schemas.NewToken:
    """Make a token. Only this answer holds its text."""
    token, shown = running.directory.mint(wish.name, wish.role, by=caller.name, project=wish.project, days=wish.days)
    return schemas.NewToken.model_validate(asdict(token) | {"token": shown})


@router.delete("/tokens/{identity}", tags=["people"], status_code=204)
def revoke(identity: TokenId, caller: Curator, running: Running) -> None:
    """Revoke a token, and end the sessions that it started."""
    if not running.directory.store.revoke(identity, by=caller.name):
        raise AccessError(404, "token", identity, "is not one of this service", remedy="list them at /v1/tokens")


def set_cookie(response: Response, cookie: str, *, https: bool) -> None:
    """Set a session's cookie. Every cookie is set here."""
    flags: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": https, "path": "/"}
    response.set_cookie(COOKIE, cookie, **flags)
