import pytest


@pytest.fixture
def holds():
    """Whether an interval holds a multiprecision number and is as narrow as asked, relatively."""

    def check(interval, truth, relative=1e-11):
        lower, upper = float(interval.lower), float(interval.upper)
        assert lower <= truth <= upper, (lower, truth, upper)
        assert upper - lower <= relative * abs(upper) + 2e-322, (lower, upper)

    return check
