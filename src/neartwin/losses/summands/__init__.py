"""Summands: the transform, atoms, tails and rounding errors of a privacy loss, for sums."""
