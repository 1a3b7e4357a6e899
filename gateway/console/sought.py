"""Messages with a text in them: open ones with why each does not arrive, dead letters, and records that are neither.

It begins with the subscriptions whose open messages are oldest, and ends after 45 ms of the loop's time, of which
clients have theirs: it says how far it came, and where it could not look. Nobody is told that there is none where
nobody looked.
"""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console import shown, standing, states
from gateway.console.standing import CONSUMERS, HASH
from gateway.console.topic import Place
from gateway.console.visit import ROWS, topic_parts
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.routes import Key
    from gateway.console.standing import Standing
    from gateway.console.visit import Visit

SECONDS = 0.045
"""Of the loop's processor time for all that is looked through: a page has 300 ms in all, beside others. What it waits
for a core does not count, or a busy machine would find less; what clients have of the loop meanwhile does.
"""
MOST_SECONDS = 0.15
"""By the clock: disks may be slow."""
LEAST_MS = 10
"""What a search gets that has begun."""
EACH = 10
"""Messages of one subscription, and of one topic."""
KEYS = 10
"""Subscriptions by key that are asked whose a key would be."""
_QUEUES = ("Shared", "Key_Shared")

RECORDS: Key = ("GET", "topic", "magnetar/records")


class Hit(NamedTuple):
    """A message."""

    place: Place
    partition: int
    offset: int
    url: str
    key: str
    # "" for what is just a record
    subscription: str
    subscription_url: str
    state: str
    why: str
    # who the consumers are that it names: (name, client and address)
    who: list[tuple[str, str]]
    # whether it is a dead letter
    letter: bool = False
    # the topic that partition and offset are of, where that is another
    of: str = ""


class Sought(NamedTuple):
    """What was found."""

    hits: list[Hit]
    looked: int
    of: int
    # (subscription, its page, whose a key of this name is there)
    keys: list[tuple[Standing, str]]
    command: str
    # whether there was time for all subscriptions, and all messages of those were looked at that the reader may look
    # into, or as many were found as are shown
    whole: bool
    # subscriptions that the reader may not look into
    closed: int
    # (what else was not looked at, and why not), ROWS at most
    missed: list[tuple[str, str]]


class _Search:
    """How one goes: the time that is left, and what could not be looked at."""

    def __init__(self) -> None:
        self._until = thread_time() + SECONDS
        self._end = perf_counter() + MOST_SECONDS
        self.whole = True
        """No call has ended before it was through, with less than it was to find."""
        self.missed: list[tuple[str, str]] = []

    async def ask(
        self, visit: Visit, what: str, rows: str, *path: str, **query: str
    ) -> list[dict[str, Any]] | None:
        """The `rows` of a call that looks for messages; None where it was refused, or has failed."""
        page, why_not = await visit.try_get(*path, limit=str(EACH), **query, **self.asked())
        if page is None:
            self.miss(what, why_not)
            return None
        found: list[dict[str, Any]] = page[rows]
        if "next" in page and len(found) < EACH:
            self.whole = False
        if damaged := page.get("damagedBatches"):
            self.miss(what, f"{damaged:,} {'batch' if damaged == 1 else 'batches'} cannot be opened.")
        return found

    def miss(self, what: str, why_not: str) -> None:
        """Something was not looked at."""
        if len(self.missed) < ROWS:
            self.missed.append((what, why_not))

    @property
    def _left(self) -> float:
        """Seconds."""
        return min(self._until - thread_time(), self._end - perf_counter())

    @property
    def over(self) -> bool:
        return self._left < 0

    def asked(self) -> dict[str, str]:
        """How long a call may look, as its query says it."""
        ms = int(self._left * 1000)
        return {"work": str(max(ms, LEAST_MS))} if ms < 200 else {}


async def messages(visit: Visit, said: str) -> Sought:
    """With this in their key, value or headers."""
    seen = await standing.seen(visit)
    hits: list[Hit] = []
    search, looked, closed, all_of_them = _Search(), 0, 0, not (seen.next or seen.at_least)
    # several subscriptions may read one topic: whether its records were looked at, None where that is not allowed
    searched: dict[Place, bool | None] = {}
    for each in seen.found:
        if search.over:
            all_of_them = False
            break
        place = Place(*topic_parts(each.topic))
        ours: bool | None = None
        if each.type in _QUEUES and each.may_consume:
            found = await _open(visit, place, each, said, search)
            ours = found is not None
            hits += found or ()
            if each.dead_letters:
                hits += await _dead(visit, place, each, said, search)
        if place not in searched:
            searched[place] = await _records(visit, place, said, hits, search)
        if each.type not in _QUEUES:
            # nothing is known of what is open there but which records there are
            ours = searched[place]
        looked += bool(ours)
        closed += ours is None
    # a topic may have been searched for a consumer group's sake before others were found to have its messages open
    theirs = {(each.place, each.partition, each.offset) for each in hits if each.subscription and not each.of}
    hits = [
        each for each in hits if each.subscription or (each.place, each.partition, each.offset) not in theirs
    ]
    exact = not hits or any(each.key == said for each in hits)
    keys = await _keys(visit, seen.found, said) if exact else []
    first = next((each for each in hits if each.subscription), None)
    command = _line(first, said) if first is not None else ""
    whole = search.whole and all_of_them
    return Sought(hits, looked, seen.of, keys, command, whole, closed, search.missed)


