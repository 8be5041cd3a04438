"""Point the audit tools at other libraries' public mechanisms: `pip install "neartwin[peers]"`.

Prints one line a mechanism: the claim, the verdict at confidence 0.999, the strongest bound reached, and by which event.
The results of one run, with versions, stand in docs/audit-peers.md. Takes some minutes; fresh randomness each time.
"""

import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from neartwin.audit.attacks import time_follows_noise
from neartwin.audit.claims import Claim, claim_approx, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import Twins, answer_patterns, known

Case = tuple[str, Callable[[Any], Any], Claim, list[Twins], int]

ZERO_ONE = list(known((0.0, 1.0)))
WHOLE = list(known((0, 1)))


def diffprivlib_cases() -> Iterator[Case]:
    from diffprivlib import mechanisms as dpl
    from diffprivlib import tools

    name = f"diffprivlib {version('diffprivlib')}"
    laplace = dpl.Laplace(epsilon=1.0, delta=0.0, sensitivity=1.0)
    yield f"{name} Laplace", laplace.randomise, claim_pure(1), ZERO_ONE, 20_000
    gauss = dpl.GaussianAnalytic(epsilon=1.0, delta=0.01, sensitivity=1.0)
    yield f"{name} GaussianAnalytic", gauss.randomise, claim_approx(1, "0.01"), ZERO_ONE, 20_000
    snapping = dpl.Snapping(epsilon=1.0, sensitivity=1.0, lower=-100.0, upper=100.0)
    yield f"{name} Snapping", snapping.randomise, claim_pure(1), ZERO_ONE, 20_000
    geometric = dpl.Geometric(epsilon=1.0, sensitivity=1)
    yield f"{name} Geometric", geometric.randomise, claim_pure(1), WHOLE, 20_000
    averages = list(known(((0.0,) * 9 + (0.0,), (0.0,) * 9 + (1.0,)), why="one of ten values, replaced"))
    yield (
        f"{name} tools.mean",
        lambda rows: tools.mean(rows, epsilon=1.0, bounds=(0.0, 1.0)),
        claim_pure(1),
        averages,
        4_000,
    )


def opendp_cases() -> Iterator[Case]:
    import opendp.prelude as dp

    name = f"opendp {version('opendp')}"
    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    whole = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)
    yield f"{name} make_laplace, integers", whole, claim_pure(1), WHOLE, 8_000
    real = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
    yield f"{name} make_laplace, floats", real, claim_pure(1), ZERO_ONE, 8_000
    top = dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int), dp.max_divergence(), scale=2.0
    )
    patterns = [Twins([int(a) for a in t.left], [int(a) for a in t.right], t.why) for t in answer_patterns(5)]
    yield f"{name} make_noisy_max", top, claim_pure(1), patterns, 8_000


def pydp_cases() -> Iterator[Case]:
    from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

    name = f"python-dp {version('python-dp')}"
    laplace = LaplaceMechanism(1.0, 1.0)
    yield f"{name} LaplaceMechanism", laplace.add_noise, claim_pure(1), ZERO_ONE, 40_000
    gauss = GaussianMechanism(1.0, 0.01, 1.0)
    yield f"{name} GaussianMechanism", gauss.add_noise, claim_approx(1, "0.01"), ZERO_ONE, 40_000


def timings() -> Iterator[tuple[str, Callable[[], float]]]:
    import opendp.prelude as dp
    from diffprivlib import mechanisms as dpl

    from neartwin import noise

    whole = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=100.0)
    yield f"opendp {version('opendp')} make_laplace, integers, scale 100", lambda: whole(0)
    discrete = dpl.GaussianDiscrete(epsilon=0.05, delta=0.01, sensitivity=1)
    yield f"diffprivlib {version('diffprivlib')} GaussianDiscrete, epsilon 0.05", lambda: discrete.randomise(0)
    yield "neartwin geometric noise, scale 100", noise.discrete_laplace(100).draw


def _present(cases: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The cases of a library, if it can be imported; what cannot is named."""
    try:
        yield from cases()
    except ImportError as missing:
        print(f"left out: {missing}")


def main() -> None:
    warnings.simplefilter("ignore")
    for cases in (diffprivlib_cases, opendp_cases, pydp_cases):
        for name, mechanism, claim, twins, runs in _present(cases):
            finding = audit(mechanism, claim, twins, runs=runs, search_runs=1_000)
            verdict = "REFUTED" if finding.refuted else "not refuted"
            print(f"{name} | {claim} | {verdict} | {finding.reached:.3f} | {finding.event}", flush=True)
    for name, draw in _present(timings):
        found = time_follows_noise(draw, calls=4_000)
        print(
            f"{name} | rank correlation of time and noise {found.correlation:+.3f} | p = {found.p_value:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
