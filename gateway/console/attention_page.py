"""/ui/attention: what needs attention, one by one; of a topic, by a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.console import standing
from gateway.console.visit import LIVE
from semantics.command_line import line
from semantics.console.attention import RULES

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

HOME = "persistent://public/default/"
ALL = "all"
WORDS = {
    ALL: "All",
    "nobody": "No consumer",
    "full": "Too many unacknowledged",
    "transaction": "Open transactions",
    "blocked": "Behind their keys",
    "idle": "Consumers idle",
    "dying": "Letters not stored",
    "job": "Jobs",
    "deadLetters": "New dead letters",
    "letters": "Dead letters",
}


async def show(visit: Visit) -> Reply:
    """A page of it, the most urgent first."""
    rule, wrong = visit.one_of("rule", (ALL, *RULES), ALL)
    topic, namespace = (visit.query.get(name, "").strip() for name in ("topic", "namespace"))
    kept = {"rule": "" if rule == ALL else rule, "topic": topic, "namespace": namespace}
    kept = {name: each for name, each in kept.items() if each}
    signs = await standing.attention(visit, after=visit.query.get("after", ""), **kept)
    words = ["attention"]
    for name, flag in (("namespace", "-n"), ("topic", "-t"), ("rule", "--rule")):
        words += [flag, kept[name].removeprefix(HOME)] if name in kept else []
    return await visit.page(
        "attention.html",
        400 if wrong else 200,
        live=0 if wrong else LIVE,
        wrong=wrong,
        title="Needs attention",
        section="overview",
        signs=signs,
        rule=rule,
        words=WORDS,
        topic=topic.removeprefix(HOME),
        rules=[(each, urlencode({**kept, "rule": each})) for each in (ALL, *RULES)],
        all_topics=urlencode({name: each for name, each in kept.items() if name != "topic"}),
        next=urlencode({**kept, "after": signs.next}) if signs.next else "",
        command=line(*words),
    )
