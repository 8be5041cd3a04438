"""Ways of making batches, beside what else answers for them: dp_accounting in this process, random-allocation in its own.

    bench/peers.sh PEERS random_allocation && python bench/bench_training.py --peers PEERS
    pip install "neartwin[interop]"            # without --peers: dp_accounting alone

Ours is an interval; a peer's answer an upper bound. Printed are both, ours in relative width, the peer's over our upper end,
and its processor time over ours. Each question is asked for the first time. A fixed size is under replace-one there, with a noise
of 1 for what replacing one moves. That is noise 2 here, where a record that joins drives another one out.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting as peer
from dp_accounting import pld, rdp

from neartwin.accounting import training
from neartwin.accounting.usage import cost

ALLOCATIONS = [
    (1.0, 100, 1, 1e-6),
    (1.0, 1_000, 1, 1e-6),
    (1.0, 100, 20, 1e-5),
    (2.0, 1_000, 10, 1e-8),
    (0.6, 10_000, 1, 1e-6),
]
MOST, DELTA = 1000, 1e-5  # steps and the delta of the other runs
GAUSSIAN = peer.GaussianDpEvent(1.0)
OTHERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Poisson, 1 %": (
        lambda: training.poisson_batches(noise_multiplier=1, rate="0.01", steps=MOST),
        peer.PoissonSampledDpEvent(0.01, GAUSSIAN),
    ),
    "100 of 10,000, without replacement": (
        lambda: training.fixed_batches(noise_multiplier=2, batch=100, records=10_000, steps=MOST),
        peer.SampledWithoutReplacementDpEvent(10_000, 100, GAUSSIAN),
    ),
    "Poisson of 10,000, cut to 140": (
        lambda: training.truncated_batches(noise_multiplier=1, rate="0.01", largest=140, records=10_000, steps=MOST),
        peer.dp_event.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 140, 1.0),
    ),
    "Poisson, two batches a step": (
        lambda: training.poisson_batches(noise_multiplier=1, rate="0.01", steps=MOST, accumulated=2),
        peer.dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.9801, 0.0198, 0.0001]),
    ),
}


def timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the seconds of the processor that it took."""
    start = time.process_time()
    return ask(), time.process_time() - start


def told(event: Any) -> tuple[str, float, float] | None:
    """Of dp_accounting's accountants the first that takes the event: its name, epsilon and seconds."""
    for name, accountant in (("PLD", pld.PLDAccountant), ("RDP", rdp.RdpAccountant)):
        relation = peer.NeighboringRelation.ADD_OR_REMOVE_ONE
        for own in (relation, peer.NeighboringRelation.REPLACE_SPECIAL, peer.NeighboringRelation.REPLACE_ONE):
            try:
                found, seconds = timed(
                    lambda one=accountant, own=own: (
                        one(neighboring_relation=own).compose(event, MOST).get_epsilon(DELTA)
                    )
                )
            except (peer.UnsupportedEventError, ValueError, NotImplementedError, TypeError):
                continue
            return (name if own == relation else f"{name}, {own.name.lower()}"), float(found), seconds
    return None


def row(name: str, ours: tuple[Any, float], theirs: tuple[str, Any, float] | None) -> None:
    """Print one comparison."""
    (found, seconds), width = ours, ours[0].width / ours[0].upper
    cells = [name, f"{found.upper:.6g}", f"{width:.1e}", f"{seconds:.2f} s"]
    if theirs is None or isinstance(theirs[1], str):
        cells += [theirs[1] if theirs else "no answer", "", ""]
    else:
        cells += [f"{theirs[0]}: {theirs[1]:.6g}", f"{theirs[1] / found.upper:.4g}", f"{theirs[2] / seconds:.2g}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="the folder of bench/peers.sh")
    peers = parser.parse_args().peers
    print("| batches | our epsilon, at most | width | takes | peer | over ours | time over ours |")
    print("|---|---|---|---|---|---|---|")
    for name, (run, event) in OTHERS.items():
        row(name, timed(lambda run=run: cost(run()).epsilon(DELTA)), told(event))
    answers = []
    if peers is not None:
        script = Path(__file__).parent / "peers" / "by_random_allocation.py"
        call = [peers / "random_allocation" / "bin" / "python", script, json.dumps(ALLOCATIONS)]
        told_by = subprocess.run(call, capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in told_by.stdout.splitlines()]
    for place, (noise, steps, epochs, delta) in enumerate(ALLOCATIONS):
        run = training.random_allocation(noise_multiplier=noise, steps=steps, epochs=epochs)
        name = f"one of {steps:,} steps, noise {noise:g}, {epochs} epochs, delta {delta:g}"
        theirs = ("random-allocation", *answers[place]) if answers else None
        row(name, timed(lambda run=run, delta=delta: cost(run).epsilon(delta)), theirs)


if __name__ == "__main__":
    main()
