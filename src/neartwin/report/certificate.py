"""A certificate for people: one self-contained page, or lines for a terminal."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.releases.certificates import Certificate
from neartwin.report.figures import tradeoff_chart
from neartwin.report.page import render
from neartwin.report.svg import Line


def page(certificate: Certificate) -> str:
    """The certificate as one HTML page that loads nothing. Only the JSON file is signed; this page shows it."""
    return render("certificate.html", title=f"Certificate of {certificate.body['population']}", **facts(certificate))


def facts(certificate: Certificate) -> dict[str, Any]:
    """The contents of the page."""
    points = certificate.body["guarantee"]["curve"]
    alpha, beta = (np.array([float(point[name]) for point in points]) for name in ("alpha", "beta"))
    return {
        "body": certificate.body,
        "certificate": certificate,
        "curve": tradeoff_chart([Line("this release", alpha, beta)], name="certificate") if points else "",
        "mechanisms": [part | {"parameters": _shown(part["parameters"])} for part in certificate.body["mechanisms"]],
        "guess": f"{float(certificate.body['guarantee']['currencies']['best_guess_from_one_half']) * 100:.2f}",
    }


def lines(certificate: Certificate) -> list[str]:
    """The certificate for a terminal."""
    body = certificate.body
    currencies, ledger = body["guarantee"]["currencies"], body["ledger"]
    relation = "adding or removing" if body["neighbours"] == "add_remove" else "replacing"
    rows = [
        ("population", body["population"]),
        ("unit", f"{body['unit']}, neighbours by {relation} one"),
        *(("joined", join) for join in body["question"].get("joins", ())),
        ("asked", "; ".join(f"{name} = {what}" for name, what in body["question"].get("statistics", {}).items())),
        *(("of the groups", body["question"][name]) for name in ("workload",) if name in body["question"]),
        *(("margin", margin) for margin in body["question"].get("margins", ())),
        *(("bound", f"{bound['what']} = {bound['value']}  ({bound['origin']})") for bound in body["bounds"]),
        *(("mechanism", _mechanism(part)) for part in body["mechanisms"]),
        *(("error", f"{error['name']}: {error['says']}") for error in body["error"]["expected"]),
        *(("lost", body["error"][name]) for name in ("loss",) if name in body["error"]),
        ("guarantee", body["guarantee"]["says"]),
        ("pure", f"epsilon {currencies['pure']}"),
        *(("approx", f"epsilon {part['epsilon']} at delta {part['delta']}") for part in currencies["approximate"]),
        ("zCDP", f"rho {currencies['zcdp']['rho']}, delta {currencies['zcdp']['delta']}"),
        ("GDP", f"mu {currencies['gdp']['mu']}, delta {currencies['gdp']['delta']}"),
        ("best guess", f"{currencies['best_guess_from_one_half']} from one half"),
        ("code", f"{body['code']['library']} {body['code']['version']} {body['code'].get('digest', '')[:16]}"),
        ("ledger", f"paid at {ledger['reserved']}, settled at {ledger['settled']['position']}, rule {ledger['rule']}"),
        ("head", str(certificate.head)),
        ("signed by", certificate.signer.text),
    ]
    return [f"{name:<11} {value}" for name, value in rows]


def _shown(parameters: Mapping[str, str]) -> dict[str, str]:
    """Parameters for a reader, with long fractions as decimals. The signed file has them exact."""
    return {name: _short(value) for name, value in parameters.items()}


def _short(value: str) -> str:
    try:
        exact = Fraction(value)
    except ValueError:
        return value
    return value if len(value) <= 16 else f"about {float(exact):.9g}"


def _mechanism(part: dict[str, Any]) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in _shown(part["parameters"]).items())
    return f"{part['for']}: {part['law']}, {parameters}"
