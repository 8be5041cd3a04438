"""Questions written in SQL."""
