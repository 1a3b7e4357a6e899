"""/ui/audit: who changed what, who was refused, who came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gateway.audit import KEPT, Kind
from gateway.console.lines import line
from gateway.console.visit import ROWS

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


_ACTS = {
    "skip_all": "cleared a backlog",
    "resetcursor": "reset a subscription",
    "expireMessages": "let messages expire",
    "terminate": "terminated a topic",
    "truncate": "truncated a topic",
    "act": "acted on messages",
    "replay": "sent dead letters again",
    "discard": "discarded dead letters",
}
"""What calls do whose names do not say it."""


def _says(row: dict[str, Any]) -> str:
    if row.get("over") != "http":
        return ""
    parts = str(row.get("target", "")).partition("?")[0].split("/")
    return next((_ACTS[part] for part in reversed(parts[-2:]) if part in _ACTS), "")


async def show(visit: Visit) -> Reply:
    """A page of entries, the newest first."""
    kind = visit.query.get("kind", "")
    kind = kind if kind in list(Kind) else ""
    before = visit.number("before", 2**53)
    asked = {"limit": str(KEPT * len(Kind) if before else ROWS + 1)}
    if kind:
        asked["kind"] = kind
    found = await visit.get("magnetar", "audit", **asked)
    if before:
        found = [each for each in found if each["number"] < before][: ROWS + 1]
    rows = [{**row, "says": _says(row)} for row in found[:ROWS]]
    more = {"kind": kind, "before": rows[-1]["number"]} if len(found) > ROWS else {}
    return await visit.page(
        "audit.html",
        title="Audit",
        section="audit",
        rows=rows,
        kinds=["", *Kind],
        kind=kind,
        next=urlencode({name: value for name, value in more.items() if value}) if more else "",
        command=line("audit", "--limit", str(ROWS), *(["--kind", kind] if kind else [])),
    )
