"""Authentication and rate limits.

Programs send a bearer token. Browsers send a cookie. A request by cookie that changes something must also carry the
session's secret.

Sign-in at an organisation's own server, by OpenID Connect. Groups there are roles and projects here.

A browser carries one random secret through a sign-in, in a cookie. The server sees digests of it: the state, the nonce and
the verifier. The service remembers nothing meanwhile, and any of its processes ends what another began.
"""

import logging
import secrets
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from heapq import nlargest
from hmac import compare_digest
from operator import itemgetter
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Any, Self
from urllib.parse import parse_qs

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from neartwin.checks import needed
from neartwin.errors import AccessError, ParameterError
from neartwin.web import tokens
from neartwin.web.connections import address_of
from neartwin.web.schemas import TokenWish
from neartwin.web.store import Store
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


COOKIE = "neartwin_session"
_SAFE = {"GET", "HEAD", "OPTIONS"}
_BEARER = HTTPBearer(scheme_name="token", auto_error=False)  # which documents how to sign, and checks nothing
_MOST_FIELDS = 500
_MOST_BUCKETS = 4_096  # of limits, between two requests that forget some
_SESSION_HOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of a live token, who sends a request.

    Attributes:
        name: The owner's name.
        role: "curator", "analyst", "auditor" or "agent".
        project: The owner's project, or "".
        expires: The end of the token, UTC, ISO 8601.
        csrf: The session's secret, or "" for a bearer token.
    """

    name: str
    role: str
    project: str
    expires: str
    csrf: str = ""

    @classmethod
    def of(cls, token: Token, csrf: str = "") -> Self:
        """The owner of a live token."""
        return cls(name=token.name, role=token.role, project=token.project, expires=token.expires, csrf=csrf)

    @property
    def holders(self) -> tuple[str, ...]:
        """The names under which the caller spends: an own one, and the project's. An agent has none of a person's."""
        own = f"{'agent' if self.role == 'agent' else 'analyst'}:{self.name}"
        return (own, f"project:{self.project}") if self.project else (own,)

    @property
    def sees_all(self) -> bool:
        """Curators and auditors see what every analyst asked."""
        return self.role in {"curator", "auditor"}

    def require(self, *roles: str) -> None:
        """Refuse any other role.

        Raises:
            AccessError: Status 403.
        """
        if self.role not in roles:
            rule = "may not do this; it is for " + " and ".join(roles)
            raise AccessError(403, "role", self.role, rule, remedy="ask with a token of that role")


class Rates:
    """Limits on each caller's requests. All processes of a service count together.

    A caller has a bucket for each limit, which is the time at which it is full again. A request puts that time off by a
    constant, so that requests of several processes add up in any order. A process counts in memory, and settles with the
    others once a second.

    Strangers from ever new addresses make ever new buckets. Only those that are full last are kept, in the database as in
    memory. A bucket that is forgotten is a full one: it refuses nobody. Whoever wants n requests of an address to be
    forgotten sends as many from each of thousands of others, and so more than was forgotten.

    Attributes:
        limits: The most requests at once and the requests a second after them, by the limit's name.
    """

    def __init__(self, store: Store, limits: dict[str, tuple[float, float]]) -> None:
        """All buckets are full. The store is where they are settled."""
        self.limits, self._store, self._lock = limits, store, threading.RLock()
        self._full: dict[str, float] = {}  # in monotonic seconds
        self._delays: Any = Counter()  # in seconds, since the last settlement; to typeshed counts are whole
        self._settling = threading.Lock()  # two at once would tell the same counts twice, and learn older ones last

    def missing(self, bucket: str) -> float:
        """The seconds until a bucket is full."""
        return max(0.0, self._full.get(bucket, 0.0) - time.monotonic())

    def reached(self, limit: str, who: str) -> bool:
        """Whether a caller has reached a limit."""
        burst, per_second = self.limits[limit]
        # half a request more than a whole number, because times are rounded
        return self.missing(f"{limit} {who}") * per_second > burst - 0.5

    def check(self, limit: str, who: str) -> None:
        """Refuse a caller who is too fast. Nothing is counted.

        Raises:
            AccessError: Status 429, after too many requests.
        """
        if self.reached(limit, who):
            rule = f"must be at most {self.limits[limit][1]:g} a second"
            raise AccessError(429, "rate", "too many", rule, remedy="wait a second")

    def take(self, limit: str, who: str, many: float = 1.0) -> None:
        """Count one request, or whatever else the limit is on.

        Raises:
            AccessError: Status 429, after too many requests.
        """
        with self._lock:
            self.check(limit, who)
            self.count(limit, who, many)

    def count(self, limit: str, who: str, many: float = 1.0) -> None:
        """Count requests, or whatever else the limit is on, whether or not it is reached."""
        bucket, seconds = f"{limit} {who}", many / self.limits[limit][1]
        with self._lock:
            self._full[bucket] = time.monotonic() + self.missing(bucket) + seconds
            self._delays[bucket] += seconds
            if len(self._full) > 2 * _MOST_BUCKETS:  # and not one at each request
                self._full = dict(nlargest(_MOST_BUCKETS, self._full.items(), key=itemgetter(1)))
                self._delays = Counter({one: self._delays[one] for one in self._delays.keys() & self._full.keys()})

    def settle(self) -> None:
        """Tell the other processes what this one counted, and learn what they did.

        Raises:
            LedgerError: The database does not answer. The next settlement has these counts too.
        """
        with self._settling:
            with self._lock:
                told = self._delays.copy()
            missing = self._store.delay_rates(told, most=_MOST_BUCKETS)
            with self._lock:
                self._delays -= told  # what is left came meanwhile
                later = (Counter(missing) + self._delays).items()
                self._full = {bucket: time.monotonic() + seconds for bucket, seconds in later}


class Authenticator:
    """Turns a request into a `Caller`. Every invalid token meets the same refusal."""

    def __init__(self, store: Store, *, burst: int, per_second: float) -> None:
        """Tokens, sessions and rates are in the store."""
        self._store, self._memory = store, tokens.VerifiedSecrets()
        limits: dict[str, tuple[float, float]] = {
            "token": (burst, per_second),
            "address": (2 * burst, per_second),  # of strangers
            "wrong token": (burst, min(1, per_second)),  # by address
            "unproved": (10, 1),  # wrong secrets of one token, by token and address
            "records": (100, 0.1),  # by name: what stays and costs no budget
            "kept": (1024, 1 / 60),  # MiB by holder: refusals too, and answers that cost next to nothing
            "history": (20, 0.5),  # seconds of the processor by reader: a search may read every record
            "read": (64, 4),  # MiB of stored answers by reader: one of any size, or many small ones
        }
        self.rates = Rates(store, limits)

    def by_token(self, token_text: str, address: str) -> Token:
        """The live token that a text stands for.

        Args:
            token_text: The text, as the caller sent it.
            address: The caller's network address, which limits the rate of wrong texts.

        Raises:
            AccessError: Status 401 for a text without a live token, 429 after too many requests.
        """
        identity, secret = tokens.parts(token_text)
        record = self._store.token(identity) if identity else None
        if record is not None and not self._memory.knows(secret, record[1]):
            try:  # before the costly check: guessing cannot keep the machine busy
                self.rates.take("unproved", f"{identity} {address}")
            except AccessError:
                self.rates.take("wrong token", address)
                raise
            record = record if self._memory.right(secret, record[1]) else None
        if record is None or not record[0].live(datetime.now(UTC)):
            raise self._refused(secret, address)
        self.rates.take("token", record[0].id)
        return record[0]

    def sign_in(self, token: Token) -> str:
        """Start a session of a token's owner, and return the value of its cookie."""
        self.rates.take("records", token.name)
        cookie = secrets.token_urlsafe(32)
        ends = datetime.now(UTC) + timedelta(hours=_SESSION_HOURS)
        self._store.start_session(_digest(cookie), token.id, ends, by=token.name)
        self._memory.remember(cookie)
        return cookie

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        self._store.end_session(_digest(cookie))

    def by_cookie(self, request: Request) -> Caller:
        """The owner of the request's session, whose token is live.

        Raises:
            AccessError: Status 401 without such a session, 429 after too many requests.
        """
        cookie = request.cookies.get(COOKIE, "")
        identity = self._store.session(_digest(cookie)) if cookie else None
        record = self._store.token(identity) if identity else None
        if record is None or not record[0].live(datetime.now(UTC)):
            raise self._refused(cookie, address_of(request.client)) if cookie else unauthenticated()
        self._memory.remember(cookie)
        self.rates.take("token", record[0].id)
        # The secret of its forms follows from its cookie, which no script can read, so that every service knows it.
        return Caller.of(record[0], _digest(f"neartwin csrf {cookie}"))

    def _refused(self, secret: str, address: str) -> AccessError:
        """The refusal of a wrong secret, which counts for its address."""
        self._memory.forget(secret)
        self.rates.take("wrong token", address)
        return unauthenticated()

    def check(self, address: str, method: str, headers: Mapping[str, str]) -> bool:
        """Refuse strangers who are too fast, and a guess from an address that sent too many wrong ones.

        A stranger sends no secret that was right lately. A guess is a token, cookie or form of a stranger. This reads no
        database and counts nothing.

        Args:
            address: The address that the request comes from.
            method: Its method.
            headers: Its headers, by their names in small letters.

        Returns:
            Whether it is a stranger's.

        Raises:
            AccessError: Status 429.
        """
        sent, cookie = headers.get("authorization", ""), headers.get("cookie", "")
        of_session = cookie.rpartition(f"{COOKIE}=")[2].partition(";")[0] if COOKIE in cookie else ""
        if (tokens.parts(sent.partition(" ")[2].strip())[1] or of_session) in self._memory:
            return False
        self.rates.check("address", address)
        if sent or of_session or method not in _SAFE:
            self.rates.check("wrong token", address)
        return True


