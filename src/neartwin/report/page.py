"""A release and its certificate for people: charts, self-contained HTML pages, and lines for a terminal."""

import math
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import claim_of, percent, risks
from neartwin.checks import writable
from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.releases.release import FORMATS, Release
from neartwin.releases.values import noise_bar
from neartwin.report.figures import risk_figure, tradeoff_chart
from neartwin.report.svg import Bar, Drawing, Line, bars, over_time, stacked
from neartwin.tables.types import ColumnType, Key

if TYPE_CHECKING:  # a page of a release needs none
    from neartwin.releases.certificates import Certificate


def risk_facts(guarantee: Guarantee) -> dict[str, Any]:
    """The rows of the table of risks, the text of a chance, which rounds up, and the chart.

    The bet on membership is on the page's first card already.
    """
    floor = claim_of(guarantee).floor
    return {
        "rows": risks(floor, neighbours=Neighbours(guarantee.neighbours))[1:],
        "percent": percent,
        "picture": risk_figure(floor, guarantee.symbols).draw(name="risk"),
    }


MOST_ROWS = 200  # of a table on a page; the files hold all
MOST_GROUPS = 30  # that one chart can show and a person can read
MOST_SERIES = 12  # charts over time of one statistic


def plot(release: Release) -> Drawing:
    """The charts of a release as one. A notebook shows it, and `save` writes .svg, .png or .pdf.

    There is one chart a statistic, and one row a group with its error bar, in the order of the release. Days are an axis
    of time, with one chart for each group of the other columns and at most 5,000 values. With more than 30 groups other
    charts show the 30 largest by the first statistic. The released values alone decide which those are.

    Args:
        release: The release.

    Returns:
        The chart.

    Raises:
        ParameterError: The release has no numbers.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2]}), unit="who", name="visits")
    >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
    ...     account = ledger.open(rows, nt.pure(1))
    ...     release = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1)))
    >>> nt.plot(release).save(getfixture("tmp_path") / "release.svg").name
    'release.svg'
    """
    drawings = charts(release)
    if not drawings:
        raise ParameterError("release", release.group_columns, "has no numbers to draw")
    others = ", ".join(one.what for one in release.statistics if one.kind is not ColumnType.NUMBER)
    says = release.headline + f" No number, and not drawn: {others}." * bool(others)
    return stacked(drawings, f"{release.provenance.population}: {question(release)}", says.strip())


def charts(release: Release, *, name: str = "chart") -> list[Drawing]:
    """One chart a statistic, of the groups of `shown_groups`; none for a release without numbers.

    Args:
        release: The release.
        name: The beginning of their ids, unlike any other of the page.
    """
    places, time = shown_groups(release), _time(release)
    series: dict[str, list[int]] = {}  # one chart for each group of the columns beside time
    for place in places:
        series.setdefault("" if time is None else _label(release.keys[place], without=time), []).append(place)
    drawings: list[Drawing] = []
    alike = len({one.what for one in release.statistics}) < len(release.statistics)
    for one in (one for one in release.statistics if one.kind is ColumnType.NUMBER):
        known = {i for i in places if not math.isnan(one.values[i])}
        ends = [(one.values[i], one.lower[i], one.upper[i], *noise_bar(one, i)) for i in known]
        reach = [end for of in ends for end in (0.0, *of) if end is not None]
        column = one.what.startswith("histogram(")
        for group, every in series.items():
            shown = [i for i in every if i in known]
            if not shown:
                continue
            full = f"{one.name} ({one.what})"
            title = shorten(one.name if alike or len(full) > 44 else full, 44, placeholder=" ...")
            title += f", {group}" * (len(series) > 1)
            spoken = (
                f"{title}: {len(shown)} groups of {len(release.keys)} with their error bars; the table has the numbers"
            )
            own = f"{name}-{len(drawings)}"
            values = [
                Bar(_label(release.keys[i]), one.values[i], one.lower[i], one.upper[i], column, noise_bar(one, i))
                for i in shown
            ]
            if time is None:
                drawings.append(bars(values, name=own, title=title, spoken=spoken))
                continue
            days: list[Any] = [release.keys[i][time] for i in shown]
            drawings.append(
                over_time(days, values, reach=(min(reach), max(reach)), name=own, title=title, spoken=spoken)
            )
    return drawings


def _label(key: Key, without: int | None = None) -> str:
    return ", ".join("(none)" if part is None else str(part) for i, part in enumerate(key) if i != without) or "all"


