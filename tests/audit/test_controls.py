"""Broken mechanisms are caught at confidence 0.999, for the reason they were planted; their correct twins are not."""

import numpy as np
import pytest

from neartwin.audit.game import audit
from tests.audit.controls import controls

CONFIDENCE = 0.999
NAMES = [control.name for control in controls(np.random.default_rng(0))]
LONG = {  # each takes as long as ten others; fresh randomness plays them in `make slow`
    "sparse vector that tells the noisy answer itself",
    "sparse vector whose noise ignores how many it tells",
    "existing keys told without a threshold that pays for them",
    "mean as a noisy sum beside the exact count",
}


def made(name, seed):
    return next(control for control in controls(np.random.default_rng(seed)) if control.name == name)


def played(mechanism, control, twins, scale):
    return audit(
        mechanism, control.claim, twins, runs=control.runs * scale, search_runs=1_000 * scale, confidence=CONFIDENCE
    )


def caught(control, scale=1):
    finding = played(control.broken, control, control.twins(), scale)
    assert finding.refuted, str(finding)
    assert control.inputs in finding.twins.why, str(finding)
    assert any(word in str(finding.event) for word in control.event), str(finding)
    assert finding.recount() == finding.hits
    return finding


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_fault_is_caught_and_its_correct_twin_is_not(name):
    control = made(name, 20_261_121)
    finding = caught(control)
    for twins in (control.twins(), [finding.twins]):
        healthy = played(control.correct, control, twins, 1)
        assert not healthy.refuted, str(healthy)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_fault_is_caught_and_its_correct_twin_is_not_with_fresh_randomness(name):
    control = made(name, None)
    finding = caught(control, scale=5)
    # a sound claim is refuted once in a thousand games; twice in a row is once in a million
    for twins in (list(control.twins()), [finding.twins]):
        assert not all(played(control.correct, control, twins, 5).refuted for _ in range(2))


def test_dozen_controls_have_their_sources():
    assert len(set(NAMES)) == len(NAMES) >= 12
    assert set(NAMES) > LONG
    assert all(control.source for control in controls(np.random.default_rng(0)))
