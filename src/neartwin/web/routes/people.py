"""Routes of people: who the caller is, and tokens."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from neartwin.errors import AccessError
from neartwin.web import schemas
from neartwin.web.auth import Anyone, Caller, Curator, Overseer
from neartwin.web.service import Running
from neartwin.web.tokens import Token

router = APIRouter(prefix="/v1")
TokenId = Annotated[str, Path(max_length=100, pattern=r"^[\w-]*$")]


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
    return schemas.NewToken(**asdict(token), token=shown)


@router.delete("/tokens/{identity}", tags=["people"], status_code=204)
def revoke(identity: TokenId, caller: Curator, running: Running) -> None:
    """Revoke a token, and end the sessions that it started."""
    if not running.directory.store.revoke(identity, by=caller.name):
        raise AccessError(404, "token", identity, "is not one of this service", remedy="list them at /v1/tokens")
