"""A second opinion on a certificate: (epsilon, delta) again, from the parameters of the mechanisms that it lists.

    python -m neartwin.releases.certificates.recompute visits.json

This file imports the standard library and python-flint alone, so a copy of it runs without neartwin. Its formulas are its own,
in ball arithmetic of 512 bits. A claim agrees if the recomputed loss is certainly no more than the stated one. The signature is
not checked here: `neartwin certificate verify` does that. Exit code 0 if all claims agree, 1 if one does not, 2 if the
certificate holds something that is unknown here.

Formulas:

- delta of normal noise: Balle, Wang 2018;
- randomised response for the sum of pure losses: Kairouz, Oh, Viswanath 2015;
- mu of a pure loss and of a bounded range: Dong, Roth, Su 2022;
- rho of both: Bun, Steinke 2016; Cesar, Rogers 2021;
- delta of rho: Canonne, Kamath, Steinke 2020;
- secret samples: Balle, Barthe, Gaboardi 2018.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import arb, ctx, fmpq

BITS = 512
KIND, VERSION = "neartwin certificate of a release", 1
ZERO = Fraction(0)
WRITTEN = re.compile(r"\d+(/\d+|(\.\d+)?([eE][+-]?\d{1,3})?)")  # numbers without a sign, of bearable size
TOLD = re.compile(r"which of ([0-9,]+) groups exist|each of ([0-9,]+) groups of a unit costs")
MOST = 100_000  # mechanisms that one line of a certificate stands for


class UnknownError(ValueError):
    """The certificate holds a law, a promise or a number that this file does not know."""


@dataclass(frozen=True)
class Loss:
    """The cost of mechanisms together.

    Attributes:
        pure: The epsilons of pure mechanisms.
        ranges: The epsilons of mechanisms of bounded range.
        mu_squared: The sum of squared sensitivity over variance of Gaussian noise.
        rho: The zCDP of mechanisms known by it alone.
        leak: The probability of revealing all, added up.
    """

    pure: tuple[Fraction, ...] = ()
    ranges: tuple[Fraction, ...] = ()
    mu_squared: Fraction = ZERO
    rho: Fraction = ZERO
    leak: Any = ZERO

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(
            self.pure + other.pure,
            self.ranges + other.ranges,
            self.mu_squared + other.mu_squared,
            self.rho + other.rho,
            self.leak + other.leak if type(self.leak) is type(other.leak) else _ball(self.leak) + _ball(other.leak),
        )

    def for_units(self, k: int) -> "Loss":
        """The loss to k units that change together, of mechanisms that never fail where k is not 1."""
        pure, ranges = (tuple(k * e for e in part) for part in (self.pure, self.ranges))
        return Loss(pure, ranges, k * k * self.mu_squared, k * k * self.rho, self.leak)

    def delta(self, epsilon: Fraction) -> Any:
        """An upper bound on delta at an epsilon of at least 0: exact where no normal law takes part."""
        ways: list[Any] = [_concentrated(_ball(self.zcdp()), epsilon)]
        if not self.rho:
            ways.append(_side_by_side(sum(self.pure + self.ranges, ZERO), self.mu_squared, epsilon))
            if self.ranges:
                squares = sum((_mu_of_pure(e / 2) ** 2 for e in self.ranges), _ball(self.mu_squared))
                ways.append(_side_by_side(sum(self.pure, ZERO), squares, epsilon))
        least = min(ways, key=lambda way: float(_upper(way)))
        leak = self.leak if type(self.leak) is type(least) else _ball(self.leak)
        return leak + (1 - leak) * (least if type(leak) is type(least) else _ball(least))

    def zcdp(self) -> Any:
        """Rho at every order; exact where it is a fraction."""
        exact = self.rho + self.mu_squared / 2 + sum((e * e for e in self.ranges), ZERO) / 8
        pure = (_ball(e) * (_ball(e) / 2).tanh() for e in self.pure)
        return sum(pure, _ball(exact)) if self.pure else exact

    def gdp(self) -> Any:
        """Mu squared; exact where it is a fraction."""
        if self.rho:
            raise UnknownError("no theorem gives a mu to a mechanism that is known by its rho")
        each = [*self.pure, *(e / 2 for e in self.ranges)]
        return sum((_mu_of_pure(e) ** 2 for e in each), _ball(self.mu_squared)) if each else self.mu_squared

    def renyi(self, order: Fraction) -> Any:
        """The divergence at an order above 1; exact where it is a fraction."""
        exact = order * (self.rho + self.mu_squared / 2 + sum((e * e for e in self.ranges), ZERO) / 8)
        pure = (_renyi_of_pure(e, order) for e in self.pure)
        return sum(pure, _ball(exact)) if self.pure else exact


def _ball(value: Any) -> arb:
    """A number as a ball around it."""
    return arb(fmpq(value.numerator, value.denominator)) if isinstance(value, Fraction) else arb(value)


def _upper(value: Any) -> arb:
    """The upper end."""
    return _ball(value).upper()


def _at_most(value: Any, stated: Fraction) -> bool:
    """Whether a value is certainly no more than what is stated; exact for two fractions."""
    return bool(value <= stated) if isinstance(value, Fraction) else bool(_upper(value) <= _ball(stated).lower())


def _side_by_side(epsilon: Fraction, mu_squared: Any, at: Fraction) -> Any:
    """Delta of randomised response and a Gaussian, whose losses are independent: the response's is +epsilon or -epsilon."""
    likely = 1 / (1 + (-_ball(epsilon)).exp())
    if mu_squared:
        return likely * _gaussian(mu_squared, at - epsilon) + (1 - likely) * _gaussian(mu_squared, at + epsilon)
    return ZERO if epsilon <= at else likely * (1 - _ball(at - epsilon).exp())


