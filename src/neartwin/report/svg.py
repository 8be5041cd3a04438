"""Charts as SVG text: curves on two axes, values with error bars, the share of a budget that is spent.

A page paints the classes of a chart with its own stylesheet, light or dark. No element has a style of its own, so that
a page may forbid inline styles. A notebook and a file get the colours of `STYLE`. Every chart has a title for screen
readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Literal

import numpy as np

from neartwin.checks import needed, writable
from neartwin.exact import FloatArray

LineStyle = Literal["solid", "dashed", "dotted", "faint", "area", "dots"]
Scale = Literal["linear", "log", "none"]
_SIZES = ((1e12, " T"), (1e9, " B"), (1e6, " M"))
_DAYS = ("%Y", "%Y-%m", "%Y-%m-%d", "%m-%d %H:%M", "%H:%M:%S")  # the first that tells most days of a chart apart
_COLORS = ("#1b4965", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#3d5a80")
STYLE = """text { font-family: "DejaVu Sans", system-ui, sans-serif; font-size: 11px; fill: #1b1f24 }
.tick { fill: #57606a } .heading { font-weight: bold } .big { font-size: 27px }
.frame { fill: none; stroke: #d0d7de } .grid { stroke: #d0d7de; stroke-width: 0.8 }
.curve { fill: none; stroke-width: 2 } .blind { stroke: #57606a; stroke-width: 1; stroke-dasharray: 2 3 }
.before { stroke: #8c98a5 } .dashed { stroke-dasharray: 7 4 } .area { fill-opacity: 0.3 }
.bar { stroke: #1f6feb; stroke-width: 2.2 } .bar.open { stroke-dasharray: 3 3 }
.bar.noise { stroke-width: 8; stroke-opacity: .35 } .dot { fill: #1f6feb }
.column { fill: #1f6feb; fill-opacity: 0.25 }
.arc { fill: none; stroke-width: 17; stroke: #1f6feb } .rest { stroke: #dfe4ea } .used { stroke: #8c98a5 }
""" + "\n".join(
    f".curve.s{i} {{ stroke: {color} }} .area.s{i}, .dot.s{i} {{ fill: {color} }}" for i, color in enumerate(_COLORS)
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart that is ready to be shown.

    Attributes:
        name: An id, unlike any other of its page.
        title: The subject of the chart, in a line.
        spoken: The text that screen readers read in place of the chart.
        width: The width, in pixels.
        height: The height, in pixels.
        parts: SVG elements.
    """

    name: str
    title: str
    spoken: str
    width: float
    height: float
    parts: Sequence[str]

    def __repr__(self) -> str:
        return f"<Drawing of {self.title}>"

    def __html__(self) -> str:
        """The chart as an element of a page, which paints it."""
        own = escape(f"{self.name}-title", quote=True)
        return (
            f'<svg class="drawing" viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-labelledby="{own}" '
            f'xmlns="http://www.w3.org/2000/svg"><title id="{own}">{escape(self.spoken)}</title>{"".join(self.parts)}</svg>'
        )

    def _repr_svg_(self) -> str:
        """The chart with its colours and its title, for a file or a notebook."""
        return (
            f'<svg viewBox="0 -24 {self.width:g} {self.height + 24:g}" width="{1.6 * self.width:g}" '
            f'height="{1.6 * (self.height + 24):g}" style="max-width:100%" xmlns="http://www.w3.org/2000/svg"><title>{escape(self.spoken)}</title>'
            f'<style>{STYLE}</style><rect y="-24" width="100%" height="100%" fill="#ffffff"/>'
            f'<text class="heading" x="10" y="-8">{escape(self.title)}</text>{"".join(self.parts)}</svg>\n'
        )

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file.

        Args:
            path: The path, which ends in .svg, .png or .pdf. The last two need the extra `plots`.

        Returns:
            The file.

        Raises:
            ParameterError: The ending is unknown, the extra is missing, or the file cannot be written.
        """
        target = writable(endings=(".svg", ".png", ".pdf"), path=path)
        text, format_ = self._repr_svg_(), target.suffix.lower().removeprefix(".")
        if format_ == "svg":
            target.write_text(text, encoding="utf-8")
        else:
            draw = getattr(needed("plots", "cairosvg")[0], f"svg2{format_}")
            draw(bytestring=text.encode(), write_to=str(target), scale=2)
        return target


def stacked(drawings: Sequence[Drawing], title: str, words: str = "") -> Drawing:
    """Charts one below the other, each with its title, as one.

    Args:
        drawings: The charts.
        title: The title of all.
        words: A sentence below them.

    Returns:
        The chart.
    """
    width = max(drawing.width for drawing in drawings)
    first, *others = wrap(title, round(width / 7)) or [""]
    parts = [_text("heading", 10, 7 + 15 * number, line) for number, line in enumerate(others)]
    top = 24.0 + 15 * len(others)
    for drawing in drawings:
        parts.append(
            f'<g transform="translate(0 {top:g})"><text class="label" x="10" y="-4">{escape(drawing.title)}</text>'
        )
        parts += [*drawing.parts, "</g>"]
        top += drawing.height + 24
    for line in wrap(words, round(width / 6)):
        parts.append(_text("label", 10, top - 12, line))
        top += 15
    top += 6 * bool(words)
    spoken = "; ".join([*(drawing.spoken for drawing in drawings), *filter(None, [words])])
    return Drawing(drawings[0].name, first, spoken, width, top - 24, parts)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Attributes:
        low: The lowest value.
        high: The highest value.
        start: The pixel of the lowest value.
        end: The pixel of the highest value.
        scale: The scale; "none" has no ticks.
    """

    low: float
    high: float
    start: float
    end: float
    scale: Scale = "linear"

    def at(self, value: float) -> float:
        """The pixel of a value; on a logarithmic axis 0 is at the low end."""
        low, high = self.low, self.high
        if self.scale == "log":
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values within the axis: at most six on a linear axis, the powers of ten on a logarithmic one."""
        if self.scale == "none":
            return []
        if self.scale == "log":
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (step * factor) <= 5)
        return [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def text(self, tick: float) -> str:
        """A tick in words; on an axis of millions and more in those."""
        size, word = next((one for one in _SIZES if max(-self.low, self.high) >= one[0]), (1.0, ""))
        return f"{tick / size:,.6g}{word if tick else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line, filled area or row of dots of a figure.

    Attributes:
        name: The name in the legend.
        x: (n,) horizontal coordinates.
        y: (n,) vertical coordinates.
        style: The style.
    """

    name: str
    x: FloatArray
    y: FloatArray
    style: LineStyle = "solid"


@dataclass(frozen=True, slots=True)
class Note:
    """A word at a place, in the figure's coordinates."""

    text: str
    x: float
    y: float


BLIND = Line("blind guessing", np.array([0.0, 1.0]), np.array([1.0, 0.0]), "dotted")


@dataclass(frozen=True, slots=True)
class Figure:
    """Named lines on two axes, as data that can be read, tested and exported.

    Attributes:
        title: The subject of the figure, in a line.
        x_label: The name of the horizontal axis.
        y_label: The name of the vertical axis.
        lines: The lines, from the back to the front. A line without a name has the colour of the one before it, and no
            legend.
        notes: Words beside the lines.
        unit_square: Whether both axes are probabilities from 0 to 1, drawn square.
        x_scale: The scale of the horizontal axis.
        percent: Whether numbers of the axes are shares, written as percentages.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    notes: tuple[Note, ...] = ()
    unit_square: bool = True
    x_scale: Scale = "linear"
    percent: bool = False

    def draw(self, *, name: str = "figure", spoken: str = "") -> Drawing:
        """The figure as a chart, with its legend below.

        Args:
            name: An id, unlike any other of the page.
            spoken: The text for screen readers; by default the title.

        Returns:
            The chart.
        """
        width, height = (240.0, 240.0) if self.unit_square else (300.0, 190.0)
        x, y = self._axes(width, height)
        parts = [f'<rect class="frame" x="{x.start:g}" y="{y.end:g}" width="{width:g}" height="{height:g}"/>']
        for tick in x.ticks():
            parts.append(_line("grid", (x.at(tick), y.start), (x.at(tick), y.end)))
            parts.append(_text("tick", x.at(tick), y.start + 16, self._number(tick), "middle"))
        for tick in y.ticks():
            parts.append(_line("grid", (x.start, y.at(tick)), (x.end, y.at(tick))))
            parts.append(_text("tick", x.start - 7, y.at(tick) + 4, self._number(tick), "end"))
        bottom = y.start + 34
        parts.append(_text("label", x.start + width / 2, bottom, self.x_label, "middle"))
        upright = _text("label", 0, 0, self.y_label, "middle")
        parts.append(f'<g transform="translate(13 {y.end + height / 2:g}) rotate(-90)">{upright}</g>')
        color = -1
        for line in self.lines:
            color += bool(line.name) and line.style not in {"dotted", "faint"}
            paint = _PAINTS[line.style].format(color % len(_COLORS))
            points = [(x.at(float(a)), y.at(float(b))) for a, b in zip(line.x, line.y, strict=True)]
            parts += _drawn(line.style, paint, points, y.start)
            if line.name:
                bottom += 17
                parts += _drawn(
                    line.style,
                    paint,
                    [(x.start, bottom - 4), (x.start + 22, bottom - 4)][line.style == "dots" :],
                    bottom,
                )
                parts.append(_text("label", x.start + 30, bottom, line.name))
        for note in self.notes:
            place = x.at(note.x)
            parts.append(_text("label", place, y.at(note.y), note.text, "end" if place > x.end - 40 else "start"))
        return Drawing(name, self.title, spoken or self.title, x.end + 26, bottom + 8, parts)

    def _axes(self, width: float, height: float) -> tuple[Axis, Axis]:
        left, top = 66.0, 12.0
        x, y = (np.concatenate([getattr(line, name) for line in self.lines]) for name in ("x", "y"))
        if self.unit_square:
            return Axis(0, 1, left, left + width), Axis(0, 1, top + height, top)
        shown = x[x > 0] if self.x_scale == "log" else x
        low, high = float(shown.min()), float(shown.max())
        most = max(1.0, float(y.max())) if self.percent else 1.05 * float(y.max())
        return Axis(low, high, left, left + width, self.x_scale), Axis(0, most, top + height, top)

    def _number(self, value: float) -> str:
        return f"{100 * value:g} %" if self.percent else f"{value:,.6g}"


_PAINTS: dict[LineStyle, str] = {
    "solid": "curve s{}",
    "dashed": "curve dashed s{}",
    "dotted": "curve blind",
    "faint": "curve before",
    "area": "area s{}",
    "dots": "dot s{}",
}


def _drawn(style: LineStyle, paint: str, points: Sequence[tuple[float, float]], bottom: float) -> list[str]:
    """The elements of a line; an area ends at `bottom`."""
    if style == "dots":
        return [f'<circle class="{paint}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
    shape, ends = "polyline", points
    if style == "area":
        shape, ends = "polygon", [*points, (points[-1][0], bottom), (points[0][0], bottom)]
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    return [f'<{shape} class="{paint}" points="{places}"/>']


def _line(paint: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    return f'<line class="{paint}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'


def _text(paint: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{paint}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its error bar.

    Attributes:
        label: The label of the row.
        value: The value.
        lower: The lower end of the bar; None where it is open.
        upper: The upper end of the bar; None where it is open.
        column: Whether the bar of a histogram is drawn behind it.
        noise: The ends of the bar of the noise alone, which is drawn thick; none where it is no other.
    """

    label: str
    value: float
    lower: float | None
    upper: float | None
    column: bool = False
    noise: Sequence[float] = ()


def bars(values: Sequence[Bar], *, name: str, title: str, spoken: str) -> Drawing:
    """One row a value, its dot and its error bar, on one axis. An open end is dashed to the edge, and ends in an arrow.

    Args:
        values: The values.
        name: An id, unlike any other of the page.
        title: The title.
        spoken: The text for screen readers.

    Returns:
        The chart.
    """
    row, top, left, width = 26.0, 10.0, 126.0, 270.0  # labels stand left of the axis
    bottom = top + row * len(values)
    places = [x for one in values for x in (one.value, one.lower, one.upper, *one.noise) if x is not None]
    low, high = min(0.0, *places), max(0.0, *places)
    room = 0.1 * (high - low)  # for the arrows of open ends
    low -= room * any(one.lower is None for one in values)
    high += room * any(one.upper is None for one in values)
    axis = Axis(low, high if high > low else low + 1, left, left + width)
    parts = []
    for tick in axis.ticks():
        parts.append(_line("grid", (axis.at(tick), 6), (axis.at(tick), bottom)))
        parts.append(_text("tick", axis.at(tick), bottom + 16, axis.text(tick), "middle"))
    for place, one in enumerate(values):
        y = top + row * (place + 0.5)
        start, end = sorted((axis.at(0), axis.at(one.value)))
        if one.column:
            parts.append(
                f'<rect class="column" x="{start:.1f}" y="{y - 12:.1f}" width="{end - start:.1f}" height="24"/>'
            )
        wrapped = wrap(one.label, 15)  # names that begin alike still differ at their ends
        lines = [wrapped[0], f"…{one.label[-14:].lstrip()}"] if len(wrapped) > 2 else wrapped
        for number, line in enumerate(lines):
            parts.append(_text("label", left - 10, y + 10.5 - 6.5 * len(lines) + 13 * number, line, "end"))
        shown, near = axis.at(one.value), [axis.at(end) for end in one.noise]
        if near:
            parts.append(_line("bar noise", (near[0], y), (near[1], y)))
        for limit, edge, side in ((one.lower, axis.start, -1), (one.upper, axis.end, 1)):
            x = edge if limit is None else axis.at(limit)
            parts.append(_line("bar open" if limit is None else "bar", (shown, y), (x, y)))
            if limit is None:
                parts += [_line("bar", (edge, y), (edge - 6 * side, y + rise)) for rise in (-5, 5)]
            elif abs(x - shown) > 4.5:  # else the dot hides the bar, and its end would stick out
                parts.append(_line("bar", (x, y - 5), (x, y + 5)))
        parts.append(f'<circle class="dot" cx="{shown:.1f}" cy="{y:.1f}" r="4.5"/>')
    return Drawing(name, title, spoken, left + width + 28, bottom + 26, parts)


def over_time(
    days: Sequence[date], values: Sequence[Bar], *, reach: tuple[float, float], name: str, title: str, spoken: str
) -> Drawing:
    """Values over time, each a dot with its error bar. An open end is dashed to the edge.

    Args:
        days: The day or time of each value.
        values: The values.
        reach: The lowest and highest value of the axis, which charts side by side share.
        name: An id, unlike any other of the page.
        title: The title.
        spoken: The text for screen readers.

    Returns:
        The chart.
    """
    places = [(day - days[0]) / timedelta(1) for day in days]
    names = max(([day.strftime(form) for day in days] for form in _DAYS), key=lambda one: len(set(one)))
    x, y = Axis(min(places), max(places), 70, 376), Axis(reach[0], max(reach[1], reach[0] + 1e-9), 160, 12)
    parts = []
    for tick in y.ticks():
        parts.append(_line("grid", (x.start - 8, y.at(tick)), (x.end + 8, y.at(tick))))
        parts.append(_text("tick", x.start - 14, y.at(tick) + 4, y.text(tick), "end"))
    last = -math.inf
    for at, day in sorted(zip(map(x.at, places), names, strict=True)):
        if at - last >= 80:  # the widest of them and a gap
            parts.append(_text("tick", at, 180, day, "middle"))
            last = at
    for place, one in zip(places, values, strict=True):
        at, near = x.at(place), [y.at(end) for end in one.noise]
        if near:
            parts.append(_line("bar noise", (at, near[0]), (at, near[1])))
        for end, edge in ((one.lower, y.start), (one.upper, y.end)):
            tip = (at, edge if end is None else y.at(end))
            parts.append(_line("bar open" if end is None else "bar", (at, y.at(one.value)), tip))
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{y.at(one.value):.1f}" r="3"/>')
    return Drawing(name, title, spoken, 420, 188, parts)


def dial(*, spent: float, plan: float, name: str, title: str) -> Drawing:
    """Half a circle: the spent budget, the price of this plan, and the rest.

    A plan that exceeds the rest fills the dial, in the colour of a refusal.

    Args:
        spent: The spent share, from 0 to 1.
        plan: The share of this plan, from 0 to 1.
        name: An id, unlike any other of the page.
        title: The title.

    Returns:
        The chart.
    """
    fits = spent + plan <= 1
    middle = min(1.0, spent + plan)
    parts = [_arc(0.0, 1.0, "rest"), _arc(0.0, min(1.0, spent), "used")]
    if plan and spent < 1:
        parts.append(_arc(spent, middle, "now" if fits else "over"))
    left = math.floor((1 - middle) * 1000) / 10 if fits else 0.0
    parts.append(_text("big", 110, 98, f"{left:g} %", "middle"))
    words = "left" if not plan else "left after this" if fits else "not enough"
    parts.append(_text("label", 110, 118, words, "middle"))
    return Drawing(name, title, title, 220, 128, parts)


def _arc(start: float, end: float, kind: str) -> str:
    x0, y0 = 110 - 90 * math.cos(math.pi * start), 108 - 90 * math.sin(math.pi * start)
    x1, y1 = 110 - 90 * math.cos(math.pi * end), 108 - 90 * math.sin(math.pi * end)
    return f'<path class="arc {kind}" d="M {x0:.2f} {y0:.2f} A 90 90 0 0 1 {x1:.2f} {y1:.2f}"/>'
