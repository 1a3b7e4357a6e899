"""The verb that browses a topic's records: where a page begins, what is wanted, and how a record is shown."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.admin import browsing, schemas
from gateway.admin.browsing import Cursor, Seen, Wanted
from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.places import by_time, indexes_of, offset_of
from gateway.admin.slices import turn
from gateway.admin.topics import found_by
from gateway.broker.message_ids import id_at
from semantics.console.decoding import decoded
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.topics import Found
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition

DEFAULT, MOST = 50, 1000
"""Records of a page."""
LONGEST_WANTED = 4096
"""Bytes of what is searched for."""
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the last that is written with four digits."""


async def records(context: Context, call: Call) -> Reply:
    """Records of a topic or of a partition, by time: the newest first, or with dir=newer the oldest. From where says
    `from`: an offset, a time, a message id, earliest or latest. `key`, `text` (in value, key or headers) and `header`
    (NAME or NAME=VALUE) search, for `work` ms at most (200); a page that says `next` is not the last, however little
    it has. (Magnetar's own.)
    """
    limit = call.whole_number("limit", 1, MOST, DEFAULT)
    work_ns = call.whole_number("work", 1, 200, 0) * 1_000_000 or None
    wanted = _wanted(call)
    found = await found_by(context.broker, call)
    cursor = (
        Cursor.parse(call.query["after"])
        if call.query.get("after")
        else await _begin(context.broker, call, found)
    )
    partitions = [context.broker.partition(found.topic, index) for index in _chosen(call, found)]
    # one at a time: what it holds is bounded, and so is what it takes of the processors
    async with context.browsing.of(call):
        page = await browsing.browse(context.broker, partitions, cursor, wanted, limit, work_ns)
    shown = []
    payloads = schemas.Page(context, call)
    for count, seen in enumerate(page.found):
        shown.append(answer := _shown(seen))
        await payloads.add(found.topic, answer["key"], seen.key, seen.key_size)
        await payloads.add(found.topic, answer["value"], seen.value, seen.value_size)
        if count % 4 == 3:
            await turn()
    said: dict[str, Any] = {"records": shown, "looked": page.looked, "of": page.of}
    if page.next:
        said["next"] = page.next
    if page.damaged:
        said["damagedBatches"] = page.damaged
    return json(said)


def _wanted(call: Call) -> Wanted:
    key, text, header = [call.query.get(name, "") for name in ("key", "text", "header")]
    if len(key) + len(text) + len(header) > LONGEST_WANTED:
        raise RefusedError(400, f"What is searched for has {LONGEST_WANTED} letters at most.")
    name, equals, value = header.partition("=")
    try:
        return Wanted(key.encode(), text.encode(), name, value.encode() if equals else None)
    except UnicodeEncodeError:
        raise RefusedError(400, "What is searched for is text in UTF-8.") from None


def _chosen(call: Call, found: Found) -> list[int]:
    """The partitions that are browsed. Refuses what has no records of its own, and too many."""
    of = found.topic.queue
    if of is not None:
        raise RefusedError(
            412,
            f"{found.name} is a queue topic, which keeps no records of its own: browse the topic that it serves.",
        )
    indexes = indexes_of(found)
    if "partition" in call.query:
        index = call.whole_number("partition", 0, len(found.topic.partitions) - 1)
        if index not in indexes:
            raise RefusedError(400, f"{found.name} is partition {found.index}.")
        return [index]
    if len(indexes) > browsing.PARTITIONS:
        raise RefusedError(
            412,
            f"{found.name} has {len(indexes)} partitions: name one of them, for example with partition=0.",
        )
    return indexes


async def _begin(broker: Broker, call: Call, found: Found) -> Cursor:
    """Where the first page begins."""
    way = call.query.get("dir", "older")
    if way not in ("older", "newer"):
        raise RefusedError(400, f"dir is older or newer, not {way[:40]!r}.")
    older = way == "older"
    text = call.query.get("from", "") or ("latest" if older else "earliest")
    positions = {}
    for index in _chosen(call, found):
        partition = broker.partition(found.topic, index)
        if (position := await _position(broker, partition, text, older)) is not None:
            positions[index] = position
    return Cursor(older, 0, positions)


async def _position(broker: Broker, partition: Partition, text: str, older: bool) -> int | None:
    """Where one partition is read from; backwards it is the offset behind. None where it is not read."""
    if text in ("earliest", "latest"):
        return partition.log_start if text == "earliest" else partition.high_watermark
    if text.isascii() and text.isdigit() and len(text) < 20:
        return min(int(text), partition.high_watermark) + (1 if older else 0)
    if "T" not in text and ":" in text:
        try:
            wanted = MessageId.parse(text)
        except MessageIdError as error:
            raise RefusedError(400, str(error)) from None
        if wanted.partition not in (-1, partition.index):
            return None
        return offset_of(partition, wanted) + (1 if older else 0)
    try:
        at = datetime.fromisoformat(text)
        since = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise RefusedError(
            400,
            "A page begins at an offset (4711), a time (2026-01-31T12:00:00Z), a message id (17:3:0:5), earliest or "
            f"latest; not {text[:40]!r}.",
        ) from None
    return await by_time(broker, partition, since)


# -- as JSON


def _shown(seen: Seen) -> dict[str, Any]:
    partition = seen.partition
    answer: dict[str, Any] = {
        "topic": dotted(partition.topic.name),
        "partition": partition.index,
        "offset": seen.offset,
        "timestamp": seen.timestamp,
        **iso_of(seen.timestamp),
    }
    try:
        answer["messageId"] = str(id_at(partition, seen.offset))
    except (StoreError, LookupError):
        # it is gone meanwhile
        pass
    answer["key"] = shown_bytes(seen.key, seen.key_size)
    answer["value"] = shown_bytes(seen.value, seen.value_size)
    answer["headers"] = [
        {
            "name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            **(shown_bytes(value, len(value or b""), browsing.SHOWN_HEADER) or {"decoded": None}),
        }
        for name, value in seen.headers
    ]
    if seen.headers_left_out:
        answer["headersLeftOut"] = seen.headers_left_out
    return answer


def iso_of(timestamp: int) -> dict[str, str]:
    """A record's time, where a calendar has it: a producer may say any number."""
    return {"time": iso(timestamp)} if 0 <= timestamp <= _LATEST_MS else {}


def shown_bytes(data: bytes | None, size: int, most: int = browsing.SHOWN) -> dict[str, Any] | None:
    """Bytes of a record, of which there are `size`, as JSON: None for none."""
    if data is None:
        return None
    said = decoded(data[:most])
    answer = {
        "size": size,
        "base64": base64.b64encode(data[:most]).decode(),
        "kind": said.kind,
        "decoded": said.value,
    }
    if said.schema_id is not None:
        answer["schemaId"] = said.schema_id
    if said.cut or size > most:
        answer["cut"] = True
    return answer
