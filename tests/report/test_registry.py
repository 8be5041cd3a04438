"""The registry's entry is as its schema wants it, and the checklist has all hazards with honest states."""

import copy

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import yaml

import neartwin as nt
from neartwin.errors import ParameterError
from neartwin.report.certificate import lines, page
from neartwin.report.figures import tradeoff_chart
from neartwin.report.nist_checklist import hazards
from neartwin.report.opendp_registry import check_entry, registry_entry, registry_yaml, schema
from neartwin.report.svg import Bar, Line, bars, dial

ABOUT = {
    "name": "Visits <2026>",
    "data_curators": ["City of Ulm"],
    "description": "who visits",
    "intended_use": "planning",
    "data_product_region": "Germany",
    "registry_authors": "A. Curator",
}


@pytest.fixture(scope="module", params=["pure", "approx"])
def made(request, tmp_path_factory):
    rows = nt.table(pa.table({"who": range(400), "town": ["Ulm", "<b>"] * 200}), unit="who", name="visits <i>")
    with nt.open_ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as book:
        account = book.open(rows, nt.approx(3, "1e-5"))
        keys = ["Ulm", "<b>"] if request.param == "pure" else None
        spend = nt.pure(1) if request.param == "pure" else nt.approx(1, "1e-7")
        query = rows.group_by("town", keys=keys).agg(n=nt.count_distinct_units())
        return nt.certify(account.release(account.plan(query, spend=spend, limits=nt.limits(max_groups=1))), book)


def test_an_entry_is_valid_and_reads_back_as_it_was(made):
    entry = registry_entry(made, ABOUT)
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(entry, schema())
    assert yaml.safe_load(registry_yaml(made, ABOUT)) == entry
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "who"
    pure = entry["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert loss["privacy_parameters"]["delta"] == (0 if pure else 1e-6)
    assert 1 - 1e-5 < loss["privacy_parameters"]["epsilon"] <= 1 + 1e-9


@pytest.mark.parametrize("missing", ["name", "data_curators", "intended_use", "registry_authors"])
def test_parts_that_only_people_know_are_requested_by_name(made, missing):
    with pytest.raises(ParameterError, match=f"about='{missing}' is missing"):
        registry_entry(made, {name: value for name, value in ABOUT.items() if name != missing})


def test_part_unknown_to_the_schema_is_refused(made):
    with pytest.raises(ParameterError, match="is unknown"):
        registry_entry(made, ABOUT | {"colour": "red"})
    with pytest.raises(ParameterError, match="data_product_sector"):
        registry_entry(made, ABOUT | {"data_product_sector": "Sports"})
    good = registry_entry(made, ABOUT)
    check_entry(good)
    for place, name, value in (
        ((), "status", "Done"),
        ((), "extra", 1),
        (("deployment", "basic"), "publication_date", "today"),
        (("deployment", "privacy_loss", "privacy_parameters"), "mu", 1.0),
        (("deployment", "dp_variant"), "variant_name", "Gaussian DP"),
    ):
        bad = copy.deepcopy(good)
        part = bad
        for step in place:
            part = part[step]
        part[name] = value
        with pytest.raises(ParameterError):
            check_entry(bad)


def test_checklist_has_all_24_hazards_and_claims_only_held_ones(made):
    found = hazards(made)
    assert [one.number for one in found] == list(range(1, 25))
    states = {one.number: one.state for one in found}
    assert states[8] == states[22] == states[24] == "not covered"
    delta = made.body["guarantee"]["promise"]["delta"] != "0"
    assert states[2] == ("stated" if delta else "held")  # a delta is never said to be no risk


def test_the_page_shows_everything_escaped_and_loads_nothing(made):
    text = page(made)
    assert "visits &lt;i&gt;" in text
    assert "<i>" not in text
    for outside in ("http://", "https://", "<script", "<link", "src="):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    for part in (made.signer.text, made.signature, made.body["release"]["digest"], "hazard"):
        assert part in text.replace("&#43;", "+")
    assert any("best guess" in line for line in lines(made))


def test_drawings_have_a_title_and_no_style_of_their_own():
    drawings = [
        tradeoff_chart([Line("now <x>", np.array([0, 0.04, 0.1, 1]), np.array([1, 0.9, 0.5, 0]))], name="a"),
        bars(
            [Bar("<Ulm>", -3, -5, 4), Bar("a very long name of a town", 1e6, 9e5, 2e6)],
            name="b",
            title="",
            spoken="t <x>",
        ),
        bars([Bar("none", 0, 0, 0)], name="b", title="t", spoken="t"),
        dial(spent=0.5, plan=0.7, name="c", title="t <x>"),
    ]
    for drawing in (one.__html__() for one in drawings):
        assert "<title" in drawing
        assert "style" not in drawing
        assert "<x>" not in drawing
        assert "<Ulm>" not in drawing
    assert "at least 83% are missed" in drawings[0].spoken
