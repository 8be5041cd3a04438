"""Questions: rows, groups and statistics as frozen values, and their spellings in SQL and JSON. No row is read."""
