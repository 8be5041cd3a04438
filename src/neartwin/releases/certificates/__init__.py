"""Certificates: what a release promises and how it was made, signed by the ledger's owner, verifiable without the ledger."""

from neartwin.releases.certificates.check import Finding as Finding
from neartwin.releases.certificates.check import Flaw as Flaw
from neartwin.releases.certificates.check import check as check
from neartwin.releases.certificates.document import Certificate as Certificate
from neartwin.releases.certificates.document import read_certificate as read_certificate
from neartwin.releases.certificates.issue import certify as certify
from neartwin.releases.certificates.issue import released as released
from neartwin.releases.certificates.signing import OwnerKey as OwnerKey
from neartwin.releases.certificates.signing import PublicKey as PublicKey
