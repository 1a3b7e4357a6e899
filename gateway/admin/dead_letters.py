"""Dead letters of a subscription: listed, and in groups. Each has a state: see `gateway/broker/redrive`."""

from __future__ import annotations

import base64
from datetime import datetime
from functools import partial
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin import schemas
from gateway.admin.exchange import RefusedError, iso, json
from gateway.admin.places import named_subscription, whole
from gateway.admin.slices import Pace, turn
from gateway.admin.topics import named as topic_name
from gateway.broker.loading import until_loaded
from gateway.broker.redrive.letter import ERRORS, OURS, origin
from gateway.broker.redrive.place import Graves, graves_of
from gateway.broker.redrive.reading import Pause, read
from gateway.broker.tenancy import TenancyError
from semantics.access.acl import Operation
from semantics.console.grouping import By, GroupingError, Groups
from semantics.console.letter_filter import FilterError, LetterFilter, read_filter, read_id
from semantics.console.letter_states import NAMES, OPEN
from semantics.names import canonical, dotted

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.broker.broker import Broker
    from semantics.console.grouping import Group
    from semantics.console.letter_filter import DeadLetter

LIMIT = 50
MOST = 1000
LOOKED_AT_MOST = 32 * 1024 * 1024
"""Bytes of letters that one page of a list looks through, and one of groups."""
PREVIEW = 200
"""Bytes of a value that a list shows."""
MOST_HEADER = 500
"""Bytes of a header, and characters of its name and of what is said of where a letter came from."""
MOST_HEADERS = 100
"""Headers of a letter that are shown: a client may write any number."""
MOST_TEXT = 4096
"""Bytes of a key, and characters of why it died."""
ANSWER = 512 * 1024
"""Bytes of letters in a page; its first may have more."""
MOST_WORK = 200
"""Milliseconds that a call may ask for; without them bytes are what bounds it."""


class At(NamedTuple):
    """The subscription that a path names, and its dead letters."""

    topic: str
    name: str
    graves: Graves
    # of the topic, the subscription and the topics of the graves: others of these names have others
    ids: tuple[Hashable, ...]


async def graves_at(broker: Broker, call: Call) -> At:
    """Refuses what has no dead letters with 412, and who may not read them with 403."""
    named = await named_subscription(broker, call)
    whole(named.found)
    if not named.shared:
        raise RefusedError(
            412,
            f"{named.name} is a consumer group: it reads by offsets, and nothing of it becomes a dead letter.",
        )
    subscription = broker.subscriptions.by_id(named.name, named.found.topic.topic_id)
    graves = graves_of(broker.catalog, subscription) if subscription is not None else None
    if subscription is None or graves is None:
        raise RefusedError(404, f"{named.found.name} has no subscription {named.name} any more.")
    if not _may_read(broker, call, graves):
        raise RefusedError(
            403,
            f"{call.asker.principal[:200]} may not do this: it takes the right to consume from "
            f"{dotted(graves.letters)}, where the dead letters are.",
        )
    letters = broker.catalog.get(graves.letters)
    ids = (
        named.found.topic.topic_id,
        subscription.id,
        graves.base.topic_id,
        letters.topic_id if letters is not None else None,
    )
    return At(named.found.topic.name, named.name, graves, ids)


def _may_read(broker: Broker, call: Call, graves: Graves) -> bool:
    """Whether who may consume by a subscription may read its dead letters: a topic of their own choice has letters of
    others, too.
    """
    if not call.asker.checked or graves.own_letters:
        return True
    where = broker.catalog.namespaces.full(graves.letters).namespace
    return call.asker.topic(Operation.READ, graves.letters, where)


def may_look(broker: Broker, call: Call) -> bool:
    """The same of the subscription that a path names. Where there is none, and so nothing to read, the verbs say so."""
    if not call.asker.checked:
        return True
    try:
        topic = broker.catalog.get(canonical(topic_name(broker, call)))
    except (RefusedError, TenancyError):
        return True
    subscription = broker.subscriptions.by_id(call.path[5], topic.topic_id) if topic is not None else None
    graves = graves_of(broker.catalog, subscription) if subscription is not None else None
    return graves is None or _may_read(broker, call, graves)


