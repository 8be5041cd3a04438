"""Random jobs with a class of mechanisms: what is promised of its worst member holds. All are slow tests.

In a file of their own, since another worker can ask them while one asks the jobs of `test_sweep`.
"""

import math
import secrets

import numpy as np
import pytest

from neartwin.losses import compose
from tests.losses.jobs import ranged
from tests.losses.test_sweep import lines
from tests.oracles import ranges
from tests.oracles.sums import exact


def promises(seed, count):
    """Jobs with a class of mechanisms, of which only the ends are asked for. How many, and by an oracle.

    The dominating pair's lines have a common point; the ends of eps and of delta agree; more uses never promise less than fewer
    are known to cost, and their own lower end is about as high at least; and alone the worst of uses that do not choose by each
    other's answers is covered.
    """
    rng, asked, by_oracle = np.random.default_rng(seed), 0, 0
    for _ in range(count):
        uses, delta, alone = ranged(rng)
        print(f"seed {seed}, job {asked}: {uses}, {delta}")  # shown where one fails
        whole, asked = compose(uses), asked + 1
        found = whole.epsilon(delta, direction="replace")
        assert 0 <= found.lower <= found.upper < math.inf, (uses, delta)
        assert found.upper - found.lower <= 0.1 * found.upper + 1e-6, (uses, delta)  # hundreds of uses at a tiny delta
        assert whole.delta(found.upper, direction="replace").lower <= delta, (uses, delta)
        assert found.lower == 0 or delta <= whole.delta(found.lower).upper, (uses, delta)
        more = (whole + next(iter(uses))).epsilon(delta, direction="replace")
        assert more.upper >= found.lower, (uses, delta)
        assert more.lower >= found.lower * (1 - 0.03), (uses, delta)  # the optimum's steps grow with the number of uses
        side = whole.sides("replace")[0]
        low, high = np.zeros(1), np.ones(1)
        for name, line in lines(side.upper, float(delta), found.method):
            one, other = line.delta(np.array([found.upper]))
            low, high = np.maximum(low, one), np.minimum(high, other)
            assert low[0] <= high[0] * (1 + 1e-15), (name, uses, delta)
        if alone is not None:
            by_oracle += 1
            e, uses_of_it = exact(alone[0]), alone[1]
            assert ranges.composed(e, uses_of_it, found.upper) <= delta, (uses, delta)
    return asked, by_oracle


@pytest.mark.slow
def test_forty_promises_about_a_class_hold():
    asked, by_oracle = promises(secrets.randbits(32), 40)
    assert asked == 40
    assert by_oracle >= 10
