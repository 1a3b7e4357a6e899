"""/ui/subscriptions: which is behind?"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.console import standing
from gateway.console.visit import LIVE
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


async def show(visit: Visit) -> Reply:
    """A page of them, in an order."""
    sort, wrong = visit.one_of("sort", standing.SORTS, "oldest")
    text, namespace = visit.query.get("q", "").strip(), visit.query.get("namespace", "").strip()
    seen = await standing.seen(visit, sort, visit.query.get("after", ""), text, namespace)
    kept = {name: each for name, each in (("q", text), ("namespace", namespace)) if each}
    words = ["subscriptions", "list", "--sort", sort]
    words += ["-q", text] if text else []
    words += ["-n", namespace] if namespace else []
    return await visit.page(
        "subscriptions.html",
        400 if wrong else 200,
        live=0 if wrong else LIVE,
        wrong=wrong,
        title="Subscriptions",
        section="subscriptions",
        seen=seen,
        sort=sort,
        sorts=[(name, words_, urlencode({**kept, "sort": name})) for name, words_ in standing.SORTS.items()],
        text=text,
        namespace=namespace,
        next=urlencode({**kept, "sort": sort, "after": seen.next}) if seen.next else "",
        command=line(*words),
    )