def _time(release: Release) -> int | None:
    """The group column of days or times that a chart has as its axis."""
    if len(release.keys) * len(release.statistics) > 5_000:  # which would make a page of many megabytes
        return None
    for place in range(len(release.group_columns)):
        days = {key[place] for key in release.keys}
        others = {_label(key, without=place) for key in release.keys}
        if len(days) > 2 and all(isinstance(day, date) for day in days) and len(others) <= MOST_SERIES:
            return place
    return None


def shown_groups(release: Release) -> list[int]:
    """The groups that a chart shows, in their own order: all over time, else at most the 30 largest by the first
    statistic.
    """
    places = list(range(len(release.keys))) if release.statistics else []
    if len(places) <= MOST_GROUPS or _time(release) is not None:
        return places
    values = release.statistics[0].values
    return sorted(np.argsort(-np.array(values), kind="stable")[:MOST_GROUPS].tolist())  # NaN last


def question(release: Release) -> str:
    """The question: the statistics and the group columns."""
    asked = ", ".join(dict.fromkeys(one.what for one in release.statistics)) or "the most common values"
    return asked + (f" by {', '.join(release.group_columns)}" if release.group_columns else "")


def page(release: Release, *, title: str = "") -> str:
    """The release as one HTML page. It loads nothing, prints well, and follows the reader's light or dark setting.

    Args:
        release: The release.
        title: The title; by default one from the release.

    Returns:
        The page.
    """
    return render(
        "release.html", title=title or f"Private statistics of {release.provenance.population}", **facts(release)
    )


def facts(release: Release) -> dict[str, Any]:
    """The contents of the page."""
    groups, drawn = len(release), shown_groups(release)
    header, *body = release.lines(drawn if groups > MOST_ROWS else None)
    return {
        "release": release,
        "charts": charts(release),
        "drawn": len(drawn),
        "header": header,
        "body": body,
        "groups": groups,
        "budget": budget(release),
        "risk": risk_facts(release.guarantee),
        "best_guess": min(100.0, math.ceil(release.guarantee.best_guess * 10_000) / 100),  # upward: it is a bound
        "question": question(release),
    }


def budget(release: Release) -> list[dict[str, Any]]:
    """The budget before, the price and the budget after, by pool, with shares of the cap for a bar."""
    origin = release.provenance
    pools = []
    for pool in origin.cap:
        cap, before, after = (Fraction(of[pool]) for of in (origin.cap, origin.budget_before, origin.budget_after))
        amounts = {"before": before, "price": before - after, "after": after, "cap": cap}
        if cap:  # else a pool that this account was opened without
            amounts |= {"spent_share": 100 * (cap - before) / cap, "price_share": 100 * (before - after) / cap}
            pools.append({"pool": pool} | {name: float(amount) for name, amount in amounts.items()})
    return pools


def templates(*packages: str) -> Environment:
    """The templates of packages, with every value escaped."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """A page from a template of this room.

    Args:
        template: The name of the template.
        values: The values in the template, by name.

    Returns:
        The page.
    """
    return templates("neartwin.report").get_template(template).render(**values)


def save(release: Release, path: str | Path) -> Path:
    """Write a release to a file: a self-contained page for .html, its data for .json, .csv, .parquet and .xlsx.

    Args:
        release: The release.
        path: The path; its ending decides the format.

    Returns:
        The path.

    Raises:
        ParameterError: The ending is unknown, or the file cannot be written.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2]}), unit="who", name="visits")
    >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
    ...     account = ledger.open(rows, nt.pure(1))
    ...     release = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1)))
    >>> nt.save(release, getfixture("tmp_path") / "release.html").name
    'release.html'
    """
    target = writable(endings=FORMATS, path=path)
    if target.suffix.lower() == ".html":
        target.write_text(page(release), encoding="utf-8")
        return target
    return release.write(target)


def certificate_page(certificate: "Certificate") -> str:
    """The certificate as one HTML page that loads nothing. Only the JSON file is signed; this page shows it."""
    return render(
        "certificate.html", title=f"Certificate of {certificate.body['population']}", **certificate_facts(certificate)
    )


def certificate_facts(certificate: "Certificate") -> dict[str, Any]:
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


def certificate_lines(certificate: "Certificate") -> list[str]:
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
        ("guarantee", str(certificate.guarantee)),
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
