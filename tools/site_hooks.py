"""Make the parts of the documentation site that nobody writes by hand: its pictures and the reference of public names.

Called by MkDocs at each build. Writes docs/pictures and docs/reference/api, which are not kept.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import neartwin as nt
from neartwin.report.figures import epsilon_delta_polygon, error_regions, gaussian_family, tradeoff_figure
from neartwin.report.svg import Bar, Drawing, Figure, bars
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
    for name, drawing in {**{name: figure.draw() for name, figure in figures().items()}, **answers()}.items():
        drawing.save(folder / f"{name}.svg")


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


def answers() -> dict[str, Drawing]:
    """Real releases of made-up visits, some people with many: one question twelve times, and at four limits."""
    visits_of = 1 + (np.random.default_rng(8).pareto(1.3, 400) * 3).astype(int)

    def counts(limits: list[int], most: int) -> list[Bar]:
        who = np.repeat(np.arange(len(visits_of)), np.minimum(visits_of, most))
        truth = len(who)
        shown = [Bar("the truth", truth, truth, truth)]
        with tempfile.TemporaryDirectory() as folder, nt.open_ledger(f"{folder}/budget.db") as ledger:
            for place, rows in enumerate(limits):
                visits = nt.table(pa.table({"who": who}), unit="who", name=f"visits {place}")
                account = ledger.open(visits, nt.pure(1))
                plan = account.plan(
                    visits.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=rows, loss_share=0)
                )
                n = account.release(plan)["n"]
                label = f"limit {rows}" if len(set(limits)) > 1 else f"answer {place + 1}"
                shown.append(Bar(label, n.values[0], n.lower[0], n.upper[0]))
        return shown

    titles = {"twelve-answers": "One question, twelve answers", "limits-cut": "The same count at four limits"}
    asked = {"twelve-answers": ([40] * 12, 40), "limits-cut": ([2, 8, 32, 128], 400)}
    return {name: bars(counts(*asked[name]), name=name, title=title, spoken=title) for name, title in titles.items()}
