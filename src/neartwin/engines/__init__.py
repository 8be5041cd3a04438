"""Where the data lives: one SQL statement a stage bounds and aggregates there, and exact integers come back."""
