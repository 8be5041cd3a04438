"""The pictures of hypothesis testing: error regions, domination, the (epsilon, delta) polygon, the Gaussian family.

A figure is data first, a frozen value of named lines that can be read, tested and exported; `draw` turns it into a
Matplotlib figure (the extra `plots`), and nothing else here imports it.

Pictures of attacks: the phase transition of reconstruction, an attacker's band against a claim, a risk to look at.

Each takes data that the audit room returned and gives a matplotlib Figure (extra `plots`); tests look at the data.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from neartwin.audit.claims import Claim, Curve
from neartwin.audit.game import ErrorBand
from neartwin.audit.reconstruction import Attempt
from neartwin.audit.risk import percent, power_at
from neartwin.errors import NeartwinError, ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.tradeoff import TradeOff, epsilon_delta, gaussian

Style = Literal["solid", "dashed", "dotted", "area"]
_COLORS = ("#1b4965", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#3d5a80")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line or filled area of a figure: (n,) points."""

    name: str
    x: FloatArray
    y: FloatArray
    style: Style = "solid"


@dataclass(frozen=True, slots=True)
class Note:
    """A word at a place, in the figure's coordinates."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Figure:
    """What a picture shows. unit_square: both axes are probabilities from 0 to 1, drawn square."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    notes: tuple[Note, ...] = ()
    unit_square: bool = True

    def to_csv(self) -> str:
        """Every point, one a line: name, x, y with all digits.

        >>> gaussian_family([1], size=3).to_csv().splitlines()[0]
        'line,x,y'
        """
        rows = [
            f'"{line.name}",{float(x)!r},{float(y)!r}'
            for line in self.lines
            for x, y in zip(line.x, line.y, strict=True)
        ]
        return "\n".join(["line,x,y", *rows]) + "\n"


def _levels(size: int) -> FloatArray:
    # even in alpha, and dense at both ends, where curves of weak privacy turn
    return np.unique(
        np.concatenate((np.linspace(0, 1, size), np.geomspace(1e-4, 0.05, 20), 1 - np.geomspace(1e-4, 0.05, 20)))
    )


def _points(curve: TradeOff, size: int) -> tuple[FloatArray, FloatArray]:
    alpha = _levels(size)
    return alpha, np.asarray(curve.beta(alpha).lower)


def tradeoff_figure(curves: Mapping[str, TradeOff], *, size: int = 201) -> Figure:
    """Named curves in one square, with blind guessing as the dotted diagonal; lower ends of their brackets.

    >>> [line.name for line in tradeoff_figure({"mu=1": gaussian(1)}).lines]
    ['blind guessing', 'mu=1']
    """
    blind = Line("blind guessing", np.array([0.0, 1.0]), np.array([1.0, 0.0]), "dotted")
    lines = [Line(name, *_points(curve, size)) for name, curve in curves.items()]
    return Figure("Trade-off functions", "type I error", "least type II error", (blind, *lines))


def gaussian_family(mus: Sequence[Number] = ("0.5", 1, 2, 4), *, size: int = 201) -> Figure:
    """G_mu for several mu: the larger mu, the lower the curve and the weaker the privacy."""
    shown = tradeoff_figure({f"G_μ, μ={float(rational(mu=mu)):g}": gaussian(mu) for mu in mus}, size=size)
    return Figure("Gaussian differential privacy", shown.x_label, shown.y_label, shown.lines)


def epsilon_delta_polygon(epsilon: Number = 1, delta: Number = "0.1") -> Figure:
    """f_{epsilon,delta} by its corners, with the two lines that bound it.

    Corners: (0, 1 - delta), the kink on the diagonal at (1 - delta)/(1 + e^epsilon), (1 - delta, 0), (1, 0).
    """
    curve = epsilon_delta(epsilon, delta)
    growth, kept = float(np.exp(float(curve.epsilon))), float(1 - curve.delta_mass)
    kink = kept / (1 + growth)
    x, y = np.array([0.0, kink, kept, 1.0]), np.array([kept, kink, 0.0, 0.0])
    lines = (
        Line("blind guessing", np.array([0.0, 1.0]), np.array([1.0, 0.0]), "dotted"),
        Line("f", x, y),
        Line("1 - δ - e^ε α", np.array([0.0, kept / growth]), np.array([kept, 0.0]), "dashed"),
        Line("e^-ε (1 - δ - α)", np.array([0.0, kept]), np.array([kept / growth, 0.0]), "dashed"),
    )
    notes = (
        Note("slope -e^ε", kink / 2 + 0.03, (kept + kink) / 2),
        Note("slope -e^-ε", (kink + kept) / 2, kink / 2 + 0.05),
    )
    title = f"ε={float(curve.epsilon):g}, δ={float(curve.delta_mass):g} as a trade-off function"
    return Figure(title, "type I error α", "least type II error", lines, notes)


