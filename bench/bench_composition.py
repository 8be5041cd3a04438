"""Certified composition against the peers, W1 to W12: what each says, whether it is right, how wide, and how long it takes.

Peers: `pip install "neartwin[peers-accounting]"`; one that cannot be asked is named and left out. Times are processor time in
one process: of the first question of a row, with whatever it has to import and lay out, and the least of a few more. Every run
composes afresh, so no answer, line or table of another run is served from memory; ratios are of the least times. A peer is right
if its upper end is not below the truth: a known one, by 150 digits, or else our certified interval.
"""

import argparse
import math
import time
import warnings
from fractions import Fraction

from accounting_peers import FEW, RATES, RESPONSES, installed

from neartwin.losses import Approx, Gaussian, Laplace, RandomizedResponse, SubsampledGaussian, compose

TRUTH = {
    "W1": 4.886554117462212,
    "W2": 8.306225049954728,
    "W3": 4.692667414680189,
    "W4": 6.187712389971639,
    "W5": 7.566593620816312,
    "W6": 6.571974667452005,
    "W8 1e-15": 7.525961467079554,
    "W8 1e-30": 9.869578802717,
}
CLOSE = 1e-11  # the digits of those
RUNS, LEAST, BUDGET = 40, 0.3, 3.0  # runs at most but for so many seconds, and seconds after which no other begins


def odometer(releases):
    """Eps after each release of two alternating kinds; the widest and the last."""
    whole, widest = 1 * Gaussian(mu="0.5"), 0.0
    for release in range(releases):
        whole = whole + (Gaussian(mu="0.05") if release % 2 else Laplace(epsilon="0.05"))
        found = whole.epsilon("1e-6")
        widest = max(widest, found.width)
    return found


def many(kinds, rtol=1e-8):
    return compose({Laplace(epsilon=float(rate)): 1 for rate in RATES[:kinds]}).epsilon("1e-6", rtol=rtol)


def responses(kinds):
    return compose([RandomizedResponse(epsilon=float(rate)) for rate in RATES[:kinds]]).epsilon("1e-6")


def noises(kinds, rate, each=1):
    """A schedule of noise: so many sigmas from 2 down to 1/2 at one rate, so many steps of each."""
    mus = [Fraction(1, 2) + Fraction(3, 2) * Fraction(k, kinds - 1) for k in range(kinds)]
    return compose({SubsampledGaussian(mu=mu, rate=rate): each for mu in mus}).epsilon("1e-6")


def mix():
    return 50 * Laplace(epsilon="0.05") + 50 * Gaussian(mu="0.1") + 20 * RandomizedResponse(epsilon="0.3")


def laplace(delta):
    return (100 * Laplace(epsilon="0.1")).epsilon(delta)


OURS = {
    "W1": lambda: (1 * Gaussian(mu=1)).epsilon("1e-6"),
    "W2": lambda: (1000 * Gaussian(mu="0.05")).epsilon("1e-6"),
    "W3": lambda: laplace("1e-6"),
    "W4": lambda: (10_000 * SubsampledGaussian(mu=1, rate="0.01")).epsilon("1e-5"),
    "W5": lambda: mix().epsilon("1e-6"),
    "W6": lambda: (200 * Approx(epsilon="0.1", delta="1e-8")).epsilon("1e-5"),
    "W7": lambda: (1_000_000 * SubsampledGaussian(mu="0.2", rate="0.001")).epsilon("1e-5"),
    "W8 1e-15": lambda: laplace("1e-15"),
    "W8 1e-30": lambda: laplace("1e-30"),
    f"W9 {FEW}": lambda: many(FEW, 1e-6),
    f"W9 {FEW} 1e-8": lambda: many(FEW),
    "W9": lambda: many(len(RATES)),
    f"W10 {FEW}": lambda: odometer(FEW),
    "W10": lambda: odometer(1000),
    f"W11 {FEW}": lambda: responses(FEW),
    "W11": lambda: responses(RESPONSES),
    f"W12 {FEW}": lambda: noises(FEW, "0.01", 100),
    f"W12 {FEW} 1e-3": lambda: noises(FEW, "0.001", 100),
    "W12": lambda: noises(1000, "0.01"),
    "W12 1e-3": lambda: noises(1000, "0.001"),
}


def timed(ask):
    """The answer, or the name of the error, and the processor time of the first run and the least of all, in seconds."""
    times, answer = [], None
    while sum(times) < (BUDGET if len(times) < RUNS else LEAST):
        start = time.process_time()
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - a peer's failure is a result
            answer = type(error).__name__
        times.append(time.process_time() - start)
    return answer, times[0], min(times)


def verdict(answer, low, high):
    """Whether a peer's answer is right, given that the truth lies in [low, high]."""
    if isinstance(answer, str):
        return f"no answer: {answer}"
    ends = answer if isinstance(answer, tuple) else (-math.inf, answer)
    lower, upper = (float(end) for end in ends)
    if math.isnan(upper):
        return "no answer: NaN"
    if upper < low - CLOSE:
        return f"{upper:.9g}  WRONG: {upper - low:.1e} below the truth"
    if lower > high + CLOSE:
        return f"[{lower:.9g}, {upper:.9g}]  WRONG: above the truth"
    if math.isinf(upper):
        return "inf"
    width = f" .. {upper:.9g}, width {upper - lower:.1e}" if math.isfinite(lower) else ""
    return f"{lower if width else upper:.9g}{width}  {max(upper - high, 0.0) / high:+.1e} of the truth"


def main(only, *, fine, whole):
    warnings.simplefilter("ignore")
    peers, missing = installed(fine=fine, whole=whole)
    print("peers that cannot be asked:", ", ".join(missing) or "none")
    print(f"{'':9s} {'':29s} {'':72s} {'first ms':>10s} {'least ms':>10s} {'ours = 1':>9s}")
    for name, ask in OURS.items():
        if only and name.split()[0] not in only:
            continue
        found, first, ours = timed(ask)
        low, high = found.lower, found.upper
        known = ""
        if name in TRUTH:
            assert low - CLOSE <= TRUTH[name] <= high + CLOSE, (name, found)  # noqa: S101 - the bench's point
            low = high = TRUTH[name]
            known = ", truth inside"
        said = f"[{found.lower:.11g}, {found.upper:.11g}] width {found.width / found.upper:.0e}{known}"
        print(f"{name:9s} {'neartwin, ' + found.method:29s} {said:72s} {1e3 * first:10.2f} {1e3 * ours:10.2f} {1:9d}")
        for label, asks in peers:
            if (question := name.removesuffix(" 1e-8")) in asks:
                answer, first, taken = timed(asks[question])
                times = f"{1e3 * first:10.2f} {1e3 * taken:10.2f} {taken / ours:9.3g}"
                print(f"{name:9s} {label:29s} {verdict(answer, low, high):72s} {times}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="workloads, for instance W3 W4")
    parser.add_argument("--fine", action="store_true", help="the peers' fine settings too (minutes)")
    parser.add_argument("--whole", action="store_true", help="dp_accounting on all of W9, W10 and W11 too (minutes)")
    chosen = parser.parse_args()
    main(chosen.only, fine=chosen.fine, whole=chosen.whole)
