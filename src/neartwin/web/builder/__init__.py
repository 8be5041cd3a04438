"""The fields of the question page, which write one SQL text.

SQL is never read back into fields. A question beyond the fields is written as SQL.

- `fields`   the fields as typed.
- `sql`      the SQL text that they write.
- `options`  the keys, limits, importance and spend, which stand beside the text.
"""
