"""Ten thousand conversions of Gaussian DP, against the nearest functions of other libraries.

Peers: dp_accounting for delta(epsilon), riskcal for the curve G_mu(alpha). They come from the optional group
`peers-accounting` (`pip install "neartwin[peers-accounting]"`), or from any environment whose Python is named by
NEARTWIN_PEERS; they run in a process of their own on the same numbers. A missing peer is named as missing. Each line:
the conversion, seconds, their time over ours, and the worst relative difference where the value is above 1e-12;
accuracy in the far tail is shown by one value of delta near 1e-248, against 60 digits where mpmath is installed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from neartwin.tradeoff import delta_of, gaussian

SIZE = 10_000
FAR = 34.0  # epsilon at mu = 1: delta is about 1e-246

PEERS = {
    "delta(epsilon) | dp_accounting": """
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
law = GaussianPrivacyLoss(1.0)
run = law.get_delta_for_epsilon
""",
    "beta(alpha)    | riskcal": """
from riskcal.analysis import get_beta_from_gdp
run = lambda alpha: get_beta_from_gdp(mu=1.0, alpha=alpha)
""",
}

TIMED = """
import sys, time
import numpy as np
points = np.load(sys.argv[1])
run(points[:10])
start = time.perf_counter()
values = np.asarray(run(points))
print(time.perf_counter() - start)
np.save(sys.argv[2], values)
"""


def peer(code: str, points: np.ndarray, folder: Path) -> tuple[float, np.ndarray] | str:
    np.save(folder / "points.npy", points)
    python = os.environ.get("NEARTWIN_PEERS", sys.executable)
    command = [python, "-c", code + TIMED, str(folder / "points.npy"), str(folder / "values.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return float(done.stdout), np.load(folder / "values.npy")


def ours(name: str, points: np.ndarray) -> tuple[float, np.ndarray]:
    run = delta_of if name.startswith("delta") else (lambda _, alpha: gaussian(1).beta(alpha))
    run(1, points[:10])
    start = time.perf_counter()
    found = run(1, points)
    seconds = time.perf_counter() - start
    return seconds, 0.5 * (found.lower + found.upper)


def main() -> None:
    for name, code in PEERS.items():
        points = np.linspace(0, 40, SIZE) if name.startswith("delta") else np.linspace(1e-6, 1 - 1e-6, SIZE)
        seconds, values = ours(name, points)
        with tempfile.TemporaryDirectory() as folder:
            other = peer(code, points, Path(folder))
        if isinstance(other, str):
            print(f"{name}: neartwin {seconds:.3f} s for {SIZE:,}; the peer is missing ({other})")
            continue
        shown = values > 1e-12
        apart = np.max(np.abs(other[1][shown] / values[shown] - 1))
        print(f"{name}: neartwin {seconds:.3f} s, peer {other[0]:.3f} s for {SIZE:,}; ratio {other[0] / seconds:.2f}; "
              f"largest relative difference {apart:.1e}")  # fmt: skip
        if name.startswith("delta"):
            at = int(np.searchsorted(points, FAR))
            print(
                f"  far tail, epsilon={points[at]:.6g}: neartwin {values[at]:.15e}, peer {other[1][at]:.15e}"
                + truth(points[at])
            )


def truth(epsilon: float) -> str:
    try:
        import mpmath as mp
    except ImportError:
        return ""
    with mp.workdps(60):
        e = mp.mpf(float(epsilon))
        return ", 60 digits " + mp.nstr(mp.ncdf(0.5 - e) - mp.exp(e) * mp.ncdf(-0.5 - e), 16)


if __name__ == "__main__":
    main()