def _gaussian(mu_squared: Any, at: Fraction) -> arb:
    """P(N > at/mu - mu/2) - e^at P(N > at/mu + mu/2)."""
    mu, root = _ball(mu_squared).sqrt(), arb(2).sqrt()
    near, far = (((_ball(at) / mu + side * mu / 2) / root).erfc() / 2 for side in (-1, 1))
    return near - _ball(at).exp() * far


def _concentrated(rho: arb, at: Fraction) -> arb:
    """The least over s of e^{s (rho (1 + s) - at)} s^s / (1 + s)^(1 + s), s + 1 being the order; any s is a bound."""
    low, high, r, e = -30.0, 30.0, float(rho.mid()), float(at)
    for _ in range(80):
        one, other = low + (high - low) * 0.382, low + (high - low) * 0.618
        # s log s - (1 + s) log(1 + s), without the digits that a great s would lose
        values = [
            s * (r * (1 + s) - e) - s * math.log1p(1 / s) - math.log1p(s) for s in (math.exp(one), math.exp(other))
        ]
        low, high = (low, other) if values[0] < values[1] else (one, high)
    s = arb(math.exp(low))
    return (s * (rho * (1 + s) - _ball(at)) + s * s.log() - (1 + s) * (1 + s).log()).exp().min(arb(1))


def _mu_of_pure(epsilon: Fraction) -> arb:
    """The mu whose curve touches that of randomised response: 2 Phi^-1(e^epsilon / (1 + e^epsilon))."""
    return 2 * arb(2).sqrt() * (_ball(epsilon) / 2).tanh().erfinv()


def _renyi_of_pure(epsilon: Fraction, order: Fraction) -> arb:
    """The divergence of randomised response."""
    e, a = _ball(epsilon), _ball(order)
    return e + ((-(2 * a - 1) * e).exp().log1p() - (-e).exp().log1p()) / (a - 1)


# The laws, by the name that a certificate writes


