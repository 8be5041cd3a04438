"""DP-SGD by every accountant, calibration, an account's thousandth question, the cost of importing, and memory.

Prints the table of docs/composition.md and the numbers beside it. CPU times of one process; compare them with each other.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from math import exp, sqrt
from statistics import median

from neartwin.accounting.budgets import approx, gdp, pure
from neartwin.accounting.calibration import largest_rate, least_noise, most_uses
from neartwin.accounting.filters import filter_for
from neartwin.accounting.usage import cost, rdp_accountant, repeated
from neartwin.losses import Gaussian, Laplace, SubsampledGaussian
from neartwin.tradeoff import epsilon_of

RATE, STEPS = "256/60000", 15 * 60_000 // 256
ORDERS = [float(order) for order in range(2, 65)]


def timed(ask):
    start = time.process_time()
    found = ask()
    return found, 1e3 * (time.process_time() - start)


def accountants():
    sgd = repeated(SubsampledGaussian(mu="10/13", rate=RATE), STEPS)
    mu = 256 / 60_000 * sqrt(STEPS * (exp(1 / 1.3**2) - 1))
    asks = {
        "central limit theorem, published form (estimate)": lambda: epsilon_of(mu, "1e-5").upper,
        "neartwin, certified lower end": lambda: cost(sgd).epsilon("1e-5").lower,
        "neartwin, certified upper end": lambda: cost(sgd).epsilon("1e-5").upper,
        "RDP, better conversion": lambda: rdp_accountant(sgd, orders=ORDERS).epsilon("1e-5").epsilon.upper,
        "moments accountant": lambda: rdp_accountant(sgd, orders=ORDERS).epsilon_mironov("1e-5").epsilon.upper,
    }
    if find_spec("dp_accounting"):
        from dp_accounting.pld import privacy_loss_distribution as pld

        def google():
            each = pld.from_gaussian_mechanism(1.3, sampling_prob=256 / 60_000)
            return each.self_compose(STEPS).get_epsilon_for_delta(1e-5)

        asks["dp_accounting PLD, default"] = google
    if find_spec("prv_accountant"):
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

        def microsoft():
            law = PoissonSubsampledGaussianMechanism(sampling_probability=256 / 60_000, noise_multiplier=1.3)
            known = PRVAccountant(prvs=[law], max_self_compositions=[STEPS], eps_error=0.1, delta_error=1e-8)
            return known.compute_epsilon(1e-5, [STEPS])[2]

        asks["prv_accountant, eps_error=0.1, upper"] = microsoft
    print("DP-SGD, 60,000 people, batches of 256, noise 1.3, 15 epochs, delta 1e-5")
    for name, ask in asks.items():
        found, spent = timed(ask)
        print(f"  {name:52s} {found:10.6f}  {spent:10.2f} ms")


def calibration():
    asks = {
        "least noise, Gaussian": lambda: least_noise(lambda s: Gaussian(mu=1 / s), approx(1, "1e-5")),
        "least noise, DP-SGD": lambda: least_noise(
            lambda s: repeated(SubsampledGaussian(mu=1 / s, rate=RATE), STEPS), approx(1, "1e-5")
        ),
        "largest rate, 10,000 steps": lambda: largest_rate(
            lambda q: repeated(SubsampledGaussian(mu=1, rate=q), 10_000), approx(6, "1e-5")
        ),
        "most uses, Laplace": lambda: most_uses(Laplace(epsilon="0.1"), approx("4.7", "1e-6")),
    }
    print("calibration")
    for name, ask in asks.items():
        found, spent = timed(ask)
        print(f"  {name:52s} {float(found.value):12.7g}  {found.trials:3d} trials {spent:10.2f} ms")


def thousand():
    print("an account's price and check of a question, after 1 and after 1000 questions")
    account = filter_for(gdp(1, "1e-6"))
    spent = tuple(0 for _ in account.price(pure("0.01")))
    for question in range(1, 1001):
        price = account.price(pure("0.01"))
        if question in {1, 1000}:
            _, taken = timed(lambda now=spent: [account.check(now, account.price(pure("0.01"))) for _ in range(100)])
            print(f"  question {question:4d}: {taken / 100:.4f} ms")
        spent = tuple(a + b for a, b in zip(spent, price, strict=True))


def child(code, compiled):
    """Processor seconds and peak MB of a fresh process. compiled: where bytecode is kept, as installed packages keep theirs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=kept | {"PYTHONPYCACHEPREFIX": compiled})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


STARTS = {
    "import numpy, scipy.special": "import numpy, scipy.special",
    "import the accountant": "from neartwin.accounting.usage import cost",
    "make a Gaussian": "from neartwin.losses import Gaussian; Gaussian(mu=1)",
    "first epsilon, Gaussian": (
        "from neartwin.accounting.usage import cost, repeated; from neartwin.losses import Gaussian; "
        "cost(repeated(Gaussian(mu='0.1'), 10)).epsilon('1e-6')"
    ),
    "first epsilon, DP-SGD": (
        "from neartwin.accounting.usage import cost, repeated; from neartwin.losses import SubsampledGaussian; "
        "cost(repeated(SubsampledGaussian(mu=1, rate='0.01'), 10_000)).epsilon('1e-5')"
    ),
}


def process():
    with tempfile.TemporaryDirectory() as compiled:
        for code in STARTS.values():
            child(code, compiled)
        taken = [
            [child(code, compiled)[0] for code in STARTS.values()] for _ in range(15)
        ]  # by turns: one load for all
        print("a fresh process, processor time, median and least of 15 (bytecode compiled before)")
        for name, column in zip(STARTS, zip(*taken, strict=True), strict=True):
            more = sorted(one - row[0] for one, row in zip(column, taken, strict=True))
            print(f"  {name:30s} {median(column):.3f} s {min(column):.3f} s, over the first {median(more):+.3f} s")
    hard = (
        "from neartwin.losses import *; "
        "(10**6 * SubsampledGaussian(mu='0.2', rate='0.001')).epsilon('1e-5'); "
        "(30 * SubsampledGaussian(mu='1.6', rate='0.0001')).epsilon('1e-10'); "
        "(300000 * FinitePair(p=('1/2', '3/10', '1/5'), q=('1/5', '1/2', '3/10'))).epsilon('1e-20'); "
        "(100 * Laplace(epsilon='0.1')).epsilon('1e-30')"
    )
    with tempfile.TemporaryDirectory() as compiled:
        print(f"memory of hard questions: {child(hard, compiled)[1]:.0f} MB")


if __name__ == "__main__":
    accountants()
    calibration()
    thousand()
    process()
