"""The demo's pictures: what was released beside what is true, which only public data allows."""

import io
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

BLUE, SOFT, TRUE = "#1f6feb", "#7aa7f0", "#d1480f"


def names(true: np.ndarray, released: np.ndarray, theorem: float) -> Any:
    """Left: all counts by rank. Right: all errors, with the line that the theorem draws around all of them at once."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained")
    rank = np.arange(1, len(true) + 1)
    left.loglog(rank, np.maximum(released, 1), color=BLUE, lw=2.4)
    left.set_title("people by name, largest first: released counts", fontsize=10, loc="left")
    left.set_xlabel("rank of the name", fontsize=9)
    errors = released - true
    right.hist(errors, bins=np.arange(errors.min() - 0.5, errors.max() + 1.5), color=SOFT)
    right.set_yscale("log")
    for side in (-theorem, theorem):
        right.axvline(side, color=TRUE, lw=1.8, ls="--")
    right.set_title(f"all {len(true):,} errors; dashed: the theorem's ± {theorem:.1f}", fontsize=10, loc="left")
    right.set_xlabel("released less true", fontsize=9)
    return _clean(figure, left, right)


def earnings(labels: list[str], released: Any, true: list[float]) -> Any:
    """Means with their error bars, and the true means as ticks."""
    figure, panel = plt.subplots(figsize=(10.5, 0.9 + 0.36 * len(labels)), layout="constrained")
    rows = np.arange(len(labels))
    values = np.array(released.values)
    bars = (values - np.array(released.lower), np.array(released.upper) - values)
    panel.errorbar(
        values, rows, xerr=bars, fmt="o", ms=6, lw=2.6, capsize=4, color=BLUE, ecolor=SOFT, label="released, 95 % bar"
    )
    panel.plot(true, rows, "|", ms=17, mew=2.4, color=TRUE, label="true (public data)")
    panel.set_yticks(rows, labels)
    panel.invert_yaxis()
    panel.set_xlabel("mean hourly earnings, dollars", fontsize=9)
    panel.legend(frameon=False, fontsize=9, loc="lower right")
    return _clean(figure, panel)


def diseases(names: list[str], true: list[int], winner: str) -> Any:
    """The true numbers of patients, and the one name that was released."""
    order = np.argsort(true)[::-1]
    figure, panel = plt.subplots(figsize=(10.5, 2.9), layout="constrained")
    panel.barh(
        [names[i] for i in order],
        [true[i] for i in order],
        color=[BLUE if names[i] == winner else "#b6c2cf" for i in order],
    )
    panel.invert_yaxis()
    panel.set_xlabel("patients (true, public data); blue: the released winner", fontsize=9)
    return _clean(figure, panel)


def svg(figure: Any) -> str:
    """The figure as an SVG element to stand inside a page; colours of text follow the page's."""
    buffer = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "neartwin"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _clean(figure: Any, *panels: Any) -> Any:
    for panel in panels:
        panel.tick_params(labelsize=9)
        panel.grid(axis="x", color="#8886", lw=0.6)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure
