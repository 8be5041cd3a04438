"""Independent truths for sums of losses, in mpmath: exact pmfs on lattices, and moment generating functions by quadrature."""

import mpmath as mp


def exact(x):
    """A fraction in mpmath."""
    return mp.mpf(x.numerator) / x.denominator


def on_lattice(masses, start, step, count, eps):
    """`count` copies of masses at start, start + step, ...: every probability of the sum, by convolution in mpmath."""
    law = [mp.mpf(1)]
    for _ in range(count):
        longer = [mp.mpf(0)] * (len(law) + len(masses) - 1)
        for i, x in enumerate(law):
            for j, y in enumerate(masses):
                longer[i + j] += x * y
        law = longer
    total = mp.mpf(0)
    for i, mass in enumerate(law):
        loss = count * start + i * step
        if loss > eps:
            total += mass * -mp.expm1(eps - loss)
    return total


def answers(epsilon, count):
    """k-ary randomized response: masses, start and step; the true answer is e^epsilon times as likely as each other one."""
    e = exact(epsilon)
    whole = mp.exp(e) + count - 1
    return [1 / whole, (count - 2) / whole, mp.exp(e) / whole], -e, e


def two_sided(epsilon, sensitivity):
    """Two-sided geometric noise, alpha = e^{-epsilon/sensitivity}, moved by the sensitivity."""
    a, e = mp.exp(-exact(epsilon) / sensitivity), exact(epsilon)
    inner = [(1 - a) / (1 + a) * a**x for x in range(sensitivity - 1, 0, -1)]
    return [a**sensitivity / (1 + a), *inner, 1 / (1 + a)], -e, 2 * e / sensitivity


def stairs(epsilon, sensitivity, step):
    """Staircase noise moved by the sensitivity: points strictly between 0 and it are silent where both see as many steps."""
    q = mp.exp(-exact(epsilon))
    heights = 2 * (step + (sensitivity - step) * q) / (1 - q) - 1
    down = [int(x >= step) for x in range(sensitivity + 1)]
    silent = mp.fsum(q ** down[x] for x in range(1, sensitivity) if down[x] == down[sensitivity - x]) / heights
    return [(1 - silent) * q / (1 + q), silent, (1 - silent) / (1 + q)], -exact(epsilon), exact(epsilon)


def bells(variance):
    """Masses e^{-x^2/2 variance}, moved by 1; what lies beyond 16 deviations and 16 is below 1e-50."""
    s = exact(variance)
    far = int(mp.ceil(16 * mp.sqrt(s))) + 16
    weights = [mp.exp(-(mp.mpf(x) ** 2) / (2 * s)) for x in range(far, -far - 1, -1)]
    whole = mp.fsum(weights)
    return [w / whole for w in weights], (1 - 2 * far) / (2 * s), 1 / s


def enumerated(law, count, eps):
    """`count` copies of a finite law [(loss, mass)], by how often each outcome falls."""
    (loss, mass), *others = law
    if not others:
        return mass**count * max(mp.mpf(0), -mp.expm1(eps - count * loss))
    return mp.fsum(
        mp.binomial(count, k) * mass**k * enumerated(others, count - k, eps - k * loss) for k in range(count + 1)
    )


def sampled_gaussian_replaced(mu, q, eps):
    """One copy, replace-one, in closed form: P and Q beyond the place where their ratio is e^eps."""
    eps = mp.mpf(eps)
    low, high = mp.mpf(0), mp.mpf(1)

    def loss(u):
        r, back = (1 - q + q * mp.exp(sign * mu * u - mu * mu / 2) for sign in (1, -1))
        return mp.log(r / back)

    while loss(high) < eps:
        high *= 2
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) < eps else (low, middle)
    p, other = (mp.ncdf(mu * sign - low) for sign in (1, -1))
    rest = mp.ncdf(-low)
    return (1 - q) * rest + q * p - mp.exp(eps) * ((1 - q) * rest + q * other)
