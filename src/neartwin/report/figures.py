"""Figures of hypothesis testing and of attacks, as data that `Figure.draw` turns into a chart.

Testing has error regions, domination, the (epsilon, delta) polygon and the Gaussian family. Attacks have the phase
transition of reconstruction and the risk of a release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist, fmean

import numpy as np

from neartwin.audit.claims import Curve, percent, power_at
from neartwin.audit.reconstruction import Attempt
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.report.svg import BLIND, Drawing, Figure, Line, Note
from neartwin.tradeoff import TradeOff, epsilon_delta, gaussian


def _points(curve: TradeOff, size: int) -> tuple[FloatArray, FloatArray]:
    ends = np.geomspace(1e-4, 0.05, 20)  # dense there, where curves of weak privacy turn, and even between
    alpha = np.unique(np.concatenate((np.linspace(0, 1, size), ends, 1 - ends)))
    return alpha, np.asarray(curve.beta(alpha).lower)


def tradeoff_figure(curves: Mapping[str, TradeOff], *, size: int = 201) -> Figure:
    """Named curves in one square, with blind guessing as the dotted diagonal.

    Args:
        curves: The curves, by name; their lower bounds are drawn.
        size: The number of points of a line.

    Returns:
        The figure.

    >>> [line.name for line in tradeoff_figure({"mu=1": gaussian(1)}).lines]
    ['blind guessing', 'mu=1']
    """
    lines = [Line(name, *_points(curve, size)) for name, curve in curves.items()]
    return Figure("Trade-off functions", "type I error", "least type II error", (BLIND, *lines))


def tradeoff_chart(lines: Sequence[Line], *, name: str) -> Drawing:
    """Lower bounds of trade-off curves as a chart. Screen readers get the missed detections at 5 % false alarms.

    Args:
        lines: Misses by false alarms, both from 0 to 1.
        name: An id, unlike any other of the page.

    Returns:
        The chart.
    """
    spoken = [
        f"{line.name}: at 5 % false alarms at least {np.floor(100 * np.interp(0.05, line.x, line.y)):.0f}% are missed"
        for line in lines
    ]
    figure = Figure("Trade-off curve", "false alarms", "missed detections", (BLIND, *lines))
    return figure.draw(name=name, spoken=f"Trade-off curve. {'; '.join(spoken)}")


def gaussian_family(mus: Sequence[Number] = ("0.5", 1, 2, 4), *, size: int = 201) -> Figure:
    """G_mu for several mu. A larger mu has a lower curve and weaker privacy.

    Args:
        mus: The parameters.
        size: The number of points of a line.

    Returns:
        The figure.
    """
    shown = tradeoff_figure({f"μ = {float(rational(mu=mu)):g}": gaussian(mu) for mu in mus}, size=size)
    return replace(shown, title="Gaussian differential privacy")


def epsilon_delta_polygon(epsilon: Number = 1, delta: Number = "0.1") -> Figure:
    """f_{epsilon,delta} by its corners, with the two lines that bound it.

    Corners: (0, 1 - delta), the kink on the diagonal at (1 - delta)/(1 + e^epsilon), (1 - delta, 0), (1, 0).

    Args:
        epsilon: The epsilon.
        delta: The delta.

    Returns:
        The figure.
    """
    curve = epsilon_delta(epsilon, delta)
    growth, mass = float(np.exp(float(curve.epsilon))), float(1 - curve.delta_mass)
    kink = mass / (1 + growth)
    x, y = np.array([0.0, kink, mass, 1.0]), np.array([mass, kink, 0.0, 0.0])
    lines = (
        BLIND,
        Line("f", x, y),
        Line("1 - δ - eᵋ α", np.array([0.0, mass / growth]), np.array([mass, 0.0]), "dashed"),
        Line("e⁻ᵋ (1 - δ - α)", np.array([0.0, mass]), np.array([mass / growth, 0.0]), "dashed"),
    )
    notes = (
        Note("slope -eᵋ", kink / 2 + 0.03, (mass + kink) / 2),
        Note("slope -e⁻ᵋ", (kink + mass) / 2, kink / 2 + 0.05),
    )
    title = f"ε={float(curve.epsilon):g}, δ={float(curve.delta_mass):g} as a trade-off function"
    return Figure(title, "type I error α", "least type II error", lines, notes)


def error_regions(shift: Number = 2, threshold: Number = 1, *, size: int = 401) -> Figure:
    """Two unit normals and the test that rejects above a threshold, with both errors as areas.

    The area under P above the threshold is the type I error, that under Q below it the type II error.

    Args:
        shift: The distance of the normals' means.
        threshold: The threshold.
        size: The number of points of a line.

    Returns:
        The figure.

    Raises:
        ParameterError: The threshold is outside the figure.
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
    """A standard f as a solid line and candidates as dashed ones. A candidate's name says whether it is f-DP at the drawn
    points.

    A candidate "satisfies f" here if no drawn point of it lies certainly below f. `tradeoff.excess` decides the order
    with a proof.

    Args:
        standard: f.
        candidates: The curves, by name.
        size: The number of points of a line.

    Returns:
        The figure.
    """
    alpha, beta = _points(standard, size)
    lines = [BLIND, Line("f", alpha, beta)]
    for name, curve in candidates.items():
        fails = bool(np.any(np.asarray(curve.beta(alpha).upper) < beta))
        verdict = "breaks f" if fails else "satisfies f"
        lines.append(Line(f"{name}: {verdict}", *_points(curve, size), style="dashed"))
    return Figure("Which mechanisms are f-DP", "type I error", "least type II error", tuple(lines))


