"""Pictures of attacks: the phase transition of reconstruction, an attacker's band against a claim, a risk to look at.

Each takes data that the audit room returned and gives a matplotlib Figure (extra `plots`); tests look at the data.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from neartwin.audit.bands import ErrorBand
from neartwin.audit.claims import Claim, Curve
from neartwin.audit.risk import percent, power_at
from neartwin.audit.transition import Attempt
from neartwin.errors import ParameterError

_INK, _CLAIM = "#1f6feb", "#d1242f"


def transition_figure(attempts: Sequence[Attempt]) -> Any:
    """The mean share of wrong bits by error over sqrt(people), one line an attacker; a coin errs in half."""
    if not attempts:
        raise ParameterError("attempts", attempts, "must hold at least one attempt")
    figure, panel = _panel("largest error of an answer, in √people", "people whose bit is wrong")
    for name, (errors, wrong) in transition_lines(attempts).items():
        panel.plot(errors, wrong, marker="o", label=name)
    panel.axhline(0.5, color="#8888", linestyle="--", label="a coin")
    panel.set_xscale("log")
    panel.set_ylim(-0.02, 0.6)
    panel.legend(frameon=False)
    return figure


def reconstruction_figure(bounded: Sequence[Attempt], epsilon: Sequence[Attempt], mu: Sequence[Attempt] = ()) -> Any:
    """The phase transition, and the same attackers against real releases with the theorem's floor under them.

    The releases lie where their largest errors put them. Floors are for fair bits: 1 / (1 + e^epsilon) and Phi(-mu / 2).
    """
    figure = transition_figure(bounded)
    panel = figure.axes[0]
    for attempts, label, floor in ((epsilon, "ε = {:g}", _pure_floor), (mu, "μ = {:g}", _gaussian_floor)):
        for setting in sorted({attempt.setting for attempt in attempts}):
            group = [attempt for attempt in attempts if attempt.setting == setting]
            x = float(np.mean([attempt.error_in_roots for attempt in group]))
            panel.plot([x] * len(group), [attempt.wrong for attempt in group], ".", color=_CLAIM, alpha=0.6)
            panel.plot([x], [floor(setting)], "_", color=_CLAIM, markersize=18)
            place = {"textcoords": "offset points", "xytext": (0, 4), "ha": "center", "fontsize": 9}
            panel.annotate(label.format(setting), (x, floor(setting)), **place)
    if epsilon or mu:
        panel.plot([], [], ".", color=_CLAIM, label="neartwin releases; dash: the least anyone can reach")
    panel.set_ylim(-0.02, 0.8)
    panel.margins(x=0.1)
    panel.legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def _pure_floor(epsilon: float) -> float:
    return float(np.exp(-np.logaddexp(0, epsilon)))


def _gaussian_floor(mu: float) -> float:
    return NormalDist().cdf(-mu / 2)


def transition_lines(attempts: Sequence[Attempt]) -> dict[str, tuple[list[float], list[float]]]:
    """By attacker: error in roots, increasing, and the mean share of wrong bits, over the repeats of a setting."""
    found: defaultdict[str, defaultdict[float, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        found[attempt.attacker][attempt.setting].append(attempt)
    lines = {}
    for name, settings in found.items():
        means = sorted(
            (float(np.mean([a.error_in_roots for a in group])), float(np.mean([a.wrong for a in group])))
            for group in settings.values()
        )
        lines[name] = ([error for error, _ in means], [wrong for _, wrong in means])
    return lines


def band_figure(band: ErrorBand, claim: Claim) -> Any:
    """The attacker's ceiling and the claimed floor: where the ceiling dips below the floor the claim is false."""
    figure, panel = _panel("false alarms", "misses")
    grid = np.linspace(0, 1, 401)
    panel.fill_between(grid, band.ceiling(grid), 1, color=_INK, alpha=0.15)
    panel.plot(
        band.fpr, band.fnr, color=_INK, marker=".", label=f"true curve lies below, confidence {band.confidence:g}"
    )
    panel.plot(grid, claim.floor(grid), color=_CLAIM, label=f"claimed: {claim}")
    panel.plot([0, 1], [1, 0], color="#8888", linestyle="--", label="guessing")
    panel.legend(frameon=False)
    return figure


def risk_figure(curve: Curve, name: str) -> Any:
    """Caught against falsely accused, with marks at 1 % and 0.1 % false alarms and the diagonal of blind guessing."""
    figure, panel = _panel("strangers accused", "people in the data who are found, at most")
    grid = np.concatenate([np.geomspace(1e-4, 1e-2, 100), np.linspace(1e-2, 1, 300)])
    panel.plot(grid, power_at(curve, grid), color=_INK, label=name)
    panel.plot(grid, grid, color="#8888", linestyle="--", label="guessing")
    for rate in (0.01, 0.001):
        caught = float(power_at(curve, rate)[0])
        panel.plot([rate], [caught], "o", color=_CLAIM)
        panel.annotate(percent(caught), (rate, caught), textcoords="offset points", xytext=(6, 4), fontsize=9)
    panel.set_xscale("log")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    panel.legend(frameon=False)
    return figure


def _panel(x: str, y: str) -> tuple[Any, Any]:
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ParameterError(
            "extra", "plots", "is not installed", remedy="pip install 'neartwin[plots]'; the data come without it"
        ) from None
    figure, panel = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(color="#8886", lw=0.6)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return figure, panel
