"""/ui/gateway: the settings that are in force, and where each was said."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.console.visit import ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


async def show(visit: Visit) -> Reply:
    """A page of them: those that somebody has said, or all."""
    # asks whether the caller may see them
    await visit.get("brokers", "configuration", "runtime")
    settings = visit.context.broker.settings
    wanted, everything = visit.query.get("q", "").strip().lower(), visit.query.get("all") == "true"
    rows = []
    for row in settings.describe():
        origin = settings.origin(row.name)
        said = origin != "default"
        if (said or everything or wanted) and wanted in f"{row.name} {row.doc}".lower():
            shown = "(not shown)" if row.sensitive and row.value is None and said else row.value
            rows.append({"name": row.name, "value": shown, "from": origin, "said": said, "doc": row.doc,
                         "dynamic": not row.read_only})  # fmt: skip
    start, wrong = visit.number("from", max(len(rows) - 1, 0))
    page = rows[start : start + ROWS]
    kept = {"q": wanted, "all": "true" if everything else ""}
    kept = {name: value for name, value in kept.items() if value}
    return await visit.page(
        "gateway.html",
        400 if wrong else 200,
        wrong=wrong,
        title="Gateway",
        section="gateway",
        not_ready=visit.context.not_ready(),
        cluster=visit.context.broker.cluster_id,
        started=visit.context.broker.started_at,
        endpoints=sorted(visit.context.broker.endpoints.items()),
        rows=page,
        total=len(rows),
        start=start,
        wanted=wanted,
        everything=everything,
        next=urlencode({**kept, "from": start + ROWS}) if start + ROWS < len(rows) else "",
        command=line("brokers", "get-runtime-config"),
    )