def transition_figure(attempts: Sequence[Attempt]) -> Figure:
    """The mean share of wrong bits by error over sqrt(people), one line an attacker. A coin errs in half of the bits.

    Args:
        attempts: The attempts.

    Returns:
        The figure.

    Raises:
        ParameterError: There are no attempts.
    """
    if not attempts:
        raise ParameterError("attempts", attempts, "must hold at least one attempt")
    lines: list[Line] = []
    for name, (errors, wrong) in transition_lines(attempts).items():
        lines += [Line(name, np.array(errors), np.array(wrong)), Line("", np.array(errors), np.array(wrong), "dots")]
    ends = np.array([min(line.x[0] for line in lines), max(line.x[-1] for line in lines)])
    return Figure(
        "Reconstruction of secret bits",
        "largest error of an answer, in √people",
        "people whose bit is wrong",
        (*lines, Line("a coin", ends, np.array([0.5, 0.5]), "dotted")),
        unit_square=False,
        x_scale="log",
    )


def reconstruction_figure(bounded: Sequence[Attempt], epsilon: Sequence[Attempt], mu: Sequence[Attempt] = ()) -> Figure:
    """The phase transition, and the same attackers against real releases with the theorem's floor under them.

    The releases lie at their largest errors. Floors are for fair bits: 1 / (1 + e^epsilon) and Phi(-mu / 2).

    Args:
        bounded: Attempts against bounded noise.
        epsilon: Attempts against releases of pure privacy.
        mu: Attempts against releases of Gaussian privacy.

    Returns:
        The figure.
    """
    figure = transition_figure(bounded)
    points, floors, notes = [], [], []
    for attempts, label, normal in ((epsilon, "ε = {:g}", False), (mu, "μ = {:g}", True)):
        for setting in sorted({attempt.setting for attempt in attempts}):
            group = [attempt for attempt in attempts if attempt.setting == setting]
            error = float(np.mean([attempt.error_in_roots for attempt in group]))
            points += [(error, attempt.wrong) for attempt in group]
            floor = NormalDist().cdf(-setting / 2) if normal else float(np.exp(-np.logaddexp(0, setting)))
            floors.append((error, floor))
            notes.append(Note(label.format(setting), 1.08 * error, floor))
    if not points:
        return figure
    (x, wrong), (place, least) = np.array(points).T, np.array(floors).T
    releases = Line("neartwin releases", x, wrong, "dots")
    possible = Line("the least that anyone can reach against them", place, least, "dots")
    return replace(figure, lines=(*figure.lines, releases, possible), notes=tuple(notes))


def transition_lines(attempts: Sequence[Attempt]) -> dict[str, tuple[list[float], list[float]]]:
    """For each attacker the errors over sqrt(people), ascending, and the mean share of wrong bits over the repeats of a
    setting.
    """
    lines = {}
    for name in dict.fromkeys(one.attacker for one in attempts):
        own = [one for one in attempts if one.attacker == name]
        groups = [[one for one in own if one.setting == setting] for setting in {one.setting for one in own}]
        means = sorted(
            (fmean(one.error_in_roots for one in group), fmean(one.wrong for one in group)) for group in groups
        )
        lines[name] = ([error for error, _ in means], [wrong for _, wrong in means])
    return lines


def risk_figure(curve: Curve, name: str) -> Figure:
    """True positives by false alarms, with marks at 1 % and 0.1 % false alarms and the diagonal of blind guessing.

    Args:
        curve: The trade-off curve, of arrays.
        name: The name of the line.

    Returns:
        The figure.
    """
    grid = np.concatenate([np.geomspace(1e-4, 1e-2, 100), np.linspace(1e-2, 1, 300)])
    rates = np.array([0.01, 0.001])
    marks = power_at(curve, rates)
    lines = (
        Line(name, grid, power_at(curve, grid)),
        Line("", rates, marks, "dots"),
        Line("blind guessing", grid, grid, "dotted"),
    )
    notes = tuple(Note(percent(float(y)), 0.9 * float(x), float(y) + 0.04) for x, y in zip(rates, marks, strict=True))
    return Figure(
        "Who can be found",
        "strangers accused",
        "people who are found, at most",
        lines,
        notes,
        unit_square=False,
        x_scale="log",
        percent=True,
    )
