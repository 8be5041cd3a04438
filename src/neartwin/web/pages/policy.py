"""The policy of a data set as a form. The page shows the changes for review before it makes them.

There is one address without state: every button sends the whole form. A confirmation carries two digests. One is of the
reviewed rules. The other is of the policy that they replace, so two curators cannot overwrite each other unseen.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from neartwin.errors import AccessError, NeartwinError
from neartwin.ledger import records
from neartwin.web.auth import Caller, Curator, Form
from neartwin.web.datasets import Dataset, Rule, decimals
from neartwin.web.errors import as_dict, status_of
from neartwin.web.pages.layout import address, curl, first, host, page
from neartwin.web.routes.datasets import Named
from neartwin.web.service import Running

router = APIRouter()
MOST_RULES = 30
_LISTS = ("columns", "group_columns")
_YES = ("discover", "own_keys", "own_bounds")
_AMOUNTS = ("max_spend", "allotment")
Sent = Mapping[str, list[str]]


Typed = dict[str, Any]  # a rule as its fields, which `Rule.from_dict` checks; amounts are text


def typed(rule: Rule) -> Typed:
    """The fields of a rule."""
    return rule.as_dict() | {name: decimals(getattr(rule, name)) for name in _AMOUNTS}


def read(sent: Sent) -> tuple[Typed, ...]:
    """The rules that a browser sent, in their order."""
    return tuple(_read(sent, place) for place in range(MOST_RULES) if f"who_{place}" in sent)


def _read(sent: Sent, place: int) -> Typed:
    one: Typed = {"who": first(sent, f"who_{place}")}
    one |= {name: first(sent, f"{name}_{place}") for name in _AMOUNTS}
    one |= {name: f"{name}_{place}" in sent for name in _YES}
    for name in _LISTS:
        ticked = list(dict.fromkeys(sent.get(f"{name}_{place}", [])))
        one[name] = None if f"all_{name}_{place}" in sent else ticked
    return one


def changed(rules: tuple[Typed, ...], action: str) -> tuple[Typed, ...]:
    """The rules after a button of the form.

    Args:
        rules: The rules.
        action: "add", "remove:N" or "up:N". Any other leaves the rules as they are.
    """
    verb, _, written = action.partition(":")
    at = int(written) if written.isascii() and written.isdigit() else -1
    if verb == "add" and len(rules) < MOST_RULES:
        return (*rules, typed(Rule()))
    if verb == "remove" and 0 <= at < len(rules):
        return rules[:at] + rules[at + 1 :]
    if verb == "up" and 0 < at < len(rules):
        return (*rules[: at - 1], rules[at], rules[at - 1], *rules[at + 1 :])
    return rules


@router.get("/data/{name}/policy")
def policy(name: Named, request: Request, caller: Curator, running: Running) -> Response:
    """The form with the present rules."""
    dataset = running.directory.dataset(name)
    return _form(request, caller, running, dataset, tuple(map(typed, dataset.policy)), base=digest(dataset.policy))


@router.post("/data/{name}/policy")
def change(name: Named, request: Request, caller: Curator, running: Running, sent: Form) -> Response:
    """Show the form again after a button. "review" shows the changes, and "confirm" makes them."""
    action, base = first(sent, "action"), first(sent, "base")
    dataset, rules = running.directory.dataset(name), changed(read(sent), first(sent, "action"))
    if action not in {"review", "confirm"}:
        return _form(request, caller, running, dataset, rules, base=base)
    try:
        new_rules = tuple(map(Rule.from_dict, rules))
        running.directory.checked_policy(name, new_rules)
        if base != digest(dataset.policy):
            remedy = "compare the rules below with the present ones and review them again"
            raise AccessError(409, "policy", name, "was changed by somebody else meanwhile", remedy=remedy)
        if action == "confirm" and first(sent, "reviewed") == digest(new_rules):
            running.directory.set_policy(name, new_rules, by=caller.name, instead_of=dataset)
            return RedirectResponse(address("data", name, "office"), 303)
    except NeartwinError as refusal:
        return _form(request, caller, running, dataset, rules, base=digest(dataset.policy), fault=refusal)
    return _form(request, caller, running, dataset, rules, base=base, new_rules=new_rules)


def digest(rules: tuple[Rule, ...]) -> str:
    """The digest of a policy, equal for equal policies."""
    return records.digest(records.canonical([rule.as_dict() for rule in rules]))


def _form(
    request: Request, caller: Caller, running: Running, dataset: Dataset, rules: tuple[Typed, ...], *, base: str,
    new_rules: tuple[Rule, ...] | None = None, fault: NeartwinError | None = None,
) -> Response:  # fmt: skip
    return page(
        request,
        "policy.html",
        status=status_of(fault) if fault else 200,
        caller=caller,
        title=f"Policy of {dataset.name}",
        dataset=dataset,
        rules=rules,
        columns=running.directory.policy_columns(dataset),
        base=base,
        new_rules=new_rules,
        reviewed="" if new_rules is None else digest(new_rules),
        fault=None if fault is None else as_dict(fault),
        most=MOST_RULES,
        command=_command(host(request), dataset, new_rules or dataset.policy),
    )


def _command(server: str, dataset: Dataset, rules: tuple[Rule, ...]) -> str:
    """The request that sets a policy."""
    body = {"rules": [rule.as_dict() for rule in rules]}
    return curl("PUT", server + address("v1", "datasets", dataset.name, "policy"), body)