def unauthenticated() -> AccessError:
    """The refusal of a caller without a live token."""
    return AccessError(401, "token", "", "must be a live token", remedy="ask the curator for a token")


def _digest(cookie: str) -> str:
    return sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


def bearer(request: Request, authenticator: Authenticator) -> Token | None:
    """The live token in a request's header, or None without that header.

    Raises:
        AccessError: Status 401 for a text without a live token, 429 after too many requests.
    """
    scheme, _, token_text = request.headers.get("authorization", "").partition(" ")
    if not scheme:
        return None
    return authenticator.by_token(token_text.strip() if scheme.lower() == "bearer" else "", address_of(request.client))


def caller_of(request: Request, sent: str) -> Caller:
    """The caller that sends a request.

    Args:
        request: The request.
        sent: The session's secret that came with it, or "".

    Raises:
        AccessError: Status 401 without a live token or session, 403 without the session's secret, 429 after too many
            requests.
    """
    authenticator: Authenticator = request.app.state.service.authenticator
    if (token := bearer(request, authenticator)) is not None:
        return Caller.of(token)
    caller = authenticator.by_cookie(request)
    if request.method not in _SAFE:
        same_site = request.headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}
        if not same_site or not compare_digest(sent.encode(), caller.csrf.encode()):
            raise AccessError(403, "csrf", "", "must be the session's own", remedy="reload the page and send it again")
    return caller


async def _secret_sent(request: Request) -> str:
    """The session's secret in the header `X-CSRF-Token`, or in the field `csrf` of a form."""
    header = request.headers.get("x-csrf-token", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if header or request.method in _SAFE or kind != "application/x-www-form-urlencoded":
        return header
    return (await form_fields(request)).get("csrf", [""])[0]


async def form_fields(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values.

    Raises:
        AccessError: Status 413, for too many fields.
    """
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return parse_qs(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise AccessError(413, "form", "", f"must have at most {_MOST_FIELDS} fields", remedy="send fewer") from None


def require(
    *roles: str, check: Callable[[Request, Caller], object] = lambda *_: None
) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency that gives the caller.

    Args:
        roles: The roles that are allowed.
        check: A further check, which may read the database. It runs in the same thread: another hop would take 0.3 ms.

    Returns:
        A function that raises `AccessError`: status 401 without a live token, 403 for another role.
    """

    def checked(request: Request, secret: str) -> Caller:
        caller = request.state.caller = caller_of(request, secret)
        caller.require(*roles)
        check(request, caller)
        return caller

    async def allowed(request: Request, _: Annotated[object, Depends(_BEARER)]) -> Caller:
        return await run_in_threadpool(checked, request, await _secret_sent(request))

    return allowed


Form = Annotated[dict[str, list[str]], Depends(form_fields)]
Anyone = Annotated[Caller, Depends(require("curator", "analyst", "auditor"))]
Curator = Annotated[Caller, Depends(require("curator"))]
Analyst = Annotated[Caller, Depends(require("analyst"))]
Asker = Annotated[Caller, Depends(require("analyst", "curator"))]
Overseer = Annotated[Caller, Depends(require("curator", "auditor"))]
