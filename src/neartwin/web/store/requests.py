"""Requests for budget, read from the acts in the chain. Whatever sets a holder's allotment later answers its request."""

import json
from typing import Any

from neartwin.errors import AccessError
from neartwin.ledger.store import Reading

_ANSWERS = {
    "allot": "{who} set the allotment to {target}",
    "decline": "{who} declined: {reason}",
    "withdraw": "{who} withdrew it",
}


def requests_in(page: Reading, dataset: str, position: int = 0) -> list[dict[str, Any]]:
    """The requests of a data set, newest first, each with its answer in words, or "" while it waits.

    Args:
        page: A transaction.
        dataset: The data set.
        position: The position of a request that must wait for its answer, or 0.

    Raises:
        AccessError: Status 409. That request was answered, or there is none.
    """
    found: list[dict[str, Any]] = []
    waiting: dict[str, dict[str, Any]] = {}  # by holder
    for act in page.acts(dataset):
        body = json.loads(act.body)
        if act.what == "request":
            waiting[body["holder"]] = body | {"position": act.position, "time": act.time, "who": act.who, "answer": ""}
            found.insert(0, waiting[body["holder"]])
        elif act.what in _ANSWERS and (one := waiting.pop(body["holder"], None)):
            one["answer"] = _ANSWERS[act.what].format(who=act.who, **body)
    if position and position not in {one["position"] for one in waiting.values()}:
        raise AccessError(409, "request", str(position), "waits no more: it was answered", remedy="look again")
    return found
