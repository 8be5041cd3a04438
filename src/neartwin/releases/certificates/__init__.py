"""Certificates: what a release promises and how it was made, signed by the ledger's owner, verifiable without the ledger."""

from neartwin.releases.certificates.check import Finding, Flaw, check
from neartwin.releases.certificates.document import Certificate, read_certificate
from neartwin.releases.certificates.issue import certify, released
from neartwin.releases.certificates.signing import OwnerKey, PublicKey

__all__ = [
    "Certificate",
    "Finding",
    "Flaw",
    "OwnerKey",
    "PublicKey",
    "certify",
    "check",
    "read_certificate",
    "released",
]
