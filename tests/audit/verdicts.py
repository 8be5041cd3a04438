"""Verdicts on mechanisms that draw fresh randomness, so that no test fails by bad luck.

A sound claim is refuted in one game of a thousand at most. `stands` lets a mechanism play again until a game does not refute
it, four games at most: a sound one loses all four once in 10^12. One that is truly broken loses them all.
"""

from itertools import repeat

from neartwin.audit.game import audit

GAMES = 4


def stands(mechanism, claim, twins, *, runs, search_runs=200):
    """Whether some game out of four does not refute the claim; the later ones on the pair that looked worst."""
    found = audit(mechanism, claim, twins, runs=runs, search_runs=search_runs)
    again = (audit(mechanism, claim, [found.twins], runs=runs) for _ in repeat(None, GAMES - 1))
    return not (found.refuted and all(game.refuted for game in again))
