"""The next question of a growing whole: the line of the last one with other counts.

A line is good for any whole; only where it stands decides how narrow it is. A whole that has one use more than the last has
nearly the same saddle, so the frequencies stay, the logarithms of one copy of each kind are known already and are multiplied
by their counts, and the certificates are those of contour.py at the same places: the aliases' Chernoff bounds at the same two s,
the cut at the same last frequency. Where the saddle has moved on, they say so by their size, and a new line is built.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.losses.alias import Alias, over
from neartwin.losses.contour import SHORT, Contour, Rounding, poles, rounded
from neartwin.losses.rounding import NoCertificateError
from neartwin.losses.total import Total


@np.errstate(all="ignore")
def follow(total: Total, last: Contour, eps: float, delta: float) -> Contour:
    """The line of `last`, a plain and short one, for another total; eps: where that one met its delta."""
    if last.dip is not None or len(last.t) > SHORT + 1:
        raise NoCertificateError
    lam, t, known = last.saddle.lam, last.t, last.known
    scale, scale_error = total.log_mgf(lam)
    if not math.isfinite(scale):
        raise NoCertificateError
    period, far = last.alias.period, float(t[-1])
    above, below = (over(total, lam, s, period * (1 - 1e-15)) for s in (last.alias.above[0], last.alias.below[0]))
    tail = total.log_tail(lam, far, math.inf)
    log_cut = math.log(2 / (math.pi * far)) + tail + 1e-12 * (2 + abs(tail))
    if "poles" not in known:
        known["poles"] = poles(lam, t, last.step)
    shares, turns = known["poles"]
    real, angle, error = total.parts(lam, t, known)
    size, angle = np.exp(real) * shares, angle - turns
    error = rounded(error, angle, lam, far)
    return Contour(
        saddle=last.saddle._replace(eps=eps + (scale - last.log_scale) / lam, log_delta=math.log(delta)),
        step=last.step,
        t=t,
        size=size,
        angle=angle,
        log_scale=scale,
        scale_error=scale_error,
        dip=None,
        rounding=Rounding.of(size, error, t),
        dip_rounding=Rounding(0.0, 0.0),
        alias=Alias(lam, period, total.top.loss, above, below),
        cut=math.exp(min(log_cut, 700.0)),
        known=known,
    )
