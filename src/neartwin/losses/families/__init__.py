"""One file a family of mechanisms: its privacy loss as a summand."""
