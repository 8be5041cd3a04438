"""What an attacker can do with a release, as a table and a picture for its page."""

from typing import Any

from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.risk import percent, risks
from neartwin.audit.stated import claim_of
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.report.attack_figures import risk_figure
from neartwin.report.plots import svg


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
