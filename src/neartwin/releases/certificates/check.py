"""The check of a certificate: its signature, and its fit to a ledger, a head or a release."""

from dataclasses import dataclass

import neartwin.ledger as books
from neartwin.errors import LedgerError
from neartwin.ledger import Head
from neartwin.ledger.records import digest
from neartwin.releases.certificates.document import Certificate
from neartwin.releases.certificates.signing import PublicKey


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw of a certificate.

    Attributes:
        kind: "changed", "key", "stale", "ledger" or "release". "Key" is another signer, and "stale" an older head than
            a known one. "Ledger" is a ledger that was rolled back or changed, and "release" another release.
        message: The flaw in words.
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of `check`.

    Attributes:
        certificate: The certificate; None if the text holds none.
        flaws: All flaws; none if everything holds.
    """

    certificate: Certificate | None
    flaws: tuple[Flaw, ...]

    @property
    def valid(self) -> bool:
        """True if there are no flaws."""
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

    Args:
        text: The text of the certificate.
        key: The owner's public key.
        newest: A head known from elsewhere, such as another certificate's. An older head in this certificate is stale.
            Another hash at the same position is another history.
        ledger: A ledger that must hold this certificate's head and settlement. A ledger rolled back to before it fails.
        release: The bytes of the release, which must be the certified ones.

    Returns:
        The certificate and its flaws.
    """
    try:
        signed = Certificate.from_json(text)
    except LedgerError as fault:
        return Finding(None, (Flaw("changed", str(fault)),))
    if signed.signer != key:
        return Finding(signed, (Flaw("key", f"it names {signed.signer.text} as its signer, and not {key.text}"),))
    if not key.holds(signed.signature, signed.message):
        return Finding(signed, (Flaw("changed", "the signature does not fit: the certificate was changed"),))
    flaws = []
    if newest is not None:
        flaws += _stale(signed.head, newest)
    if ledger is not None:
        flaws += _beside(signed, ledger)
    if release is not None and digest(release) != signed.body["release"]["digest"]:
        flaws.append(Flaw("release", "this is another release than the one certified, or it was changed"))
    return Finding(signed, tuple(flaws))


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


def _beside(certificate: Certificate, ledger: books.Book) -> list[Flaw]:
    flaws = [Flaw("ledger", str(fault)) for fault in ledger.verify(certificate.head).faults]
    entry = certificate.body["ledger"]
    try:
        stored = ledger.account(entry["account"]).answer(entry["reserved"])
    except LedgerError as fault:
        return [*flaws, Flaw("ledger", str(fault))]
    settlement = entry["settled"]
    if (stored.position, stored.hash) != (settlement["position"], settlement["hash"]):
        flaws.append(Flaw("ledger", f"record {stored.position} of the ledger is not the settlement that was certified"))
    return flaws
