"""Many independent runs of a mechanism on two inputs, in this process or side by side in several.

A run that raises is an output too: whether a query fails is data, and the attacker sees it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.audit.twins import Twins
from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError

_CHUNKS = 16  # a side, so that a progress bar moves


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that makes many independent runs in one call: `draw(argument, runs)` returns `runs` outputs.

    at_once: how many runs a call makes at least, where so many are wanted; more where starting a call is slow.
    """

    draw: Callable[[Any, int], Sequence[Any] | NDArray[Any]]
    at_once: int = 4_096


@dataclass(frozen=True, slots=True)
class Raised:
    """The output of a run that raised an error of this type."""

    name: str


Outputs = Sequence[Any] | NDArray[Any]  # one output a run
Mechanism = Callable[[Any], Any] | Batched


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was seen: one output a run, in the order of the runs, for the left and the right input."""

    twins: Twins
    left: Outputs
    right: Outputs

    def split(self, *shares: float) -> tuple["Transcript", ...]:
        """Consecutive parts with these shares of each side's runs; the last takes the rest.

        >>> [len(part.left) for part in Transcript(Twins(0, 1), range(10), range(10)).split(0.25, 0.25)]
        [2, 3, 5]
        """
        cuts = [0.0, *np.cumsum(shares), 1.0]
        return tuple(
            Transcript(self.twins, _part(self.left, low, high), _part(self.right, low, high))
            for low, high in pairwise(cuts)
        )


def _part(outputs: Outputs, low: float, high: float) -> Outputs:
    return outputs[int(low * len(outputs)) : int(high * len(outputs))]


def play(mechanism: Mechanism, twins: Twins, *, runs: int, workers: int = 1) -> Transcript:
    """Run the mechanism `runs` times on each side.

    mechanism: takes one input, returns any output, and draws its own randomness; or `Batched`. With workers > 1 it must
    be picklable (a module's function) and draw fresh randomness in each process: copies of one seeded generator would
    repeat each other, which is noticed and refused. A progress bar shows on a terminal only.
    """
    integer(runs=runs, at_least=1)
    integer(workers=workers, at_least=1)
    least = mechanism.at_once if isinstance(mechanism, Batched) else 1
    pieces = max(workers, min(_CHUNKS, runs // least, runs), 1)
    sizes = [runs * (i + 1) // pieces - runs * i // pieces for i in range(pieces)]
    jobs = [(mechanism, argument, size) for argument in (twins.left, twins.right) for size in sizes]
    if workers == 1:
        parts = list(_watched(map(_some_runs, jobs), total=len(jobs)))
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            parts = list(_watched(pool.map(_some_runs, jobs), total=len(jobs)))
        _refuse_echoes(parts)
    left, right = _joined(parts[:pieces]), _joined(parts[pieces:])
    if all(isinstance(output, Raised) for output in chain(left, right)):
        raise ParameterError("mechanism", mechanism, f"raised {left[0].name} on every run of both inputs")
    return Transcript(twins, left, right)


def _some_runs(job: tuple[Mechanism, Any, int]) -> Outputs:
    mechanism, argument, runs = job
    if isinstance(mechanism, Batched):
        outputs = mechanism.draw(argument, runs)
        if len(outputs) != runs:
            raise ParameterError("mechanism", mechanism, f"returned {len(outputs)} outputs for {runs} runs")
        return outputs
    return [_one_run(mechanism, argument) for _ in range(runs)]


def _one_run(mechanism: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return mechanism(argument)
    except Exception as error:  # noqa: BLE001 - whatever it raises, the attacker sees that it did
        return Raised(type(error).__name__)


def _joined(parts: list[Outputs]) -> Outputs:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([np.asarray(part) for part in parts])
    return list(chain.from_iterable(parts))


def _refuse_echoes(parts: list[Outputs]) -> None:
    """Two chunks with the same long run of varied outputs were not independent."""
    seen: set[str] = set()
    for part in parts:
        text = [repr(output) for output in part[:200]]
        if len(set(text)) > 10:  # enough variety that a repeat is no accident
            key = "|".join(text)
            if key in seen:
                raise PrivacyError(
                    "two processes drew the same randomness; a bound on repeated runs proves nothing: give a mechanism "
                    "that draws from the operating system, or play with workers=1"
                )
            seen.add(key)


def _watched(parts: Iterable[Outputs], *, total: int) -> Iterator[Outputs]:
    if not sys.stderr.isatty():
        yield from parts
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(parts, "playing", total=total, console=Console(stderr=True), transient=True)
