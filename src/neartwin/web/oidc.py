"""Sign-in at an organisation's own server, by OpenID Connect. Groups there are roles and projects here.

A browser carries one random secret through a sign-in, in a cookie. The server sees digests of it: the state, the nonce and
the verifier. The service remembers nothing meanwhile, and any of its processes ends what another began.
"""

import logging
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Self

from neartwin.checks import needed
from neartwin.errors import AccessError, ParameterError
from neartwin.web.schemas import TokenWish
from neartwin.web.tokens import Token

_LOG = logging.getLogger("neartwin.web")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A sign-in server, and the groups whose members may come in.

    Attributes:
        issuer: The server's address, as its tokens name it.
        client_id: The name of this service there.
        client_secret: Its secret there, or "" for a public client.
        scope: The scopes to ask for.
        name_claim: The claim that names a person here. The name stays the one of the first sign-in.
        groups_claim: The claim that lists a person's groups.
        groups: For each group its name, its role and perhaps its project. The first that a person is in decides.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scope: str = "openid email profile"
    name_claim: str = "email"
    groups_claim: str = "groups"
    groups: tuple[tuple[str, str, str], ...]

    @classmethod
    def read(cls, path: str) -> Self:
        """The sign-in server of a TOML file, with a table [[groups]] of `name`, `role` and perhaps `project` for each group.

        Raises:
            ParameterError: The file cannot be read, or has another content.
        """
        try:
            body = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            groups = [(one.pop("name"), TokenWish(name="anyone", **one)) for one in body.pop("groups")]
            return cls(**body, groups=tuple((name, wish.role, wish.project) for name, wish in groups))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as fault:
            remedy = "give issuer, client_id, client_secret, and [[groups]] with name, role and project"
            raise ParameterError("oidc", path, f"cannot be used: {fault}", remedy=remedy) from None

    async def start(self, back: str) -> tuple[str, str]:
        """Begin a sign-in.

        Args:
            back: The address that the server sends the browser back to.

        Returns:
            The server's address for this sign-in, and the secret that the browser keeps meanwhile.
        """
        secret = token_urlsafe(32)
        parts = {name: _part(secret, name) for name in ("state", "nonce", "code_verifier")}
        with _confirmed():
            started = await _client(self).create_authorization_url(back, **parts)
        return started["url"], secret

    async def person(self, sent: Mapping[str, str], secret: str, back: str) -> Token:
        """The token of the person whom the server sent back. No text opens it.

        Args:
            sent: The parameters that came with the browser.
            secret: The secret that it kept, or "".
            back: As for `start`.

        Raises:
            AccessError: Status 403. This browser began no sign-in, or the person is in no group that may come in; 503
                where the server does not confirm the person.
        """
        if not secret or not compare_digest(sent.get("state", "").encode(), _part(secret, "state").encode()):
            raise AccessError(403, "sign-in", "", "was not begun in this browser", remedy="begin it at /signin")
        with _confirmed():
            claims = await self._claims(sent["code"], secret, back)
            held = claims.get(self.groups_claim, ())
            held = [held] if isinstance(held, str) else held
            role, project = next(((role, project) for name, role, project in self.groups if name in held), ("", ""))
            if not role or (self.name_claim == "email" and str(claims.get("email_verified")).lower() == "false"):
                rule = "must have a verified address and be in a group that may use this service"
                raise AccessError(403, "person", "", rule, remedy="ask the curator which groups may")
            now = datetime.now(UTC)
            return Token(
                id=sha256(f"{self.issuer} {claims['sub']}".encode()).hexdigest()[:32],
                name=TokenWish(name=claims[self.name_claim], role="analyst").name,
                role=role,
                project=project,
                created=now.isoformat(timespec="seconds"),
                expires=(now + timedelta(days=30)).isoformat(timespec="seconds"),
            )

    async def _claims(self, code: str, secret: str, back: str) -> dict[str, Any]:
        client = _client(self)
        answer = await client.fetch_access_token(back, code=code, code_verifier=_part(secret, "code_verifier"))
        issued = {"iss": {"essential": True, "values": [self.issuer]}}
        claims = await client.parse_id_token(answer, nonce=_part(secret, "nonce"), claims_options=issued)
        if self.groups_claim in claims and self.name_claim in claims:
            return dict(claims)
        more = await client.userinfo(token=answer)
        if more["sub"] != claims["sub"]:
            raise ValueError("another person's claims")
        return {**more, **claims}


@lru_cache(maxsize=4)
def _client(provider: Provider) -> Any:
    (library,) = needed("oidc", "authlib.integrations.starlette_client")
    return library.OAuth().register(
        "oidc",
        client_id=provider.client_id,
        client_secret=provider.client_secret or None,
        server_metadata_url=provider.issuer.rstrip("/") + "/.well-known/openid-configuration",
        client_kwargs={"scope": provider.scope, "code_challenge_method": "S256", "timeout": 10},
    )


@contextmanager
def _confirmed() -> Iterator[None]:
    """Whatever a sign-in server answers but a person is one refusal. Its words may be anybody's."""
    try:
        yield
    except AccessError:
        raise
    except Exception as fault:  # noqa: BLE001 - the errors of three libraries
        _LOG.warning("a sign-in failed: %s", type(fault).__name__)
        remedy = "sign in again, or tell the curator"
        raise AccessError(503, "sign-in", "", "was not confirmed by the sign-in server", remedy=remedy) from None


def _part(secret: str, name: str) -> str:
    return sha256(f"{name} {secret}".encode()).hexdigest()
