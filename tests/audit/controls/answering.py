"""Numbers with noise: the wrong scale, the wrong rounding, the wrong randomness."""

import math

import numpy as np
from scipy import special

from neartwin.audit.attacks import naive_laplace, repeated_rounding_twins
from neartwin.audit.claims import claim_gdp, claim_pure
from neartwin.audit.neighbouring_inputs import Twins, known
from neartwin.audit.runs import Batched
from tests.audit.controls import Control, discrete_laplace


def histogram(rng, scale):
    return Batched(lambda counts, runs: np.asarray(counts) + discrete_laplace(rng, scale, (runs, len(counts))))


def gridded(rng, rounded):
    """A value rounded to whole steps, noise for a sensitivity of one step."""
    return Batched(lambda value, runs: rounded(value) + discrete_laplace(rng, 1, runs))


def from_seeds(rng, seeds):
    """Noise from a generator that is seeded with one of `seeds` numbers: the day of the month, a process id."""
    table = np.array([int(discrete_laplace(np.random.default_rng(seed), 1, 1)[0]) for seed in range(seeds)])
    return Batched(lambda value, runs: value + table[rng.integers(0, seeds, runs)])


def repeated(rng, fresh):
    def draw(value, runs):
        noise = discrete_laplace(rng, 1, (runs, 4))
        return value + (noise if fresh else np.repeat(noise[:, :1], 4, axis=1))

    return Batched(draw)


def two_columns(rng, shared):
    """Count and total of one person's row, half the budget each."""

    def draw(row, runs):
        noise = discrete_laplace(rng, 2, (runs, 2))
        return np.asarray(row) + (np.repeat(noise[:, :1], 2, axis=1) if shared else noise)

    return Batched(draw)


def classical_sigma(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def largest_mu(epsilon, delta):
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-private. Balle and Wang 2018, by bisection."""

    def spent(mu):
        near, far = special.log_ndtr(-epsilon / mu + mu / 2), special.log_ndtr(-epsilon / mu - mu / 2)
        return math.exp(near) - math.exp(epsilon + far)

    low, high = 1e-3, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


def gaussian(rng, sigma):
    # told on a grid, so that float noise is not what gives it away
    return Batched(lambda value, runs: np.rint((value + rng.normal(0, sigma, runs)) * 2**10) / 2**10)


def float_sum(rng, total, bound):
    """A noisy sum of numbers in [-bound, bound], one replaced; noise of scale twice the bound, told on a grid."""
    return Batched(lambda side, runs: total(side) + discrete_laplace(rng, 2 * bound, runs))


def noise_controls(rng):
    exact, naive = discrete_laplace, naive_laplace
    return [
        Control(
            name="histogram under replacement with the noise of addition",
            source="sensitivity off by two: a replaced person leaves one cell and enters another",
            broken=histogram(rng, 1),
            correct=histogram(rng, 2),
            claim=claim_pure(1),
            twins=lambda: known((((5, 5)), ((6, 4))), ((5, 5), (5, 5)), why="one person moves to another cell"),
            inputs="moves",
        ),
        Control(
            name="float noise with its lowest bits",
            source="Mironov 2012",
            broken=Batched(lambda value, runs: naive(value, 1, runs, rng)),
            correct=Batched(lambda value, runs: (value * 2**20 + exact(rng, 2**20, runs)) * 2.0**-20),
            claim=claim_pure(1),
            twins=lambda: known((0.0, 1.0)),
            event=("lowest bit", "fraction"),
        ),
        Control(
            name="half-even rounding to the grid",
            source="banker's rounding turns a difference of one step into two",
            broken=gridded(rng, lambda value: int(np.rint(value))),
            correct=gridded(rng, lambda value: math.floor(value + 0.5)),
            claim=claim_pure(1),
            twins=lambda: known((0.0, 1.0), (0.25, 1.25), (0.5, 1.5), why="one apart"),
            event=("value", "whole output"),
        ),
        Control(
            name="noise from a handful of seeds",
            source="a seeded release: whoever knows the seeds knows the noise",
            broken=from_seeds(rng, 8),
            correct=Batched(lambda value, runs: value + exact(rng, 1, runs)),
            claim=claim_pure(1),
            twins=lambda: known((0, 1)),
        ),
        Control(
            name="Gaussian noise by the classical formula at epsilon 20",
            source="Dwork and Roth 2014, Theorem A.1, needs epsilon < 1; Balle and Wang 2018",
            broken=gaussian(rng, classical_sigma(20, 1e-5)),
            correct=gaussian(rng, 1 / largest_mu(20, 1e-5)),
            claim=claim_gdp(largest_mu(20, 1e-5)),
            twins=lambda: known((0.0, 1.0)),
            runs=40_000,
        ),
    ]


def controls(rng):
    rounding = repeated_rounding_twins()
    return [
        *noise_controls(rng),
        Control(
            name="fresh noise each time the same question is asked",
            source="averaging: four answers at the price of one",
            broken=repeated(rng, fresh=True),
            correct=repeated(rng, fresh=False),
            claim=claim_pure(1),
            twins=lambda: known((0, 1)),
            event=("sum", "linear", "smallest", "largest", "distinct", "whole"),
        ),
        Control(
            name="two columns with the same noise",
            source="shared random bits: the difference of the columns has no noise, their sum keeps its parity",
            broken=two_columns(rng, shared=True),
            correct=two_columns(rng, shared=False),
            claim=claim_pure(1),
            twins=lambda: known(((0, 0), (1, 0)), ((0, 0), (1, 1)), why="one row comes"),
            event=("difference", "distinct", "linear", "first smallest", "first largest", "sum", "whole"),
        ),
        Control(
            name="running float sum",
            source="Casacuberta, Shoemate, Vadhan and Wagaman 2022: rounding that repeats",
            broken=float_sum(rng, lambda side: int(np.cumsum(side, dtype=np.float32)[-1]), rounding.bound),
            # three quarters are a whole number of quarter steps, so integers add them exactly
            correct=float_sum(rng, lambda side: int(np.sum(np.rint(side * 4).astype(np.int64))) // 4, rounding.bound),
            claim=claim_pure(1),
            twins=lambda: [Twins(rounding.left, rounding.right, "repeated rounding")],
        ),
    ]
