"""What limits take from units: stated as surely as it says, against the raw rows, and said wherever a release is shown."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ParameterError
from neartwin.planning.bounding_loss import TAKEN
from neartwin.planning.limits import Limits
from neartwin.planning.planner import plan
from tests.ledger.test_old_records import Unreadable

TOWNS = ["Ulm", "Bonn", "Trier"]
DRAWS = 400
KINDS = {
    "rows": (nt.count(), nt.pure(1), nt.limits(rows=20)),
    "rows and groups": (nt.count(), nt.pure(1), nt.limits(max_rows_per_group=4, max_groups=2)),
    "rows by group": (nt.sum("paid"), nt.zcdp("1/2"), nt.limits(max_rows_per_group=9, max_groups=3)),
    "length": (nt.count(), nt.gdp(1), nt.limits(norm=12)),
    "groups": (nt.count_distinct_units(), nt.pure("1/2"), nt.limits(max_groups=1)),
    "nothing": (nt.count(), nt.pure(1), nt.limits(rows=10_000)),
    "replaced": (nt.count(), nt.approx(1, "1e-6"), nt.limits(rows=20)),
}


def visits(units, neighbours="add_remove"):
    """Few visits of most people and many of some, in three towns."""
    draw = np.random.default_rng(units)
    who = np.repeat(np.arange(units), 1 + np.minimum(3000, draw.pareto(1.1, units) * 6).astype(int))
    rows = {"who": who, "town": draw.choice(TOWNS, len(who)), "paid": draw.uniform(0, 10, len(who))}
    table = nt.table(
        pa.table(rows), unit="who", name="visits", neighbours=neighbours, columns={"paid": nt.bounds(0, 10)}
    )
    return rows, table, table.group_by("town", keys=TOWNS)


def lost_by(rows, statistic, limits):
    """What the limits take from each unit, from the raw rows alone: rows, or groups of a count of units."""
    counts = np.zeros((rows["who"].max() + 1, len(TOWNS)))
    np.add.at(counts, (rows["who"], np.array([TOWNS.index(town) for town in rows["town"]])), 1)
    if statistic == nt.count_distinct_units():
        counts = np.minimum(counts, 1)
    total = counts.sum(axis=1)
    if limits.norm is not None:
        return total - total * np.minimum(1, float(limits.norm) / np.sqrt((counts**2).sum(axis=1)))
    kept = -np.sort(-np.minimum(counts, limits.max_rows_per_group or np.inf), axis=1)[:, : limits.max_groups]
    return total - np.minimum(kept.sum(axis=1), limits.rows or np.inf)


def held(found, lost):
    """Whether a statement is true."""
    few = lost <= found["each"]
    low, high = found["rows"]
    true = (lost > 1e-9).mean() <= found["cut_at_most"] and (lost > found["each"]).sum() <= found["beyond"]
    return true and (found["each"] == 0 or low - 1e-6 <= lost[few].sum() <= high + 1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [pytest.param(800, marks=pytest.mark.slow), 4_000])
def test_statements_of_loss_are_true_of_the_raw_rows_as_often_as_they_say(kind, units):
    statistic, spend, limits = KINDS[kind]
    rows, _, groups = visits(units, "replace_one" if kind == "replaced" else "add_remove")
    made, lost = plan(groups.agg(n=statistic), spend=spend, limits=limits), lost_by(rows, statistic, limits)
    exact = DuckdbEngine().aggregate(made.loss.stage, salt=1).values["units"]
    assert exact.sum() == len(lost)
    assert exact[0] == (lost < 1e-9).sum()
    source = noise.ScriptedSource(kind.encode())
    found = [made.loss.stated(made.loss.mechanism.noisy(exact, source=source)) for _ in range(DRAWS)]
    assert sum(held(one, lost) for one in found) >= binom.ppf(1e-9, DRAWS, 0.95)
    # a near miss: ends that forget most of the noise
    near = [one | {"cut_at_most": one["cut"], "beyond": one["beyond"] // 4} for one in found]
    assert kind == "nothing" or sum(held(one, lost) for one in near) < 0.9 * DRAWS
    if units == 4_000 and kind not in {"nothing", "groups"}:
        share = (lost > 0).mean()
        assert np.median([one["cut_at_most"] for one in found]) < 1.3 * share + 0.01
        few = [one for one in found if one["each"] >= 15]
        assert len(few) > DRAWS / 2
        assert np.median([one["rows"][1] for one in few]) < 3 * lost.sum()


def test_a_share_of_the_spend_measures_the_loss_in_the_same_question():
    _, _, groups = visits(50)
    asked = groups.agg(n=nt.count())
    for spend in (nt.pure(1), nt.zcdp("1/2"), nt.gdp(1), nt.approx(1, "1e-6"), nt.rdp(8, 1)):
        limits = nt.limits(max_rows_per_group=2, max_groups=2)
        usual = plan(asked, spend=spend, limits=limits)
        none, larger = (plan(asked, spend=spend, limits=replace(limits, loss_share=s)) for s in (0, "1/4"))
        assert none.loss is None
        assert usual.digest == none.digest != larger.digest
        measured = [one.loss.mechanism.half_width(0.95) for one in (usual, larger)]
        assert measured[0] > measured[1]
        sizes = [
            one.measures["rows"].mechanism.half_width(0.95) / one.measures["rows"].parts
            for one in (none, usual, larger)
        ]
        assert sizes == sorted(sizes)
        assert sizes[1] < 1.12 * sizes[0]
        if isinstance(spend, type(nt.pure(1))):
            assert usual.price == none.price == larger.price == spend
            paid = usual.measures["rows"].mechanism.epsilon + usual.loss.mechanism.epsilon
            assert 1 - Fraction(1, 10**6) < paid <= 1
            assert paid < usual.losses().epsilon("1e-9").upper * (1 + 1e-6)  # the price covers the measurement too
    for nothing in ("1", "-1/4", 2):
        with pytest.raises(ParameterError, match="at least 0 and below 1"):
            nt.limits(rows=2, loss_share=nothing)
    assert Limits.from_dict({"rows": 2, "loss_share": "1/4"}) == nt.limits(rows=2, loss_share="1/4")


def test_nothing_is_measured_where_nothing_can_be_cut():
    _, _, groups = visits(50)
    people, rows = groups.agg(n=nt.count_distinct_units()), groups.agg(n=nt.count())
    assert plan(people, spend=nt.pure(1), limits=nt.limits(max_groups=3)).loss is None
    assert plan(people, spend=nt.pure(1), limits=nt.limits(max_groups=2)).loss is not None
    assert plan(rows, spend=nt.pure(1), limits=nt.limits(rows=3)).loss is not None
    each = nt.table(pa.table({"town": ["Ulm"]}), unit=nt.ROW, name="rows").agg(n=nt.count())
    assert plan(each, spend=nt.pure(1)).loss is None


def test_headline_says_what_was_cut_wherever_a_release_is_shown(tmp_path):
    _, table, groups = visits(400)
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(table, nt.pure(3))
        proposal = account.plan(groups.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=5))
        assert "measure what the limits take" in str(proposal.explain())
        release = account.release(proposal)
        assert account.release(proposal, engine=Unreadable()) == release
        certificate = nt.certify(release, ledger)
    assert release.headline.startswith("The limits cut about ")
    assert release.headline.endswith("(95% sure)")
    shown = [
        str(release),
        release._repr_html_(),
        nt.save(release, tmp_path / "page.html").read_text(),
        certificate.to_json(),
    ]
    shown += [release.to_json(), nt.plot(release)._repr_svg_().replace("</text>", " ")]
    nt.save(release, tmp_path / "r.csv")
    shown.append((tmp_path / "r.csv-metadata.json").read_text())
    for text in shown:
        assert release.loss["says"][:60] in " ".join(text.split())
    assert nt.Release.from_json(release.to_json()) == release
    old = json.loads(release.to_json())
    del old["loss"]
    assert nt.Release.from_json(json.dumps(old)).headline == ""
    assert len(TAKEN) == len(set(TAKEN))
