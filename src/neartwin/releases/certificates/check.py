"""Whether a certificate is what its owner signed, and fits a ledger, a head or a release that lie beside it."""

from dataclasses import dataclass

import neartwin.ledger as books
from neartwin.errors import LedgerError
from neartwin.ledger import Head
from neartwin.ledger.records import digest
from neartwin.releases.certificates.document import Certificate, head_of
from neartwin.releases.certificates.signing import PublicKey


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing found wrong.

    kind: "changed" (not the bytes that were written or signed), "key" (signed by another), "stale" (its head is older
    than one known), "ledger" (the ledger beside it was rolled back or changed), "release" (of another release).
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What `check` found. certificate: None where the text holds none. flaws: none when all that was asked holds."""

    certificate: Certificate | None
    flaws: tuple[Flaw, ...]

    @property
    def valid(self) -> bool:
        """True when nothing wrong was found."""
        return not self.flaws


def check(
    text: str | bytes,
    key: PublicKey,
    *,
    newest: Head | None = None,
    ledger: books.Book | None = None,
    release: bytes | None = None,
) -> Finding:
    """Check a certificate's text against its owner's public key, with no network and no ledger.

    newest: a head known from elsewhere, such as another certificate's: an older head in this one is stale, and another
    hash at the same position is another history. ledger: must hold this certificate's head and settlement, so a ledger
    rolled back to before it is found. release: the bytes of the release, which must be those certified.
    """
    try:
        found = Certificate.from_json(text)
    except LedgerError as fault:
        return Finding(None, (Flaw("changed", str(fault)),))
    if found.signer != key:
        return Finding(found, (Flaw("key", f"it names {found.signer.text} as its signer, and not {key.text}"),))
    if not key.holds(found.signature, found.message):
        return Finding(found, (Flaw("changed", "the signature does not fit: the certificate was changed"),))
    flaws = []
    if newest is not None:
        flaws += _stale(head_of(found), newest)
    if ledger is not None:
        flaws += _beside(found, ledger)
    if release is not None and digest(release) != found.body["release"]["digest"]:
        flaws.append(Flaw("release", "this is another release than the one certified, or it was changed"))
    return Finding(found, tuple(flaws))


def _stale(head: Head, newest: Head) -> list[Flaw]:
    if head.position < newest.position:
        message = (
            f"the certificate's head is record {head.position}, and the ledger is known to have had {newest.position}: what "
            "was spent after it is not in this certificate; ask for a new one"
        )
        return [Flaw("stale", message)]
    if head.position == newest.position and head.hash != newest.hash:
        return [Flaw("ledger", f"two histories: record {head.position} is one here, and another in the head known")]
    return []


def _beside(found: Certificate, ledger: books.Book) -> list[Flaw]:
    flaws = [Flaw("ledger", str(fault)) for fault in ledger.verify(head_of(found)).faults]
    told = found.body["ledger"]
    try:
        stored = ledger.account(told["account"]).answer(told["reserved"])
    except LedgerError as fault:
        return [*flaws, Flaw("ledger", str(fault))]
    settled = told["settled"]
    if (stored.position, stored.hash) != (settled["position"], settled["hash"]):
        flaws.append(Flaw("ledger", f"record {stored.position} of the ledger is not the settlement that was certified"))
    return flaws
