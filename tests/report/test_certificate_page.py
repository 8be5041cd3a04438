"""The page of a certificate shows everything escaped."""

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.report.figures import tradeoff_chart
from neartwin.report.page import certificate_lines, certificate_page
from neartwin.report.svg import Bar, Line, bars, dial


@pytest.fixture(scope="module", params=["pure", "approx"])
def made(request, tmp_path_factory):
    rows = nt.table(pa.table({"who": range(400), "town": ["Ulm", "<b>"] * 200}), unit="who", name="visits <i>")
    with nt.open_ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as book:
        account = book.open(rows, nt.approx(3, "1e-5"))
        keys = ["Ulm", "<b>"] if request.param == "pure" else None
        spend = nt.pure(1) if request.param == "pure" else nt.approx(1, "1e-7")
        query = rows.group_by("town", keys=keys).agg(n=nt.count_distinct_units())
        return nt.certify(account.release(account.plan(query, spend=spend, limits=nt.limits(max_groups=1))), book)


def test_the_page_shows_everything_escaped_and_loads_nothing(made):
    text = certificate_page(made)
    assert "visits &lt;i&gt;" in text
    assert "<i>" not in text
    for outside in ("http://", "https://", "<script", "<link", "src="):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    for part in (made.signer.text, made.signature, made.body["release"]["digest"]):
        assert part in text.replace("&#43;", "+")
    assert any("best guess" in line for line in certificate_lines(made))


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
