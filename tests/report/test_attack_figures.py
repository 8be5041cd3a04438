"""Pictures of attacks show the data they were given."""

import numpy as np
import pytest

from neartwin.audit.claims import claim_gdp
from neartwin.audit.reconstruction import Attempt
from neartwin.errors import ParameterError
from neartwin.report.figures import reconstruction_figure, risk_figure, transition_figure, transition_lines

ATTEMPTS = [
    Attempt("A", 8.0, 16, 64, 8.0, 0.4),
    Attempt("A", 4.0, 16, 64, 4.0, 0.1),
    Attempt("A", 4.0, 16, 64, 3.0, 0.0),
]


def test_transition_averages_the_repeats_of_a_setting_in_order_of_error():
    assert transition_lines(ATTEMPTS) == {"A": ([0.875, 2.0], [0.05, 0.4])}
    line = transition_figure(ATTEMPTS).lines[0]
    assert [*zip(line.x, line.y, strict=True)] == [(0.875, 0.05), (2.0, 0.4)]
    with pytest.raises(ParameterError):
        transition_figure([])


def test_risk_is_marked_at_two_rates_of_false_alarms():
    marks = risk_figure(claim_gdp(1).floor, "mu = 1").notes
    assert [mark.text for mark in marks] == ["9.24 %", "1.83 %"]


def test_releases_stand_over_the_least_that_anyone_can_reach_against_them():
    figure = reconstruction_figure(
        ATTEMPTS, [Attempt("A", 1.0, 16, 64, 8.0, 0.45)], [Attempt("A", 2.0, 16, 64, 8.0, 0.3)]
    )
    found, least = figure.lines[-2:]
    assert found.y.tolist() == [0.45, 0.3]
    assert np.allclose(least.y, [1 / (1 + np.e), 0.15865525])
    assert [note.text for note in figure.notes] == ["ε = 1", "μ = 2"]
