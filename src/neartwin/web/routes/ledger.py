"""Routes of the ledger: history, stored releases, certificates, and the verification of the whole ledger."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

import neartwin.ledger as books
from neartwin.errors import AccessError, LedgerError
from neartwin.ledger import Head
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
    """Records of a data set, oldest first. An analyst sees those that the analyst or the project paid."""
    registered, _ = visible(running.directory, name, caller)
    entries = running.directory.books.account(registered.name).history()
    own = own_holders(caller)
    paid = {entry.position for entry in entries if own & set(entry.payers)}
    return [e for e in entries if caller.sees_all or e.position in paid or e.reserved in paid]


@router.get("/datasets/{name}/releases/{position}")
def stored(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> schemas.ReleaseAnswer:
    """A stored release, at no cost. `position` is that of its reservation, or of the record that settled it."""
    account = readable(running.directory, name, position, caller)
    return schemas.ReleaseAnswer.model_validate(replayed(account, position, part))


@router.get(
    "/datasets/{name}/releases/{position}/certificate",
    responses={200: {"description": "the certificate of a release", "content": {"application/json": {}}}},
)
def certificate(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """The certificate of a release: its question, its price, its guarantee, and its place in the ledger."""
    account = readable(running.directory, name, position, caller)
    issued = running.directory.certificate(account, position, part)
    return Response(issued.to_json(), media_type="application/json")  # as it is: every byte is signed


@router.get("/ledger")
def ledger(_: Overseer, running: Running) -> dict[str, Any]:
    """The head of the ledger and the names of its accounts. Keep the head elsewhere."""
    book = running.directory.books
    return {"head": str(book.head()), "accounts": [account.name for account in book.accounts()]}


@router.post("/ledger/verify", response_model=schemas.Verdict)
def verify(wish: schemas.Head, _: Overseer, running: Running) -> books.Verdict:
    """Verify all records. A head that was kept elsewhere, for example in a certificate, finds a rollback."""
    return running.directory.verify(Head.parse(wish.head) if wish.head else None)


@router.get("/ledger/acts", response_model=list[schemas.Act])
def acts(_: Overseer, running: Running) -> tuple[books.Act, ...]:
    """The curators' acts, oldest first."""
    return running.directory.books.acts()


def readable(directory: DataDirectory, name: str, position: int, caller: Caller) -> books.Account:
    """The account of a release that the caller may read.

    An analyst may read releases that the analyst or the project paid for, and those that the analyst was served.

    Raises:
        AccessError: Status 404 for any other release.
    """
    registered, _ = visible(directory, name, caller)
    account = directory.books.account(registered.name)
    gone = AccessError(404, "release", str(position), "is not one of yours", remedy="your history lists them")
    try:
        reserved = account.answer(position).reserved
    except LedgerError:
        raise gone from None
    if caller.sees_all or own_holders(caller) & set(account.payers(reserved)):
        return account
    if not directory.store.was_served(caller.name, registered.name, reserved):
        raise gone
    return account
