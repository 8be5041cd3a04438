"""Engines: one SQL statement a stage bounds and aggregates where the data is, and exact integers come back."""
