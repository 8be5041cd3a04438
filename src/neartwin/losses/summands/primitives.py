"""The functions of NumPy that certified sums rest on, measured once when this is imported.

`rounding.py` charges every value with `ELEMENTARY` of itself. A build of NumPy may use other code for these functions.
So each is compared with balls of proved radius at 200 points, before any number is certified. It takes some ten
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from neartwin import balls
from neartwin.exact import FloatArray
from neartwin.losses.summands.rounding import ELEMENTARY

POINTS = 200


def wrong_primitives(functions: dict[str, Callable[[FloatArray], FloatArray]] | None = None) -> list[str]:
    """The names of functions that err by more than is charged somewhere.

    Args:
        functions: Other functions to measure, by the name of the one that each stands for; else NumPy's own.
    """
    half = POINTS // 2
    small, large = np.geomspace(1e-12, 700.0, half), np.geomspace(1e-300, 1e300, POINTS)
    both, turns = np.concatenate([-small, small]), np.geomspace(1e-9, 1e6, POINTS)
    measured: dict[str, tuple[Callable[[FloatArray], FloatArray], str, FloatArray]] = {
        "exp": (np.exp, "exp", both),
        "expm1": (np.expm1, "expm1", both),
        "log": (np.log, "log", large),
        "log1p": (np.log1p, "log1p", np.concatenate([-np.geomspace(1e-12, 0.99, half), small])),
        "sin": (np.sin, "sin", turns),
        "cos": (np.cos, "cos", turns),
        "arctan2": (lambda x: np.arctan2(x, 1.0), "atan", both),
    }
    wrong = []
    for name, (function, exact, x) in measured.items():
        values = (functions or {}).get(name, function)(x)
        around = np.array(balls.all_bounds(partial(_truths, exact, x.tolist())))
        if not np.all(np.abs(values[:, None] - around) <= ELEMENTARY * np.abs(around)):
            wrong.append(name)
    return wrong


def _truths(function: str, x: list[float]) -> list[Any]:
    return [getattr(balls.ball(one), function)() for one in x]


if _wrong := wrong_primitives():
    raise ImportError(f"this build of NumPy computes {', '.join(_wrong)} too roughly for certified numbers")
