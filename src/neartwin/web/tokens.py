"""Tokens: who one is. Made by a curator, shown once, kept as an Argon2 hash, with an end, and revocable at any time.

A token is `nt_ID_SECRET`. The ID finds the record; the SECRET, 256 random bits, is what is hashed. Verifying a secret costs
milliseconds and megabytes by design; a process remembers for a minute, as keyed digests, which secrets were right.
"""

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from neartwin.checks import integer, one_of, text

ROLES = ("curator", "analyst", "auditor")
_MEMORY_SECONDS = 60
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The facts of a token; its secret is not among them.

    Attributes:
        id: The public part of the token.
        name: The owner's name.
        role: "curator", "analyst" or "auditor".
        project: The owner's project, or "".
        created: UTC, ISO 8601.
        expires: UTC, ISO 8601.
        revoked: UTC, ISO 8601, or "" for a live token.
    """

    id: str
    name: str
    role: str
    project: str
    created: str
    expires: str
    revoked: str = ""

    def live(self, now: datetime) -> bool:
        """Whether it still opens the door."""
        return not self.revoked and datetime.fromisoformat(self.expires) > now


def made(name: str, role: str, *, project: str = "", days: int = 90) -> tuple[Token, str, str]:
    """A new token: its record, its Argon2 hash, and the text that is shown once.

    >>> token, kept, shown = made("ada", "analyst")
    >>> shown.startswith(f"nt_{token.id}_"), kept.startswith("$argon2id$"), shown.split("_")[2] in kept
    (True, True, False)
    """
    text(name=name, at_least=1, at_most=100)
    text(project=project, at_least=0, at_most=100)
    one_of(ROLES, role=role)
    integer(at_least=1, days=days)
    identity, secret = secrets.token_hex(8), secrets.token_hex(32)
    now = datetime.now(UTC)
    token = Token(
        id=identity,
        name=name,
        role=role,
        project=project,
        created=now.isoformat(timespec="seconds"),
        expires=(now + timedelta(days=min(days, 36_500))).isoformat(timespec="seconds"),
    )
    return token, _hasher().hash(secret), f"nt_{identity}_{secret}"


def parts(shown: str) -> tuple[str, str]:
    """The ID and the secret of a token's text; both empty for what is none."""
    words = shown.split("_")
    if len(words) != 3 or words[0] != "nt" or not 0 < len(words[1]) <= 64 or not 0 < len(words[2]) <= 256:
        return "", ""
    return words[1], words[2]


class VerifiedSecrets:
    """Which secrets were right a moment ago, as digests under a key of this process alone."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, datetime] = OrderedDict()
        self._lock = threading.Lock()
        self._decoy = ""

    def knows(self, secret: str, kept: str) -> bool:
        """Whether the secret was right for this hash a moment ago."""
        now = datetime.now(UTC)
        with self._lock:
            return self._right.get(self._digest(secret, kept), now) > now

    def right(self, secret: str, kept: str | None) -> bool:
        """Whether the secret is the one behind the hash. Without a hash it takes as long and says no."""
        if not (_verified(kept or self._some_hash(), secret) and kept is not None):
            return False
        with self._lock:
            self._right[self._digest(secret, kept)] = datetime.now(UTC) + timedelta(seconds=_MEMORY_SECONDS)
            while len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)
        return True

    def _digest(self, secret: str, kept: str) -> bytes:
        return hmac.new(self._key, f"{kept}|{secret}".encode("utf-8", "replace"), hashlib.sha256).digest()

    def _some_hash(self) -> str:
        self._decoy = self._decoy or str(_hasher().hash(secrets.token_hex(32)))
        return self._decoy


def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)  # OWASP's least for argon2id


def _verified(kept: str, secret: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return bool(_hasher().verify(kept, secret))
    except (Argon2Error, InvalidHashError):
        return False
