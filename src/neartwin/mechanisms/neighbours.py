"""Which two data sets must be indistinguishable. Every sensitivity, curve and price is for one of the two relations."""

from enum import StrEnum


class Neighbours(StrEnum):
    """One unit added or removed, or one unit's rows replaced by any others."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
