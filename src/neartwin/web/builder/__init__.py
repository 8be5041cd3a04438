"""A question as the fields of a page, and its two other writings: the service's JSON form, and SQL.

Fields, JSON and SQL are three ways to write one question. What SQL has no words for (bounds, keys, steps, regressions) stays in
its fields while the text changes.

- `fields`  the fields as they were typed.
- `groups`  groups by what is computed: parts of dates, bins, expressions.
- `forms`   the JSON form of the fields, what it may cost, and the bounds.
- `over`    sums over the groups.
- `texts`   the fields as SQL, and SQL as fields.
"""

from neartwin.web.builder.fields import (
    CURRENCIES,
    FIELDS,
    KEYS,
    MOST_GROUPED,
    MOST_STATISTICS,
    OVER,
    VERBS,
    Asked,
    Wanted,
    as_fields,
    of_fields,
    read,
    start,
)
from neartwin.web.builder.forms import after_form, after_of, form, limits, named, spend
from neartwin.web.builder.groups import WAYS, Grouped, recognised
from neartwin.web.builder.texts import from_sql, sql
from neartwin.web.builder.typed import UnwordedError

__all__ = [
    "CURRENCIES",
    "FIELDS",
    "KEYS",
    "MOST_GROUPED",
    "MOST_STATISTICS",
    "OVER",
    "VERBS",
    "WAYS",
    "Asked",
    "Grouped",
    "UnwordedError",
    "Wanted",
    "after_form",
    "after_of",
    "as_fields",
    "form",
    "from_sql",
    "limits",
    "named",
    "of_fields",
    "read",
    "recognised",
    "spend",
    "sql",
    "start",
]
