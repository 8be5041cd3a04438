"""Tokens: a token says who its owner is.

A curator makes a token. It is shown once and stored as an Argon2 hash. It expires, and can be revoked at any time.

A token is `nt_ID_SECRET`. The ID is public and finds the record: an unknown one is refused at once. The SECRET has 256
random bits and is hashed. To verify a secret takes milliseconds and megabytes by design. A process does it once for each
secret and hash, and remembers a right one as a keyed digest.
"""

import re
import secrets
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from neartwin.checks import integer, one_of, text

ROLES = ("curator", "analyst", "auditor", "agent")
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The facts of a token; its secret is not among them.

    Attributes:
        id: The public part of the token.
        name: The owner's name.
        role: "curator", "analyst", "auditor" or "agent".
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
        """Whether the token is neither expired nor revoked at this moment."""
        return not self.revoked and datetime.fromisoformat(self.expires) > now


def new_token(name: str, role: str, *, project: str = "", days: int = 90) -> tuple[Token, str, str]:
    """Make a token.

    Args:
        name: The owner's name, 1 to 100 characters.
        role: One of `ROLES`.
        project: The owner's project, or "".
        days: The days until it expires, from 1.

    Returns:
        The token's record, its Argon2 hash, and the text that is shown once.

    Raises:
        ParameterError: An argument breaks its rule.

    >>> token, token_hash, token_text = new_token("ada", "analyst")
    >>> token_text.startswith(f"nt_{token.id}_"), token_hash.startswith("$argon2id$")
    (True, True)
    >>> token_text.split("_")[2] in token_hash
    False
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


def parts(token_text: str) -> tuple[str, str]:
    """The ID and the secret of a token's text. Both are empty where the text is no token."""
    found = re.fullmatch(r"nt_([^\W_]{1,64})_([^\W_]{1,256})", token_text)
    return (found[1], found[2]) if found else ("", "")


class VerifiedSecrets:
    """The secrets that were right lately, as digests under a key of this process alone."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, str | None] = OrderedDict()
        self._lock = threading.Lock()
        self._hashing = ThreadPoolExecutor(2)  # each thread that hashes keeps 20 to 40 MB for its next hash

    def __contains__(self, secret: str) -> bool:
        """Whether the secret was right when it was last sent."""
        return self._digest(secret) in self._right

    def knows(self, secret: str, token_hash: str) -> bool:
        """Whether the secret was right for this hash, whose secret never changes."""
        return self._right.get(self._digest(secret)) == token_hash

    def right(self, secret: str, token_hash: str) -> bool:
        """Whether the secret is the one behind the hash."""
        right = self._hashing.submit(_verified, token_hash, secret).result()
        if right:
            self.remember(secret, token_hash)
        return right

    def remember(self, secret: str, token_hash: str | None = None) -> None:
        """The secret was right, for a hash; without one for a session, and so for no token."""
        digest = self._digest(secret)
        with self._lock:
            self._right[digest] = token_hash
            self._right.move_to_end(digest)
            while len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)

    def forget(self, secret: str) -> None:
        """The secret was wrong."""
        self._right.pop(self._digest(secret), None)

    def _digest(self, secret: str) -> bytes:
        return blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=32).digest()


def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)  # OWASP's least for argon2id


def _verified(token_hash: str, secret: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return bool(_hasher().verify(token_hash, secret))
    except (Argon2Error, InvalidHashError):
        return False
