"""The data behind the figures says what the texts say; drawing turns every line into an artist."""

import math
import sys
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.report import figures
from neartwin.report.svg import Figure, Line


def test_the_areas_of_the_error_figure_are_the_two_errors():
    figure = figures.error_regions(2, "0.5", size=4001)
    area = {line.name: np.trapezoid(line.y, line.x) for line in figure.lines if line.style == "area"}
    one, two = area["type I error: P rejected"], area["type II error: Q accepted"]
    assert abs(one - 0.5 * math.erfc(0.5 / math.sqrt(2))) < 1e-4
    assert abs(two - 0.5 * math.erfc(1.5 / math.sqrt(2))) < 1e-4
    # the picture's test is the best one at its level
    assert abs(c.gaussian(2).beta(np.array(one)).lower - two) < 2e-4


def test_moving_the_threshold_trades_one_error_for_the_other():
    areas = []
    for threshold in (0, 1, 2):
        lines = figures.error_regions(2, threshold).lines
        areas.append([np.trapezoid(line.y, line.x) for line in lines if line.style == "area"])
    one, two = zip(*areas, strict=True)
    assert one[0] > one[1] > one[2]
    assert two[0] < two[1] < two[2]
    with pytest.raises(ParameterError):
        figures.error_regions(2, 50)


def test_figure_separates_domination_from_crossing():
    candidates = {"inside": c.gaussian("0.5"), "crossing": c.epsilon_delta(1), "outside": c.gaussian(2)}
    names = [line.name for line in figures.domination(c.gaussian("0.9"), candidates).lines[2:]]
    assert names == ["inside: satisfies f", "crossing: breaks f", "outside: breaks f"]
    styles = [line.style for line in figures.domination(c.gaussian(1), candidates).lines]
    assert styles == ["dotted", "solid", "dashed", "dashed", "dashed"]


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.1"), ("0", "0.3"), ("2", 0)])
def test_the_polygon_has_the_corners_of_f_epsilon_delta(epsilon, delta):
    line = next(line for line in figures.epsilon_delta_polygon(epsilon, delta).lines if line.name == "f")
    curve = c.epsilon_delta(epsilon, delta)
    grid = np.linspace(0, 1, 101)
    keep = np.append(np.diff(line.x) > 0, True)
    assert np.allclose(np.interp(grid, line.x[keep], line.y[keep]), curve.beta(grid).lower, atol=1e-12)
    assert line.x[1] == line.y[1]


def test_the_gaussian_family_falls_with_mu():
    lines = figures.gaussian_family([0, "0.5", 1, 3]).lines[1:]
    for above, below in pairwise(lines):
        assert np.all(above.y >= below.y - 1e-14)
        assert np.max(above.y - below.y) > 0.1
    assert np.allclose(lines[0].y, 1 - lines[0].x, atol=1e-14)


def test_every_line_is_drawn_inside_the_frame_and_named_below_it():
    for figure in (figures.error_regions(), figures.epsilon_delta_polygon(), figures.gaussian_family()):
        root = ET.fromstring(figure.draw().__html__())  # noqa: S314 - our own
        frame = next(one.attrib for one in root if one.get("class") == "frame")
        left, top, width, height = (float(frame[name]) for name in ("x", "y", "width", "height"))
        shapes = [one for one in root if one.tag.endswith(("polyline", "polygon"))]
        assert len(shapes) == 2 * len(figure.lines)  # each once in the frame and once in the legend
        for shape in shapes[::2]:
            points = np.array([pair.split(",") for pair in shape.attrib["points"].split()], float)
            assert np.all((points[:, 0] >= left - 0.1) & (points[:, 0] <= left + width + 0.1))
            assert np.all((points[:, 1] >= top - 0.1) & (points[:, 1] <= top + height + 0.1))
        words = [one.text for one in root if one.tag.endswith("text")]
        assert all(line.name in words for line in figure.lines)


def test_points_are_drawn_where_their_axes_say():
    straight = Figure(
        "t", "x", "y", (Line("a", np.array([0.01, 0.1, 1]), np.array([0, 0.5, 1])),), x_scale="log", unit_square=False
    )
    root = ET.fromstring(straight.draw().__html__())  # noqa: S314 - our own
    shape = next(one for one in root if one.tag.endswith("polyline"))
    points = np.array([pair.split(",") for pair in shape.attrib["points"].split()], float)
    assert np.allclose(np.diff(points, 2, axis=0), 0, atol=0.11)  # equal steps of the logarithm
    ticks = {
        one.text: float(one.attrib["x"])
        for one in root
        if one.get("class") == "tick" and one.get("text-anchor") == "middle"
    }
    assert ticks == {"0.01": points[0, 0], "0.1": points[1, 0], "1": points[2, 0]}


def test_a_chart_is_saved_with_its_title_and_colours(tmp_path):
    drawing = figures.gaussian_family([1]).draw()
    text = drawing.save(tmp_path / "family.svg").read_text(encoding="utf-8")
    assert "Gaussian differential privacy" in text
    assert "<style>" in text
    ET.fromstring(text)  # noqa: S314 - our own
    with pytest.raises(ParameterError, match="must end in"):
        drawing.save(tmp_path / "family.gif")


@pytest.mark.slow
def test_a_chart_is_saved_as_png_and_pdf(tmp_path):
    drawing = figures.error_regions().draw()
    try:
        picture = drawing.save(tmp_path / "regions.png")
    except ParameterError:
        pytest.skip("no Cairo to draw with: pip install cairosvg, and run tools/browser.sh (Debian: libcairo2)")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert drawing.save(tmp_path / "regions.pdf").read_bytes().startswith(b"%PDF")


def test_a_png_without_the_extra_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(ParameterError, match=r"neartwin\[plots\]"):
        figures.error_regions().draw().save(tmp_path / "regions.png")
