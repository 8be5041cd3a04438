"""Random allocation by direct integration: over all noise but the last, which has a closed form, and by one long convolution.

E (Y - k)_+ of a ratio Y = exp(mu x - mu^2/2) is the price of a call. No law is put on values but in `convolved`.
"""

import math

import numpy as np
from scipy.special import ndtr

SPAN, STEP = 10.0, 0.125  # of the trapezoid rule in each noise, in its deviations


def call(k, mu):
    """E (Y - k)_+, at any real k."""
    far = 0.5 * mu - np.log(np.maximum(k, 1e-300)) / mu
    return np.where(k > 0, ndtr(far) - k * ndtr(far - mu), 1 - k)


def delta(mu, steps, epochs, eps, direction):
    """Delta of all epochs, by a trapezoid rule in every noise but one: at most three."""
    x = np.arange(-SPAN, SPAN + 2 * mu + STEP, STEP)
    ratio, weight = np.exp(mu * x - 0.5 * mu * mu), STEP * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    count = steps * epochs - 1
    spots = np.meshgrid(*[ratio] * count, indexing="ij")
    shares = math.prod(np.meshgrid(*[weight] * count, indexing="ij"))
    sums = [sum(spots[e * steps : min((e + 1) * steps, count)], 0.0) for e in range(epochs)]
    *whole, rest = sums
    factor = math.prod(whole, start=1.0) / steps**epochs  # R = factor (rest + Y)
    bound = math.exp(eps if direction == "remove" else -eps)
    k = bound / factor - rest
    if direction == "remove":
        return float((shares * factor * call(k, mu)).sum())
    return float((shares * factor * (call(k, mu) - 1 + k)).sum()) * math.exp(eps)


def convolved(mu, steps, eps, direction, *, step=0.02, size=1 << 20):
    """About delta of one epoch of many steps: ratios rounded to multiples of a step, and their sum by one Fourier transform."""
    edges = (np.arange(size + 1) - 0.5) * step
    x = np.log(np.maximum(edges, 1e-300)) / mu + 0.5 * mu
    law = np.diff(ndtr(x))
    law[-1] += ndtr(-x[-1])
    total = np.maximum(np.fft.irfft(np.fft.rfft(law, 2 * size) ** steps, 2 * size), 0.0)
    ratios = np.arange(2 * size) * (step / steps)
    if direction == "remove":
        return float(total @ np.maximum(ratios - math.exp(eps), 0.0))
    return float(total @ np.maximum(1 - math.exp(eps) * ratios, 0.0))
