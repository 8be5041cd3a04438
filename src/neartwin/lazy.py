"""Public names of a package that are imported at first use. So a caller of one family loads only that family."""

from collections.abc import Callable, Mapping
from importlib import import_module


def late(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: The package's name.
        homes: The module of each public name.

    Returns:
        The function that finds a name, and the function that lists all names.

    >>> find, names = late("example", {"sqrt": "math"})
    >>> find("sqrt")(9.0), names()
    (3.0, ['sqrt'])
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted(homes)

    return find, names
