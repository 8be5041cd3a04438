"""Small drawings for pages, as SVG text made here: trade-off curves, values with error bars, spending over time.

Colours are classes that the page's stylesheet paints, light or dark; no element has a style of its own, so that a page
may forbid inline styles. Every drawing has a title that is read aloud.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A trade-off curve: (false alarms, missed detections), both from 0 to 1. kind: how it is painted."""

    name: str
    points: Points
    kind: Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its error bar."""

    label: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Steps:
    """A share of a budget over time: (time, share) with time from 0 to 1."""

    name: str
    points: Points


def tradeoff_svg(curves: Sequence[Curve], *, name: str) -> str:
    """The curves in one square, blind guessing as its diagonal.

    >>> tradeoff_svg([Curve("this plan", [(0, 1), (1, 0)], "after")], name="plan").count("<polyline")
    2
    """
    left, top, size = 52.0, 12.0, 240.0

    def drawn(points: Points, kind: str) -> str:
        places = " ".join(f"{left + size * x:.1f},{top + size * (1 - y):.1f}" for x, y in points)
        return f'<polyline class="curve {kind}" points="{places}"/>'

    parts = [f'<rect class="frame" x="{left:g}" y="{top:g}" width="{size:g}" height="{size:g}"/>']
    for tick in (0.0, 0.5, 1.0):
        x, y = left + size * tick, top + size * (1 - tick)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{top + size + 16:.1f}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text class="tick" x="{left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts += [drawn([(0, 1), (1, 0)], "blind"), *(drawn(curve.points, curve.kind) for curve in curves)]
    middle = top + size / 2
    parts += [
        f'<text class="label" x="{left + size / 2:.1f}" y="{top + size + 34:.1f}" text-anchor="middle">false alarms</text>',
        (
            f'<text class="label" x="14" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 14 {middle:.1f})">'
            "missed detections</text>"
        ),
    ]
    told = "; ".join(f"{curve.name}: at 5 % false alarms at least {_missed(curve):.0%} are missed" for curve in curves)
    return _svg(name, f"Trade-off curve. {told}", 310, 296, parts)


def _missed(curve: Curve) -> float:
    before = [(x, y) for x, y in curve.points if x <= 0.05]
    after = [(x, y) for x, y in curve.points if x >= 0.05]
    if not before or not after:
        return 0.0
    (x0, y0), (x1, y1) = before[-1], after[0]
    value = y0 if x1 == x0 else y0 + (y1 - y0) * (0.05 - x0) / (x1 - x0)
    return math.floor(value * 100) / 100


def bars_svg(bars: Sequence[Bar], *, name: str, title: str, left: float = 96.0, width: float = 270.0) -> str:
    """One line a value: its dot and its error bar, on one axis. left: room for labels."""
    low = min([0.0, *(bar.lower for bar in bars)])
    high = max([0.0, *(bar.upper for bar in bars)])
    span = (high - low) or 1.0
    row = 26.0

    def at(value: float) -> float:
        return left + width * (value - low) / span

    parts = []
    bottom = 10 + row * len(bars)
    for tick in _ticks(low, low + span):
        parts.append(f'<line class="grid" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="6" y2="{bottom:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{at(tick):.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{tick:,.6g}</text>'
        )
    for place, bar in enumerate(bars):
        y = 10 + row * (place + 0.5)
        label = bar.label if len(bar.label) <= 15 else bar.label[:14] + "…"
        parts += [
            f'<text class="label" x="{left - 10:g}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>',
            f'<line class="bar" x1="{at(bar.lower):.1f}" x2="{at(bar.upper):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>',
            *(
                f'<line class="bar" x1="{at(end):.1f}" x2="{at(end):.1f}" y1="{y - 5:.1f}" y2="{y + 5:.1f}"/>'
                for end in (bar.lower, bar.upper)
            ),
            f'<circle class="dot" cx="{at(bar.value):.1f}" cy="{y:.1f}" r="4.5"/>',
        ]
    return _svg(name, title, left + width + 20, bottom + 26, parts)


def steps_svg(lines: Sequence[Steps], *, name: str, title: str) -> str:
    """Shares of a budget, each a staircase from 0; the frame's top is the whole budget."""
    left, top, width, height = 42.0, 10.0, 300.0, 170.0
    parts = [f'<rect class="frame" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"/>']
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        parts.append(f'<line class="grid" x1="{left:g}" x2="{left + width:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6:g}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for place, line in enumerate(lines):
        path, reached = f"M {left:g} {top + height:.1f}", 0.0
        for x, share in line.points:
            path += f" H {left + width * x:.1f} V {top + height * (1 - share):.1f}"
            reached = share
        path += f" H {left + width:.1f}"
        parts.append(f'<path class="steps s{place % 6}" d="{path}"/>')
        if len(lines) == 1:
            parts.append(
                f'<text class="tick" x="{left + width - 6:.1f}" y="{top + height * (1 - reached) - 6:.1f}" '
                f'text-anchor="end">{reached:.0%}</text>'
            )
    return _svg(name, title, 350, 190, parts)


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    first = math.ceil(low / step)
    return [place * step for place in range(first, math.floor(high / step) + 1)]


def _svg(name: str, title: str, width: float, height: float, parts: Sequence[str]) -> str:
    own = escape(f"{name}-title", quote=True)
    return (
        f'<svg class="drawing" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{own}" '
        f'xmlns="http://www.w3.org/2000/svg"><title id="{own}">{escape(title)}</title>{"".join(parts)}</svg>'
    )


def dial_svg(*, spent: float, plan: float, name: str, title: str) -> str:
    """Half a circle: what is spent, what this plan would take, what is left; shares from 0 to 1.

    A plan that takes more than is left fills the dial, in the colour of a refusal.
    """
    fits = spent + plan <= 1
    middle = min(1.0, spent + plan)
    parts = [_arc(0.0, 1.0, "rest"), _arc(0.0, min(1.0, spent), "used")]
    parts += [_arc(spent, middle, "now" if fits else "over")] if plan and spent < 1 else []
    left = math.floor((1 - middle) * 1000) / 10 if fits else 0.0
    parts += [
        f'<text class="big" x="110" y="98" text-anchor="middle">{left:g} %</text>',
        '<text class="label" x="110" y="118" text-anchor="middle">'
        + ("left" if not plan else "left after this" if fits else "not enough")
        + "</text>",
    ]
    return _svg(name, title, 220, 128, parts)


def _arc(start: float, end: float, kind: str) -> str:
    x0, y0 = 110 - 90 * math.cos(math.pi * start), 108 - 90 * math.sin(math.pi * start)
    x1, y1 = 110 - 90 * math.cos(math.pi * end), 108 - 90 * math.sin(math.pi * end)
    return f'<path class="arc {kind}" d="M {x0:.2f} {y0:.2f} A 90 90 0 0 1 {x1:.2f} {y1:.2f}"/>'
