"""Noise against its peers: time for each draw, and ratios, in one run.

Peers (OpenDP, PyDP, diffprivlib) are the optional group `peers`; what is not installed is left out and said so. NumPy's own
generator is the unsafe yardstick: neither exact nor cryptographic. Peers too slow for a whole batch are timed on a part
of it, and counted per draw. Times are processor time, the best of several.
"""

import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module

import numpy as np

from neartwin import noise
from neartwin.noise.distributions import Law
from neartwin.noise.lookup_table import build
from neartwin.noise.sampler import SINGLES, WIDEST_BLOCK
from neartwin.noise.streams import Fresh

SCALES = (1, 100, 10**4, 10**9)
BATCHES = (1, 10**3, 10**7)
BUDGET = 1.0  # seconds for one measurement
Draw = Callable[[int], object]


def nanoseconds(draw: Draw, n: int, most: int) -> float:
    """Processor time of one draw in batches of n (at most `most`), best of those that fit into the budget.

    Processor time, so that a busy machine's other work is not counted; small batches are repeated until the drawing of
    blocks in advance is in the figure.
    """
    batch, spent, best, repeats = min(n, most), 0.0, math.inf, 0
    inner = -(-2 * WIDEST_BLOCK // n) if most > 10**5 and n < 2 * WIDEST_BLOCK else 1
    while (spent < BUDGET and repeats < 50) or repeats < 3:
        begun = time.process_time()
        for _ in range(inner):
            draw(batch)
        took = time.process_time() - begun
        best, spent, repeats = min(best, took), spent + took, repeats + 1
    return best * 1e9 / (batch * inner)


def ours(family: Callable[..., noise.Sampler], scale: int, power: int) -> Draw:
    """A single cached draw, or an array into a buffer that stays."""
    sampler, out = family(scale**power), np.empty(BATCHES[-1], np.int64)
    sampler.draw()
    return lambda n: sampler.draw() if n == 1 else sampler.fill(out[:n])


def numpy_normal(scale: int) -> Draw:
    """The yardstick of speed."""
    generator, out = np.random.default_rng(), np.empty(BATCHES[-1])
    return lambda n: generator.standard_normal() * scale if n == 1 else generator.standard_normal(out=out[:n])


def numpy_laplace(scale: int) -> Draw:
    """The yardstick's Laplace, which has no buffer."""
    generator = np.random.default_rng()
    return lambda n: generator.laplace(scale=scale) if n == 1 else generator.laplace(scale=scale, size=n)


def opendp(law: str) -> Callable[[int], Draw]:
    """OpenDP's integer mechanisms: exact, on whole vectors, and its scalar call."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[law]
    distance = {"laplace": dp.l1_distance, "gaussian": dp.l2_distance}[law]

    def at(scale: int) -> Draw:
        atom = dp.atom_domain(T=int)
        kind = int if law == "laplace" else float
        single = make(atom, dp.absolute_distance(T=kind), scale=float(scale))
        vector = make(dp.vector_domain(atom), distance(T=kind), scale=float(scale))
        zeros = [0] * 10**5
        return lambda n: single(0) if n == 1 else vector(zeros[:n])

    return at


def pydp(law: str) -> Callable[[int], Draw]:
    """Google's C++ library through PyDP: one draw a call; floats on a grid, the Gaussian approximated."""
    mechanisms = import_module("pydp.algorithms.numerical_mechanisms")

    def at(scale: int) -> Draw:
        if law == "laplace":
            add = mechanisms.LaplaceMechanism(1 / scale, 1.0).add_noise
        else:
            add = mechanisms.GaussianMechanism(1.0, 1e-5, scale / 4.0).add_noise
        return lambda n: [add(0.0) for _ in range(n)]

    return at


def diffprivlib(law: str) -> Callable[[int], Draw]:
    """The integer mechanisms of diffprivlib: one draw a call."""
    mechanisms = import_module("diffprivlib.mechanisms")

    def at(scale: int) -> Draw:
        if law == "laplace":
            add = mechanisms.Geometric(epsilon=1 / scale, sensitivity=1).randomise
        else:
            add = mechanisms.GaussianDiscrete(epsilon=min(1.0, 4 / scale), delta=1e-5, sensitivity=1).randomise
        return lambda n: [add(0) for _ in range(n)]

    return at


def present(name: str, make: Callable[[str], Callable[[int], Draw]], law: str) -> dict[str, Callable[[int], Draw]]:
    """A peer, if it can be imported."""
    try:
        return {name: make(law)}
    except ImportError as missing:
        print(f"{name} is left out: {missing}")
        return {}


def main() -> None:
    """Tables for both laws, then what tables take."""
    for law, own in (
        ("laplace", (noise.discrete_laplace, noise.rounded_laplace, 1)),
        ("gaussian", (noise.discrete_gaussian, noise.rounded_gaussian, 2)),
    ):
        peers = present("OpenDP", opendp, law) | present("PyDP", pydp, law) | present("diffprivlib", diffprivlib, law)
        print(f"\n{law}, ns a draw; in brackets: times slower than neartwin's rounded continuous law")
        names = ["discrete", "rounded", "NumPy normal", "NumPy laplace", *peers]
        print("scale n " + " | ".join(names))
        for scale in SCALES:
            makers = [
                ours(own[0], scale, own[2]),
                ours(own[1], scale, own[2]),
                numpy_normal(scale),
                numpy_laplace(scale),
            ]
            for n in BATCHES:
                times = [nanoseconds(draw, n, BATCHES[-1]) for draw in makers]
                for name, peer in peers.items():
                    if name == "diffprivlib" and law == "gaussian" and scale > 100:
                        times.append(math.nan)  # its loop takes as many steps as the scale has
                        continue
                    most = {"OpenDP": 2 * 10**4, "PyDP": 10**4, "diffprivlib": 200}[name]
                    times.append(nanoseconds(peer(scale), n, most))
                cells = [f"{each:.1f} ({each / times[1]:.2f})" for each in times]
                print(f"{scale:g} {n:g} " + " | ".join(cells), flush=True)
    print(
        "\na whole table against two million draws, and the first draw of a new law against that of a whole table; ms"
    )
    for family, power in (
        (noise.discrete_laplace, 1),
        (noise.rounded_laplace, 1),
        (noise.discrete_gaussian, 2),
        (noise.rounded_gaussian, 2),
    ):
        for scale in SCALES:
            laws = [family((scale + Fraction(place, 1000)) ** power).law for place in range(1, 10)]
            building = 1e3 * min(_seconds(lambda law=law: build(law.recipe)) for law in laws)
            drawing = nanoseconds(ours(family, scale, power), 2 * 10**6, BATCHES[-1]) * 2
            whole, first = (
                1e3 * min(_seconds(lambda law=law: _first(law)) for law in part) for part in _made_new(laws)
            )
            print(
                f"{family.__name__} {scale:g}: {building:.1f} against {drawing:.1f} ({building / drawing:.2f}), "
                f"{first:.1f} against {whole:.1f} ({first / whole:.2f})"
            )


def _made_new(laws: list[Law]) -> Iterator[list[Law]]:
    """The laws, then what a sampler draws its first values by; the tables of each are made anew."""
    for part in (laws, [law.for_few() for law in laws]):
        build.cache_clear()
        yield part


def _first(law: Law) -> None:
    """As a sampler's first draw: one block."""
    law.fill(np.empty(SINGLES, np.int64), Fresh(noise.SYSTEM))


def _seconds(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return time.process_time() - begun


if __name__ == "__main__":
    main()