def error_regions(shift: Number = 2, threshold: Number = 1, *, size: int = 401) -> Figure:
    """Two unit normals, 0 and `shift` apart, and the test that rejects above `threshold`: both errors as areas.

    The area under P above the threshold is the type I error, that under Q below it the type II error.
    """
    mu, cut = float(rational(shift=shift)), float(rational(threshold=threshold))
    low, high = min(0.0, mu) - 4.0, max(0.0, mu) + 4.0
    if not low < cut < high:
        raise ParameterError("threshold", threshold, f"must lie between {low:g} and {high:g} to be seen")

    def density(x: FloatArray, mean: float) -> FloatArray:
        return np.asarray(np.exp(-0.5 * (x - mean) ** 2) / np.sqrt(2 * np.pi))

    x, right, left = np.linspace(low, high, size), np.linspace(cut, high, size), np.linspace(low, cut, size)
    peak = float(density(np.zeros(1), 0.0)[0])
    lines = (
        Line("type I error: P rejected", right, density(right, 0.0), "area"),
        Line("type II error: Q accepted", left, density(left, mu), "area"),
        Line("P: the data set", x, density(x, 0.0)),
        Line("Q: its near twin", x, density(x, mu)),
        Line("threshold", np.array([cut, cut]), np.array([0.0, 1.08 * peak]), "dotted"),
    )
    notes = (Note("reject →", cut + 0.1, 1.04 * peak),)
    return Figure("The two errors of a test", "what the attacker sees", "density", lines, notes, unit_square=False)


def domination(standard: TradeOff, candidates: Mapping[str, TradeOff], *, size: int = 201) -> Figure:
    """A standard f as a solid line and candidates as dashed ones, named by whether they are f-DP at the points drawn.

    A candidate "satisfies f" here if no drawn point of it lies certainly below f, a picture's answer;
    `tradeoff.excess` decides the order with a proof.
    """
    alpha, beta = _points(standard, size)
    lines = [Line("blind guessing", np.array([0.0, 1.0]), np.array([1.0, 0.0]), "dotted"), Line("f", alpha, beta)]
    for name, curve in candidates.items():
        fails = bool(np.any(np.asarray(curve.beta(alpha).upper) < beta))
        verdict = "breaks f" if fails else "satisfies f"
        lines.append(Line(f"{name}: {verdict}", *_points(curve, size), style="dashed"))
    return Figure("Which mechanisms are f-DP", "type I error", "least type II error", tuple(lines))


def _typeset(text: str) -> str:
    """The few symbols of the figures in Matplotlib's own mathematics."""
    for plain, shown in (("e^-ε", r"$e^{-\varepsilon}$"), ("e^ε", r"$e^{\varepsilon}$"), ("G_μ", r"$G_\mu$")):
        text = text.replace(plain, shown)
    return text


def draw(figure: Figure) -> Any:
    """The figure as a `matplotlib.figure.Figure`, made without pyplot: no window, no global state."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as missing:
        raise NeartwinError("plots need Matplotlib: install neartwin[plots]") from missing
    canvas = Canvas(figsize=(5.4, 5.4) if figure.unit_square else (7.2, 4.2), layout="constrained")
    axes = canvas.add_subplot()
    colors = iter(_COLORS * (1 + len(figure.lines) // len(_COLORS)))
    for line in figure.lines:
        match line.style:
            case "area":
                axes.fill_between(
                    line.x, line.y, color=next(colors), alpha=0.35, linewidth=0, label=_typeset(line.name)
                )
            case "dotted":
                axes.plot(line.x, line.y, color="0.55", linestyle=":", linewidth=1.2, label=_typeset(line.name))
            case style:
                axes.plot(
                    line.x,
                    line.y,
                    color=next(colors),
                    linestyle=style,
                    linewidth=2,
                    zorder=3 if style == "solid" else 2,
                    label=_typeset(line.name),
                )
    for note in figure.notes:
        axes.text(note.x, note.y, _typeset(note.text), fontsize=9, color="0.25")
    axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    if figure.unit_square:
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    else:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper right")
    return canvas


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