async def listed(context: Context, call: Call) -> Reply:
    """A page of the dead letters of a subscription, the oldest of each partition first: state, reason, where it came
    from, when it died, how often it was delivered and replayed, its headers and the beginning of its value. `state` is
    open (which is meant without one), replayed, edited, discarded or any; `reason`, `key`, `text` (in key, value or
    headers), `header` (NAME=VALUE), `since`, `until` and `failedBelow` (delivered fewer times) choose. `after` is the
    `next` of the page before. One page looks through 32 MB at most, for `work` ms where that is said (200 at most):
    `looked` says how many letters that were, and without `next` they were all. A value in Avro or Protobuf whose schema
    is in reach is `decoded`, as in `records`; else `notDecoded` says why. Of very long keys (`keyCut`) and headers the
    beginning is shown, of very many headers a hundred (`headersLeftOut`), and half a megabyte is a page. `counts` are
    of the topic that they are in, also where the letters of other subscriptions may be there, which `shared` says.
    (Magnetar's own.)
    """
    at = await graves_at(context.broker, call)
    limit = call.whole_number("limit", 1, MOST, LIMIT)
    wanted, state = filter_of_query(call), _state(call)
    page: list[dict[str, Any]] = []
    size = 0
    walk = Walk(context.broker, at.graves, _after(call), _seconds(call))
    payloads = schemas.Page(context, call)
    async for letter, its in walk.letters():
        if (state is None or its == state) and wanted.matches(letter):
            page.append(row := shown(letter, its))
            told = await walk.told(payloads, letter.value)
            if told.json:
                row |= {"kind": told.kind.lower(), "decoded": msgspec.json.decode(told.json)}
            elif told.kind:
                row["notDecoded"] = f"{told.kind}: {told.why_not}"
            size += _size(row) + len(told.json)
            if len(page) == limit or size >= ANSWER:
                break
    answer: dict[str, Any] = {
        "topic": dotted(at.graves.letters),
        "letters": page,
        "looked": walk.looked,
        "counts": await walk.counts(),
    }
    if not at.graves.own_letters or _shared(context, at):
        answer["shared"] = True
    if not walk.over:
        answer["next"] = walk.next
    return json(answer)


def _shared(context: Context, at: At) -> bool:
    """Whether it is known that letters of others go where these are, though nobody has said so of this one."""
    standing = context.sums.ranking.get(at.graves.base.name, at.graves.group)
    return standing is not None and bool(standing.letters_in)


async def grouped(context: Context, call: Call) -> Reply:
    """Dead letters in groups, the largest first: `by` is reason, header:NAME or json:$.a.b. Of each how many, the first
    and the last death, the id of the last, and what JSON values most of them share. It takes the filters of the list.
    One call looks through 32 MB at most, for `work` ms where that is said: `atLeast` and `next` say that there are
    more. Values in Avro and Protobuf are read by their schemas, for a second: `notDecoded` is how many were not.
    (Magnetar's own.)
    """
    at = await graves_at(context.broker, call)
    wanted, state = filter_of_query(call), _state(call)
    try:
        groups = Groups(By(call.query.get("by") or "reason"))
    except GroupingError as error:
        raise RefusedError(400, str(error)) from None
    limit = call.whole_number("limit", 1, MOST, LIMIT)
    walk, pause, taken = Walk(context.broker, at.graves, _after(call), _seconds(call)), Pause(turn), 0
    payloads, not_decoded = schemas.Page(context, call), 0
    async for letter, its in walk.letters():
        if (state is None or its == state) and wanted.matches(letter):
            told = await walk.told(payloads, letter.value)
            not_decoded += bool(told.kind and not told.json)
            groups.add(letter, told.json)
            taken += 1
            await pause()
    found = groups.sorted()
    answer: dict[str, Any] = {
        "topic": dotted(at.graves.letters),
        "groups": await _told(found[:limit]),
        "letters": taken,
        "looked": walk.looked,
        "groupsFound": len(found),
    }
    # each has dicts of its own
    del groups
    pace = Pace()
    while found:
        found.pop()
        await pace.rest()
    if not_decoded:
        answer["notDecoded"] = not_decoded
    if not walk.over:
        answer["atLeast"] = True
        answer["next"] = walk.next
    return json(answer)


