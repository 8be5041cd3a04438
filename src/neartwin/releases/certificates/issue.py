"""Issue a signed certificate of a release. It is free: it reads the release and its records, and no row."""

import os
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Protocol

import neartwin.ledger as books
from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import LedgerError
from neartwin.ledger import Stored
from neartwin.ledger.records import digest
from neartwin.releases.certificates.document import KIND, VERSION, Certificate, currencies, curve
from neartwin.releases.certificates.signing import OwnerKey
from neartwin.releases.release import Release, WrittenRelease, release_in, releases_in


class LedgerOfTables(Protocol):
    """The part of `nt.open_ledger`'s result that a certificate needs."""

    @property
    def books(self) -> books.Book:
        """The records."""


def certify(
    release: Release | WrittenRelease, ledger: LedgerOfTables | books.Book, *, key: str | os.PathLike[str] | None = None
) -> Certificate:
    """The certificate of a release, signed with the key of the ledger's owner (extra `certificates`).

    It holds the ledger's head at this moment. A later certificate covers more of the ledger's history. The certificate
    of a release that was sorted or filtered covers the whole release, because that was paid for.

    Args:
        release: The release.
        ledger: The ledger that settled it.
        key: The file of the owner's private key, made at first use; by default beside the ledger's file, as LEDGER.key.

    Returns:
        The certificate.

    Raises:
        LedgerError: This ledger did not settle the release, or it was changed since. Or the ledger is on a server, and
            no key is given.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2, 3]}), unit="who", name="visits")
    >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as book:
    ...     account = book.open(rows, nt.pure(1))
    ...     release = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure("0.5")))
    ...     signed = nt.certify(release, book)
    >>> signed.body["guarantee"]["promise"]["epsilon"], signed.head.position
    ('1/2', 4)
    """
    book = ledger if isinstance(ledger, books.Book) else ledger.books
    owner = OwnerKey.beside(book.place) if key is None else OwnerKey.at(key)
    provenance = release.provenance
    account = book.account(provenance.account)
    stored = account.answer(provenance.position)
    original = next((part for part in releases_in(stored.document) if _of(release, part)), None)
    if original is None:
        raise LedgerError(
            f"the ledger stored another release at record {stored.position}: this one was changed, or is of another ledger"
        )
    body = _body(original, stored) | {"ledger": _ledger(account, stored, book.head())}
    unsigned = Certificate(body=body, signer=owner.public, signature="")
    return Certificate(body=body, signer=owner.public, signature=owner.sign(unsigned.message))


def released(ledger: books.Book, reserved: int, part: int = 1) -> Release | WrittenRelease:
    """The release that a reservation paid for.

    Args:
        ledger: The ledger.
        reserved: The position of the reservation, which history and release name.
        part: The number of the question in a series, from 1.

    Returns:
        The release, or the record of a written one.

    Raises:
        LedgerError: No settled release has this position.
        ParameterError: The series has no such part.
    """
    for account in ledger.accounts():
        if any(entry.position == reserved and entry.state == "settled" for entry in account.history()):
            return release_in(account.answer(reserved).document, part)
    raise LedgerError(f"the ledger has no settled release at position {reserved}; `neartwin ledger show` lists them")


def _of(release: Release | WrittenRelease, original: Release | WrittenRelease) -> bool:
    """Whether a release is the stored one, or follows from it at no cost.

    Groups may be left out or sorted, and statistics computed from others. Everything that the two have in common must
    be equal.
    """
    if not (isinstance(release, Release) and isinstance(original, Release)):
        return release == original
    fixed = ("group_columns", "confidence", "guarantee", "provenance", "loss")
    if any(getattr(release, name) != getattr(original, name) for name in fixed):
        return False
    names = [statistic.name for statistic in original.statistics]
    return _values(release, names) <= _values(original, names)


def _values(release: Release, names: list[str]) -> set[object]:
    """Every group with its values and bars, by the names of the statistics."""
    known = [statistic for statistic in release.statistics if statistic.name in names]
    if not known:
        return set(release.keys)
    return {
        (key, one.name, one.what, one.values[i], one.lower[i], one.upper[i])
        for one in known
        for i, key in enumerate(release.keys)
    }


def _body(release: Release | WrittenRelease, stored: Stored) -> dict[str, Any]:
    provenance, promised = release.provenance, release.guarantee
    method = dict(provenance.method)
    return {
        "kind": KIND,
        "version": VERSION,
        "issued": datetime.now(UTC).isoformat(timespec="seconds"),
        "population": provenance.population,
        "snapshot": provenance.snapshot,
        "release": _released(release, stored),
        "question": method.get("question", {}),
        "unit": promised.unit,
        "neighbours": promised.neighbours,
        "bounds": method.get("bounds", []),
        "mechanisms": method.get("mechanisms", []),
        "noise": "exact, from the operating system's cryptographic generator",
        "error": {
            "confidence": str(release.confidence),
            "expected": method.get("errors", []),
            "notes": list(release.notes),
        }
        | ({"loss": release.headline} if isinstance(release, Release) and release.loss else {}),
        "explanation": provenance.explanation,
        "guarantee": _guarantee(promised),
        "code": method.get("code", {"library": "neartwin", "version": provenance.version}),
    }


def _released(release: Release | WrittenRelease, stored: Stored) -> dict[str, str]:
    """The release by the digest of its own document; in a series, also by the digest of the series' document."""
    own = digest(release.to_json().encode())
    form = {
        "digest": own,
        "made": release.provenance.created,
        "plan": release.provenance.plan,
        "groups": str(len(release.keys)) if isinstance(release, Release) else "in a table of its own",
    }
    return form if own == stored.digest else form | {"series": stored.digest}


def _guarantee(promised: Guarantee) -> dict[str, Any]:
    return {
        "promise": promised.as_dict(),
        "says": str(promised),
        "words": promised.describe(),
        "currencies": currencies(promised),
        "curve": curve(promised),
    }


def _ledger(account: books.Account, stored: Stored, head: books.Head) -> dict[str, Any]:
    """The place of the release in the history, and the promise of the account as a whole."""
    filter_ = account.filter
    return {
        "account": account.name,
        "rule": filter_.kind,
        "reserved": stored.reserved,
        "settled": {"position": stored.position, "hash": stored.hash, "time": stored.time},
        "price": _text(stored.price),
        "cap": _text(account.caps),
        "spent": _text(account.spent),
        "whole_promise": str(filter_.promise(filter_.caps)),
        "head": {"position": head.position, "hash": head.hash},
    }


def _text(amounts: Any) -> dict[str, str]:
    return {pool: str(Fraction(amount)) for pool, amount in amounts.items()}