@dataclass(frozen=True)
class Place:
    """Where a mechanism stands: its parameters, and the most groups that one unit brings in, or brings in and takes away."""

    parameters: Mapping[str, str]
    entering: int
    changed: int

    def number(self, name: str) -> Fraction:
        """A parameter above 0."""
        value = _number(self.parameters.get(name), name)
        if value <= 0:
            raise UnknownError(f"the parameter {name} = {value} is not positive")
        return value


def _times(epsilon: Fraction, count: Fraction | int) -> tuple[Fraction, ...]:
    """So many mechanisms of one epsilon."""
    if count != int(count) or not 0 < count <= MOST:
        raise UnknownError(f"{count} is no number of mechanisms from 1 to {MOST:,}")
    return (epsilon,) * int(count)


def _number(written: object, name: str) -> Fraction:
    """A number as it is written."""
    try:
        if isinstance(written, str) and WRITTEN.fullmatch(written):
            return Fraction(written)
    except (ValueError, ZeroDivisionError):
        pass
    raise UnknownError(f"{name} = {str(written)[:40]!r} is no number that is known here")


def scaled(place: Place) -> Loss:
    """Noise of a scale: epsilon = sensitivity / scale."""
    return Loss(pure=(place.number("sensitivity") / place.number("scale"),))


def normal(place: Place) -> Loss:
    """Normal noise, rounded or not: mu^2 = squared sensitivity / variance."""
    return Loss(mu_squared=place.number("l2_squared") / place.number("variance"))


def whole_normal(place: Place) -> Loss:
    """Discrete normal noise: rho = squared sensitivity / (2 variance)."""
    return Loss(rho=place.number("l2_squared") / place.number("variance") / 2)


def peeled(place: Place) -> Loss:
    """Choices one after the other."""
    if place.parameters.get("each") != "PermuteAndFlip":
        raise UnknownError(f"PeeledTop of {place.parameters.get('each')!r} is unknown here")
    return Loss(pure=_times(place.number("each.epsilon"), place.number("count")))


def selected(place: Place) -> Loss:
    """Optimal discovery: each group that a unit changes costs (epsilon, delta)."""
    return Loss(pure=_times(place.number("epsilon"), place.changed), leak=place.changed * place.number("delta"))


def discovered(place: Place) -> Loss:
    """Counts above a threshold: the loss of the counts, and a leak of k P(1 + noise >= threshold)."""
    threshold, law = place.number("threshold"), place.parameters.get("counts")
    named = {name: text for name, text in place.parameters.items() if name.startswith("counts.")}
    counts = Place({name.removeprefix("counts."): text for name, text in named.items()}, 1, 1)
    if law == "Gaussian":
        away = _ball(threshold - Fraction(3, 2)) / (2 * _ball(counts.number("variance"))).sqrt()
        return normal(counts) + Loss(leak=place.entering * away.erfc() / 2)
    if law in {"DiscreteLaplace", "Geometric"} and threshold >= 2:
        rate = 1 / _ball(counts.number("scale"))
        tail = (-rate * _ball(threshold - 1)).exp() / (1 + (-rate).exp())
        return scaled(counts) + Loss(leak=place.entering * tail)
    raise UnknownError(f"a threshold of {threshold} with noise {law!r} is unknown here")


SCALED, SQUARED = frozenset({"scale", "sensitivity"}), frozenset({"variance", "l2_squared"})
CHOICE, COUNTS = frozenset({"epsilon", "scale"}), frozenset({"counts", "threshold", "delta"})
LAWS: Mapping[str, tuple[Callable[[Place], Loss], frozenset[str]]] = {
    "DiscreteLaplace": (scaled, SCALED),
    "Geometric": (scaled, SCALED),  # the older name of the same law
    "Gaussian": (normal, SQUARED),
    "DiscreteGaussian": (whole_normal, SQUARED),
    "PermuteAndFlip": (lambda place: Loss(pure=(place.number("epsilon"),)), CHOICE),
    "ExponentialMechanism": (lambda place: Loss(ranges=(place.number("epsilon"),)), CHOICE),
    "PeeledTop": (peeled, frozenset({"count", "each", "each.epsilon", "each.scale"})),
    "OptimalSelection": (selected, frozenset({"epsilon", "delta"})),
    "UnitThreshold": (discovered, COUNTS | {"counts.scale", "counts.sensitivity"}),
    "GaussianThreshold": (discovered, COUNTS | {"counts.variance", "counts.l2_squared"}),
    # no noise of their own: the shape of what is measured, whose sensitivity the noise states
    "CountTree": (lambda _: Loss(), frozenset({"branching", "cells"})),
    "Strategy": (lambda _: Loss(), frozenset({"name", "table"})),
}
SHAPES = ("CountTree", "Strategy")
FINER = frozenset({"parts of a step"})  # scale and sensitivity are both in these parts
BESIDE = ("cells:", "pilot", "choice of", "what the limits take", "what clipping", "selection", "first stage:")


