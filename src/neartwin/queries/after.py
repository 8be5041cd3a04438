"""What is done to the noisy release, so it costs nothing: shapes, ratios, and what SQL says as HAVING, ORDER BY, LIMIT.

It is no part of a plan: the same question in another order has the same stored answer.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """What is done, in this order. monotone: columns and whether they grow. ratios: name, top, bottom.

    having: over the release's columns. order: column and whether it descends, first things first. limit: None for all.
    """

    monotone: tuple[tuple[str, bool], ...] = ()
    non_negative: tuple[str, ...] = ()
    ratios: tuple[tuple[str, str, str], ...] = ()
    having: str = ""
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0


NOTHING = After()
WAYS = {"increasing": True, "decreasing": False}  # of monotone columns, in words
