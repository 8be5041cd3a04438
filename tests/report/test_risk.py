"""The page of a release says what an attacker can do with it, in a table, sentences and a picture; nothing rounded down."""

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx, pure, zcdp
from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import claim_of, percent, power_at, risks
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.report.page import page, risk_facts


def promised(target, neighbours="add_remove"):
    return Guarantee.of(target, unit="customer", neighbours=neighbours)


@pytest.mark.parametrize("target", [pure(1), approx("0.5", "1e-6"), zcdp("0.1", "1e-6")], ids=str)
def test_every_chance_of_the_table_is_the_curves_own_and_rounded_up(target):
    floor = claim_of(target).floor
    found = {row.name: percent(row.at_most) for row in risk_facts(promised(target))["rows"]}
    for name, rate in (
        ("membership at 1 % false alarms", 0.01),
        ("singling out", 1e-6),
        ("a secret guessed blindly one time in 10", 0.1),
    ):
        shown, true = float(found[name].removesuffix(" %")) / 100, float(power_at(floor, rate)[0])
        assert true - 2e-12 <= shown <= true * 1.01


def test_chances_are_written_with_three_digits_and_never_below_the_truth():
    for chance in np.geomspace(1e-9, 1, 400).tolist():
        shown = float(percent(chance).removesuffix(" %")) / 100
        assert chance - 2e-12 <= shown <= chance * 1.01 + 1e-15
    assert [percent(chance) for chance in (0, 0.5, 1, 0.27182, 0.999999)] == ["0 %", "50 %", "100 %", "27.2 %", "100 %"]


def test_words_speak_of_presence_or_of_records_as_the_relation_says():
    present, replaced = (
        [row.words for row in risks(claim_of(pure(1)).floor, neighbours=Neighbours(relation))]
        for relation in ("add_remove", "replace_one")
    )
    assert "in the data" in present[0]
    assert "which of two records" in replaced[0]
    assert not any("stranger" in words or "in the data" in words for words in replaced)
    rows = risk_facts(promised(pure(1), "replace_one"))["rows"]
    assert [row.words for row in rows] == replaced[1:]


def test_the_page_of_a_release_holds_table_sentences_and_picture(tmp_path):
    rows = nt.table(pa.table({"who": ["a", "b"], "town": ["Ulm", "Bonn"]}), unit="who", name="visits")
    with nt.open_ledger(tmp_path / "book.db") as book:
        account = book.open(rows, pure(1))
        asked = rows.group_by("town", keys={"town": ["Bonn", "Ulm"]}).agg(n=nt.count_distinct_units())
        release = account.release(account.plan(asked, spend=pure(1), limits=nt.limits(max_groups=1)))
    text = page(release)
    assert "What an attacker can do with it" in text
    for row in risk_facts(release.guarantee)["rows"]:
        assert f"<td>{row.name}</td><td>{percent(row.blindly)}</td><td>{percent(row.at_most)}</td>" in text
        assert row.words in text
    assert text.count("<svg") == 2  # the chart and the risk
