"""Truths of whole compositions in Arb: closed forms, exact convolutions, residues and contours, each with its own formula.

Nothing here is shared with the library. A use is a tuple of a name and exact parameters, as in `KINDS`; a whole is a list of
(use, count). `delta` answers for one direction, as a ball at least as narrow as it was asked for, or raises `NoTruthError`.

P and Q are the laws of the two data sets, L = log P/Q under P, and delta(eps) = E (1 - e^(eps - L))_+.

**Atoms beside one smooth part.** delta(eps) is the sum of mass x delta_1(eps - loss) over the atoms, and the mass that Q lacks.
Atoms are multiplied out, or are powers of a polynomial where they lie on a lattice. delta_1 is one of four closed forms: a
Gaussian, a sum of Laplace mechanisms, one sampled Gaussian step, one sampled Laplace step.

**Laplace sums.** Tilted by e^(-L/2), the loss of one mechanism has atoms of weight c at -e and e and the density c/2 between,
c = e^(-e/2)/2. With E = e^(ze) its transform is c (E + 1/E) + c (E - 1/E)/(2z), so that a product is a sum of E^j / z^k,
each an atom or a power of (place - l)_+, whose integral against e^(l/2) - e^(eps - l/2) obeys a recursion in k.

**Contour.** delta(eps) is the integral of M(s) e^(-s eps) / (2 pi i s (s + 1)) along Re s = lambda > 0, M(s) = E e^(sL), by
the trapezoidal rule, where M is known in closed form or a sum over nodes. Two resolutions tell the error.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
from flint import acb, arb, arb_poly, ctx, fmpq

ZERO, ONE = Fraction(0), Fraction(1)
BITS = 320
MOST_BITS = 6000
MOST_ATOMS = 5000
LATTICES = ("response", "silent", "geometric", "staircase", "discrete gaussian")
PAIRS = ("pair", "sampled pair", "approx", "leak")
SMOOTH = ("gaussian", "laplace", "sampled gaussian", "sampled laplace")
KINDS = (*LATTICES, *PAIRS, *SMOOTH)


class NoTruthError(ArithmeticError):
    """The whole is of no kind whose truth is known here."""


def ball(x):
    """An exact number as a ball."""
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction) else arb(x)


def tail(x):
    """P(N > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def above(x):
    """A ball cut at 0."""
    return x.max(arb(0))


# Closed forms: delta of one smooth part, for any real eps that is a ball


def no_part(eps):
    """Equal laws."""
    return above(-eps.expm1())


def gaussian(mu2):
    """All Gaussians are one, with the sum of mu squared."""

    def value(eps):
        mu = ball(mu2).sqrt()
        return tail(eps / mu - mu / 2) - eps.exp() * tail(eps / mu + mu / 2)

    return value


def sampled_gaussian(mu, q, direction):
    """One step. The place u where the likelihood ratio r(u) = 1 - q + q e^(mu u - mu^2/2) is e^eps parts the events."""

    def edge(ratio):
        m = ball(mu)
        return (((ratio - 1) / ball(q) + 1).log() + m * m / 2) / m

    def mixed(u, sign=1):
        return (1 - ball(q)) * tail(u) + ball(q) * tail(u - sign * ball(mu))

    def remove(eps):
        if not eps.exp() > 1 - ball(q):
            return -eps.expm1()
        u = edge(eps.exp())
        return mixed(u) - eps.exp() * tail(u)

    def add(eps):
        if not (-eps).exp() > 1 - ball(q):
            return arb(0)
        u = -edge((-eps).exp())  # of the lower tail
        return tail(u) - eps.exp() * ((1 - ball(q)) * tail(u) + ball(q) * tail(u + ball(mu)))

    def replace(eps):
        def ratio(u):
            up, down = (1 + ball(q) * (sign * ball(mu) * u - ball(mu) ** 2 / 2).expm1() for sign in (1, -1))
            return up - eps.exp() * down

        u = halved(ratio, arb(-1), arb(1))
        return mixed(u) - eps.exp() * mixed(u, -1)

    return {"remove": remove, "add": add, "replace": replace}[direction]


def halved(rising, low, high):
    """Where a rising function is 0, to half of the bits: delta is flat there."""
    while not rising(high) > 0 and high < 1e9:
        high *= 2
    while not rising(low) < 0 and low > -1e9:
        low *= 2
    for _ in range(ctx.prec // 2 + 20):
        middle = ((low + high) / 2).mid()
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low.mid()


def sampled_laplace(e, q, direction):  # noqa: C901 - small functions side by side
    """One step. r(x) = 1 - q + q e^(|x| - |x - e|) rises from x = 0 to e and is flat beside them."""

    def beyond(x, centre):
        """P(centre + noise > x)."""
        d = x - centre
        return (-d).exp() / 2 if d > 0 else 1 - d.exp() / 2

    def mixed(x, centre):
        return (1 - ball(q)) * beyond(x, arb(0)) + ball(q) * beyond(x, centre)

    def ratio(x):
        return 1 + ball(q) * (2 * x - ball(e)).max(-ball(e)).min(ball(e)).expm1()

    def edge(level):
        return (ball(e) + ((level - 1) / ball(q) + 1).log()) / 2

    def parted(eps, ends, value):
        """Nothing beyond the largest loss, 1 - e^eps below the least, and `value` between."""
        if not eps.exp() < ends[1]:
            return arb(0)
        return value() if eps.exp() > ends[0] else -eps.expm1()

    def remove(eps):
        def value():
            x = edge(eps.exp())
            return mixed(x, ball(e)) - eps.exp() * beyond(x, arb(0))

        return parted(eps, (ratio(arb(0)), ratio(ball(e))), value)

    def add(eps):
        def value():
            x = edge((-eps).exp())
            return 1 - beyond(x, arb(0)) - eps.exp() * (1 - mixed(x, ball(e)))

        return parted(eps, (1 / ratio(ball(e)), 1 / ratio(arb(0))), value)

    def replace(eps):
        def value():
            x = -ball(e).mid()
            x = halved(lambda y: ratio(y) - eps.exp() * ratio(-y), x, -x)
            return mixed(x, ball(e)) - eps.exp() * mixed(x, -ball(e))

        most = ratio(ball(e)) / ratio(arb(0))
        return parted(eps, (1 / most, most), value)

    return {"remove": remove, "add": add, "replace": replace}[direction]


def signs_of(n, k):
    """The coefficients of (E - 1/E)^k (E + 1/E)^(n - k), from E^n down."""
    signs = [1]
    for j in range(n):
        sign = -1 if j < k else 1
        signs = [a + sign * b for a, b in zip([*signs, 0], [0, *signs], strict=True)]
    return signs


def laplace_terms(uses):
    """The coefficient of each 1/z^k at each place."""
    terms = {(0, ZERO): ONE}
    for e, n in uses:
        one = {}
        for k in range(n + 1):
            for j, a in enumerate(signs_of(n, k)):
                one[k, (n - 2 * j) * e] = Fraction(math.comb(n, k) * a, 2**k)
        longer = {}
        for ((k, a), x), ((l, b), y) in product(terms.items(), one.items()):
            longer[k + l, a + b] = longer.get((k + l, a + b), ZERO) + x * y
        terms = {key: value for key, value in longer.items() if value}
    return terms


def laplace_sum(uses):
    """A sum of Laplace mechanisms, (e, count) each, by the partial fractions of the module's docstring."""
    places = {}
    for (k, a), x in laplace_terms(uses).items():
        places.setdefault(a, []).append((k, x))
    half = sum((e * n for e, n in uses), ZERO) / 2
    scale = 2 ** sum(n for _, n in uses)

    def value(eps):
        found = arb(0)
        for a, powers in places.items():
            w = ball(a) - eps
            if not w > 0:  # on an atom: its part is at most e^(a/2) w
                found += arb(0, 1) * above(w) * (ball(a) / 2).exp() * sum(abs(ball(x)) for _, x in powers)
                continue
            near, far = (ball(a) / 2).exp(), (eps - ball(a) / 2).exp()
            down, up, power, order = arb(0), arb(0), arb(1), 0  # of e^(-y/2), of e^(y/2), w^(k-1)/(k-1)!
            shrunk, grown = (-w / 2).exp(), (w / 2).exp()
            for k, x in sorted(powers):
                while order < k:
                    order += 1
                    if order == 1:
                        down, up = 2 * (1 - shrunk), 2 * (grown - 1)
                    else:
                        power = power * w / (order - 1)
                        down, up = 2 * down - 2 * shrunk * power, 2 * grown * power - 2 * up
                found += ball(x) * (near - far if k == 0 else near * down - far * up)
        return found * (-ball(half)).exp() / scale

    return value


# Atoms: (P, Q) masses of outcomes, or masses on a lattice of losses


def outcomes(use, direction):
    """The masses of each outcome under P and under Q."""
    name, *given = use
    if name in {"pair", "sampled pair"}:
        p, q = ([ball(x) for x in part] for part in given[:2])
        if name == "sampled pair":
            r = ball(given[2])
            p = [(1 - r) * y + r * x for x, y in zip(p, q, strict=True)]  # a unit takes part, or the law is Q
        return list(zip(p, q, strict=True) if direction != "add" else zip(q, p, strict=True))
    if name in {"approx", "leak"}:
        e, d = (given[0], given[1]) if name == "approx" else (ZERO, given[0])
        likely, keep = 1 / (1 + (-ball(e)).exp()), 1 - ball(d)
        both = [(keep * likely, keep * (1 - likely)), (keep * (1 - likely), keep * likely)]
        return [*both, (ball(d), arb(0)), (arb(0), ball(d))]
    masses, start, step = lattice(use)
    losses = [start + k * step for k in range(len(masses))]
    return [(m, m * (-ball(l)).exp()) for m, l in zip(masses, losses, strict=True) if m > 0]


def lattice(use):
    """P-masses of the losses start, start + step, ...; start and step exact."""
    name, e, *given = use
    if name == "response":  # the true one of k answers, each other one, or a third one: e^eps to 1
        whole = ball(e).exp() + given[0] - 1
        return [1 / whole, (given[0] - 2) / whole, ball(e).exp() / whole], -e, e
    if name == "silent":
        likely = 1 / (1 + (-ball(e)).exp())
        return [(1 - likely) / 2, arb(1) / 2, likely / 2], -e, e
    if name == "geometric":  # P is moved by D against Q, between them the ratio falls by e^(2 e/D) a step
        d, a = given[0], ball(e / given[0])
        b = (-a).exp()
        return [b**d / (1 + b), *((1 - b) / (1 + b) * b**x for x in range(d - 1, 0, -1)), 1 / (1 + b)], -e, 2 * e / d
    if name == "staircase":
        return staircase(e, *given)
    sigma2, d = e, given[0]
    far = math.ceil(math.sqrt(float(sigma2)) * 42) + 8 + d  # beyond: below e^(-880)
    weights = [(-ball(Fraction(x * x) / (2 * sigma2))).exp() for x in range(far, -far - 1, -1)]
    whole = sum(weights, arb(0))
    return [w / whole for w in weights], Fraction(d * d - 2 * far * d) / (2 * sigma2), Fraction(d) / sigma2


def staircase(e, d, r):
    """Noise whose mass falls by e^-eps at r, r + D, r + 2D, ... on either side; moved by D."""
    b = (-ball(e)).exp()

    def height(x):
        return (abs(x) + d - r) // d  # how many times it fell

    cells = range(-3 * d, 4 * d + 1)
    norm = 2 * (r + (d - r) * b) / (1 - b) - 1
    masses = {-1: arb(0), 0: arb(0), 1: arb(0)}
    for x in cells:
        masses[height(x - d) - height(x)] += b ** height(x) / norm
    # beyond both, by whole periods: the ratio is that of one fall more
    left = sum((b ** height(x) / norm for x in range(-4 * d, -3 * d)), arb(0)) / (1 - b)
    right = sum((b ** height(x) / norm for x in range(4 * d + 1, 5 * d + 1)), arb(0)) / (1 - b)
    masses[1] += left
    masses[-1] += right
    return [masses[-1], masses[0], masses[1]], -e, e


def powers(pairs, n):
    """Masses of n copies, outcome by outcome."""
    if math.comb(n + len(pairs) - 1, len(pairs) - 1) > MOST_ATOMS:
        raise NoTruthError("too many atoms")
    found = [(n, arb(1), arb(1))]
    for last, (p, q) in zip([*[False] * (len(pairs) - 1), True], pairs, strict=True):
        found = [
            (left - k, x * p**k * math.comb(left, k), y * q**k * math.comb(left, k))
            for left, x, y in found
            for k in ([left] if last else range(left + 1))
        ]
    return [(x, y) for _, x, y in found]


def multiplied(uses, direction):
    """All outcomes of all uses."""
    found = [(arb(1), arb(1))]
    for use, n in uses:
        more = powers(outcomes(use, direction), n)
        if len(found) * len(more) > MOST_ATOMS:
            raise NoTruthError("too many atoms")
        found = [(p * x, q * y) for p, q in found for x, y in more]
    return found


def on_lattice(use, n, eps):
    """Delta of n copies of one lattice: the coefficients of a power of a polynomial."""
    masses, start, step = lattice(use)
    if (len(masses) - 1) * n > 40 * MOST_ATOMS:
        raise NoTruthError("too long a lattice")
    law = arb_poly(masses) ** n
    first = max(math.floor((eps - n * start) / step) + 1, 0)
    length = (len(masses) - 1) * n
    total, ratio = arb(0), (-ball(step)).exp()
    gap = (ball(eps - n * start - first * step)).exp()
    for k in range(first, length + 1):
        total += law[k] * (1 - gap)
        gap *= ratio
    missed = arb(0) if use[0] != "discrete gaussian" else arb(n) * arb("1e-370")
    return total + arb(0, 1) * missed


def smooth_part(uses, direction):
    """Delta of all uses without atoms."""
    if not uses:
        return no_part
    name, count = uses[0][0][0], sum(n for _, n in uses)
    if any(use[0] != name for use, _ in uses):
        raise NoTruthError("several smooth parts")
    if name == "gaussian":
        return gaussian(sum((n * use[1] ** 2 for use, n in uses), ZERO))
    if name == "laplace":
        if count > 60 or math.prod((n + 1) ** 2 for _, n in uses) > MOST_ATOMS:
            raise NoTruthError("too many Laplace mechanisms")
        return laplace_sum([(use[1], n) for use, n in uses])
    if count > 1:
        raise NoTruthError("several sampled steps")
    law = sampled_gaussian if name == "sampled gaussian" else sampled_laplace
    return law(*uses[0][0][1:], "replace" if direction == "replace_back" else direction)


def closed(uses, direction, eps):
    """Delta by closed forms and sums at the present precision."""
    atoms = [(use, n) for use, n in uses if use[0] not in SMOOTH]
    if direction.startswith("replace") and any(use[0] == "sampled pair" for use, _ in atoms):
        raise NoTruthError("a sampled pair has no replace-one")
    part = smooth_part([(use, n) for use, n in uses if use[0] in SMOOTH], direction)
    if not atoms:
        return above(part(ball(eps)))
    if part is no_part and len(atoms) == 1 and atoms[0][0][0] in LATTICES:
        return on_lattice(*atoms[0], eps)
    total, at = arb(0), ball(eps)
    for p, q in multiplied(atoms, {"replace": "remove", "replace_back": "add"}.get(direction, direction)):
        if q > 0 and p > 0:
            total += above(p - at.exp() * q) if part is no_part else p * above(part(at - (p / q).log()))
        elif p > 0:
            total += p
    return total


# Contours


def nodes(use, direction, each, reach):
    """P-masses and losses at nodes, in balls: the trapezoidal rule in the noise for a sampled Gaussian, the law for atoms."""
    if use[0] != "sampled gaussian":
        return [(p, (p / q).log()) for p, q in outcomes(use, direction) if p > 0 and q > 0]
    _, mu, q = use
    m, rate, h = ball(mu), ball(q), arb(1) / each
    low, high = -16, 16 + math.ceil(float(mu) * (2 + reach))
    low = -high if direction.startswith("replace") else low
    grown, pace = (m * low - m * m / 2).exp(), (m * h).exp()
    bell, turn, more = (-(arb(low) ** 2) / 2).exp(), (-h * low - h * h / 2).exp(), (-h * h).exp()
    found, share, back = [], h / (2 * arb.pi()).sqrt(), (-m * m).exp()
    for _ in range((high - low) * each + 1):
        r = 1 - rate + rate * grown
        if direction == "add":
            found.append((share * bell, -r.log()))
        elif direction == "remove":
            found.append((share * bell * r, r.log()))
        else:
            found.append((share * bell * r, (r / (1 - rate + rate * back / grown)).log()))
        grown, bell, turn = grown * pace, bell * turn, turn * more
    return found


def float_log_mgf(uses, direction):
    """Log M, its second derivative included, roughly, in floats: for the choice of a line."""
    laws, squares, rates = [], 0.0, []
    for use, n in uses:
        if use[0] == "gaussian":
            squares += n * float(use[1]) ** 2
        elif use[0] == "laplace":
            rates.append((float(use[1]), n))
        elif use[0] == "sampled gaussian":
            mu, q = float(use[1]), float(use[2])
            u = np.arange(-16, 16 + 12 * mu, 0.1)
            u = np.concatenate([-u[::-1], u]) if direction.startswith("replace") else u
            plus, minus = (np.log1p(q * np.expm1(np.minimum(s * mu * u - mu * mu / 2, 690))) for s in (1, -1))
            weight = -0.5 * u * u + math.log(0.1 / math.sqrt(2 * math.pi))
            loss = {"remove": plus, "add": -plus}.get(direction, plus - minus)
            laws.append((weight + (0 if direction == "add" else plus), loss, n))
        else:
            pairs = [(p, q) for p, q in outcomes(use, direction) if p > 0 and q > 0]
            laws.append(
                (np.array([float(p.log()) for p, _ in pairs]), np.array([float((p / q).log()) for p, q in pairs]), n)
            )

    def value(s):
        total, bend = squares * s * (s + 1) / 2, squares
        for weight, loss, n in laws:
            tilted = weight + s * loss
            top = tilted.max()
            mass = np.exp(tilted - top)
            mean = mass @ loss / mass.sum()
            total += n * (top + math.log(mass.sum()))
            bend += n * float(mass @ (loss - mean) ** 2 / mass.sum())
        for e, n in rates:
            z = math.exp(-(1 + 2 * s) * e)
            total += n * (s * e + math.log(((1 + s) + s * z) / (1 + 2 * s)))
            bend += n * min(e, 1 / (1 + 2 * s)) ** 2
        return total, bend

    return value


def contour(uses, direction, epsilons, fine=1, most=100_000):
    """Delta at epsilons that lie close together, in one line.

    Atoms return for ever, so the line ends only where the parts without atoms have died.
    """
    rough, eps = float_log_mgf(uses, direction), float(epsilons[0])

    def exponent(x):
        s = math.exp(x)
        return rough(s)[0] - s * eps - math.log(s * (s + 1))

    low, high = -12.0, 7.0
    for _ in range(60):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, b) if exponent(a) < exponent(b) else (a, high)
    lam = Fraction(math.exp(low)).limit_denominator(1 << 30) or Fraction(1, 1 << 30)
    deviation = math.sqrt(max(rough(float(lam))[1], 1e-300))
    step = Fraction(2 * math.pi / (fine * (15 * deviation + 70 / float(lam))))
    for longer in range(4):
        reach = 16 / deviation * 3**longer  # the frequencies for which nodes are close enough
        found = along(uses, direction, epsilons, (lam, step, reach, fine), most * fine * fine)
        if found is not None:
            return found
    raise NoTruthError("the terms do not decay")


def along(uses, direction, epsilons, line, most):
    """The sum on one line, or None where it would go beyond its reach."""
    lam, step, reach, fine = line
    laws, known, used = [], [], 0
    for use, n in uses:
        if use[0] in {"gaussian", "laplace"}:
            known.append((use, n))
            continue
        each = fine * math.ceil(8 + float(use[1]) * reach / 2) if use[0] == "sampled gaussian" else 1
        law = [(p * (ball(lam) * l).exp(), l) for p, l in nodes(use, direction, each, float(lam))]
        whole = sum((p for p, _ in law), arb(0))
        law = [(acb(p / whole), acb(0, ball(step) * l).exp()) for p, l in law if p > whole * arb("1e-45")]
        used += len(law)
        laws.append([use, whole, n, [p for p, _ in law], [turn for _, turn in law]])
    if reach / float(step) * max(used, 20) > 4 * most:
        raise NoTruthError("a line would be too long")
    totals, quiet, j = [acb(0)] * len(epsilons), 0, 0
    scale = sum((n * whole.log() for _, whole, n, _, _ in laws), arb(0))
    while quiet < 16:
        s = acb(ball(lam), ball(step) * j)
        log, smooth = acb(0), arb(0)
        for law in laws:
            value = law[2] * sum(law[3], acb(0)).log()
            log += value
            smooth += value.real if law[0][0] == "sampled gaussian" else 0
            law[3] = [p * turn for p, turn in zip(law[3], law[4], strict=True)]
        for use, n in known:
            e = ball(use[1])
            if use[0] == "gaussian":
                log += n * e * e * s * (s + 1) / 2
                smooth -= n * e * e * s.imag**2 / 2
            else:
                log += n * (((s * e).exp() * (1 + s) + (-(1 + s) * e).exp() * s) / (1 + 2 * s)).log()
        quiet = quiet + 1 if smooth < -74 else 0
        term = log.exp() / (s * (s + 1))
        for i, x in enumerate(epsilons):
            totals[i] += term * (-s * ball(x)).exp() * (1 if j == 0 else 2)
        j += 1
        if j * float(step) > reach:
            return None
        if j * max(used, 20) > most:
            raise NoTruthError("the terms do not decay")
    factor = ball(step) / (2 * arb.pi()) * scale.exp()
    return [total.real * factor for total in totals]


REVERSE = {"remove": "add", "add": "remove", "replace": "replace_back", "replace_back": "replace"}


def by_contour(uses, direction, epsilons):
    """Values with the error that two resolutions show; below 0, delta(eps) = 1 - e^eps + e^eps delta'(-eps) of Q and P."""
    if direction in {"replace", "replace_back"} and any(use[0] in PAIRS for use, _ in uses):
        raise NoTruthError("contours of pairs are for add/remove")
    with ctx.workprec(220):
        if epsilons[0] < 0:
            back = by_contour(uses, REVERSE[direction], [-x for x in epsilons])
            return [-ball(x).expm1() + ball(x).exp() * y for x, y in zip(epsilons, back, strict=True)]
        coarse = contour(uses, direction, epsilons)
        finer = contour(uses, direction, epsilons, fine=2)
        return [y + arb(0, 2) * abs(x - y) for x, y in zip(coarse, finer, strict=True)]


def delta(uses, direction, epsilons, bits=80):
    """Delta of a whole at exact epsilons, relative to `bits` bits or below 1e-330: balls.

    uses: [(use, count)]. Raises NoTruthError where no formula here serves.
    """
    found = []
    for eps in epsilons:
        precision = BITS
        while True:
            with ctx.workprec(precision):
                value = closed(uses, direction, eps)
            if value.rel_accuracy_bits() >= bits or abs(value).upper() < arb("1e-330"):
                break
            precision *= 2
            if precision > MOST_BITS:
                raise NoTruthError("no digits are left")
        found.append(value)
    return found


def range_delta(e, n, eps):
    """The largest delta of one or two mechanisms of bounded range e, the second chosen by the answer of the first.

    One is (1 - e^((eps-e)/2))^2 / (1 - e^-e). Two are the greatest mean of one over the losses t and t - e of the first: searched
    for on both sides of t = eps, from where the first answer is of use, by cells and then by thirds.
    """
    whole = -(-ball(e)).expm1()

    def one(x):
        if not x < ball(e):
            return arb(0)
        return -x.expm1() if x < -ball(e) else ((x - ball(e)) / 2).expm1() ** 2 / whole

    def mean(t):
        share = -(t - ball(e)).expm1() / whole
        return share * one(ball(eps) - t) + (1 - share) * one(ball(eps) - t + ball(e))

    if n == 1:
        return one(ball(eps))
    best, edge = arb(0), min(max(eps, ZERO), e)
    for start, end in ((min(max(eps - e, ZERO), e), edge), (edge, e)):
        width = ball(end - start) / 40
        k = max(range(41), key=lambda k: float(mean(ball(start) + k * width)))
        low, high = ball(start) + max(k - 1, 0) * width, ball(start) + min(k + 1, 40) * width
        for _ in range(70):
            a, b = ((2 * low + high) / 3).mid(), ((low + 2 * high) / 3).mid()
            low, high = (a, high) if mean(a) < mean(b) else (low, b)
        best = best.max(mean(low)).max(mean(ball(end))).max(mean(ball(start)))
    return best * (1 + arb(0, 1e-14))


def allocation_delta(mu, direction, eps):
    """Delta of two steps of random allocation: over one noise by double exponential quadrature, over the other by its law.

    Y = e^(mu x - mu^2/2), and the mean of both is beyond e^eps where the other Y is beyond k = 2 e^(+-eps) - Y. Pieces end at
    k = 0. The resolution doubles until two agree in nine digits; their difference is the error.
    """
    m, bound = ball(mu), 2 * ball(eps if direction == "remove" else -eps).exp()
    kink = bound.log() / m + m / 2

    def value(x, k):
        if not k > 0:
            return 1 - k if direction == "remove" else arb(0)
        far = m / 2 - k.log() / m
        if direction == "remove":
            return tail(-far) - k * tail(m - far)
        return k * tail(far - m) - tail(far)

    def piece(start, width, side, h):
        """From a start to one side; near the kink, k = bound (1 - e^(mu y))."""
        found = arb(0)
        if not width > 0:
            return found
        for j in range(-round(5 / h), round(5 / h) + 1):
            u = arb.pi() / 2 * (j * arb(h)).sinh()
            y = side * width / (1 + (-2 * u).exp())
            k = -bound * (m * (start - kink + y)).expm1()
            weight = width * arb.pi() / 4 * (j * arb(h)).cosh() / u.cosh() ** 2
            found += h * weight * (-((start + y) ** 2) / 2).exp() * value(start + y, k)
        return found / (2 * arb.pi()).sqrt()

    def total(h):
        low, high = arb(-45), 2 * m + 45
        parts = [piece(kink.min(high), kink.min(high) - low, -1, h), piece(kink.max(low), high - kink.max(low), 1, h)]
        return sum(parts, arb(0)) * (1 if direction == "remove" else ball(eps).exp()) / 2

    each, fine = 24, total(1 / 24)
    while each < 700:
        each, coarse, fine = 2 * each, fine, total(1 / (2 * each))
        error = 2 * abs(fine - coarse)
        if error < fine * arb("1e-9"):
            break
    return fine + arb(0, 1) * error