@dataclass(frozen=True)
class Claim:
    """One stated number beside the recomputed one."""

    name: str
    stated: str
    recomputed: str
    agrees: bool


@dataclass(frozen=True)
class Opinion:
    """The findings: a line for each mechanism, and the claims."""

    mechanisms: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every stated number covers the recomputed one."""
        return bool(self.claims) and all(claim.agrees for claim in self.claims)

    def lines(self) -> list[str]:
        """The findings as text."""
        told = [
            f"{one.name}: stated {one.stated}, recomputed {one.recomputed}: "
            + ("agrees" if one.agrees else "DOES NOT AGREE, the loss is larger than stated")
            for one in self.claims
        ]
        return [*self.mechanisms, *told]


def recompute(body: Mapping[str, Any]) -> Opinion:
    """Recompute the promise of a certificate, and its epsilon at each stated delta.

    Args:
        body: The statement of the certificate, without its signature.

    Returns:
        The cost of each mechanism, and each stated number beside the recomputed one.

    Raises:
        UnknownError: The certificate holds what this file does not know, which the message names.
    """
    with ctx.workprec(BITS):
        try:
            return _opinion(body)
        except UnknownError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as fault:
            raise UnknownError(f"this is no certificate as neartwin writes it: {fault!r}") from None


def _opinion(body: Mapping[str, Any]) -> Opinion:
    if (body["kind"], body["version"]) != (KIND, VERSION):
        raise UnknownError(f"{body['kind']!r} of version {body['version']!r} is unknown here")
    opinion, loss = Opinion(), Loss()
    for mechanism, cost, why in _costs(body):
        opinion.mechanisms.append(f"{mechanism['for']}: {mechanism['law']}, {why or _words(cost)}")
        loss += cost
    guarantee, rate = body["guarantee"], _bound(body, "sampling_rate") or Fraction(1)
    promise = {**guarantee["promise"]}
    units, relation = int(str(promise.pop("units", "1"))), promise.pop("neighbours")
    if (unchecked := promise.pop("unchecked", "true")) != "true":  # that a value might make it fail costs no more
        raise UnknownError(f"unchecked = {unchecked!r} is unknown here")
    if relation != body["neighbours"] or units < 1:
        raise UnknownError(f"a promise to {units} units under {relation!r} is unknown beside {body['neighbours']!r}")
    if rate != 1:
        opinion.mechanisms.append(f"all of it on a secret sample, each unit with probability {rate}")
        if not 0 < rate < 1 or relation != "add_remove" or units > 1 or "kind" in promise:
            raise UnknownError(f"a secret sample of rate {rate} is unknown here for {units} units under {relation!r}")
    opinion.claims.extend(_promised(promise, loss, rate, units))
    stated = guarantee["currencies"]
    if units > 1 and not _at_most(loss.leak, ZERO):  # a theorem for groups holds of the promise alone
        loss = Loss(pure=(_number(promise["epsilon"], "epsilon"),), leak=_number(promise["delta"], "delta"))
    else:
        loss = loss.for_units(units)
    for one in stated["approximate"]:
        delta, text = _number(one["delta"], "delta"), one["epsilon"]
        if text == "none":
            continue
        found = f"at most {_least(loss, delta, rate)}"
        holds = _at_most(_sampled(loss, _number(text, "epsilon"), rate), delta)
        opinion.claims.append(Claim(f"epsilon at delta {one['delta']}", text, found, holds))
    if stated["pure"] != "none":
        holds = _at_most(_sampled(loss, _number(stated["pure"], "pure"), rate), ZERO)
        opinion.claims.append(Claim("pure epsilon", stated["pure"], "no loss beyond" if holds else "more", holds))
    return opinion


def _costs(body: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Loss, str]]:
    """Each mechanism with its cost; of measures that share one price, one has it."""
    listed = body["mechanisms"]
    if all(one["law"] in SHAPES for one in listed):
        raise UnknownError("no mechanism is listed that has noise, and what was asked is not free")
    both = 1 if body["neighbours"] == "add_remove" else 2
    changed = math.ceil(both * (_bound(body, "max_discovered_groups") or _bound(body, "max_groups") or Fraction(1)))
    # older: in a text, where conditions stand too, so the most counts
    if _bound(body, "max_discovered_groups") is None:
        told = TOLD.findall(body["explanation"])
        changed = max([int(number.replace(",", "") or 0) for one in told for number in one], default=changed)
    places, costs = [(one["for"], one["parameters"]) for one in listed], list[Loss]()
    for one in listed:
        law, parameters = one["law"], one["parameters"]
        if law not in LAWS:
            raise UnknownError(f"the law {law!r} of {one['for']!r} is unknown here")
        cost, names = LAWS[law]
        if set(parameters) - FINER != names:
            raise UnknownError(f"the parameters {sorted(parameters)} of the law {law!r} are unknown here")
        costs.append(cost(Place(parameters, math.ceil(changed / both), changed)))
    shared = {name: cost for (name, _), cost in zip(places, costs, strict=True)}.get("shared")
    payers = [_payer(one, places, shared=_within(cost, shared)) for one, cost in zip(listed, costs, strict=True)]
    return [(one, Loss() if why else cost, why) for one, cost, why in zip(listed, costs, payers, strict=True)]


def _within(one: Loss, other: Loss | None) -> bool:
    """Whether noise costs no more than other noise; not where there is none."""
    if other is None:
        return False
    pairs = (sum(one.pure), sum(other.pure)), (one.mu_squared, other.mu_squared), (one.rho, other.rho)
    return not one.ranges and all(own <= most for own, most in pairs)


def _payer(one: Mapping[str, Any], places: Sequence[tuple[str, Any]], *, shared: bool) -> str:
    """Who pays for a measure, if not itself: one sensitivity covers the bins of a value or a condition, the ends of bounds
    between which each row is shared, or all under one norm. Each first stage has measures of its own.
    """
    name, start = one["for"], "(?s)^((?:first stage: )*)"  # a text in a condition may have several lines
    paired = re.sub(f"{start}(?:empty|total|short):(.*) from (?:below|above)$", r"\1total:\2 from below", name)
    paired = re.sub(f"{start}(filled:.*): (false|NULL)$", r"\1\2: true", re.sub(f"{start}empty:", r"\1filled:", paired))
    if paired != name and (paired, one["parameters"]) in places and places.count((name, one["parameters"])) == 1:
        return f"paid with {paired!r}: each row is in one of them"
    if shared and name != "shared" and not name.startswith(BESIDE):
        return "paid with 'shared', the noise of all measures under one norm"
    return ""


def _promised(promise: Mapping[str, str], loss: Loss, rate: Fraction, units: int) -> list[Claim]:
    """The promise itself, in its own currency."""
    kind, parts = promise.get("kind"), {name: text for name, text in promise.items() if name not in {"kind", "unit"}}
    amounts = {name: _number(text, name) for name, text in parts.items()}
    if kind is None and set(parts) == {"epsilon", "delta"}:
        epsilon = amounts["epsilon"]
        delta = _sampled(loss, epsilon / units, rate)
        if units > 1 and delta:
            delta *= _ball(epsilon).expm1() / _ball(epsilon / units).expm1()
        name = f"promise, delta at epsilon {parts['epsilon']}"
        return [Claim(name, parts["delta"], _digits(delta), _at_most(delta, amounts["delta"]))]
    if units > 1 and not _at_most(loss.leak, ZERO):
        raise UnknownError(f"a promise {kind!r} with a delta for {units} units is unknown here")
    loss, leak = loss.for_units(units), loss.leak
    found: dict[str, tuple[Fraction, Any]]
    match kind:
        case "zcdp":
            found = {"rho": (amounts["rho"], loss.zcdp())}
        case "rdp" if (order := amounts["order"]) > 1:
            found = {f"epsilon at order {order}": (amounts["epsilon"], loss.renyi(order))}
        case "gdp":
            found = {"mu squared": (amounts["mu"] ** 2, loss.gdp())}
        case "three pools":
            square = Loss(mu_squared=loss.mu_squared, rho=loss.rho).gdp()
            pure = sum(loss.pure + loss.ranges, ZERO)
            found = {"epsilon": (amounts["epsilon"], pure), "mu squared": (amounts["mu"] ** 2, square)}
        case _:
            raise UnknownError(f"a promise of kind {kind!r} with {parts} is unknown here")
    found["delta"] = (amounts["delta"], leak)
    return [
        Claim(f"promise, {name}", _digits(stated), _digits(value), _at_most(value, stated))
        for name, (stated, value) in found.items()
    ]


def _sampled(loss: Loss, epsilon: Fraction, rate: Fraction) -> Any:
    """Delta of a mechanism on a secret sample: rate delta(log(1 + (e^epsilon - 1) / rate))."""
    if rate == 1:
        return loss.delta(epsilon)
    mantissa, exponent = (_ball(epsilon).expm1() / _ball(rate)).log1p().lower().man_exp()
    return _ball(rate) * _ball(loss.delta(Fraction(int(mantissa)) * Fraction(2) ** int(exponent)))


def _least(loss: Loss, delta: Fraction, rate: Fraction) -> str:
    """The least epsilon at a delta, by halving, rounded up."""
    low, high = ZERO, Fraction(1)
    while not _at_most(_sampled(loss, high, rate), delta):
        if high > 2**20:
            return "infinity"
        low, high = high, 2 * high
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (low, middle) if _at_most(_sampled(loss, middle, rate), delta) else (middle, high)
    return _digits(high)


def _bound(body: Mapping[str, Any], name: str) -> Fraction | None:
    older = {"max_groups": "groups_per_unit"}.get(name, name)
    return max((_number(one["value"], name) for one in body["bounds"] if one["what"] in {name, older}), default=None)


def _words(loss: Loss) -> str:
    """What a mechanism costs, in words."""
    pure, ranges = (sum(part, ZERO) for part in (loss.pure, loss.ranges))
    told = {"pure epsilon": pure, "bounded range epsilon": ranges, "mu squared": loss.mu_squared, "rho": loss.rho}
    named = [f"{name} {_digits(value)}" for name, value in {**told, "leak": loss.leak}.items() if value]
    return ", ".join(named) or "no noise of its own"


def _digits(value: Any) -> str:
    """Twelve digits, for the reader; no decision is made with them."""
    return f"{float(_upper(value)):.12g}"


def main(arguments: Sequence[str]) -> int:
    """Print the opinion on the certificate in a file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: recompute.py CERTIFICATE.json\n")
        return 2
    try:
        opinion = recompute(json.loads(Path(arguments[0]).read_bytes())["body"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        sys.stderr.write(f"cannot be recomputed: {fault}\n")
        return 2
    verdict = "all claims agree" if opinion.agrees else "not all claims agree"
    sys.stdout.write("\n".join([*opinion.lines(), verdict, ""]))
    return 0 if opinion.agrees else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
