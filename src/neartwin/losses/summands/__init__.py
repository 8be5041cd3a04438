"""What a privacy loss must know of itself to be summed: its transform, atoms, tails, rounding errors."""
