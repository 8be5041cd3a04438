"""Releases under way, and the pool of processes that work on them.

A worker that dies or takes too long is replaced, and its task has one uniform end. Analysts take turns: whoever asks a
thousand questions waits for them alone. They see whether a job is queued, running or done. No more is shown, because speed
may be data.

A process runs its own jobs. One that outlives its request is written into the database, where every other process of the
service finds it. A process says now and then that its jobs are alive; one that was silent for half a minute is lost.
"""

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import cycle
from typing import Any

from neartwin.errors import AccessError, ExecutionError, NeartwinError
from neartwin.web.auth import Rates
from neartwin.web.errors import as_dict, status_of
from neartwin.web.middleware import audit, span
from neartwin.web.store import Store

Json = dict[str, Any]
_START_SECONDS = 120
_MOST_LETTERS = 64 * 2**20  # of the questions that wait. A body has at most 1 MiB, so one analyst has room for 32


@dataclass(slots=True)
class _Task:
    body: Mapping[str, Any]  # without the question: as objects, that would take five times the memory of its line
    seconds: float
    line: str = ""
    future: "Future[Json]" = field(default_factory=Future)
    started: Callable[[], Json] = lambda: {"full": False}
    context: Context = field(default_factory=copy_context)  # with the span of its request

    @property
    def owner(self) -> str:
        return next(iter(self.body.get("holders", ())), "")