async def _told(groups: list[Group]) -> list[dict[str, Any]]:
    """Groups as JSON."""
    pace, told = Pace(), list[dict[str, Any]]()
    for each in groups:
        told.append(
            {
                "group": each.name,
                "count": each.count,
                "first": iso(each.first),
                "last": iso(each.last),
                "sample": each.sample,
                "common": [
                    {"path": path, "value": value, "letters": count, "of": of}
                    for path, value, count, of in each.common()
                ],
            }
        )
        await pace.rest()
    return told


class Walk:
    """Over the letters of a subscription, from a place on: LOOKED_AT_MOST bytes, and so many seconds, at most. However
    few these are it comes on, by a letter or a partition.
    """

    def __init__(self, broker: Broker, graves: Graves, after: tuple[int, int], seconds: float = inf) -> None:
        self._broker = broker
        self._graves = graves
        self._topic = broker.catalog.get(graves.letters)
        self._place = after
        self._end = 0
        self._until = perf_counter() + seconds
        self.looked = 0
        # whether it ended before the last letter
        self.more = False

    @property
    def over(self) -> bool:
        """Whether there is nothing behind the last letter that it gave."""
        last = len(self._topic.partitions) - 1 if self._topic is not None else -1
        return not self.more or (self._place[0] == last and self._place[1] >= self._end)

    @property
    def next(self) -> str:
        """Where the next page begins."""
        return f"{self._place[0]}:{self._place[1]}"

    async def told(self, payloads: schemas.Page, value: bytes | None) -> schemas.Told:
        """What a value says by a schema that is in reach of the topic with the letters."""
        return await payloads.told(self._topic, value) if self._topic is not None else schemas.Told()

    async def letters(self) -> Any:
        """(letter, its state) each. Raises KafkaError, StoreError."""
        broker, topic, left = self._broker, self._topic, LOOKED_AT_MOST
        self.more = True
        first, begin = self._place
        pause, pace = Pause(turn), Pace()
        for index in range(first, len(topic.partitions) if topic is not None else 0):
            assert topic is not None
            # the one before may have been at its end when this walk began
            if self._late and index > first + 1:
                return
            at = await until_loaded(partial(broker.in_use.partition, topic, index))
            cursor = await until_loaded(partial(broker.redrive.cursors.of, at))
            begin, end = max(begin if index == first else 0, at.log_start), at.last_stable_offset
            await pace.rest()
            self._place, self._end = (index, begin), end
            async for some, behind, size in read(broker, at, begin, end, turn):
                for letter in some:
                    if pause.due:
                        await pause()
                    self.looked += 1
                    self._place = index, letter.offset + 1
                    if self._graves.holds(letter):
                        yield letter, cursor.states.of(letter.offset)
                    if self._late:
                        return
                self._place = index, behind
                left -= size
                if left <= 0 or self._late:
                    return
        self.more = False

    @property
    def _late(self) -> bool:
        return perf_counter() >= self._until

    async def counts(self) -> dict[str, int]:
        """How many letters of the whole topic are in which state: by offsets, so of all whose letters lie there."""
        broker, topic = self._broker, self._topic
        sums, pace = [0] * len(NAMES), Pace()
        for index in range(len(topic.partitions) if topic is not None else 0):
            assert topic is not None
            at = await until_loaded(partial(broker.in_use.partition, topic, index))
            cursor = await until_loaded(partial(broker.redrive.cursors.of, at))
            for state, count in enumerate(cursor.states.counts(at.log_start, at.high_watermark)):
                sums[state] += count
            await pace.rest()
        return dict(zip(NAMES, sums, strict=True))


