"""Routes of questions. Plans and previews are free. Releases are paid before a row is read."""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from neartwin.releases.release import answer_text
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Asker, Caller, require
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.service import Running
from neartwin.web.workers import Job

router = APIRouter(prefix="/v1", tags=["questions"])
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=64,
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="A request that is sent again under its key never pays twice.",
    ),
]
Seconds = Annotated[float, Query(ge=0, le=60, description="How long to wait for the release before answering.")]
JobId = Annotated[str, Path(max_length=100, pattern=r"^[\w-]*$")]


def _sees(request: Request, caller: Caller) -> None:
    visible(request.app.state.service.directory, request.path_params["name"], caller)


Spender = Annotated[Caller, Depends(require("analyst", check=_sees))]


@router.post("/datasets/{name}/plan")
async def plan(name: Named, ask: schemas.Ask, caller: Asker, running: Running) -> schemas.Plan:
    """Plan a release and preview its cost and errors. This reads no row and spends nothing."""
    return schemas.Plan.model_validate(await running.ask(_task("plan", name, ask, caller)))


@router.post("/datasets/{name}/releases", status_code=202, response_model=schemas.JobState)
async def release(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, ask: schemas.Ask, caller: Spender, running: Running, key: Key = "", wait: Seconds = 0
) -> Response:
    """Start a release as a job. It pays, asks, adds noise and answers. A stored answer is served at no cost."""
    return await _state(running.jobs.submit(_task("release", name, ask, caller) | {"key": key}), wait, running)


@router.get("/jobs/{identity}", response_model=schemas.JobState)
async def job(identity: JobId, caller: Analyst, running: Running, wait: Seconds = 0) -> Response:
    """The state of a release: queued, running or done. No more is shown, because speed may be data."""
    submitted = await run_in_threadpool(running.jobs.get, identity, caller.holders[0])
    return await _state(submitted, wait, running)


def _task(do: str, name: str, ask: schemas.Ask, caller: Caller) -> dict[str, Any]:
    return task_of(do, name, caller, ask.model_dump(exclude_none=True))


def task_of(do: str, dataset: str, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    """Make a worker's task.

    Args:
        do: "plan" or "release".
        dataset: The data set's name.
        caller: The caller.
        body: The question, the spend and the limits.
    """
    holders = () if caller.role == "curator" else caller.holders
    return {"do": do, "dataset": dataset, "holders": holders} | body


def owed(plan: Mapping[str, Any]) -> dict[str, Fraction]:
    """The price of a plan as a worker made it, by pool, exact. A stored answer costs nothing."""
    after = plan["after"] if plan["stored"] is None else plan["before"]
    return {pool: Fraction(before) - Fraction(after[pool]) for pool, before in plan["before"].items()}


def fits(plan: Mapping[str, Any], left: Mapping[str, Fraction]) -> bool:
    """Whether amounts can pay for a plan.

    Args:
        plan: The plan, as a worker made it.
        left: The amounts, by pool.
    """
    return all(amount <= left[pool] for pool, amount in owed(plan).items())


async def _state(job: Job, wait: float, running: Running) -> Response:
    job = await running.jobs.wait(job, min(wait, running.settings.patience))
    state, refused, answer = job.state, None, answer_text()
    if state == "done" and (refused := job.outcome.get("refused")) is None:
        answer = job.answer or await run_in_threadpool(_stored, running, job.outcome["done"], job.owner)
    text = json.dumps({"job": job.id, "state": state, "error": refused})[:-1] + ", " + answer[1:]
    return Response(text, 200 if state == "done" else 202, media_type="application/json")


def _stored(running: Running, done: dict[str, Any], reader: str) -> str:
    stored = running.answer(done["dataset"], done["position"], reader)
    return answer_text(done["position"], stored.document)
