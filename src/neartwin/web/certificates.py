"""Certificates of served releases, signed with the key of the service's data directory."""

from neartwin.releases.accounts import Account
from neartwin.releases.certificates import Certificate, certificate
from neartwin.releases.documents import release_in
from neartwin.web.house import House


def certificate_of(house: House, account: Account, position: int, part: int = 1) -> Certificate:
    """The certificate of the release that a record paid for or settled, with the ledger's head of this moment.

    part: of a series, which of its questions.
    """
    release = release_in(account.book.answer(position).document, part)
    return certificate(release, house.books, key=house.owner_key)
