"""/ui/topics: what there is, and how far behind its readers are."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.admin import roles
from gateway.admin.exchange import Call
from gateway.console import standing
from gateway.console.visit import LIVE, ROWS, topic_parts, url

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


async def show(visit: Visit, wrong: str = "", status: int = 200) -> Reply:
    """A page of them, by name; `wrong`: why none was made of what the form says."""
    namespace, after = visit.query.get("namespace", ""), visit.query.get("after", "")
    hidden = visit.query.get("system") == "true"
    asked = {"limit": str(ROWS)}
    if namespace:
        asked["namespace"] = namespace
    if after:
        asked["after"] = after
    if hidden:
        asked["includeSystemTopic"] = "true"
    page = await visit.get("magnetar", "lag", **asked)
    rows = []
    for topic in page["topics"]:
        of = standing.of_topic(topic)
        domain, tenant, space, local = topic_parts(topic["topic"])
        rows.append(
            {
                **topic,
                "domain": domain,
                "namespace": f"{tenant}/{space}",
                "local": local,
                "url": url("t", tenant, space, local),
                "of": sorted(of, key=lambda each: -each.open)[:3],
                "count": len(of),
                "open": sum(each.open for each in of),
                "oldest": min((each.oldest for each in of if each.oldest >= 0), default=-1),
            }
        )
    forward = {"namespace": namespace, "system": "true" if hidden else "", "after": page["next"] or ""}
    return await visit.page(
        "topics.html",
        status,
        # the form stays as it is
        live=0 if wrong else LIVE,
        wrong=wrong,
        new=visit.form.get("topic", visit.query.get("topic", "")),
        count=visit.form.get("partitions", visit.query.get("partitions", "1")),
        title="Topics",
        section="topics",
        rows=rows,
        namespace=namespace,
        hidden=hidden,
        after=after,
        did=visit.note(),
        may_create=visit.writes and await _creates(visit, namespace),
        next=urlencode({name: value for name, value in forward.items() if value}) if page["next"] else "",
    )


async def _creates(visit: Visit, namespace: str) -> bool:
    """Whether the caller may make topics there, or somewhere."""
    if namespace:
        return visit.asker.administers(namespace.partition("/")[0])
    holds = roles.SOME_TENANT.holds(visit.context.broker, Call("PUT", (), asker=visit.asker))
    return holds if isinstance(holds, bool) else await holds
