"""One self-contained HTML page about a release: the answer, its chart, its promise, and how it was made.

What an attacker can do with a release, as a table and a picture for its page.

Saving a release under the name that says how: .html, .json, .csv or .parquet.
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import claim_of
from neartwin.audit.risk import percent, risks
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.releases.release import Release
from neartwin.report.figures import risk_figure
from neartwin.report.plots import plot, shown_groups, svg


def risk_facts(guarantee: Guarantee) -> dict[str, Any]:
    """The rows of the table, each chance written as text and rounded up, and the picture as SVG.

    The bet on membership is left to the page's first card, which says the same in the same words.
    """
    floor = claim_of(guarantee).floor
    rows = risks(floor, neighbours=Neighbours(guarantee.neighbours))[1:]
    return {
        "rows": [
            {"name": row.name, "blindly": percent(row.blindly), "at_most": percent(row.at_most), "words": row.words}
            for row in rows
        ],
        "picture": svg(risk_figure(floor, guarantee.symbols)),
    }


MOST_ROWS = 200  # of a table on a page; the files hold all


def page(release: Release, *, title: str = "") -> str:
    """The page as text. It loads nothing from anywhere, prints well, and follows the reader's light or dark setting."""
    return render(
        "release.html", title=title or f"Private statistics of {release.provenance.population}", **facts(release)
    )


def facts(release: Release) -> dict[str, Any]:
    """What the page says about a release, ready to be laid out."""
    header, *body = release.lines()
    hidden = max(0, len(body) - MOST_ROWS)
    places = shown_groups(release) if hidden else range(len(body))
    return {
        "release": release,
        "chart": svg(plot(release)) if release.statistics and release.keys else "",
        "drawn": len(shown_groups(release)) if release.statistics and release.keys else 0,
        "header": header,
        "body": [body[place] for place in places],
        "groups": len(body),
        "budget": budget(release),
        "risk": risk_facts(release.guarantee),
        "best_guess": min(100.0, math.ceil(release.guarantee.best_guess * 1000) / 10),  # upward: it is a bound
    }


def budget(release: Release) -> list[dict[str, Any]]:
    """Before, price and after by pool, with shares of the cap for a bar."""
    told = release.provenance
    pools = []
    for pool, cap_text in told.cap.items():
        cap, before, after = Fraction(cap_text), Fraction(told.budget_before[pool]), Fraction(told.budget_after[pool])
        amounts = {"before": float(before), "price": float(before - after), "after": float(after), "cap": float(cap)}
        if not cap:  # a pool that this account was opened without
            continue
        spent_share = float((cap - before) / cap) * 100
        price_share = float((before - after) / cap) * 100
        pools.append({"pool": pool, "spent_share": spent_share, "price_share": price_share, **amounts})
    return pools


def render(template: str, **values: Any) -> str:
    """A template of this room with every value escaped."""
    environment = Environment(
        loader=PackageLoader("neartwin.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def save(release: Release, path: str | Path) -> Path:
    """Write a release to a file: one self-contained page for .html (extra `plots`), its data for .json, .csv, .parquet."""
    target = Path(path)
    if target.suffix == ".html":
        target.write_text(page(release), encoding="utf-8")
        return target
    return release.write(target)
