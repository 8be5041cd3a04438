"""Frozen values: `dataclass(frozen=True)` as the standard library has it, whose classes are made in a third of the time.

Fields, slots, defaults and match arguments are the standard library's own work, so `fields`, `replace`, `asdict`, copies and
pickles treat these classes as any other. It writes and compiles six functions for every class, most of a millisecond each time
a process starts; here only `__init__` is written, and the others are shared and say the same.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - for who imports it from here
else:

    def dataclass(*, frozen: bool = False, **chosen: bool) -> Callable[[type], type]:
        """`dataclasses.dataclass(frozen=..., ...)` with any of init, repr, eq, slots, kw_only; all of it there where not frozen.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     "A place."
        ...     x: int
        ...     y: int = 2
        >>> Point(1), Point(1) == Point(1, 2), hash(Point(1)) == hash(Point(1))
        (Point(x=1, y=2), True, True)
        >>> Point(1).x = 3
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """
        return partial(_frozen, **chosen) if frozen else dataclasses.dataclass(**chosen)


def _frozen(
    cls: type,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the standard library's name
    eq: bool = True,
    slots: bool = False,
    kw_only: bool = False,
) -> type:
    """The class with its fields, and what a frozen one needs besides, unless it says so itself."""
    said = dict(cls.__dict__)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    known = dataclasses.fields(made)
    made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
    if init:
        made.__init__ = _init(made, known, slots=slots)
    if repr and "__repr__" not in said:
        made.__repr__ = _repr
    if eq:
        if "__eq__" not in said:
            made.__eq__ = _equal([field.name for field in known if field.compare])
        if said.get("__hash__") is None:
            hashed = [field.name for field in known if (field.compare if field.hash is None else field.hash)]
            made.__hash__ = _hash(hashed)
    if slots:
        made.__getstate__, made.__setstate__ = said.get("__getstate__", _state), said.get("__setstate__", _restore)
    return made  # type: ignore[no-any-return]


class _Factory:
    """Stands in a signature for a value that is made anew; shown as the standard library shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_NONE = _Factory()


def _init(cls: type, known: tuple[dataclasses.Field[Any], ...], *, slots: bool) -> Callable[..., None]:
    """The function that takes the fields in order, those by keyword alone last."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_none": _NONE}
    asked: dict[bool, list[str]] = {False: [], True: []}
    body: list[str] = []
    for field in known:
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _none else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_given_{name}"] = field.default
            value = name if field.init else f"_given_{name}"
        if field.init:
            made = f"={'_none' if f'_make_{name}' in names else f'_given_{name}'}" if _optional(field) else ""
            asked[bool(field.kw_only)].append(name + made)
        if field.init or f"_make_{name}" in names or (slots and f"_given_{name}" in names):
            body.append(f"    _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    heads = ["self", *asked[False], *(["*", *asked[True]] if asked[True] else [])]
    exec(f"def __init__({', '.join(heads)}):\n" + "\n".join(body or ["    pass"]), names)  # noqa: S102 - field names, as the standard library does
    found: Callable[..., None] = names["__init__"]
    found.__qualname__ = f"{cls.__qualname__}.__init__"
    found.__module__ = cls.__module__
    ordered = sorted((field for field in known if field.init), key=lambda field: bool(field.kw_only))
    found.__annotations__ = {field.name: field.type for field in ordered} | {"return": None}
    return found


def _optional(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _equal(names: list[str]) -> Callable[[object, object], bool]:
    """Of tuples of these attributes: what is the same object is equal in them."""
    if len(names) == 1:
        (name,) = names
        get = attrgetter(name)

        def __eq__(self: object, other: object) -> bool:  # noqa: N807 - its name in a traceback
            return (get(self),) == (get(other),) if other.__class__ is self.__class__ else NotImplemented

    else:
        values = attrgetter(*names) if names else type

        def __eq__(self: object, other: object) -> bool:  # noqa: N807
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: list[str]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:  # noqa: N807 - its name in a traceback
        return hash(tuple([getattr(self, name) for name in names]))

    return __hash__


@recursive_repr("...")
def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, verb: str) -> None:
    """A subclass that is no such class itself may have attributes of its own."""
    if "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
