"""The verb of audit: who changed what, who was refused, who came in. And what of a call is told there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from gateway.admin.exchange import RefusedError, json
from gateway.audit import KEPT, Kind

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply

_VALUES = frozenset({("POST", "brokers", "configuration/*/*"), ("PUT", "namespace", "property/*/*")})
"""Rows of `routes.VERBS` whose path ends with a value: what it is called stands before it."""


async def told(context: Context, call: Call) -> Reply:
    """The last entries, the newest first; `limit` says how many at most, `kind` of which kind: change, refused, login.
    (Magnetar's own.)
    """
    limit = call.whole_number("limit", 1, KEPT * len(Kind), KEPT)
    said = call.query.get("kind", "")
    if said and said not in list(Kind):
        raise RefusedError(400, f"The kind is one of {', '.join(Kind)}; not {said[:40]!r}.")
    return json(context.broker.audit.last(limit, Kind(said) if said else None))


def place_of(call: Call, key: tuple[str, str, str]) -> str:
    """The path of a call, without a value that stands in it."""
    path = call.path[:-1] if key in _VALUES else call.path
    return "/".join([quote(each, safe=":") for each in path])
