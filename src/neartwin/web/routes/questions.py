"""Routes of questions. Plans and previews are free. Releases are paid before a row is read."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from starlette.concurrency import run_in_threadpool

from neartwin.web import schemas
from neartwin.web.auth import Analyst, Asker, Caller
from neartwin.web.jobs import Job
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.service import Running
from neartwin.web.tasks import stored_answer

router = APIRouter(tags=["questions"])
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
JobId = Annotated[str, Path(max_length=100)]


@router.post("/datasets/{name}/plan")
async def plan(name: Named, ask: schemas.Ask, caller: Asker, running: Running) -> schemas.Plan:
    """Plan a release and preview its cost and errors. This reads no row and spends nothing."""
    return schemas.Plan.model_validate(await running.ask(_task("plan", name, ask, caller)))


@router.post("/datasets/{name}/preview")
async def preview(name: Named, ask: schemas.Ask, caller: Asker, running: Running) -> schemas.Preview:
    """Preview the cost, the expected errors and the budget after. This reads no row and spends nothing."""
    return schemas.Preview.model_validate(await running.ask(_task("plan", name, ask, caller)))


@router.post("/datasets/{name}/releases", status_code=202)
async def release(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named,
    ask: schemas.Ask,
    caller: Analyst,
    running: Running,
    response: Response,
    key: Key = "",
    wait: Seconds = 0,
) -> schemas.JobState:
    """Start a release as a job. It pays, asks, adds noise and answers. A stored answer is served at no cost."""
    await run_in_threadpool(visible, running.directory, name, caller)
    job = running.jobs.submit(_task("release", name, ask, caller) | {"key": key})
    return await _state(job, wait, running, response)


@router.get("/jobs/{identity}")
async def job(
    identity: JobId, caller: Analyst, running: Running, response: Response, wait: Seconds = 0
) -> schemas.JobState:
    """The state of a release: queued, running or done. No more is shown, because speed may be data."""
    submitted = await run_in_threadpool(running.jobs.get, identity, caller.name)
    return await _state(submitted, wait, running, response)


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
    analyst = caller.name if caller.role in {"analyst", "agent"} else ""
    return {"do": do, "dataset": dataset, "analyst": analyst, "project": caller.project} | body


def fits(plan: Mapping[str, Any], left: Mapping[str, Fraction]) -> bool:
    """Whether amounts can pay for a plan.

    Args:
        plan: The plan, as a worker made it.
        left: The amounts, by pool.
    """
    return all(
        Fraction(before) - Fraction(plan["after"][pool]) <= left[pool] for pool, before in plan["before"].items()
    )


async def _state(job: Job, wait: float, running: Running, response: Response) -> schemas.JobState:
    job = await running.jobs.wait(job, min(wait, running.settings.patience))
    if job.state != "done":
        response.status_code = 202
        return schemas.JobState.model_validate({"job": job.id, "state": job.state})
    response.status_code = 200
    body: dict[str, Any] = {"job": job.id, "state": "done"}
    if "refused" in job.outcome:
        body["error"] = job.outcome["refused"]
    else:
        done = job.outcome["done"]
        account = running.directory.books.account(done["dataset"])
        body |= await run_in_threadpool(stored_answer, account, done["position"]) | {"after": done["after"]}
    return schemas.JobState.model_validate(body)
