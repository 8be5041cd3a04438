"""Targets as they are written in options, files and requests: `epsilon=0.5,delta=1e-6`, or a table of the same parts."""

from collections.abc import Callable, Mapping
from dataclasses import fields

from neartwin.accounting.targets import Target, advantage, approx, gdp, pure, rdp, three_pools, zcdp
from neartwin.errors import ParameterError

_MAKERS: dict[frozenset[str], Callable[..., Target]] = {
    frozenset({"epsilon"}): pure,
    frozenset({"epsilon", "delta"}): approx,
    frozenset({"rho"}): zcdp,
    frozenset({"mu"}): gdp,
    frozenset({"order", "epsilon"}): rdp,
    frozenset({"epsilon", "mu"}): three_pools,
    frozenset({"advantage"}): advantage,
}


def target_of(written: Mapping[str, object], name: str, shown: str = "") -> Target:
    """The target whose parts these are, each decimal text, a fraction like "1/3", or a number.

    name: of the option or field, for the refusal. shown: how its user wrote it, where that was another way.

    >>> target_of({"epsilon": "0.5", "delta": "1e-6"}, "spend")
    Approx(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
    >>> target_of({"delta": "1e-6"}, "spend")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: spend={'delta': '1e-6'} must be epsilon=..., epsilon=...,delta=..., rho=..., ...
    """
    parts = dict(written)
    make = _MAKERS.get(frozenset(parts)) or _MAKERS.get(frozenset(parts) - {"delta"})
    if make is None or (make is pure and "delta" in parts):
        raise ParameterError(
            name,
            shown or parts,
            "must be epsilon=..., epsilon=...,delta=..., rho=..., mu=..., order=...,epsilon=..., epsilon=...,mu=... or "
            "advantage=...",
            remedy="all but the first may have a delta=...",
        )
    if "advantage" in parts:
        parts["value"] = parts.pop("advantage")
    return make(**parts)


def target_in(text: str, name: str) -> Target:
    """The target that a text says.

    >>> str(target_in("mu=1, delta=1e-9", "budget"))
    'mu=1, delta=1e-09'
    """
    parts: dict[str, object] = {}
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if not sign or not key.strip() or not value.strip() or key.strip() in parts:
            raise ParameterError(name, text, "must be name=value, with commas between", remedy="such as epsilon=0.5")
        parts[key.strip()] = value.strip()
    return target_of(parts, name, text)


def parts_of(target: Target) -> dict[str, str]:
    """The parts that `target_of` reads back, exact.

    >>> parts_of(target_in("epsilon=1/3", "spend"))
    {'epsilon': '1/3'}
    """
    found = {field.name: getattr(target, field.name) for field in fields(target)}
    renamed = {"advantage" if name == "value" else name: value for name, value in found.items()}
    return {name: str(value) for name, value in renamed.items() if value or name != "delta"}
