"""Turns one question from its JSON form into a plan, a preview or a release. This runs in worker processes.

A task and its outcome are JSON: `{"do": "plan", "dataset": ..., "question": ..., "spend": ..., "holders": ...}` gives
`{"done": ...}` or `{"refused": ..., "status": ...}`.
"""

from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import prod
from typing import Any

from neartwin.accounting.budgets import budget_of, parts_of
from neartwin.errors import AccessError, NeartwinError, ParameterError, QueryError, SchemaError
from neartwin.planning.limits import Limits
from neartwin.planning.pilots import with_private_range
from neartwin.queries.groups import completed
from neartwin.queries.query import Query, Rows, TopK
from neartwin.queries.sql.joins import Others
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.queries.wire.postprocess import after_form
from neartwin.releases.accounts import Proposal, SeriesProposal
from neartwin.releases.release import answer_text
from neartwin.statistics.clipping import read_range
from neartwin.web.data_directory import DataDirectory, ensure_allotments, unreadable
from neartwin.web.datasets import Dataset, Rule, keys_in
from neartwin.web.errors import UnexpectedError, as_dict, status_of
from neartwin.web.policy import check, rule_for

Json = dict[str, Any]
DECLARED = "declared"  # instead of keys: the public keys of the data set
MOST_CELLS = 250_000  # of one question: planning lists every one, and a stored answer has 64 MiB


