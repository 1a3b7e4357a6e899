"""The verbs of key watches: what happens to the messages of one key, from when somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.places import named_subscription
from gateway.audit import owner_of
from gateway.broker.watching import LONGEST_MS, MOST, FullError
from semantics.names import dotted

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.watching import Watch, Watched
    from semantics.console.key_watch import Event

MINUTE_MS = 60_000
LONGEST_KEY = 1024
"""Bytes."""


async def begin(context: Context, call: Call) -> Reply:
    """Watch a key: {"key": "…", "minutes": 10}. What was told so far is the answer. (Magnetar's own.)"""
    broker = context.broker
    body = call.json()
    key, minutes = (body.get("key"), body.get("minutes", 10)) if isinstance(body, dict) else (None, None)
    if not isinstance(key, str) or isinstance(minutes, bool) or not isinstance(minutes, int):
        raise RefusedError(400, 'The body is {"key": "customer-17", "minutes": 10}.')
    if not 1 <= minutes <= LONGEST_MS // MINUTE_MS:
        raise RefusedError(400, f"A key is watched for 1 to {LONGEST_MS // MINUTE_MS} minutes.")
    row, retries = await _rows(broker, call)
    try:
        watch = broker.watching.begin(
            row, _key(key), minutes * MINUTE_MS, retries, owner_of(call.asker.principal)
        )
    except FullError:
        raise RefusedError(
            409, f"{MOST} keys are watched, and no more can be: the first of these ends by itself."
        ) from None
    found = broker.watching.of(row, watch.key)
    assert found is not None
    return json(_answer(context, key, *found))


async def told(context: Context, call: Call) -> Reply:
    """What has happened to the messages of a key that is watched, or was; the oldest event first. (Magnetar's own.)"""
    key = call.query.get("key", "")
    row, _ = await _rows(context.broker, call)
    found = context.broker.watching.of(row, _key(key))
    if found is None:
        raise RefusedError(
            404, f"The key {key[:100]!r} is not watched, or no more: begin with a POST to here."
        )
    return json(_answer(context, key, *found))


async def _rows(broker: Broker, call: Call) -> tuple[SubscriptionRow, SubscriptionRow | None]:
    """The subscription that the path names, and that of its retries if it has one."""
    at = await named_subscription(broker, call)
    row = broker.subscriptions.row(at.name, at.found.topic.name) if at.shared else None
    if row is None:
        raise RefusedError(
            412, f"{at.name} is a consumer group: keys are watched in share groups' subscriptions."
        )
    retries = broker.subscriptions.configs.of(row).retries_of(at.name, at.found.topic.name)
    return row, broker.subscriptions.row(at.name, retries)


def _key(text: str) -> bytes:
    try:
        key = text.encode()
    except UnicodeEncodeError:
        key = b""
    if not 0 < len(key) <= LONGEST_KEY:
        raise RefusedError(400, f"A key that can be watched is text of 1 to {LONGEST_KEY} bytes.")
    return key


def _answer(context: Context, key: str, watch: Watch, watched: Watched) -> dict[str, Any]:
    now = context.broker.clock.wall_ms()
    answer: dict[str, Any] = {
        "key": key,
        "since": iso(watch.since),
        "until": iso(watch.until),
        "watching": watch.until > now,
        "events": [_shown(each) for each in watch.history.events],
    }
    if watch.history.left_out:
        answer["leftOut"] = watch.history.left_out
    if watched.missed:
        answer["missed"] = watched.missed
    return answer


def _shown(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "time": iso(event.at),
        "what": event.what.value,
        "topic": dotted(event.place.topic),
        "partition": event.place.partition,
        "offset": event.place.offset,
    }
    if event.consumer:
        shown["consumer"] = event.consumer
    if event.count:
        shown["failed"] = event.count
    if event.due is not None:
        shown["due"] = iso(event.due)
    if event.reason:
        shown["reason"] = event.reason
    return shown
