"""Polygons on either side of a curve: by chords above it, by support lines below it.

Orders, maxima and moments of general curves rest on the two. Below: f(a) >= 1 - delta(epsilon) - e^epsilon a for
every epsilon, so any finite set of lines with delta rounded up is a lower bound. Above: f is convex, so it lies under
the chords of any points that are not below it.
"""

import numpy as np

from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.families import EpsilonDelta
from neartwin.tradeoff.finite import FinitePair, from_masses
from neartwin.tradeoff.functions import UNIT, TradeOff, clipped, ends


def knots_below(slopes: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The corners of max(0, heights - slopes a) on [0, 1].

    The lines of their upper envelope are the corners of the lower hull of the points (slope, -height). Values are then
    rounded down by a few units in the last place.

    Args:
        slopes: (n,) positive slopes.
        heights: (n,) heights at a = 0.

    Returns:
        The alphas and the betas of the corners, down to beta = 0.
    """
    # the floor beta = 0 is a line too, and may hide others
    slope, height = np.append(slopes[heights > 0], 0.0), np.append(heights[heights > 0], 0.0)
    order = np.lexsort((-height, slope))
    slope, first = np.unique(slope[order], return_index=True)  # of equal slopes the highest
    height = height[order][first]
    places = hull_places(slope, -height)
    places = places[: int(np.argmax(height[places])) + 1][::-1]  # from the highest at a = 0 on, ever flatter
    s, t = slope[places], height[places]
    if s.size == 1:
        return np.array([0.0, 1.0]), np.array([0.0, 0.0])
    alphas = np.clip((t[:-1] - t[1:]) / (s[:-1] - s[1:]), 0.0, 1.0)
    alphas = np.concatenate(([0.0], np.maximum.accumulate(alphas)))
    index = np.concatenate(([0], np.arange(s.size - 1)))  # the line that ends at each corner
    return np.append(alphas, 1.0), np.append(np.maximum(t[index] - s[index] * alphas, 0.0), 0.0)


def hull(alphas: FloatArray, betas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lower convex hull of points.

    Args:
        alphas: (n,) horizontal coordinates, ascending.
        betas: (n,) vertical coordinates.

    Returns:
        The alphas and the betas of the hull's corners.
    """
    places = hull_places(alphas, betas)
    return alphas[places], betas[places]


def hull_places(alphas: FloatArray, betas: FloatArray) -> list[int]:
    """The corners of the lower convex hull of points.

    Args:
        alphas: (n,) horizontal coordinates, ascending.
        betas: (n,) vertical coordinates.

    Returns:
        The corners' places among the points, ascending.
    """
    kept: list[int] = []
    for i in range(alphas.size):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            left = (betas[b] - betas[a]) * (alphas[i] - alphas[b])
            if left < (betas[i] - betas[b]) * (alphas[b] - alphas[a]):
                break
            kept.pop()
        kept.append(i)
    return kept


def pair_through(alphas: FloatArray, betas: FloatArray) -> FinitePair:
    """The curve through knots from (0, f(0)) to (1, 0).

    Args:
        alphas: (n,) horizontal coordinates, ascending.
        betas: (n,) vertical coordinates.

    Returns:
        The curve.
    """
    p = np.concatenate(([0.0], np.diff(alphas)))
    q = np.concatenate(([1.0 - betas[0]], -np.diff(betas)))
    return from_masses(np.maximum(p, 0.0), np.maximum(q, 0.0), slack=8 * UNIT)


def losses_grid(curve: TradeOff, size: int) -> FloatArray:
    """Epsilons that follow the curve: dense where its slope turns, and as far as it has losses.

    It is a heuristic, which decides the tightness of polygons and never their validity.

    Args:
        curve: The curve.
        size: The number of epsilons.

    Returns:
        The epsilons, ascending.
    """
    reach = 0.25
    for _ in range(12):
        left = ends(curve.delta(np.array([reach, 2 * reach])))[1]
        if left[0] - left[1] < 1e-13:
            break
        reach *= 2
    fine = np.linspace(-reach, reach, 8192)
    lower, upper = ends(curve.delta(fine))
    # minus d delta/d e^epsilon is the type I error at which the slope is e^epsilon, and its mirror image
    level = -np.gradient(0.5 * (lower + upper), fine) * np.exp(-fine)
    turn = np.abs(np.diff(level)) * np.maximum(1.0, np.exp(fine[1:]))
    weight = np.cumsum(np.sqrt(turn) + 1e-3 * np.sqrt(turn).mean() + 1e-300)
    return np.asarray(np.interp(np.linspace(0, 1, size), weight / weight[-1], fine[1:]))


def polygon_below(curve: TradeOff, losses: FloatArray) -> FinitePair:
    """The largest of the curve's support lines at the given epsilons, delta rounded up: f >= it everywhere.

    Args:
        curve: f.
        losses: (n,) any real numbers. More of them only lift the polygon.

    Returns:
        The polygon.
    """
    epsilon = np.unique(np.append(losses, [0.0]))
    heights = 1.0 - ends(curve.delta(epsilon))[1] - 32 * UNIT
    alphas, betas = knots_below(np.exp(epsilon) * (1 + 8 * UNIT), heights)
    return pair_through(alphas, np.where(alphas >= 1, 0.0, np.maximum(betas - 32 * UNIT, 0.0)))


def polygon_above(curve: TradeOff, alphas: FloatArray) -> FinitePair:
    """The chords of the curve at the given type I errors, beta rounded up: f <= it everywhere.

    Args:
        curve: f.
        alphas: (n,) in [0, 1]; 0 and 1 are added. More of them only lower the polygon.

    Returns:
        The polygon.
    """
    grid = np.unique(np.concatenate(([0.0, 1.0], alphas)))
    beta = np.minimum(ends(curve.beta(grid))[1], 1 - grid)
    beta = np.where(grid >= 1, 0.0, np.minimum(beta + 32 * UNIT, 1.0))
    return pair_through(*hull(grid, beta))


def alphas_grid(curve: TradeOff, size: int) -> FloatArray:
    """Type I errors that follow the curve: even in alpha, and geometric towards both ends.

    Args:
        curve: The curve.
        size: The number of errors.

    Returns:
        The errors, ascending.
    """
    even = np.linspace(0, 1, size // 2)
    tail = np.geomspace(1e-12, 0.5, size // 4)
    return np.unique(np.concatenate((even, tail, np.clip(ends(curve.beta(tail))[0], 0.0, 1.0))))


def corners_below(alphas: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of a lower bound of a convex function that is known only between `lower` and `upper` at points.

    Right of a point a convex function lies above the line through it and its left neighbour, and so mirrored. In each
    cell the two lines cross at a corner. The bound is the hull of the corners and the points.

    Args:
        alphas: The points, increasing.
        lower: Lower bounds of the function there.
        upper: Upper bounds of the function there.

    Returns:
        The corners' alphas and values.
    """
    width = np.diff(alphas)
    least, most = (lower[1:] - upper[:-1]) / width, (upper[1:] - lower[:-1]) / width  # bounds on each chord's slope
    from_left, from_right = least[:-2], most[2:]  # for the cells that have two neighbours
    left, right = alphas[1:-2], alphas[2:-1]
    gap = np.minimum(from_left - from_right, -1e-300)
    cross = (lower[2:-1] - from_right * right - lower[1:-2] + from_left * left) / gap
    cross = np.clip(cross, left, right)
    value = np.maximum(lower[1:-2] + from_left * (cross - left), lower[2:-1] + from_right * (cross - right))
    first = lower[1] - most[1] * width[0]  # the first cell has a right neighbour alone, the last a left one
    last = lower[-2] + least[-2] * width[-1]
    reach = min(lower[-2] * (1 - 1e-15) / max(-least[-2], lower[-2], 1e-300), 1 - alphas[-2])  # there that line is at 0
    ends = min(first, lower[0]), lower[-2] + least[-2] * reach, min(last, lower[-1])
    points = np.concatenate((alphas, cross, [0.0, alphas[-2] + reach, 1.0]))
    values = np.concatenate((lower, value, ends))
    order = np.lexsort((values, points))
    return points[order], np.maximum(values[order], 0.0)


def _furthest(points: FloatArray, values: FloatArray, factor: FloatArray) -> FloatArray:
    """The maximum of 1 - values - factor points over a convex chain, by its slopes; neighbours guard the rounding."""
    index = np.searchsorted(np.diff(values) / np.maximum(np.diff(points), 1e-300), -factor)
    near = [np.clip(index + step, 0, points.size - 1) for step in (-1, 0, 1)]
    return np.asarray(np.max([1 - values[k] - factor * points[k] for k in near], axis=0))


def delta_by_points(curve: TradeOff, epsilon: FloatArray, size: int = 4096) -> Interval[FloatArray]:
    """The delta at epsilon of a curve that offers only beta: the best point found, and the best corner below.

    Args:
        curve: The curve.
        epsilon: (n,) real numbers.
        size: The number of points.

    Returns:
        (n,) bounds.
    """
    alphas = np.unique(np.append(alphas_grid(curve, size), [0.0, 1.0]))
    low, high = ends(curve.beta(alphas))
    factor = np.exp(np.minimum(np.asarray(epsilon, dtype=np.float64), 700.0))
    lower = _furthest(*hull(alphas, high), factor)
    upper = _furthest(*hull(*corners_below(alphas, low, high)), factor)
    room = 16 * UNIT  # at the best point factor * alpha is at most 1
    floor = np.maximum(0.0, 1 - factor)
    return clipped(np.maximum(lower - room, floor - room), np.maximum(upper + room, floor + room), "polygons")


def four_outcomes(curve: EpsilonDelta) -> FinitePair:
    """f_{epsilon,delta} as a finite pair: delta gives all away, the rest is randomized response."""
    kept, mass = float(1 - curve.delta_mass), float(curve.delta_mass)
    shrink = float(np.exp(-float(curve.epsilon)))
    truth = kept / (1 + shrink)
    P = np.array([0.0, truth * shrink, truth, mass])
    return from_masses(P, P[::-1].copy(), slack=16 * UNIT * (1 + float(curve.epsilon)))


def bracket(curve: TradeOff, size: int = 1024) -> tuple[FinitePair, FinitePair]:
    """A polygon below the curve and one above it. A finite pair of at most `size` outcomes is its own bracket.

    Args:
        curve: The curve.
        size: The number of points.

    Returns:
        The lower and the upper polygon.
    """
    if isinstance(curve, EpsilonDelta):
        curve = four_outcomes(curve)
    if isinstance(curve, FinitePair) and curve.P.size <= size:
        return curve, curve
    below = polygon_below(curve, losses_grid(curve, size))
    return below, polygon_above(curve, below.alphas)


def excess(above: TradeOff, below: TradeOff, size: int = 2048) -> Interval[float]:
    """The supremum over alpha of above - below, certified: f >= g everywhere iff the excess of g over f is <= 0.

    The lower end is attained at a type I error, so a positive one refutes the order. The upper end comes from a polygon
    above the one and a polygon below the other, whose largest difference is at a corner.

    Args:
        above: The curve from which the other is subtracted.
        below: The subtracted curve.
        size: The number of points.

    Returns:
        The supremum, as an interval.

    >>> from neartwin.tradeoff.families import gaussian, identity
    >>> excess(gaussian(1), identity()).upper < 1e-12
    True
    >>> excess(identity(), gaussian(1)).lower > 0.38
    True
    """
    _, high = bracket(above, size)
    low, _ = bracket(below, size)
    corners = np.unique(np.concatenate((high.alphas, low.alphas)))
    over = np.max(ends(high.beta(corners))[1] - ends(low.beta(corners))[0])
    under = np.max(ends(above.beta(corners))[0] - ends(below.beta(corners))[1])
    # both curves vanish at alpha = 1
    return Interval(float(min(under, over)), float(over), "polygons")