def _line(hit: Hit, said: str) -> str:
    """What finds the same in its subscription."""
    of = hit.place.word, "-s", hit.subscription
    if hit.letter:
        return line("dead-letters", "list", *of, "--text", said)
    return line("subscriptions", "why", *of, "--open", "--text", said)


async def _open(visit: Visit, place: Place, each: Standing, said: str, search: _Search) -> list[Hit] | None:
    """None where it could not be looked."""
    if not each.open:
        return []
    at = (*place.path, "subscription", each.name, "magnetar", "open")
    what = f"open messages of {each.name} on {place.word}"
    rows = await search.ask(visit, what, "messages", *at, text=said)
    if rows is None:
        return None
    people = await _people(visit, place, each) if rows else []
    return [
        Hit(
            place,
            row["partition"],
            row["offset"],
            place.message_url(row["partition"], row["offset"]),
            shown.visible(row.get("key", row.get("keyBase64", "")), lines=False),
            each.name,
            each.url,
            states.state_of(row["state"]),
            row["why"],
            [one for one in people if one[0] in row["why"]],
        )
        for row in rows
    ]


async def _dead(visit: Visit, place: Place, each: Standing, said: str, search: _Search) -> list[Hit]:
    what = f"dead letters of {each.name} on {place.word}"
    if not each.reads_letters:
        search.miss(what, "That takes the right to consume from the topic that they are in.")
        return []
    at = (*place.path, "subscription", each.name, "magnetar", "deadletters")
    rows = await search.ask(visit, what, "letters", *at, text=said) or ()
    return [
        Hit(
            place,
            *from_where[:2],
            f"{place.subscription_url(each.name, 'letter')}?id={row['id']}",
            shown.visible(row["key"] or "", lines=False)[:100],
            each.name,
            place.subscription_url(each.name, "dead"),
            "dead",
            _died(row),
            [],
            letter=True,
            of=from_where[2],
        )
        for row in rows
        for from_where in [place.last_read(row["origin"])]
    ]


def _died(letter: Mapping[str, Any]) -> str:
    """What a letter says of its death: one that a client has written may say next to nothing."""
    said = [letter["reason"] or "without a reason"]
    if letter["failed"]:
        said.append(f"delivered {_times(letter['failed'])}")
    return f"A dead letter: {', '.join(said)}. {shown.visible(letter['message'] or '')}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


async def _records(visit: Visit, place: Place, said: str, hits: list[Hit], search: _Search) -> bool | None:
    """Of a topic, the newest first: they are added. With as many of one as are shown of it, it is not looked for more.
    Whether it was looked; None where the reader may not.
    """
    at = (*place.path, "magnetar", "records")
    if not await visit.may(RECORDS, *at):
        return None
    if sum(each.place == place for each in hits) >= EACH:
        return True
    rows = await search.ask(visit, f"records of {place.word}", "records", *at, text=said)
    for row in rows or ():
        index, offset = row["partition"], row["offset"]
        url = place.message_url(index, offset)
        key = row["key"]["decoded"] if row["key"] is not None else ""
        hits.append(
            Hit(place, index, offset, url, shown.visible(str(key), lines=False)[:100], "", "", "", "", [])
        )
    return rows is not None


async def _people(visit: Visit, place: Place, each: Standing) -> list[tuple[str, str]]:
    """The consumers of a subscription: what each is called, and by which client from where."""
    at = (*place.path, "subscription", each.name, "magnetar", "consumers")
    page, _ = await visit.get_if_may(CONSUMERS, *at, limit=str(ROWS))
    return [
        (row["consumerName"], f"{client} at {row.get('address') or 'an unknown address'}")
        for row in (page or {}).get("consumers", ())
        if (client := row.get("metadata", {}).get("clientId"))
    ]


async def _keys(visit: Visit, some: list[Standing], said: str) -> list[tuple[Standing, str]]:
    found: list[tuple[Standing, str]] = []
    for each in [one for one in some if one.type == "Key_Shared"][:KEYS]:
        path = Place(*topic_parts(each.topic)).path
        answer, _ = await visit.get_if_may(HASH, *path, "subscription", each.name, "hash", key=said)
        if answer is not None:
            owner = answer.get("owner") or "nobody"
            people = dict(await _people(visit, Place(*topic_parts(each.topic)), each))
            whose = f"{owner} ({people[owner]})" if owner in people else owner
            found.append((each, f"slot {answer['slot']:,} of {whose}"))
    return found
