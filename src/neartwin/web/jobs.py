"""Releases under way, as analysts see them: queued, running or done. No more is shown, because speed may be data.

A process runs its own jobs. One that outlives its request is written into the database, where every other process of the
service finds it. A process says now and then that its jobs are alive; one that was silent for half a minute is lost.
"""

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from neartwin.errors import AccessError, NeartwinError
from neartwin.web.auth import Rates
from neartwin.web.middleware import audit
from neartwin.web.store import Store
from neartwin.web.workers import Workers, lost

Json = dict[str, Any]
_SILENT_SECONDS = 30  # after which a job of another process is lost with it
_POLL_SECONDS = 0.2


@dataclass(slots=True)
class Job:
    """One release under way.

    Attributes:
        id: The public name of the job.
        owner: Who asked, as "analyst:NAME" or "agent:NAME".
        outcome: The worker's outcome, once the job is done: a refusal, or the place of the answer in the ledger.
        answer: The answer as JSON, once a worker of this process has sent it; else "".
        future: The worker's future, or None for a job of another process.
        dataset: The data set.
        asked: The digest of the request with its key, or "" without a key.
        shared: Whether other processes know it.
    """

    id: str
    owner: str
    outcome: Json = field(default_factory=dict)
    answer: str = ""
    future: "Future[Json] | None" = None
    dataset: str = ""
    asked: str = ""
    shared: bool = False

    @property
    def state(self) -> str:
        """One of "queued", "running" or "done"."""
        return "done" if self.outcome else "running" if self.future is not None and self.future.running() else "queued"


class Jobs:
    """The jobs that this process runs, and those that are shared. The ledger keeps their answers."""

    def __init__(self, workers: Workers, store: Store, rates: Rates, *, seconds: float) -> None:
        """Start without jobs.

        Args:
            workers: The processes that run releases.
            store: Where jobs are shared.
            rates: The limits, one of them on what an analyst's answers take.
            seconds: The longest run of a release.
        """
        self._workers, self._store, self._rates, self._seconds = workers, store, rates, seconds
        self._jobs: dict[str, Job] = {}
        self._keyed: dict[str, Job] = {}  # those under way that have a key, by the digest of their request
        self._lock = threading.Lock()

    def submit(self, task: Mapping[str, Any]) -> Job:
        """Start a release. A request that is sent again under its key, while it is under way, gets the job that it has.

        Another request under that key has a job of its own, which the ledger refuses.

        Raises:
            AccessError: Status 429 where too many tasks wait.
        """
        owner, dataset = str(task["holders"][0]), str(task["dataset"])
        asked = sha256(json.dumps(task, sort_keys=True).encode()).hexdigest() if task["key"] else ""
        with self._lock:
            if asked and (known := self._keyed.get(asked)) is not None:
                return known
            job = Job(secrets.token_urlsafe(16), owner, dataset=dataset, asked=asked)
            future = self._workers.submit(
                task, seconds=self._seconds, started=lambda: {"full": self._rates.reached("kept", owner)}
            )
            self._jobs[job.id] = self._keyed[asked] = job
        future.add_done_callback(lambda finished: self._end(job, finished.result()))
        job.future = future  # after the callback, so that whoever waits for it finds the job done
        return job

    def get(self, identity: str, owner: str) -> Job:
        """A job of this owner.

        Raises:
            AccessError: Status 404 for another owner's job and for one that does not exist, in the same words.
        """
        with self._lock:
            job = self._jobs.get(identity)
        row = self._store.job(identity) if job is None else None
        if row is not None:
            silent = not row[1] and row[2] > _SILENT_SECONDS
            outcome = lost({"do": "release"}) if silent else json.loads(row[1] or "{}")
            job = Job(identity, row[0], outcome, shared=True)
        if job is None or job.owner != owner:
            remedy = "ask the question again: an answer that was paid for costs nothing"
            rule = "is none of your jobs under way, and none that was followed in the last hour"
            raise AccessError(404, "job", identity, rule, remedy=remedy)
        return job

    def share(self, job: Job) -> None:
        """Let every process know of a job. Do this before its name leaves the service."""
        if job.shared:
            return
        job.shared = True
        self._store.put_job(job.id, job.owner)
        if job.state == "done":  # perhaps before the line above
            self._store.end_job(job.id, json.dumps(job.outcome))

    def say_alive(self) -> None:
        """Say that the shared jobs of this process are alive."""
        with self._lock:
            running = [job.id for job in self._jobs.values() if job.shared]
        if running:
            self._store.touch_jobs(running)

    async def wait(self, job: Job, seconds: float) -> Job:
        """Wait for the end of a job, of whichever process, and return it as it is then; a job still under way is shared."""
        if job.future is not None:
            await asyncio.wait({asyncio.wrap_future(job.future)}, timeout=seconds)
            if job.state != "done":
                await asyncio.to_thread(self.share, job)
            return job
        ends = time.monotonic() + seconds
        while job.state != "done" and time.monotonic() < ends:
            await asyncio.sleep(_POLL_SECONDS)
            job = await asyncio.to_thread(self.get, job.id, job.owner)
        return job

    def _end(self, job: Job, outcome: Json) -> None:
        done, refused = outcome.get("done", {}), outcome.get("refused", {})
        job.answer = done.pop("answer", "")
        self._rates.count("kept", job.owner, done.pop("kept", 4096) / 2**20)  # a refusal is a record of 4 KiB
        audit(dataset=job.dataset, holder=job.owner, release=done.get("position"), refused=refused.get("error"))
        job.outcome = outcome
        if job.shared:
            with contextlib.suppress(NeartwinError):  # the ledger keeps the answer all the same
                self._store.end_job(job.id, json.dumps(outcome))
        with self._lock:
            self._keyed.pop(job.asked, None)
            del self._jobs[job.id]
