"""A linear workload as JSON.

`{"ask": "prefixes"}`; `{"ask": "ranges", "lengths": [5]}`; `{"ask": "moving", "before": 6, "after": 0}`;
`{"ask": "weights", "weights": {"minors": [[16, 1], [17, "1/2"]]}}`: by name, pairs of a key and its weight; a key of several
columns is a list.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from neartwin.errors import QueryError
from neartwin.queries.query import Groups
from neartwin.queries.workloads import Workload, moving, prefixes, ranges, weighted

_MAKERS: dict[str, Callable[..., Workload]] = {"prefixes": prefixes, "ranges": ranges, "moving": moving}
_ARGUMENTS = {"prefixes": set[str](), "ranges": {"lengths"}, "moving": {"before", "after"}, "weights": {"weights"}}


def with_workload(told: object, groups: Groups, key_of: Callable[[list[Any]], tuple[object, ...]]) -> Groups:
    """The groups with the workload asked of them; None for none. key_of: a key from its written values, checked."""
    if told is None:
        return groups
    ask = told.get("ask") if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(ask, str) or ask not in _ARGUMENTS:
        raise QueryError("question: workload must be {'ask': 'prefixes'}, or ask ranges, moving or weights")
    given = {name: value for name, value in told.items() if name != "ask"}
    if set(given) - _ARGUMENTS[ask]:
        raise QueryError(f"question: a workload of {ask} takes {', '.join(sorted(_ARGUMENTS[ask])) or 'nothing else'}")
    if ask == "weights":
        return groups.workload(weighted(_weights(given.get("weights"), key_of)))
    if ask == "ranges" and not isinstance(given.get("lengths", []), list):
        raise QueryError("question: lengths of a workload of ranges must be a list")
    if ask == "moving" and "before" not in given:
        raise QueryError("question: a workload of moving sums needs before: how many groups before each")
    return groups.workload(_MAKERS[ask](**given))


def _weights(told: object, key_of: Callable[[list[Any]], tuple[object, ...]]) -> dict[str, dict[Any, Fraction]]:
    if not isinstance(told, Mapping):
        raise QueryError("question: weights of a workload must be pairs by name, as in {'minors': [[16, 1], [17, 1]]}")
    found: dict[str, dict[Any, Fraction]] = {}
    for name, pairs in told.items():
        fits = isinstance(pairs, list) and all(isinstance(one, list) and len(one) == 2 for one in pairs)
        if not fits or any(type(weight) not in (int, float, str) for _, weight in pairs):
            raise QueryError(f"question: {name!r} of a workload must be a list of pairs, a key and its weight")
        keys = [key_of(key if isinstance(key, list) else [key]) for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise QueryError(f"question: {name!r} of a workload has two weights for one key")
        found[str(name)] = dict(zip(keys, (weight for _, weight in pairs), strict=True))
    return found


def workload_form(asked: Workload, plain: Callable[[object], object]) -> dict[str, Any]:
    """What `with_workload` reads back. plain: a value of a key as JSON has it."""
    match asked.kind:
        case "weights":
            told = {
                name: [[[plain(value) for value in key], str(weight)] for key, weight in pairs]
                for name, pairs in asked.weights
            }
            return {"ask": "weights", "weights": told}
        case "moving" if asked.lengths is not None:
            before, after = asked.lengths
            return {"ask": "moving", "before": before, "after": after}
        case _:
            return {"ask": asked.kind} | ({} if asked.lengths is None else {"lengths": list(asked.lengths)})
