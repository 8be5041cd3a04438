"""The parts of a running service, as routes and pages find them: `request.app.state.service`."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from neartwin.errors import AccessError
from neartwin.web.auth import Authenticator
from neartwin.web.data_directory import DataDirectory
from neartwin.web.jobs import Jobs
from neartwin.web.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a service runs; nothing here changes privacy.

    workers: processes. release_seconds, plan_seconds: the most that one task may run. body_bytes, body_seconds: of a
    request. burst, per_second: requests of one token. waiting: tasks that may wait for a process. https: whether browsers
    come by https, which marks cookies as secure. patience: the most seconds that a request for a release waits for it.
    warm: start the processes at once, and not at their first task.
    """

    workers: int = 2
    release_seconds: float = 600
    plan_seconds: float = 30
    body_bytes: int = 2**20
    body_seconds: float = 30
    burst: int = 200
    per_second: float = 50
    waiting: int = 1000
    https: bool = False
    patience: float = 10
    warm: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """What runs."""

    directory: DataDirectory
    settings: Settings
    authenticator: Authenticator
    workers: Workers
    jobs: Jobs

    async def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Have a plan or preview made by a worker; its refusal is raised."""
        import asyncio

        future = self.workers.submit(task, seconds=self.settings.plan_seconds)
        outcome = await asyncio.wrap_future(future)
        if "refused" in outcome:
            raise RefusedError(outcome)
        done: dict[str, Any] = outcome["done"]
        return done


class RefusedError(AccessError):
    """What a worker refused, passed on as it is."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        """The outcome holds the error as data and its status."""
        self.body: dict[str, str] = outcome["refused"]
        parts = {name: self.body.get(name, "") for name in ("name", "value", "rule")}
        super().__init__(outcome["status"], **parts)

    def as_dict(self) -> dict[str, str]:
        """As the worker said it."""
        return self.body


def service_of(request: Request) -> Service:
    """The running service."""
    service: Service = request.app.state.service
    return service


Running = Annotated[Service, Depends(service_of)]
