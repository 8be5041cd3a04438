"""Error bars: arithmetic on laws of noise. Takes laws and noisy sums, never data."""
