"""Certificates of served releases, signed with the key of the service's data directory."""

from neartwin.releases.accounts import Account
from neartwin.releases.certificates import Certificate, certify
from neartwin.releases.documents import release_in
from neartwin.web.data_directory import DataDirectory


def certificate_of(directory: DataDirectory, account: Account, position: int, part: int = 1) -> Certificate:
    """The certificate of the release that a record paid for or settled, with the ledger's head of this moment.

    part: of a series, which of its questions.
    """
    release = release_in(account.book.answer(position).document, part)
    return certify(release, directory.books, key=directory.owner_key)
