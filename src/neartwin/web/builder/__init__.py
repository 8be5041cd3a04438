"""The fields of the question page, which write one SQL text.

SQL is never read back into fields. A question beyond the fields is written as SQL.

- `fields`  the fields as typed.
- `task`    the SQL text that they write, and the keys, limits, importance and spend that stand beside it.
"""
