"""On CI a test that is skipped fails; elsewhere it may be skipped, and an expected failure is none."""

import pytest

from tests import conftest


def outcome(**facts):
    """The outcome of a skipped report after the hook."""
    report = pytest.TestReport("x", ("x.py", 1, "x"), {}, "skipped", ("x.py", 1, "Skipped: no Java"), "call", **facts)
    hook = conftest.pytest_runtest_makereport()
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.send(report)
    return done.value.value.outcome


def test_a_skipped_test_fails_on_ci_alone(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert outcome() == "skipped"
    monkeypatch.setenv("CI", "true")
    assert outcome() == "failed"
    assert outcome(wasxfail="a reason") == "skipped"
