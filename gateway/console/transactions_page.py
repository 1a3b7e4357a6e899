"""/ui/transactions: which are open, whose they are, and who waits for their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gateway.console.topic import READ, Place
from gateway.console.visit import ROWS, topic_parts
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

STATES = {"open": "Open", "any": "All transactional ids"}
WORDS = {
    "Ongoing": "open",
    "Empty": "none begun",
    "CompleteCommit": "committed",
    "CompleteAbort": "aborted",
}


async def show(visit: Visit) -> Reply:
    """A page of them: those that are open, the oldest first, or all; `q` is a part of their names."""
    state, wrong = visit.one_of("state", STATES, "open")
    text = visit.query.get("q", "").strip()
    asked = {"state": state, "limit": str(ROWS), "after": visit.query.get("after", ""), "q": text}
    page = await visit.get("magnetar", "transactions", **{name: each for name, each in asked.items() if each})
    kept = {"q": text} if text else {}
    words = ["transactions", "list", *(["--state", state] if state != "open" else [])]
    words += ["-q", text] if text else []
    return await visit.page(
        "transactions.html",
        400 if wrong else 200,
        wrong=wrong,
        title="Transactions",
        section="transactions",
        rows=[await _row(visit, each) for each in page["transactions"]],
        of=page.get("of"),
        state=state,
        text=text,
        states=[(name, words_, urlencode({**kept, "state": name})) for name, words_ in STATES.items()],
        next=urlencode({**kept, "state": state, "after": page["next"]}) if "next" in page else "",
        command=line(*words),
    )


async def _row(visit: Visit, one: dict[str, Any]) -> dict[str, Any]:
    partitions = []
    for each in one.get("partitions", ()):
        place = Place(*topic_parts(each["topic"]))
        waits = each.get("waitsAt", -1)
        may = waits >= 0 and await visit.may(READ, *place.path, "examinemessage")
        partitions.append(
            {
                **each,
                "name": place.word,
                "url": place.url(),
                "waits_url": place.message_url(each["partition"], waits) if may else "",
            }
        )
    held = sum(each.get("heldBack", 0) for each in partitions)
    return {**one, "word": WORDS.get(one["state"], one["state"]), "partitions": partitions, "held": held}


async def open_now(visit: Visit) -> tuple[int, int]:
    """(how many are open that the reader may see, seconds for which the oldest has been; -1 without one)."""
    page = await visit.get("magnetar", "transactions", limit="1")
    return page["of"], page["transactions"][0]["ageSeconds"] if page["transactions"] else -1
