"""The same composition as trade-off function, Gaussian DP or zCDP."""
