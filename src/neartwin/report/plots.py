"""Charts of releases, error bars visible. The one room that draws (extra `plots`: matplotlib)."""

import io
from textwrap import shorten
from typing import Any

from neartwin.errors import ParameterError
from neartwin.releases.release import Release
from neartwin.releases.values import Statistic

MOST_GROUPS = 30  # that one chart can show and a person can read


def plot(release: Release) -> Any:
    """A matplotlib Figure: one panel a statistic, one dot a group with its error bar.

    With more than 30 groups the panels show the 30 largest by the first statistic; which those are follows from the
    released values alone.

    Errors: `ParameterError` for a release without numbers, or without the extra `plots`.
    """
    if not release.statistics or not release.keys:
        raise ParameterError("release", release.group_columns, "has no numbers to draw")
    pyplot = _matplotlib()
    places = shown_groups(release)
    labels = [", ".join("(none)" if part is None else str(part) for part in release.keys[i]) or "all" for i in places]
    height = 1.1 + 0.30 * len(places)
    width = min(14.0, 4.6 * len(release.statistics) + 0.6)
    figure, axes = pyplot.subplots(
        1, len(release.statistics), figsize=(width, height), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, statistic in zip(axes[0], release.statistics, strict=True):
        _panel(panel, statistic, places)
    axes[0][0].set_yticks(range(len(places)), labels)
    axes[0][0].invert_yaxis()
    return figure


def shown_groups(release: Release) -> list[int]:
    """Which groups a chart shows, in its order: all of them, or the largest by the first statistic."""
    places = list(range(len(release.keys)))
    if len(places) <= MOST_GROUPS:
        return places
    values = release.statistics[0].values
    return sorted(places, key=lambda place: -values[place])[:MOST_GROUPS]


def svg(figure: Any) -> str:
    """The figure as an SVG element to stand inside a page; colours follow the page's text."""
    buffer = io.StringIO()
    with _matplotlib().rc_context({"svg.fonttype": "none", "svg.hashsalt": "neartwin"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    _matplotlib().close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _panel(panel: Any, statistic: Statistic, places: list[int]) -> None:
    values = [statistic.values[i] for i in places]
    bars = (
        [max(0.0, statistic.values[i] - statistic.bar(i)[0]) for i in places],
        [max(0.0, statistic.bar(i)[1] - statistic.values[i]) for i in places],
    )
    rows = range(len(places))
    if statistic.what.startswith("histogram("):
        panel.barh(rows, values, height=0.96, color="#1f6feb44")
    panel.errorbar(values, rows, xerr=bars, fmt="o", ms=5, lw=2.2, capsize=3.5, color="#1f6feb", ecolor="#7aa7f0")
    panel.set_title(shorten(f"{statistic.name} ({statistic.what})", 44, placeholder=" ..."), fontsize=10, loc="left")
    panel.grid(axis="x", color="#8886", lw=0.6)
    panel.tick_params(length=0, labelsize=9)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    panel.locator_params(axis="x", nbins=5)


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
        from matplotlib import pyplot as plt
    except ImportError:
        raise ParameterError(
            "extra",
            "plots",
            "is not installed",
            remedy="pip install 'neartwin[plots]', or save as .json, .csv or .parquet",
        ) from None
    mpl.rcParams["font.family"] = ["DejaVu Sans"]
    return plt
