"""Signatures of a ledger's owner: one Ed25519 key beside the ledger, made at first use, readable by its owner alone (RFC
8032).

The extra `certificates` (package cryptography) is imported where it is used, and nowhere else in this library.
"""

import base64
import os
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neartwin.checks import needed
from neartwin.errors import LedgerError, ParameterError

_PREFIX = "ed25519:"
_KEYS, _FILES = "cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography.hazmat.primitives.serialization"
CONTEXT = b"neartwin certificate 1\n"  # no signature of ours can be taken for one of another kind of document


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public key that checks a certificate.

    Attributes:
        text: "ed25519:" and 32 bytes in base64.

    >>> PublicKey.parse("ed25519:AA==")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: key='ed25519:AA==' must be ed25519: and 32 bytes in base64; ...
    """

    text: str

    @classmethod
    def parse(cls, written: str) -> "PublicKey":
        """Read a public key from its text, or from the file that holds it.

        Args:
            written: The text, or the path of the file.

        Returns:
            The key.

        Raises:
            ParameterError: It is no key.
        """
        path = Path(written)
        text = written.strip()
        if not text.startswith(_PREFIX):
            try:
                text = path.read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                raise ParameterError("key", written, "must be a public key or a file that holds one") from None
        try:
            raw = base64.b64decode(text.removeprefix(_PREFIX), validate=True) if text.startswith(_PREFIX) else b""
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise ParameterError(
                "key",
                text[:80],
                "must be ed25519: and 32 bytes in base64",
                remedy="`neartwin certificate key` prints the one of a ledger",
            )
        return cls(_PREFIX + base64.b64encode(raw).decode())

    def holds(self, signature: str, message: bytes) -> bool:
        """Whether this key's owner signed the message.

        Args:
            signature: The signature, in base64.
            message: The signed bytes, without the context before them.

        Returns:
            True or False.
        """
        ed25519, exceptions = needed("certificates", _KEYS, "cryptography.exceptions")
        public = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(self.text.removeprefix(_PREFIX)))
        try:
            raw = base64.b64decode(signature, validate=True)
            if base64.b64encode(raw).decode() != signature:  # base64 has spare bits: one signature, one text
                return False
            public.verify(raw, CONTEXT + message)
        except (exceptions.InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """The private key of a ledger's owner. It is never printed, and leaves its file only to sign."""

    public: PublicKey
    _private: Any = field(repr=False)

    @classmethod
    def beside(cls, place: str) -> "OwnerKey":
        """The key of a ledger in a file: PLACE.key, made at first use.

        Args:
            place: The path of the ledger.

        Returns:
            The key.

        Raises:
            LedgerError: The ledger is on a server, or its key file is unsafe.
        """
        if "://" in place:
            raise LedgerError(
                "a ledger on a database server has no file to keep a key beside; name one with key=, on the owner's machine"
            )
        return cls.at(f"{place}.key")

    @classmethod
    def at(cls, where: str | os.PathLike[str]) -> "OwnerKey":
        """The key in a file, made there at first use with mode 600. Its public half is beside it as `.pub`.

        Args:
            where: The path of the file.

        Returns:
            The key.

        Raises:
            LedgerError: Others may read the file, or it holds no such key.
        """
        path = Path(where)
        if not path.exists():
            _make(path)
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise LedgerError(
                f"the key {path} can be read by others, who could sign in your name; make a new one, or chmod 600"
            )
        ed25519, serialization = needed("certificates", _KEYS, _FILES)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except ValueError:
            private = None
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            raise LedgerError(
                f"the file {path} holds no Ed25519 key; restore it from a backup: another key signs as another owner"
            )
        raw = private.public_key().public_bytes_raw()
        return cls(PublicKey(_PREFIX + base64.b64encode(raw).decode()), private)

    @staticmethod
    def put(path: Path, pem: bytes) -> None:
        """Write a key that is kept elsewhere to its file, instead of another one, which is left as `.old`.

        Args:
            path: The file.
            pem: The private key.
        """
        if path.exists():
            path.replace(f"{path}.old")
        _write(path, pem)

    def sign(self, message: bytes) -> str:
        """Sign a message. One message always has one signature.

        Args:
            message: The bytes, without the context before them.

        Returns:
            The signature, in base64.
        """
        return base64.b64encode(self._private.sign(CONTEXT + message)).decode()


def _make(path: Path) -> None:
    """Write a new key as a whole or not at all. If two processes make one at once, both read the winner's."""
    ed25519, serialization = needed("certificates", _KEYS, _FILES)
    private = ed25519.Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(path, pem)


def _write(path: Path, pem: bytes) -> None:
    """Write a new file, and its public half beside it, unless another process did so first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 600 from the start
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        os.unlink(draft)  # noqa: PTH108 - beside os.link
    Path(f"{path}.pub").write_text(OwnerKey.at(path).public.text + "\n", encoding="ascii")
