"""Pages of data sets: their public facts, the meaning of their budget, their history, and the guided registration.

That asks whom a data set protects, what is public and how much in all. The command stands beside it. For curators and auditors:
policy, allotments, spending over time, tokens, the ledger; and requests for budget.

The policy is a form at one address without state: every button sends the whole form. The page shows the changes for review before
it makes them. A confirmation carries two digests. One is of the reviewed rules. The other is of the policy that they replace, so
two curators cannot overwrite each other unseen.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from heapq import nlargest
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, parts_of
from neartwin.checks import text
from neartwin.errors import AccessError, NeartwinError, ParameterError
from neartwin.ledger import Head
from neartwin.report.svg import Drawing, Figure, Line
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Anyone, Caller, Curator, Form, Overseer
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import EACH_ROW_NAME, Dataset, Rule, bounds_in, decimals, keys_in, pairs
from neartwin.web.errors import as_dict, status_of
from neartwin.web.pages.budget import Amounts, best_guess, budget, shares
from neartwin.web.pages.layout import address, amounts, curl, first, host, page
from neartwin.web.routes import datasets as api
from neartwin.web.routes.datasets import Before, Named, Position, allotment, allotments, records, visible
from neartwin.web.service import Running

router = APIRouter()
Sought = Annotated[str, Query(max_length=200)]
_SHOWN = 25
_DRAWN = 1_000  # releases
_LINES = 5  # and one of all others: so many colours the stylesheet has
_ACTS = 50  # on one page
_RELATIONS = {"add_remove": "adding or removing one", "replace_one": "replacing one"}


@router.get("/data")
def datasets(request: Request, caller: Anyone, running: Running) -> Response:
    """The data sets that the caller may see."""
    shown = [
        {
            "one": one,
            "share": max(shares(one.budget, one.spent).values()),
            "waiting": caller.sees_all
            and sum(not part["answer"] for part in running.directory.store.requests(one.name)),
        }
        for one in api.datasets(caller, running)
    ]
    return page(request, "datasets.html", caller=caller, title="Data sets", shown=shown)


@router.get("/data/{name}")
def dataset(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """One data set."""
    registered, rule = visible(running.directory, name, caller)
    return page(
        request,
        "dataset.html",
        caller=caller,
        title=name,
        one=api.dataset(name, caller, running),
        relation=_RELATIONS[registered.neighbours],
        rule=rule,
        budget=account_budget(running.directory, registered),
        own=api.allotments(name, caller, running),
        entries=list(islice(entries(name, caller, running), 8)),
    )


@router.get("/data/{name}/history")
def history(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, request: Request, caller: Anyone, running: Running, q: Sought = "", before: Before = None
) -> Response:
    """The records that the caller may see, newest first, and those that hold some words."""
    known, words = entries(name, caller, running, before), q.lower().split()
    found = (one for one in known if all(word in " ".join(map(str, one.values())).lower() for word in words))
    shown = list(islice(found, _SHOWN + 1))
    more: dict[str, Any] = {"entries": shown[:_SHOWN], "older": len(shown) > _SHOWN, "q": q}
    return page(request, "history.html", caller=caller, title="History", name=name, **more)


def account_budget(directory: DataDirectory, dataset: Dataset, plan: Amounts | None = None) -> dict[str, Any]:
    """The budget of a data set's account. `plan` is the price of one more release, by pool, or None."""
    account = directory.books.account(dataset.name)
    return budget(account.filter, account.caps, account.spent, plan)


