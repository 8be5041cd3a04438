"""Make the parts of the documentation site that nobody writes by hand: its pictures and the reference of public names.

Called by MkDocs at each build. Writes docs/pictures and docs/reference/api, which are not kept.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from neartwin.report.figures import epsilon_delta_polygon, error_regions, gaussian_family, tradeoff_figure
from neartwin.report.svg import Figure
from neartwin.tradeoff import compose, epsilon_delta, gaussian

TOOLS = Path(__file__).parent
DOCS = TOOLS.parent / "docs"


def on_pre_build(config: Any) -> None:  # noqa: ARG001 - MkDocs passes its settings
    """Draw the pictures that pages show, and write the reference."""
    sys.path.insert(0, str(TOOLS))
    import reference

    written = DOCS / "reference" / "api"
    written.mkdir(parents=True, exist_ok=True)
    for name, text in {**reference.rooms(), "http.md": reference.http_page()}.items():
        (written / name).write_text(text, encoding="utf-8")
    folder = DOCS / "pictures"
    folder.mkdir(exist_ok=True)
    for name, figure in figures().items():
        figure.draw().save(folder / f"{name}.svg")


def figures() -> dict[str, Figure]:
    """The pictures by file name."""
    return {
        "error-regions": error_regions(),
        "gaussian-family": gaussian_family(),
        "epsilon-delta": epsilon_delta_polygon(),
        "many-answers": many_answers(),
    }


def many_answers() -> Figure:
    """One, five and twenty-five randomized answers of epsilon 0.4, and the bells that they approach."""
    answers = {f"{n} of epsilon 0.4": compose(*[epsilon_delta("0.4")] * n) for n in (1, 5, 25)}
    figure = tradeoff_figure({**answers, "two bells, mu = 2": gaussian(2)})
    bells = replace(figure.lines[-1], style="dashed")
    return replace(figure, title="Many small answers", lines=(*figure.lines[:-1], bells))
