"""The parts of a running service, as routes and pages find them: `request.app.state.service`."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from neartwin.errors import AccessError
from neartwin.ledger import Stored
from neartwin.web.auth import Authenticator, Provider
from neartwin.web.data_directory import DataDirectory
from neartwin.web.workers import Jobs, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a service runs. Nothing here changes privacy.

    Attributes:
        workers: The number of worker processes.
        release_seconds: The longest run of a release.
        plan_seconds: The longest run of a plan or preview.
        body_bytes: The largest body of a request.
        body_seconds: The longest time in which a body may arrive.
        burst: The most requests of one token at once.
        per_second: The requests of one token per second.
        waiting: The most tasks that may wait for a process.
        https: Whether browsers reach the service by https alone. Cookies are then marked as secure.
        patience: The most seconds that a request waits for its release.
        memory: The most bytes of private memory of one worker process.
        anchors: The places that keep the newest head of the ledger, beside the service's own file.
        oidc: The server at which people sign in, or None for tokens alone.
    """

    workers: int = 2
    release_seconds: float = 600
    plan_seconds: float = 30
    body_bytes: int = 2**20
    body_seconds: float = 60
    burst: int = 200
    per_second: float = 50
    waiting: int = 1000
    https: bool = False
    patience: float = 30
    memory: int = 4 * 2**30
    anchors: tuple[str, ...] = ()
    oidc: Provider | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A running service.

    Attributes:
        directory: The opened data directory.
        settings: The settings.
        authenticator: Turns requests into callers.
        workers: The pool of worker processes.
        jobs: The releases under way.
    """

    directory: DataDirectory
    settings: Settings
    authenticator: Authenticator
    workers: Workers
    jobs: Jobs

    def answer(self, dataset: str, position: int, reader: str) -> Stored:
        """A stored answer. Whoever reads many large ones waits, because each takes many times its size while it is read.

        Args:
            dataset: The data set.
            position: As for `Account.answer`.
            reader: The reader, as "analyst:NAME".

        Raises:
            AccessError: Status 429. The reader read too much.
            LedgerError: There is no answer.
        """
        self.authenticator.rates.check("read", reader)  # before it is read, so that a refusal costs nothing
        stored = self.directory.books.account(dataset).answer(position)
        self.authenticator.rates.take("read", reader, len(stored.document) / 2**20)
        return stored

    async def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Have a worker make a plan or a preview.

        Raises:
            RefusedError: The worker refused the task.
        """
        import asyncio

        future = self.workers.submit(task, seconds=self.settings.plan_seconds)
        outcome = await asyncio.wrap_future(future)
        if "refused" in outcome:
            raise RefusedError(outcome)
        return dict(outcome["done"])


class RefusedError(AccessError):
    """A worker's refusal, passed on unchanged."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        """Read the outcome, which holds the error as data and its status."""
        self.body: dict[str, str] = outcome["refused"]
        parts = {name: self.body.get(name, "") for name in ("name", "value", "rule")}
        super().__init__(outcome["status"], **parts)

    def as_dict(self) -> dict[str, str]:
        """The error as the worker reported it."""
        return self.body


async def service_of(request: Request) -> Service:
    """The running service."""
    service: Service = request.app.state.service
    return service


Running = Annotated[Service, Depends(service_of)]