def outcome(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    """Run a task.

    Args:
        directory: The opened data directory.
        task: The task, as JSON data.

    Returns:
        The result or the refusal, as JSON data. An unexpected exception becomes a uniform refusal.
    """
    try:
        return {"done": _DOERS[task["do"]](directory, task)}
    except NeartwinError as refusal:
        return {"refused": as_dict(refusal), "status": status_of(refusal)}
    except MemoryError:
        raise  # the process ends, as one that is killed for its memory: both have one end
    except Exception:  # noqa: BLE001 - unexpected, and its text may hold a value
        return {"refused": as_dict(UnexpectedError()), "status": 500}


def _planned(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    proposal = _proposal(directory, task)[0]
    tables = directory.tables(directory.dataset(task["dataset"]))
    preview = proposal.preview()
    plans = [proposal.plan] if isinstance(proposal, Proposal) else proposal.plan.parts
    forms = [form_of(plan.query, tables) for plan in plans]
    return {
        "question": forms[0],
        **({"questions": forms} if len(forms) > 1 else {}),
        "digest": proposal.plan.digest,
        "price": parts_of(proposal.price),
        "explanation": asdict(proposal.explain()),
        "before": {pool: str(amount) for pool, amount in preview.before.items()},
        "after": {pool: str(amount) for pool, amount in preview.after.items()},
        "affordable": preview.affordable,
        "errors": [
            asdict(error) | {"half_width": None if error.half_width is None else str(error.half_width)}
            for error in preview.errors
        ],
        "says": str(preview),
        "stored": _stored(proposal),
        "shown_after": _after(proposal),
    }


def _stored(proposal: Proposal | SeriesProposal) -> int | None:
    """The position of the answer that is served at no cost. A table that cannot be read has none."""
    with suppress(NeartwinError):
        return None if isinstance(proposal, SeriesProposal) else proposal.account.stored(proposal)
    return None


def _released(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    proposal, rule = _proposal(directory, task)
    if "digest" in task and task["digest"] != proposal.plan.digest:
        changed = "is of an earlier question: it changed since"
        raise ParameterError("preview", task["digest"][:16], changed, remedy="preview it again")
    if task.get("full") and _stored(proposal) is None:
        raise no_room()
    account, holders = proposal.account, task["holders"]
    ensure_allotments(account.book, rule, holders[0])
    kind, _, name = holders[0].partition(":")
    payment: Json = {"payers": holders, "key": f"{name}/{task['key']}" if task["key"] else ""}
    begun = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        if isinstance(proposal, SeriesProposal):
            position = account.release_series(proposal, **payment)[0].provenance.position
        else:
            position = account.release(proposal, **payment).provenance.position
    except SchemaError:  # of a file that vanished or changed since it was opened, whose place is nobody's business
        raise unreadable(task["dataset"]) from None
    stored = account.book.answer(position)
    if kind == "analyst" and holders[0] not in stored.payers:  # agents have no history
        directory.store.serve(name, account.book.name, position)
    answer = {"answer": answer_text(position, stored.document), "kept": len(stored.document) * (stored.time > begun)}
    return answer | {"dataset": task["dataset"], "position": position, "after": _after(proposal)}


def no_room() -> AccessError:
    """The refusal of a new answer to an analyst whose answers take all the room that there is for one analyst."""
    rule = "may take 1 GiB at once, and 1 MiB a minute afterwards"
    return AccessError(429, "answers", "too many", rule, remedy="ask later; what was answered already is free")


def _after(proposal: Proposal | SeriesProposal) -> Json:
    """The question's free post-processing. The stored release is without it."""
    query = proposal.plan.query if isinstance(proposal, Proposal) else None
    return after_form(query.after) if isinstance(query, Query) else {}


_DOERS: Mapping[str, Callable[[DataDirectory, Mapping[str, Any]], Json]]
_DOERS = {"plan": _planned, "release": _released, "nothing": lambda *_: {}}


def _proposal(directory: DataDirectory, task: Mapping[str, Any]) -> tuple[Proposal | SeriesProposal, Rule]:
    dataset = directory.dataset(task["dataset"])
    rule = rule_for(dataset, task["holders"]) if task["holders"] else Rule()
    account, tables = directory.account(dataset), directory.tables(dataset)
    clip = read_range(task.get("private_range"))
    arguments: Json = {
        "spend": budget_of(task["spend"], "spend"),
        "limits": Limits.from_dict(task.get("limits") or {}),
        "importance": task.get("importance") or None,
        "group_size": task.get("group_size") or 1,
    }

    def query(form: Mapping[str, Any]) -> Query | TopK:
        return with_private_range(question_from(dataset, account.rows, form, tables), clip)

    proposal: Proposal | SeriesProposal
    if isinstance(asked := task["question"], list):
        proposal = account.plan_series(list(map(query, asked)), **arguments)
    else:
        proposal = account.plan(query(asked), **arguments)
    check(dataset, rule, proposal.plan, account.book, tables)
    return proposal, rule


def question_from(dataset: Dataset, rows: Rows, form: Mapping[str, Any], tables: Others) -> Query | TopK:
    """Read the question of a form.

    Args:
        dataset: The data set.
        rows: Its rows.
        form: The wire form. Its keys may be "declared", for the data set's own, or texts by column, as typed on a page.
        tables: The tables that the question may join, by name.

    Raises:
        QueryError: A column has no declared keys, or the form is no question.
    """
    keys = form.get("keys")
    if keys != DECLARED and (not isinstance(keys, Mapping) or "most_common" in form):
        return question_of(form, rows, tables)
    chosen = partial(_chosen_keys, dataset, keys, tables)
    return question_of({**form, "keys": None}, rows, tables, keys=chosen)


def _chosen_keys(dataset: Dataset, keys: Any, tables: Others, grouped: Rows, columns: list[str]) -> Json | None:
    """The keys of these columns of grouped rows: those that a form gives or the data set declares."""
    if isinstance(keys, Mapping):
        kinds = grouped.table.schema
        own = {name: keys_in(one, kinds.get(name)) if isinstance(one, str) else one for name, one in keys.items()}
    else:
        declared = dataset.declared_keys(grouped.table, tables)
        own = {column: list(declared[column]) for column in columns if column in declared}
    known = completed(own, grouped.table, columns, grouped.conditions)
    missing = [column for column in columns if column not in known]
    if missing and keys == DECLARED:
        raise QueryError(f"keys='declared': {missing[0]!r} has no declared keys; give keys, or null to discover them")
    if (cells := prod(len(values) for values in known.values() if isinstance(values, Sized))) > MOST_CELLS:
        rule = f"must have at most {MOST_CELLS:,} cells"  # before anything lists them
        raise ParameterError("keys", f"{cells:,} cells", rule, remedy="give fewer keys, or group by fewer columns")
    return own if keys != DECLARED else {column: list(known[column]) for column in columns} or None