def entries(name: str, caller: Caller, running: Running, before: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a data set that the caller may see, in words, newest first; those below a position, or all."""
    newest = records(running, name, caller, before)
    shown = (entry for entry in newest if (entry.description if entry.kind == "act" else entry.kind) in _WHAT)
    return map(_row, shown)


_WHAT = {
    "open": "account opened",
    "source": "place or check of the data",
    "raise": "budget raised",
    "allot": "allotment set",
    "reserve": "question paid",
    "refuse": "question refused",
    "fail": "run failed, budget kept",
    "register": "data set registered",
    "wish": "larger budget wished, by one of two",
    "agree": "larger budget agreed, by the second of two",
    "request": "more budget requested",
    "decline": "request for budget declined",
    "withdraw": "request for budget withdrawn",
    "policy": "policy changed",
    "refresh": "data declared as changed",
    "standing": "policy as it stood when records began to hold it",
}


def _row(entry: Any) -> dict[str, Any]:
    return {
        "position": entry.position,
        "time": entry.time[:16].replace("T", " "),
        "what": _WHAT.get(entry.description if entry.kind == "act" else entry.kind, entry.kind),
        "kind": entry.kind,
        "state": entry.state,
        "who": entry.who or ", ".join(one.removeprefix("analyst:").replace(":", " ") for one in entry.payers),
        "amounts": amounts(entry.price or entry.caps),
        "description": entry.description,
        "answered": entry.kind == "reserve" and entry.state == "settled",
    }


_FIELDS = ("file", "name", "encoding", "unit", "types", "bounds", "keys", "budget", "each_analyst", "about")


@router.get("/register")
def blank(request: Request, caller: Curator, running: Running) -> Response:
    """The questions, and the files of the service's folder."""
    return _page(request, caller, running, dict.fromkeys(_FIELDS, "") | {"budget": "epsilon=1"})


@router.post("/register")
def register(request: Request, caller: Curator, running: Running, answers: Form) -> Response:
    """The command for the answers, checked unless they are still typed; or the registration."""
    sent = {name: first(answers, name) for name in _FIELDS}
    action = first(answers, "action")
    try:
        dataset = None if action == "typed" else _dataset(running.directory, sent)
        if dataset is None or action != "register":
            return _page(request, caller, running, sent, checked=dataset is not None)
        running.directory.register(dataset, by=caller.name)
    except NeartwinError as refusal:
        return _page(request, caller, running, sent, fault=as_dict(refusal), status=status_of(refusal))
    return RedirectResponse(address("data", dataset.name), 303)


def _page(request: Request, caller: Caller, running: Running, sent: dict[str, str], **more: Any) -> Response:
    files = sorted(entry.name for entry in running.directory.files.iterdir() if entry.is_file())
    command = _command(sent | {"file": sent["file"] or next(iter(files), "FILE")})
    shown = {"files": files, "sent": sent, "fault": None, "command": command, "checked": False} | more
    return page(request, "register.html", caller=caller, title="Register a data set", **shown)


def _dataset(directory: DataDirectory, sent: dict[str, str]) -> Dataset:
    """The data set of the answers. Its file is opened for the types of its columns."""
    each = sent["each_analyst"]
    dataset = Dataset(
        name=sent["name"] or sent["file"].partition(".")[0],
        place=str(directory.file(sent["file"])),
        unit=sent["unit"] or EACH_ROW_NAME,
        encoding=sent["encoding"],
        types=pairs(_lines(sent["types"]), "types"),
        bounds=bounds_in(_lines(sent["bounds"])),
        budget=budget_in(sent["budget"], "budget"),
        about=sent["about"],
        policy=(Rule(allotment=budget_in(each, "each analyst") if each else None),),
    )
    schema = dataset.rows(refresh=None).table.schema
    keys = {
        column: tuple(keys_in(text, schema.get(column))) for column, text in pairs(_lines(sent["keys"]), "keys").items()
    }
    return replace(dataset, keys=keys)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _command(sent: dict[str, str]) -> str:
    words = ["neartwin", "register", f"data/{sent['file']}", "--data", ".", "--unit", sent["unit"] or "each row"]
    for name in ("types", "bounds", "keys", "name", "encoding", "budget", "each_analyst", "about"):
        words += [part for line in _lines(sent[name]) for part in (f"--{name.replace('_', '-')}", line.strip())]
    return shlex.join(words)


@router.get("/data/{name}/office")
def admin(name: Named, request: Request, caller: Overseer, running: Running) -> Response:
    """Policy, allotments and spending of one data set."""
    registered = running.directory.dataset(name)
    account = running.directory.books.account(name)
    return page(
        request,
        "admin.html",
        caller=caller,
        title=f"Policy and spending of {name}",
        dataset=registered,
        budget=account_budget(running.directory, registered),
        holders=account.allotments(),
        spending=_spending(account),
        wishes=[wish for wish in _wishes(running) if wish.get("dataset") == name],
    )


@router.post("/data/{name}/allot")
def allot(name: Named, caller: Curator, running: Running, sent: Form) -> Response:
    """Set the amount that an analyst or a project may spend."""
    running.directory.allot(name, first(sent, "holder"), budget_in(first(sent, "target"), "amount"), by=caller.name)
    return RedirectResponse(address("data", name, "office"), 303)


@router.post("/data/{name}/cap")
def cap(name: Named, caller: Curator, running: Running, sent: Form) -> Response:
    """Raise the budget of a data set."""
    reason = text(reason=first(sent, "reason"), at_least=1, at_most=1_000)
    running.directory.books.raise_cap(name, budget_in(first(sent, "target"), "budget"), reason, by=caller.name)
    return RedirectResponse(address("data", name, "office"), 303)


@router.get("/data/{name}/budget")
def requests(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """The caller's allotments and requests, with a form for more; for a curator, the requests of all."""
    asked = api.requests(name, caller, running)
    dataset, account = running.directory.dataset(name), running.directory.books.account(name)
    allotted = host(request) + address("v1", "datasets", name, "allotments")
    return page(
        request,
        "budget.html",
        caller=caller,
        title=f"Budget of {name}",
        name=name,
        own=allotments(name, caller, running),
        kind=str(dataset.budget),
        holders=caller.holders,
        unit=dataset.unit,
        promise=account.filter.promise(account.filter.caps),
        waiting=[one | _widening(account, one, allotted) for one in asked if not one["answer"]],
        answered=[one for one in asked if one["answer"]][:25],
    )


@router.post("/data/{name}/budget")
def request(name: Named, caller: Analyst, running: Running, sent: Form) -> Response:
    """Record a request."""
    target = parts_of(budget_in(first(sent, "target"), "in all"))
    wish = schemas.BudgetWish.model_construct(
        target=dict(target), reason=first(sent, "reason"), holder=first(sent, "holder")
    )
    api.request(name, wish, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}")
def answer(name: Named, position: Position, caller: Curator, running: Running, sent: Form) -> Response:
    """Approve a request or decline it."""
    reply = schemas.BudgetReply(approve=first(sent, "action") == "approve", reason=first(sent, "reason"))
    api.answer(name, position, reply, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}/withdraw")
def withdraw(name: Named, position: Position, caller: Analyst, running: Running) -> Response:
    """Withdraw a request of the caller's own."""
    api.withdraw(name, position, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.get("/people")
def people(request: Request, caller: Overseer, running: Running) -> Response:
    """Tokens, without their secrets."""
    return _people(request, caller, running)


@router.post("/people")
def new_token(request: Request, caller: Curator, running: Running, sent: Form) -> Response:
    """Make a token, and show it this once."""
    days, owner = first(sent, "days", "90"), first(sent, "name")
    if not days.isdecimal() or not 1 <= int(days) <= 3650:
        raise ParameterError("days", days, "must be a whole number from 1 to 3650")
    more = {"by": caller.name, "project": first(sent, "project")}
    token_text = running.directory.mint(owner, first(sent, "role"), days=int(days), **more)[1]
    return _people(request, caller, running, token_text, owner)


@router.post("/people/{identity}/revoke")
def revoke(identity: str, caller: Curator, running: Running) -> Response:
    """Revoke a token."""
    running.directory.store.revoke(identity, by=caller.name)
    return RedirectResponse("/people", 303)


@router.get("/ledger")
def ledger(request: Request, caller: Overseer, running: Running, before: Before = None) -> Response:
    """The head of the ledger, and the curators' acts, the newest of those below a position."""
    return _ledger(request, caller, running, before=before)


@router.post("/ledger")
def verify(request: Request, caller: Overseer, running: Running, sent: Form) -> Response:
    """Verify all records. A head that was kept elsewhere finds a rollback."""
    known_head = first(sent, "head")
    verdict = running.directory.verify(Head.parse(known_head) if known_head else None)
    return _ledger(request, caller, running, known_head=known_head, verdict=verdict)


def _ledger(
    request: Request, caller: Caller, running: Running, *, before: int | None = None, **checked: Any
) -> Response:
    book = running.directory.books
    newest = book.acts(before=before, most=_ACTS + 1)[::-1]
    acts = [(act, _act_words(act.what, json.loads(act.body))) for act in newest[:_ACTS]]
    shown: dict[str, Any] = {"known_head": "", "verdict": None, "acts": acts, "older": len(newest) > _ACTS}
    return page(request, "ledger.html", caller=caller, title="Ledger", head=str(book.head()), **shown | checked)


_ACT_WORDS = {
    "token": "made a token for {name}, {role}, until {expires:.10}",
    "revoke": "revoked the token {id}",
    "register": "registered {dataset} with a policy of rules for {whom}",
    "policy": "changed the policy of {dataset}, now rules for {whom}",
    "request": "asked for {target} of {dataset} for {holder}: {reason}",
    "decline": "declined the request of {holder} for {dataset}: {reason}",
    "allot": "allotted {target} of {dataset} to {holder}",
    "cap": "raised the budget of {dataset} to {target}: {reason}",
    "refresh": "declared that the data of {dataset} changed",
    "sign in": "signed in until {ends:.16}",
    "key": "made the key that signs certificates",
}


def _act_words(what: str, body: dict[str, Any]) -> str:
    if what not in _ACT_WORDS:
        return f"{what}: " + ", ".join(f"{name} {value}" for name, value in body.items() if name != "digest")
    whom = ", ".join(rule["who"] for rule in body.get("policy", ())) or "nobody"
    return _ACT_WORDS[what].format(whom=whom, **body)


def _wishes(running: Running) -> list[dict[str, Any]]:
    """The acts that wait for a second curator."""
    return [json.loads(wish.act) | {"who": wish.who} for wish in running.directory.books.wishes()]


def _widening(account: books.Account, one: dict[str, Any], allotted: str) -> dict[str, Any]:
    """What an approval changes, as amounts in words, and the command that approves."""
    part, now, left = allotment(account, one["holder"]), account.filter, account.remaining
    target = budget_in(one["target"], "target")
    asked = account.rule.amounts(account.rule.caps(target))
    over = any(amount - part.spent[pool] > left[pool] for pool, amount in asked.items())
    return {
        "more": amounts({pool: amount - part.caps[pool] for pool, amount in asked.items()}) or "nothing",
        "spent": amounts(part.spent) or "nothing",
        "guess": best_guess(now, asked),
        "guess_now": best_guess(now, part.caps),
        "left": (amounts(left) or "nothing") if over else "",
        "command": curl("PUT", f"{allotted}/{quote(one['holder'])}", {"target": parts_of(target)}),
    }


def _people(request: Request, caller: Caller, running: Running, new_token: str = "", owner: str = "") -> Response:
    tokens = sorted(running.directory.store.tokens(), key=lambda token: (bool(token.revoked), token.role, token.name))
    wishes = [wish for wish in _wishes(running) if wish["do"] == "token"]
    values: dict[str, Any] = {"tokens": tokens, "new_token": new_token, "owner": owner, "wishes": wishes}
    return page(request, "people.html", caller=caller, title="People", **values)


def _spending(account: books.Account) -> Drawing | None:
    """Each analyst's spending by the newest releases, as a share of the account's tightest pool. None before the first."""
    caps = {pool: cap for pool, cap in account.caps.items() if cap}
    pool = max(caps, key=lambda name: account.spent[name] / caps[name])
    paid = list(islice((entry for entry in account.newest() if entry.kind == "reserve"), _DRAWN))[::-1]
    if not paid:
        return None
    times = [datetime.fromisoformat(entry.time) for entry in paid]
    start, span = times[0], max((times[-1] - times[0]).total_seconds(), 1.0)
    shares = {
        one.holder: one.spent[pool] / caps[pool]
        for one in account.allotments()
        if one.holder.startswith(("analyst:", "agent:"))
    }
    shares["the owner"] = account.spent[pool] / caps[pool] - sum(shares.values())
    largest = nlargest(_LINES, shares, key=shares.__getitem__)
    lines_of = {who: who if who in largest else "others" for who in shares}
    asked = [(lines_of[next((one for one in entry.payers if one in shares), "the owner")], entry) for entry in paid]
    rest = sum((share for who, share in shares.items() if who not in largest), Fraction(0))
    shares = {who: shares[who] for who in largest} | {"others": rest}
    for who, entry in asked:  # back to what was spent before the first that is drawn
        shares[who] -= entry.price.get(pool, Fraction(0)) / caps[pool]
    steps = {who: [(0.0, float(share))] for who, share in shares.items() if share or who in dict(asked)}
    for (who, entry), time in zip(asked, times, strict=True):
        at, share = 0.04 + 0.9 * (time - start).total_seconds() / span, steps[who][-1][1]
        steps[who] += [(at, share), (at, share + float(entry.price.get(pool, Fraction(0)) / caps[pool]))]
    ordered = sorted(steps.items(), key=lambda item: -item[1][-1][1])
    lines = [
        Line(f"{who.removeprefix('analyst:')} {points[-1][1]:.1%}", *np.array([*points, (1.0, points[-1][1])]).T)
        for who, points in ordered
    ]
    figure = Figure(
        "Spending by analyst",
        f"{times[0].isoformat()[:16].replace('T', ' ')} to {times[-1].isoformat()[:16].replace('T', ' ')} UTC",
        f"spent of {pool}",
        (*lines, Line("", np.array([0.0, 1.0]), np.array([1.0, 1.0]), "dotted")),
        unit_square=False,
        x_scale="none",
        percent=True,
    )
    spoken = "Spending by analyst: " + "; ".join(line.name for line in lines)
    return figure.draw(name="spending", spoken=spoken)


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
    return books.records.digest(books.records.canonical([rule.as_dict() for rule in rules]))


def _form(
    request: Request, caller: Caller, running: Running, dataset: Dataset, rules: tuple[Typed, ...], *, base: str,
    new_rules: tuple[Rule, ...] | None = None, fault: NeartwinError | None = None,
) -> Response:  # fmt: skip
    body = {"rules": [rule.as_dict() for rule in new_rules or dataset.policy]}
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
        command=curl("PUT", host(request) + address("v1", "datasets", dataset.name, "policy"), body),
    )
