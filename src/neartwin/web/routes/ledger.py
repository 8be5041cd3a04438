"""What was spent and served: history, stored releases, certificates, and the whole ledger for those who verify it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

import neartwin.ledger as books
from neartwin.errors import AccessError, LedgerError
from neartwin.ledger import Head
from neartwin.releases.accounts import Account
from neartwin.web import schemas
from neartwin.web.auth import Anyone, Caller, Overseer
from neartwin.web.data_directory import DataDirectory
from neartwin.web.routes.datasets import Named, own_holders, visible
from neartwin.web.service import Running
from neartwin.web.tasks import replayed

router = APIRouter(tags=["ledger"])
Position = Annotated[int, Path(ge=1, le=2**53)]
Part = Annotated[int, Query(ge=1, le=1_000, description="Of a series, which of its questions.")]


@router.get("/datasets/{name}/history", response_model=list[schemas.Entry])
def history(name: Named, caller: Anyone, running: Running) -> list[books.Entry]:
    """Records of a data set, oldest first: all of them, or for an analyst those that the analyst or project paid."""
    found, _ = visible(running.directory, name, caller)
    entries = running.directory.books.account(found.name).history()
    own = own_holders(caller)
    paid = {entry.position for entry in entries if own & set(entry.payers)}
    return [e for e in entries if caller.sees_all or e.position in paid or e.reserved in paid]


@router.get("/datasets/{name}/releases/{position}")
def stored(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> schemas.ReleaseAnswer:
    """A release that was paid for, again for nothing. position: of its reservation, or of the record that settled it."""
    account = readable(running.directory, name, position, caller)
    return schemas.ReleaseAnswer.model_validate(replayed(account, position, part))


@router.get(
    "/datasets/{name}/releases/{position}/certificate",
    responses={200: {"description": "the certificate of a release", "content": {"application/json": {}}}},
)
def certificate(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """The certificate of a release: what was asked, what it cost, what it promises, and where it stands in the ledger."""
    account = readable(running.directory, name, position, caller)
    made = running.directory.certificate(account, position, part)
    return Response(made.to_json(), media_type="application/json")  # as it is: every byte is signed


@router.get("/ledger")
def ledger(_: Overseer, running: Running) -> dict[str, Any]:
    """The head of the ledger, to be kept elsewhere, and its accounts."""
    book = running.directory.books
    return {"head": str(book.head()), "accounts": [account.name for account in book.accounts()]}


@router.post("/ledger/verify", response_model=schemas.Verdict)
def verify(wish: schemas.Head, _: Overseer, running: Running) -> books.Verdict:
    """Whether the records are whole. head: one that was kept elsewhere, such as in a certificate; finds a rollback."""
    return running.directory.verify(Head.parse(wish.head) if wish.head else None)


@router.get("/ledger/acts", response_model=list[schemas.Act])
def acts(_: Overseer, running: Running) -> tuple[books.Act, ...]:
    """What curators did, oldest first."""
    return running.directory.books.acts()


def readable(directory: DataDirectory, name: str, position: int, caller: Caller) -> Account:
    """The account whose release at a position the caller may read: one's own, the project's, or one that was served."""
    found, _ = visible(directory, name, caller)
    account = directory.account(found)
    gone = AccessError(404, "release", str(position), "is not one of yours", remedy="your history lists them")
    try:
        reserved = account.book.answer(position).reserved
    except LedgerError:
        raise gone from None
    if caller.sees_all or own_holders(caller) & set(account.book.payers(reserved)):
        return account
    if not directory.store.was_served(caller.name, found.name, reserved):
        raise gone
    return account