class FairQueue:
    """Waiting tasks. Analysts take turns, and plans come before releases, but every ninth time.

    One of several processes is always left to the others.

    Attributes:
        closed: Whether it gives out no more tasks.
    """

    def __init__(self, *, most: int, processes: int) -> None:
        """Wait for tasks.

        Args:
            most: The most tasks that may wait, and `_MOST_LETTERS` is the most of their letters; of one analyst half.
            processes: The number of processes that take tasks.
        """
        self._most, self._share = most, max(1, processes - 1)
        # Of plans and of all others: an analyst's own tasks in turn, and the analysts in the order of their turns.
        self._lines: tuple[OrderedDict[str, deque[_Task]], ...] = (OrderedDict(), OrderedDict())
        self._turns = cycle([self._lines] * 8 + [self._lines[::-1]])  # so that plans keep no release waiting
        self._running: Counter[str] = Counter()
        self._letters: Counter[str] = Counter()  # of each analyst's waiting tasks
        self._changed = threading.Condition()
        self.closed = False

    def put(self, task: _Task) -> None:
        """Queue a task.

        Raises:
            AccessError: Status 429 where too many tasks wait.
        """
        with self._changed:
            own = sum(len(line.get(task.owner, ())) for line in self._lines)
            every = (1, len(self), self._letters.total())
            for share, tasks, letters in (every, (2, own, self._letters[task.owner])):
                if tasks >= max(1, self._most // share) or letters + len(task.line) > _MOST_LETTERS // share:
                    rule = f"must be at most {self._most} and {_MOST_LETTERS // 2**20} MiB, and half of that from one"
                    raise AccessError(429, "waiting questions", "too many", rule, remedy="ask again in a moment")
            self._lines[task.body.get("do") != "plan"].setdefault(task.owner, deque()).append(task)
            self._letters[task.owner] += len(task.line)
            self._changed.notify()

    def __len__(self) -> int:
        return sum(len(own) for line in self._lines for own in list(line.values()))

    def take(self) -> _Task | None:
        """The next task of the analyst whose turn it is, or None once the queue is closed."""
        with self._changed:
            while not self.closed:
                free = ((line, one) for line in next(self._turns) for one in line if self._running[one] < self._share)
                line, owner = next(free, (None, ""))
                if line is not None:
                    own = line.pop(owner)
                    task = own.popleft()
                    if own:
                        line[owner] = own  # at the end of the line
                    self._running[owner] += 1
                    self._letters -= Counter({owner: len(task.line)})
                    return task
                self._changed.wait()
            return None

    def done(self, task: _Task) -> None:
        """A task has ended, and its analyst may have another one run."""
        with self._changed:
            self._running -= Counter([task.owner])
            self._changed.notify_all()

    def close(self) -> None:
        """Give out no more tasks."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


class Workers:
    """A pool of processes. Each has a thread here that feeds it one task at a time."""

    def __init__(self, *, count: int, place: str, ledger: str, waiting: int, memory: int) -> None:
        """Start the processes, each with its thread.

        Args:
            count: The number of processes.
            place: The data directory, which each process opens for itself.
            ledger: The place of its ledger.
            waiting: The most tasks that may wait.
            memory: The most bytes of private memory of one process. One that needs more fails its own question.
        """
        self._opening_line = json.dumps({"place": place, "ledger": ledger, "memory": memory}) + "\n"
        self._tasks = FairQueue(most=waiting, processes=count)
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._ready: dict[int, subprocess.Popen[str]] = {}  # those that opened the data directory
        self._until: dict[subprocess.Popen[str], float] = {}  # when one has taken too long, in monotonic seconds
        self._threads = [threading.Thread(target=self._serve, args=(i,), daemon=True) for i in range(count)]
        for thread in (*self._threads, threading.Thread(target=self._watch, daemon=True)):
            thread.start()

    @property
    def alive(self) -> int:
        """The number of processes that can take a task, or are at one."""
        return sum(process.poll() is None for process in list(self._ready.values()))

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a process."""
        return len(self._tasks)

    def submit(
        self, task: Mapping[str, Any], *, seconds: float, started: Callable[[], Json] = lambda: {"full": False}
    ) -> "Future[Json]":
        """Queue a task.

        Args:
            task: The task, as JSON data.
            seconds: The longest time that it may run.
            started: A function that is called when a process takes the task. It gives what holds only then, as more parts.

        Returns:
            A future of the outcome. It never holds an exception.

        Raises:
            AccessError: Status 429 where too many tasks wait.
        """
        short = {name: part for name, part in task.items() if name != "question"}
        queued = _Task(short, seconds, json.dumps(dict(task)) + "\n", started=started)
        self._tasks.put(queued)
        return queued.future

    def close(self) -> None:
        """End all processes. Tasks under way are lost, and their budget stays spent."""
        self._tasks.close()
        for process in list(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join(10)

    def _serve(self, number: int) -> None:
        process = self._start(number)
        while (task := self._tasks.take()) is not None:
            if not task.future.set_running_or_notify_cancel():
                self._tasks.done(task)
                continue  # whoever asked went away before it began
            if process is not None and process.poll() is not None:  # it died while it waited
                _end(process)
                process = None
            process = process or self._start(number)
            line = f"{task.line[:-2]}, {json.dumps(task.started())[1:]}\n"
            answer = None if process is None else task.context.run(self._answer, process, task, line)
            if not isinstance(answer, dict):
                _end(process)
                process, answer = None, lost(task.body)
            self._tasks.done(task)
            task.future.set_result(answer)
        _end(process)

    def _start(self, number: int) -> "subprocess.Popen[str] | None":
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "neartwin.web.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        except OSError:
            return None  # no memory or no more processes: the task is lost, the next one tries again
        self._processes[number] = process
        if self._exchange(process, self._opening_line, _START_SECONDS) is not None and not self._tasks.closed:
            self._ready[number] = process
            return process
        _end(process)
        return None

    def _watch(self) -> None:
        """End processes that take too long. A timer for each task would be a thread for each, started before it is sent."""
        while not self._tasks.closed:
            time.sleep(0.1)
            for process, until in list(self._until.items()):
                if time.monotonic() > until:
                    process.kill()

    def _answer(self, process: "subprocess.Popen[str]", task: _Task, line: str) -> object:
        with span(f"task {task.body['do']}", dataset=str(task.body.get("dataset", ""))):
            return self._exchange(process, line, task.seconds)

    def _exchange(self, process: "subprocess.Popen[str]", line: str, seconds: float) -> object:
        """Send a line and read one; None when the process died or was killed for taking too long."""
        if process.stdin is None or process.stdout is None:
            return None
        self._until[process] = time.monotonic() + seconds
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return json.loads(process.stdout.readline() or "null")
        except (OSError, ValueError):
            return None
        finally:
            del self._until[process]


def lost(task: Mapping[str, Any]) -> Json:
    """The outcome of a task whose process died or took too long. It is the same for every cause."""
    fault: NeartwinError = ExecutionError()
    if task.get("do") != "release":
        remedy = "ask a smaller question, or ask again in a moment"
        fault = AccessError(503, "worker", "", "ended or took too long, and nothing was spent", remedy=remedy)
    return {"refused": as_dict(fault), "status": status_of(fault)}


def _end(process: "subprocess.Popen[str] | None") -> None:
    """Kill a process, and give back what it held."""
    if process is None:
        return
    with contextlib.suppress(OSError), process:  # a pipe may be broken
        process.kill()


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
