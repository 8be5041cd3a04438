"""The pool of worker processes. A worker that dies or takes too long is replaced, and its task has one uniform end.

Analysts take turns: whoever asks a thousand questions waits for them alone.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from neartwin.errors import AccessError, ExecutionError, NeartwinError
from neartwin.web.errors import as_dict, status_of
from neartwin.web.traces import span

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