def shown(letter: DeadLetter, state: int) -> dict[str, Any]:
    """A letter as JSON."""
    where = origin(letter)
    value, key = letter.value, letter.key and letter.key[:MOST_TEXT]
    given = [each for each in letter.headers if each[0] not in OURS and not each[0].startswith(ERRORS)]
    found: dict[str, Any] = {
        "id": f"{letter.partition}:{letter.offset}",
        "state": NAMES[state],
        "reason": letter.reason,
        "message": where.message[:MOST_TEXT],
        "diedAt": iso(letter.died_at),
        "failed": max(where.deliveries, 0),
        "replays": letter.replays,
        "key": _text(key),
        "origin": {
            "topic": (where.topic or where.real_topic)[:MOST_HEADER],
            "partition": where.partition,
            "offset": where.offset,
            "messageId": where.message_id[:MOST_HEADER],
        },
        "headers": {
            # a client may call one by any bytes
            name[:MOST_HEADER].encode("utf-8", "surrogateescape").decode("utf-8", "replace"): _text(
                each and each[:MOST_HEADER]
            )
            for name, each in given[:MOST_HEADERS]
        },
        "size": len(value) if value is not None else -1,
        "value": _text(value and value[:PREVIEW]),
    }
    if len(given) > MOST_HEADERS:
        found["headersLeftOut"] = len(given) - MOST_HEADERS
    if letter.key is not None and key is not None and _is_binary(letter.key):
        found["keyBase64"] = base64.b64encode(key).decode()
    if key != letter.key:
        found["keyCut"] = True
    if letter.whole:
        found["batch"] = True
    return found


def _size(row: dict[str, Any]) -> int:
    """Of what is shown of a letter, about."""
    parts = row["key"], row["value"], row["message"], *row["headers"], *row["headers"].values()
    return sum([len(each) for each in parts if each is not None])


def _text(value: bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if value is not None else None


def _is_binary(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


# -- what queries and bodies say


_IN_QUERY = ("reason", "key", "text", "since", "until", "failedBelow")


def filter_of_query(call: Call) -> LetterFilter:
    """The filter that the query names. Refuses one that makes no sense with 400."""
    said: dict[str, Any] = {name: call.query[name] for name in _IN_QUERY if call.query.get(name)}
    if call.query.get("header"):
        name, mark, value = call.query["header"].partition("=")
        if not mark or not name:
            raise RefusedError(400, "header is NAME=VALUE.")
        said["header"] = {name: value}
    return filter_of(said)


def filter_of(value: object) -> LetterFilter:
    """A filter from JSON, whose times are texts or ms since 1970. Refuses one that makes no sense with 400."""
    if isinstance(value, dict):
        value = {name: _ms(each) if name in ("since", "until") else each for name, each in value.items()}
    try:
        return read_filter(value)
    except FilterError as error:
        raise RefusedError(400, str(error)) from None


def _ms(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise RefusedError(
            400,
            f"A time is in ISO 8601, such as 2026-01-31T12:00:00Z, or in ms since 1970; not {value[:40]!r}.",
        ) from None
    if at.tzinfo is None:
        raise RefusedError(400, f"A time says its zone, such as {value[:40]}Z for UTC.")
    return int(at.timestamp() * 1000)


def _state(call: Call) -> int | None:
    said = call.query.get("state", "open")
    if said in ("any", "all"):
        return None
    if said not in NAMES:
        raise RefusedError(400, f"The state is one of {', '.join(NAMES)}, any; not {said[:40]!r}.")
    return NAMES.index(said) if said else OPEN


def _seconds(call: Call) -> float:
    """How long a call may look."""
    return call.whole_number("work", 1, MOST_WORK, 0) / 1000 or inf


def _after(call: Call) -> tuple[int, int]:
    said = call.query.get("after", "")
    try:
        return read_id(said) if said else (0, 0)
    except FilterError:
        raise RefusedError(400, "after is what the page before says as next.") from None
