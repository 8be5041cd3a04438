"""A certificate as a value and as a file: one line of canonical JSON, so that no byte of it can change unnoticed.

Keys are sorted, there are no spaces, and letters are ASCII. Every amount is text. A promise is an exact rational, and a
converted amount a decimal rounded to the safe side. JSON readers in other languages therefore round nothing.

A promise is stated in every currency to which a theorem converts it, with its trade-off curve; "none" if there is no
theorem. Every number is an upper bound on the loss. Points of the curve are lower bounds on an attacker's missed
detections. zCDP, Renyi and Gaussian come from accounting/prices.py, and the rest from the certified engine.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from neartwin.accounting import prices
from neartwin.accounting.budgets import Budget, Pure
from neartwin.accounting.guarantee import Guarantee
from neartwin.checks import writable
from neartwin.errors import LedgerError, ParameterError, PrivacyError
from neartwin.exact import float_above, root_above
from neartwin.interactive import shown_as_text
from neartwin.ledger import Head
from neartwin.ledger.records import canonical
from neartwin.releases.certificates.signing import PublicKey

KIND = "neartwin certificate of a release"
VERSION = 1  # of the body's meaning; a new meaning takes a new number, and the old one stays readable


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A statement about a release, signed by the owner of a ledger. Reading one proves nothing: `check` does.

    Attributes:
        body: The statement.
        signer: The owner's public key.
        signature: The Ed25519 signature, in base64.
    """

    body: Mapping[str, Any]
    signer: PublicKey
    signature: str

    def __str__(self) -> str:
        return (
            f"Certificate of a release of {self.body['population']!r}, issued {self.body['issued']}: {self.guarantee}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """The promise itself, whose words are made anew."""
        return Guarantee.from_dict(self.body["guarantee"]["promise"])

    @property
    def message(self) -> bytes:
        """The signed bytes, without the context before them."""
        return canonical(self.body).encode("ascii")

    @property
    def head(self) -> Head:
        """The ledger's newest record when the certificate was issued. `Ledger.verify` detects a rollback to before it.

        Check the certificate first: anyone can write a head into a file, and only the signature makes it the owner's.
        """
        head = self.body["ledger"]["head"]
        return Head(head["position"], head["hash"])

    def to_json(self) -> str:
        """The file's text: one line and its end."""
        signed = {"algorithm": "Ed25519", "key": self.signer.text, "value": self.signature}
        return canonical({"body": self.body, "signature": signed}) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the certificate to a file.

        Args:
            path: The path of the file.

        Returns:
            The path.

        Raises:
            ParameterError: The file cannot be written.
        """
        target = writable(path=path)
        target.write_text(self.to_json(), encoding="ascii")
        return target

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """Read a certificate from a file's text, to the letter.

        Args:
            text: The text.

        Returns:
            The certificate.

        Raises:
            LedgerError: The text is no certificate, was changed, or has a newer version.
        """
        try:
            written = text.decode("ascii") if isinstance(text, bytes) else text
            parts = json.loads(written)
            body, signed = parts["body"], parts["signature"]
            certificate = cls(body=body, signer=PublicKey.parse(signed["key"]), signature=signed["value"])
            known = body["kind"] == KIND and signed["algorithm"] == "Ed25519"
            version = body["version"]
            same = certificate.to_json() == written and bool(certificate.head)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LedgerError("this is no certificate: it was changed, or is of another kind") from None
        if known and version != VERSION:
            raise LedgerError(
                f"this certificate is of version {version}, which is unknown to this neartwin; install a newer one"
            )
        if not (known and same):
            raise LedgerError("this is no certificate as it was written: at least one byte was changed")
        return certificate


def read_certificate(path: str | Path) -> Certificate:
    """Read the certificate in a file.

    Args:
        path: The path of the file.

    Returns:
        The certificate.

    Raises:
        LedgerError: The file cannot be read, or holds no certificate.
    """
    return Certificate.from_json(read_bytes(path))


def read_bytes(path: str | Path) -> bytes:
    """Read a file.

    Args:
        path: The path of the file.

    Returns:
        Its bytes.

    Raises:
        LedgerError: The file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as fault:
        raise LedgerError(f"{str(path)!r} cannot be read: {fault.strerror}") from None


DIGITS = 12
NONE = "none"  # the value if there is no certified conversion


def above(value: float | Fraction) -> str:
    """A decimal that is not below the value; "none" for infinity.

    >>> above(Fraction(1, 3)), above(0.5), above(float("inf"))
    ('0.333333333334', '0.5', 'none')
    """
    return _decimal(value, ROUND_CEILING)


def below(value: float | Fraction) -> str:
    """A decimal that is not above the value.

    >>> below(Fraction(2, 3)), below(0.0)
    ('0.666666666666', '0')
    """
    return _decimal(value, ROUND_FLOOR)


def _decimal(value: float | Fraction, rounding: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return NONE
    exact = Fraction(value)
    rounded = Context(prec=DIGITS, rounding=rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return format(rounded.normalize(), "f") if abs(rounded.adjusted()) <= DIGITS else str(rounded)


DELTAS = ("1e-5", "1e-6", "1e-9")
ORDERS = (2, 4, 8, 16, 32, 64)
LEVELS = (
    *("0", "0.0001", "0.001", "0.01", "0.02", "0.05", "0.1", "0.15", "0.2", "0.3"),
    *("0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.95", "0.99", "1"),
)


def currencies(guarantee: Guarantee) -> dict[str, Any]:
    """The promise in all currencies, as text, rounded up.

    Args:
        guarantee: The guarantee.

    Returns:
        An upper bound by currency; "none" if no theorem converts the promise.

    >>> from neartwin.accounting.budgets import pure
    >>> told = currencies(Guarantee.of(pure(1), unit="id", neighbours="add_remove"))
    >>> told["pure"], told["zcdp"]["rho"], told["gdp"]["mu"][:7]
    ('1', '0.462117157261', '1.23203')
    """
    promise = guarantee.promise
    return {
        "pure": above(promise.epsilon) if isinstance(promise, Pure) else NONE,
        "approximate": [{"delta": delta, "epsilon": _epsilon(guarantee, delta)} for delta in DELTAS],
        "zcdp": priced(promise, prices.by_rho, "rho", "rho"),
        "renyi": [
            {"order": str(order)} | priced(promise, prices.by_order(Fraction(order)), "renyi", "epsilon")
            for order in ORDERS
        ],
        "gdp": priced(promise, prices.by_mu, "mu_squared", "mu"),
        "advantage": above(guarantee.advantage),
        "best_guess_from_one_half": above(guarantee.best_guess),
    }


def curve(guarantee: Guarantee) -> list[dict[str, str]]:
    """Points of the trade-off curve: at false alarm rate alpha, an attacker misses at least beta.

    Args:
        guarantee: The guarantee.

    Returns:
        The points as text, beta rounded down; none if the promise bounds no curve.

    Source:
        Dong, Roth, Su 2022, definition 2.1.
    """
    import numpy as np

    try:
        composition = guarantee.whole()
    except PrivacyError:
        return []
    # T falls with alpha, so its value at a float not below alpha is a bound at alpha
    places = np.array([float_above(Fraction(level)) for level in LEVELS])
    beta = np.asarray(composition.tradeoff(places).lower)
    return [{"alpha": level, "beta": below(float(value))} for level, value in zip(LEVELS, beta, strict=True)]


def _epsilon(guarantee: Guarantee, delta: str) -> str:
    try:
        return above(guarantee.whole().epsilon(delta).upper)
    except PrivacyError:
        return NONE


def priced(promise: Budget, rule: Any, pool: str, name: str) -> dict[str, str]:
    """The price of a promise under a rule, as decimals that are rounded up.

    Args:
        promise: The promise.
        rule: A function of `accounting.prices`.
        pool: The rule's pool. The amount of "mu_squared" is its root.
        name: The name of the amount.

    Returns:
        The amount and its delta, by name; `NONE` where there is no theorem or the loss is beyond all currencies.
    """
    try:
        owed = rule(promise)
    except (PrivacyError, ParameterError):  # no theorem, or a loss beyond all currencies
        return {name: NONE, "delta": NONE}
    amount = root_above(owed[pool]) if pool == "mu_squared" else owed[pool]
    return {name: above(Fraction(amount)), "delta": above(Fraction(owed.get("delta", 0)))}
