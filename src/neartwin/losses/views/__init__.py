"""Views of a composition: trade-off function, Gaussian DP, zCDP."""
