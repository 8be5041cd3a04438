"""Second routes to the numbers of the curves, at 60 digits or by brute force; none of them calls the library."""

import itertools
from fractions import Fraction

import mpmath as mp

mp.mp.dps = 60


def num(value):
    """A rational or decimal text as an exact multiprecision number; a float as the binary value it is."""
    if isinstance(value, str):
        value = Fraction(value)
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value)


def quantile(p):
    """Phi^-1 by the inverse error function, through the smaller tail."""
    p = num(p)
    if p > mp.mpf(1) / 2:
        return -quantile_low(1 - p)
    return quantile_low(p)


def quantile_low(p):
    start = -mp.sqrt(-2 * mp.log(2 * p)) if p < mp.mpf("0.4") else (p - mp.mpf(1) / 2) * mp.sqrt(2 * mp.pi)
    return mp.findroot(lambda x: mp.log(mp.ncdf(x) / p), start)


def gaussian_beta(mu, alpha):
    """Phi(-Phi^-1(alpha) - mu)."""
    return mp.ncdf(-quantile(alpha) - num(mu))


def gaussian_delta(mu, epsilon):
    """The textbook difference, with digits to spare for its cancellation."""
    with mp.workdps(120 if abs(num(epsilon)) > 1e-3 else 700):  # near 0 the difference is mu itself
        m, e = num(mu), num(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def laplace_beta(shift, alpha):
    """P = Lap(0, 1), Q = Lap(shift, 1); reject above t, solved for t from the distribution functions."""
    s, a = num(shift), num(alpha)
    t = -mp.log(2 * a) if a < mp.mpf(1) / 2 else mp.log(2 * (1 - a))
    x = t - s
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def neyman_pearson(P, Q, alpha):
    """Exact least type II error: the best of all subsets, one outcome randomised: the linear program's vertices."""
    alpha = Fraction(alpha)
    outcomes = range(len(P))
    best = Fraction(1)
    for size in range(len(P) + 1):
        for chosen in itertools.combinations(outcomes, size):
            spent, won = sum((P[i] for i in chosen), Fraction(0)), sum((Q[i] for i in chosen), Fraction(0))
            if spent > alpha:
                continue
            best = min(best, 1 - won)
            for extra in set(outcomes) - set(chosen):
                share = min(Fraction(1), (alpha - spent) / P[extra]) if P[extra] else Fraction(1)
                best = min(best, 1 - won - share * Q[extra])
    return best


def hockey_stick(P, Q, factor):
    """The sum of (p - factor q)_+."""
    return sum((max(num(p) - factor * num(q), mp.mpf(0)) for p, q in zip(P, Q, strict=True)), mp.mpf(0))


def binomial_beta(epsilon, n, alpha):
    """f_{epsilon,0}^n by walking the binomial's atoms, most telling first."""
    p = 1 / (1 + mp.exp(-num(epsilon)))
    left, beta = num(alpha), mp.mpf(1)
    for i in range(n, -1, -1):
        under_q = mp.binomial(n, i) * p**i * (1 - p) ** (n - i)
        under_p = mp.binomial(n, i) * p ** (n - i) * (1 - p) ** i
        share = min(mp.mpf(1), left / under_p)
        beta -= share * under_q
        left -= share * under_p
        if left <= 0:
            break
    return beta


def laplace_power_delta(shift, epsilon, n):
    """The delta of n Laplace curves by a finite residue sum, its contour closed on the left; 150 digits."""
    with mp.workdps(150):
        s, e = num(shift), num(epsilon)
        total = mp.mpf(0)
        for k in range(n + 1):
            b = s * (2 * k - n) - e
            if b <= 0:
                continue
            weight = mp.binomial(n, k) * mp.mpf(2) ** (-n) * mp.exp(-(n - k) * s)
            value = mp.mpf(2) ** n if k == n else mp.mpf(0)
            value -= mp.mpf(2) ** n * mp.exp(-b) if k == 0 else 0
            first = [mp.binomial(k - 1, i) if k else mp.mpf(-1) ** i for i in range(n)]
            m = n - k - 1
            second = [mp.binomial(m, i) * (-1) ** (m - i) if m >= 0 else mp.mpf(-1) for i in range(n)]
            series = [sum(first[i] * second[j - i] for i in range(j + 1)) for j in range(n)]
            tail = sum(series[j] * (b / 2) ** (n - 1 - j) / mp.factorial(n - 1 - j) for j in range(n))
            total += weight * (value + 2 * mp.exp(-b / 2) * tail)
        return total


def shuffled_epsilon(local, people, delta):
    """The closed form of Feldman, McMillan, Talwar 2021, theorem 3.1, for local epsilon at most ln(n/(16 ln(2/delta)))."""
    e, d = num(local), num(delta)
    assert e <= mp.log(people / (16 * mp.log(2 / d)))
    growth = mp.exp(e)
    size = 8 * mp.sqrt(growth * mp.log(4 / d) / people) + 8 * growth / people
    return mp.log1p((growth - 1) / (growth + 1) * size)
