"""/ui/jobs and /ui/jobs/{id}: what is done to dead letters, how far it is, how it ended; and its stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin import replaying
from gateway.admin.exchange import RefusedError
from gateway.broker.redrive.job_rows import RUNNING
from gateway.console.standing import reads_letters
from gateway.console.visit import LIVE, ROWS, url
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


async def show(visit: Visit) -> Reply:
    """All of them, the newest first."""
    after, wrong = visit.number("after")
    said = {"after": str(after)} if after else {}
    page = await visit.get("magnetar", "jobs", limit=str(ROWS), **said)
    return await visit.page(
        "jobs.html",
        400 if wrong else 200,
        live=0 if wrong else LIVE,
        wrong=wrong,
        title="Jobs",
        section="jobs",
        rows=[await _shown(visit, each) for each in page["jobs"]],
        next=page.get("next", ""),
        command=line("jobs", "list"),
    )


async def one(visit: Visit, number: str) -> Reply:
    """One of them."""
    found = await visit.get("magnetar", "jobs", number)
    job = await _shown(visit, found)
    runs = found["state"] == RUNNING
    may_stop = replaying.may_stop(visit.asker, found["by"], job["tenant"])
    return await visit.page(
        "job.html",
        title=f"Job {found['id']}: {found['what']} dead letters of {found['subscription']}",
        section="jobs",
        crumbs=[("Jobs", url("jobs"))],
        job=job,
        live=1 if runs else 0,
        runs=runs,
        may_stop=may_stop,
        may=visit.writes and runs and may_stop,
        command=line("jobs", "show", str(found["id"])),
        stop_command=line("jobs", "stop", str(found["id"])),
    )


async def stop(visit: Visit, number: str, act: str) -> Reply:
    """Stop it, and show how it ended. One that has ended by itself since is shown, too."""
    if act != "stop":
        raise RefusedError(404, "There is no such act.")
    try:
        await visit.call("POST", "magnetar", "jobs", number, "stop")
    except RefusedError as refused:
        if refused.status != 409:
            raise
    return visit.to(url("jobs", number))


async def _shown(visit: Visit, job: dict[str, Any]) -> dict[str, Any]:
    catalog = visit.context.broker.catalog
    full = catalog.full(catalog.said(job["topic"]))
    place = (full.namespace.tenant, full.namespace.name, full.local)
    total = max(job["planned"], job["done"], 1)
    return {
        "to": "",
        "ended": None,
        "why": "",
        **job,
        "url": url("jobs", job["id"]),
        "subscription_url": url("s", *place, job["subscription"]),
        # "" for who may not look at letters
        "letters_url": url("s", *place, job["subscription"], "dead")
        if await reads_letters(visit, str(full), job["subscription"])
        else "",
        "tenant": full.namespace.tenant,
        "topic_url": url("t", *place),
        "done_width": f"{job['done'] * 100 / total:.2f}%",
        "percent": job["done"] * 100 // total,
        # that somebody stopped it is no failure
        "bad": job["state"] in ("failed", "interrupted") or job["diedAgain"] > 0,
    }
