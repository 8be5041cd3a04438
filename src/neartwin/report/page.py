"""One self-contained HTML page about a release: the answer, its chart, its promise, and how it was made."""

import math
from fractions import Fraction
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from neartwin.releases.release import Release
from neartwin.report.plots import plot, shown_groups, svg
from neartwin.report.risk import risk_facts

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
