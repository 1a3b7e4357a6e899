"""/ui/audit: who changed what, who was refused, who came in; also what memory has forgotten and the topic keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gateway.audit import Kind
from gateway.console.visit import ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


_ACTS = {
    "settle": "settled messages",
    "take-back": "took messages back",
    "deliver-now": "had messages delivered now",
    "dead-letter": "made messages dead letters",
    "act": "acted on messages",
    "skip": "skipped messages",
    "skip_all": "cleared a backlog",
    "clearBacklog": "cleared the backlogs of a namespace",
    "resetcursor": "reset a subscription",
    "expireMessages": "let messages expire",
    "unsubscribe": "deleted a subscription of a namespace",
    "terminate": "terminated a topic",
    "truncate": "truncated a topic",
    "trim": "trimmed a topic",
    "replay": "sent dead letters again",
    "edit": "sent a dead letter again with an edit",
    "discard": "discarded dead letters",
    "replay ended": "sending dead letters again ended",
    "discard ended": "discarding dead letters ended",
    "stop": "stopped a job",
}
"""What was done, by its name or by a part of its path: what the method does not say."""
_MADE = {"PUT": "made a", "DELETE": "deleted a"}
_TOPICS = ("persistent", "non-persistent")


def says(row: dict[str, Any]) -> str:
    """What was done, in words; empty where the name of the request says it."""
    if row.get("over") != "http":
        return ""
    for name in (row.get("act", ""), row["what"]):
        if name in _ACTS:
            return _ACTS[name]
    parts = str(row.get("target", "")).partition("?")[0].split("/")
    made = _MADE.get(row["what"], "")
    if made and parts[0] in _TOPICS:
        if len(parts) == 4 or parts[4:] == ["partitions"]:
            return f"{made} topic"
        if len(parts) == 6 and parts[4] == "subscription":
            return f"{made} subscription"
    # a number or a time may stand behind the verb; a topic may be called as one
    return next((_ACTS[part] for part in reversed(parts[4:][-2:] or parts[-1:]) if part in _ACTS), "")


def counted(row: dict[str, Any]) -> str:
    """How many messages, where that is told."""
    counts = row.get("counts", {})
    said = []
    for name, one in (("messages", "message"), ("letters", "dead letter")):
        number = counts.get(name)
        if isinstance(number, int):
            said.append(f"1 {one}" if number == 1 else f"{number:,} {one}s")
    if counts.get("diedAgain"):
        said.append(f"{counts['diedAgain']:,} died again")
    if "job" in counts:
        said.append(f"job {counts['job']}")
    return ", ".join(said)


async def show(visit: Visit) -> Reply:
    """A page of entries, the newest first."""
    kind, wrong = visit.one_of("kind", list(Kind), "")
    who, after = visit.query.get("who", "").strip(), visit.query.get("after", "")
    chosen = {name: value for name, value in (("kind", kind), ("who", who)) if value}
    found = await visit.get("magnetar", "audit", limit=str(ROWS), after=after, **chosen)
    more = found.get("next", "")
    return await visit.page(
        "audit.html",
        400 if wrong else 200,
        wrong=wrong,
        title="Audit",
        section="audit",
        rows=[{**row, "says": says(row), "counted": counted(row)} for row in found["entries"]],
        kinds=[
            (each, urlencode({name: value for name, value in (("kind", each), ("who", who)) if value}))
            for each in ("", *Kind)
        ],
        kind=kind,
        who=who,
        first=not after,
        kept=visit.context.broker.audit_log.topic is not None,
        next=urlencode({**chosen, "after": more}) if more else "",
        command=line(
            "audit", "--limit", str(ROWS), *[word for name in chosen for word in (f"--{name}", chosen[name])]
        ),
    )
