"""A certificate as a value and as a file: one line of canonical JSON, so that no byte of it can change unnoticed.

Keys are sorted, there are no spaces, letters are ASCII, and every amount is text: exact rationals where the promise was
made, decimals rounded to the safe side where it was converted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neartwin.errors import LedgerError
from neartwin.ledger import Head
from neartwin.ledger.codec import canonical
from neartwin.releases.certificates.signing import PublicKey

KIND = "neartwin certificate of a release"
VERSION = 1  # of the body's meaning; a new meaning takes a new number, and the old one stays readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the owner of a ledger signed. body: the statement. signer: whose key. signature: base64 Ed25519.

    Reading one proves nothing: `check` does.
    """

    body: Mapping[str, Any]
    signer: PublicKey
    signature: str

    @property
    def message(self) -> bytes:
        """The bytes that were signed, without the context before them."""
        return canonical(self.body).encode("ascii")

    @property
    def head(self) -> Head:
        """The ledger's newest record when the certificate was issued: kept here, it proves a later rollback."""
        told = self.body["ledger"]["head"]
        return Head(told["position"], told["hash"])

    def to_json(self) -> str:
        """The file's text: one line and its end."""
        signed = {"algorithm": "Ed25519", "key": self.signer.text, "value": self.signature}
        return canonical({"body": self.body, "signature": signed}) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the file."""
        target = Path(path)
        target.write_text(self.to_json(), encoding="ascii")
        return target

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """The certificate that a file's text holds, to the letter; `LedgerError` for anything else."""
        try:
            written = text.decode("ascii") if isinstance(text, bytes) else text
            parts = json.loads(written)
            body, signed = parts["body"], parts["signature"]
            made = cls(body=body, signer=PublicKey.parse(signed["key"]), signature=signed["value"])
            known = body["kind"] == KIND and signed["algorithm"] == "Ed25519"
            version = body["version"]
            same = made.to_json() == written and bool(made.head)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LedgerError("this is no certificate: it was changed, or is of another kind") from None
        if known and version != VERSION:
            raise LedgerError(
                f"this certificate is of version {version}, which is unknown to this neartwin; install a newer one"
            )
        if not (known and same):
            raise LedgerError("this is no certificate as it was written: at least one byte was changed")
        return made


def read_certificate(path: str | Path) -> Certificate:
    """The certificate in a file; `LedgerError` when it is none."""
    try:
        return Certificate.from_json(Path(path).read_bytes())
    except OSError as fault:
        raise LedgerError(f"the certificate {str(path)!r} cannot be read: {fault.strerror}") from None


def head_of(certificate: Certificate) -> Head:
    """The head that a certificate keeps: give it to `Ledger.verify`, and a rollback to before it is found.

    Check the certificate first: anyone can write a head into a file, its signature is what makes it the owner's.
    """
    return certificate.head
