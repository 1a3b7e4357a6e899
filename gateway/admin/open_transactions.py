"""The verb of transactions: which are open, whose they are, and which readers wait for their ends."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.slices import Pace
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from semantics.access.acl import Operation
from semantics.group_names import bare, home_of, shown
from semantics.transactions.states import State

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from semantics.transactions.rows import Head
    from semantics.transactions.views import Described

PAGE, LARGEST_PAGE = 50, 1_000
SHOWN = 20
"""Partitions of one transaction that are looked at."""
STATES = ("open", "any")
LOOKED = 20_000
"""Transactional ids that are looked at for a page: what has `q` in it behind these is found by the next call."""


async def transactions(context: Context, call: Call) -> Reply:
    """Transactions that are open, the oldest first; with `state` any all transactional ids, and what became of the last
    transaction of each. Of an open one: since when, when it is aborted at the latest, the partitions and groups in it,
    and where readers of committed records wait for its end (`waitsAt`, and `heldBack`, how many records that are).
    `q` (a part of the transactional id) leaves others out. `limit`, and `after`, the `next` of the page before.
    (Magnetar's own.)
    """
    broker, pace = context.broker, Pace()
    limit = call.whole_number("limit", 1, LARGEST_PAGE, PAGE)
    state, after = call.query.get("state", "") or "open", call.query.get("after", "")
    if state not in STATES:
        raise RefusedError(400, f"The state is open or any, not {state[:40]!r}.")
    text = call.query.get("q", "")[:200].casefold()
    answer: dict[str, Any] = {"transactions": []}
    last, looked = "", 0
    if state == "any":
        async for name, head in broker.transactions.every(_name(after)):
            if not _sees(call.asker, name):
                await pace.rest()
                continue
            if len(answer["transactions"]) == limit or looked == LOOKED:
                answer["next"] = last
                break
            looked += 1
            last = name.encode("utf-8", "surrogateescape").hex()
            if text in bare(name).casefold():
                answer["transactions"].append(await _one(broker, call.asker, name, head, pace))
            await pace.rest()
        return json(answer)
    found = await still_open(broker, call.asker, pace, text)
    start, name = _behind(after)
    page = [each for each in found if each[:2] > (start, name)]
    answer["of"] = len(found)
    for _, name, one in page[:limit]:
        answer["transactions"].append(await _open(broker, call.asker, name, one, pace))
        await pace.rest()
    if len(page) > limit:
        start, name, _ = page[limit - 1]
        answer["next"] = f"{start}:{name.encode('utf-8', 'surrogateescape').hex()}"
    return json(answer)


async def still_open(
    broker: Broker, asker: Asker, pace: Pace, text: str = ""
) -> list[tuple[int, str, Described]]:
    """(start in ms since 1970, transactional id, what is known of it) of those that are open and that the asker may
    see, the oldest first. `text` is a part of their names.
    """
    found: list[tuple[int, str, Described]] = []
    for name in broker.transactions.open_ids():
        # one that cannot be read at present is none that is known to be open
        with contextlib.suppress(KafkaError):
            takes = text in bare(name).casefold() and _sees(asker, name)
            one = broker.transactions.describe(name) if takes else None
            if one is not None and one.state == State.ONGOING.shown:
                found.append((one.start, name, one))
        await pace.rest()
    found.sort()
    return found


class At(NamedTuple):
    """A partition of an open transaction."""

    topic: Topic
    partition: int
    first: int = -1
    """its first record there; -1: nobody knows"""
    held_back: int = -1
    """records from there on, if readers of committed ones wait there; -1: they do not"""


async def places(broker: Broker, asker: Asker, one: Described, pace: Pace) -> AsyncIterator[At]:
    """Those partitions that the asker may see, of the first SHOWN."""
    for topic_id, index in one.partitions[:SHOWN]:
        topic = broker.catalog.by_id(topic_id)
        if topic is None or index >= len(topic.partitions) or not asker.sees(topic.name):
            continue
        found = At(topic, index)
        # a topic that is being deleted, or cannot be read: it is named all the same
        with contextlib.suppress(KafkaError):
            at = await until_loaded(partial(broker.in_use.partition, topic, index))
            first = at.producers.open_from(one.producer.id)
            if first >= 0:
                waited = at.last_stable_offset == first
                found = At(topic, index, first, max(at.high_watermark - first, 0) if waited else -1)
        yield found
        await pace.rest()


def _name(after: str) -> str:
    try:
        return bytes.fromhex(after).decode("utf-8", "surrogateescape")
    except ValueError:
        raise RefusedError(400, "The parameter after is what the page before gave as next.") from None


def _behind(after: str) -> tuple[int, str]:
    """(start, name) of the last of the page before."""
    if not after:
        return -1, ""
    start, _, name = after.partition(":")
    if not start.isascii() or not start.isdigit() or len(start) > 15:
        raise RefusedError(400, "The parameter after is what the page before gave as next.")
    return int(start), _name(name)


def _sees(asker: Asker, name: str) -> bool:
    home = home_of(name)
    return asker.administers(home.tenant) or asker.rights(home).transactional_id(Operation.DESCRIBE, name)


def _head(name: str, producer: tuple[int, int], state: str, timeout_ms: int) -> dict[str, Any]:
    return {
        "transactionalId": shown(name),
        "namespace": str(home_of(name)),
        "state": state,
        "producerId": producer[0],
        "producerEpoch": producer[1],
        "timeoutMs": timeout_ms,
    }


async def _one(broker: Broker, asker: Asker, name: str, head: Head, pace: Pace) -> dict[str, Any]:
    if head.state is State.ONGOING:
        with contextlib.suppress(KafkaError):
            one = broker.transactions.describe(name)
            if one is not None and one.state == State.ONGOING.shown:
                return await _open(broker, asker, name, one, pace)
    found = _head(name, head.producer, head.state.shown, head.timeout_ms)
    return {**found, "updated": iso(max(head.updated, 0))}


async def _open(broker: Broker, asker: Asker, name: str, one: Described, pace: Pace) -> dict[str, Any]:
    found = _head(name, one.producer, one.state, one.timeout_ms)
    found["started"] = iso(max(one.start, 0))
    found["ageSeconds"] = max(broker.clock.wall_ms() - one.start, 0) // 1000
    found["abortsAt"] = iso(max(one.start, 0) + one.timeout_ms)
    found["groups"] = [bare(each) for each in one.groups]
    partitions = [_place(broker, each) async for each in places(broker, asker, one, pace)]
    found["partitions"] = partitions
    found["partitionsOf"] = len(one.partitions)
    return found


def _place(broker: Broker, at: At) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": str(broker.catalog.full_of(at.topic)), "partition": at.partition}
    if at.first >= 0:
        row["firstOffset"] = at.first
    if at.held_back >= 0:
        row["waitsAt"] = at.first
        row["heldBack"] = at.held_back
    return row
