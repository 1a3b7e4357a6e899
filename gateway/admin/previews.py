"""Which calls only look, though they are no GET: dry runs, and reads that are asked for by POST or PUT.

The audit tells nothing of them, whether they were answered or refused; but that a right was missing it tells of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import DRY_RUN, RefusedError

if TYPE_CHECKING:
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.routes import Key

READS = frozenset(
    {
        ("POST", "subscription", "analyzeBacklog"),
        ("PUT", "topic", "backlogSize"),
        # to watch what happens to a key is to look
        ("POST", "subscription", "magnetar/watch"),
    }
)
DRY = frozenset(
    {("POST", "subscription", f"magnetar/{verb}") for verb in ("act", "replay", "discard")},
)
"""Rows of `routes.VERBS` whose bodies may say `dryRun`."""
DRY_QUERY = frozenset(
    {
        ("POST", "subscription", "skip_all"),
        ("POST", "subscription", "resetcursor"),
        ("POST", "subscription", "resetcursor/*"),
        ("DELETE", "subscription", ""),
        ("PUT", "topic", ""),
        ("PUT", "topic", "partitions"),
        ("DELETE", "topic", ""),
        ("DELETE", "topic", "partitions"),
    }
)
"""Rows whose queries may."""


def only(call: Call, key: Key, reply: Reply) -> bool:
    """Whether nothing was to be changed by a call."""
    if call.method == "GET" or key in READS or DRY_RUN in reply.headers:
        return True
    if reply.status < 300:
        # what was done was not dry
        return False
    if key in DRY_QUERY:
        return call.query.get("dryRun", "").lower() == "true"
    if key not in DRY:
        return False
    try:
        body = call.json()
    except RefusedError:
        return False
    return isinstance(body, dict) and bool(body.get("dryRun"))
