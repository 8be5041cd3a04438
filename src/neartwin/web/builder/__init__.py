"""The fields of the question page, which write one SQL text.

The fields write SQL, and SQL is never read back into fields. What they cannot say is said in the SQL.

- `fields`   the fields as typed.
- `sql`      the SQL text that they write.
- `options`  what stands beside the text: keys, limits, weights, spend.
"""
