"""/ui/m/{tenant}/{namespace}/{topic}/{partition}/{offset}: what is in it, and what did each subscription make of it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin import messages, roles, schemas
from gateway.admin.exchange import Call, RefusedError, Reply
from gateway.admin.places import one_partition
from gateway.admin.refusals import may_not
from gateway.admin.slices import turn
from gateway.admin.topics import found_by
from gateway.console import shown, states, way
from gateway.console.standing import reads_letters
from gateway.console.topic import index_of, place_of
from gateway.console.visit import ROWS, SECURITY
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.messages import Stored
    from gateway.admin.routes import Key
    from gateway.console.visit import Visit

SHOWN_AS = ("json", "text", "hex")
"""In which a value is shown, by `as` of the query: what it looks like, if that says none."""
EXPLAIN: Key = ("GET", "subscription", "explain")


async def show(visit: Visit, tenant: str, namespace: str, local: str, partition: str, offset: str) -> Reply:
    """The page; with `raw` in the query the value alone, as a file; with `way` also what it has become."""
    place = place_of(visit, tenant, namespace, local)
    index, at = index_of(partition, "partition"), index_of(offset, "offset")
    metadata = await visit.get(*place.path, "partitions")
    partitioned = metadata["partitions"] > 0
    if index >= max(metadata["partitions"], 1):
        raise RefusedError(404, f"{place.word} has no partition {index}.")
    path, word = place.partition_path(index, partitioned), place.partition_word(index, partitioned)
    why_not = ""
    stored = None
    try:
        stored, message_id, start, end = await record(visit, path, at)
    except RefusedError as refused:
        if "raw" in visit.query or refused.status == 403:
            raise
        why_not, start, end, message_id = refused.reason, 0, at + 1, ""
    if "raw" in visit.query:
        assert stored is not None
        return _file(stored)
    made, more = await _made_of_it(visit, path, place, at)
    value = stored.record.value if stored is not None else None
    told, schema = await by_schema(visit, path, value)
    wanted, wrong = visit.one_of("as", (*(("schema",) if told is not None else ()), *SHOWN_AS), "")
    follows = stored is not None and await visit.may(way.TRACE, *path, "magnetar", "trace")
    return await visit.page(
        "message.html",
        400 if wrong else 200,
        wrong=wrong,
        title=f"Message {index}:{at:,}",
        section="topics",
        crumbs=[*place.crumbs(), (local, place.url())],
        place=place,
        index=index,
        offset=at,
        stored=stored,
        message_id=message_id,
        why_not=why_not,
        start=start,
        end=end,
        key=shown.one_line(stored.record.key) if stored is not None else "",
        value=told
        if told is not None and wanted in ("", "schema")
        else shown.value(value, wanted)
        if value is not None
        else None,
        # beside what a schema says stand the bytes
        hex=shown.value(value, "hex")
        if value is not None and told is not None and wanted in ("", "schema")
        else None,
        schema=schema,
        size=len(value) if value is not None else 0,
        headers=[
            (shown.visible(name), shown.one_line(data, 1000) if data is not None else None)
            for name, data in stored.record.headers[:ROWS]
        ]
        if stored is not None
        else [],
        more_headers=len(stored.record.headers) - ROWS if stored is not None else 0,
        made=made,
        more=more,
        follows=follows,
        way=await way.of(visit, path, message_id) if follows and "way" in visit.query else None,
        way_command=line("topics", "trace", place.word, message_id),
        command=line("topics", "explain", word, "-s", made[0]["name"], "--offset", str(at)) if made else "",
        record_command=line(
            "topics", "examine-messages", word, "-i", "earliest", "-m", str(max(at - start, 0) + 1)
        ),
    )


async def record(visit: Visit, path: tuple[str, ...], offset: int) -> tuple[Stored, str, int, int]:
    """(the record at an offset, its id, where the partition begins and ends), for who may read the topic.

    The admin API reads by position and by id, not by offset; this asks for the same right.
    """
    context, key = visit.context, ("GET", "topic", "examinemessage")
    call = Call("GET", (*path, "examinemessage"), asker=visit.asker)
    if not await visit.may(key, *call.path):
        raise may_not(call, roles.NEEDS[key].says)
    partition = one_partition(context.broker, await found_by(context.broker, call), "examine-messages")
    stored = None
    if partition.log_start <= offset < partition.high_watermark:
        stored = await messages.record_at(context.broker, partition, offset)
    if stored is None or stored.offset != offset:
        raise RefusedError(
            404,
            f"There is no record at offset {offset:,}: the partition has those from {partition.log_start:,} to "
            f"{partition.high_watermark:,}, that one left out, and what compaction and retention have left of them.",
        )
    found = messages.message_id(partition, stored)
    return stored, str(found), partition.log_start, partition.high_watermark


async def _made_of_it(
    visit: Visit, path: tuple[str, ...], place: Any, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """What each subscription says of a message, of ROWS at most; how many more there are."""
    names, why = await visit.try_get(*path, "subscriptions")
    rows: list[dict[str, Any]] = []
    for name in (names or ())[:ROWS]:
        at = (*path, "subscription", name, "explain")
        said, refused = await visit.get_if_may(EXPLAIN, *at, offset=str(offset))
        state = states.state_of((said or {}).get("state", ""))
        letter = _letter(place, name, said or {})
        if letter and not await reads_letters(visit, place.full, name):
            letter = ""
        rows.append(
            {
                "name": name,
                "url": place.subscription_url(name),
                "kind": states.ICONS.get(state, "unread") if said else "",
                "word": states.WORDS.get(state, state) if said else "",
                "says": said["explanation"] if said else refused,
                "failed": (said or {}).get("failedDeliveries", 0),
                "known": said or {},
                "letter": letter,
            }
        )
        await turn()
    if names is None:
        nothing = dict.fromkeys(("name", "url", "kind", "word", "letter"), "")
        rows.append({**nothing, "says": why, "failed": 0, "known": {}})
    return rows, max(len(names or ()) - ROWS, 0)


def _letter(place: Any, name: str, said: dict[str, Any]) -> str:
    """The page of the dead letter that it has become; "" where it is none."""
    letter = said.get("deadLetter")
    if letter is None:
        return ""
    return f"{place.subscription_url(name, 'letter')}?id={letter['partition']}:{letter['offset']}"


async def by_schema(
    visit: Visit, path: tuple[str, ...], value: bytes | None
) -> tuple[shown.Value | None, schemas.Told]:
    """(a value as JSON, by a schema that is in reach; what is known of that)."""
    call = Call("GET", path, asker=visit.asker)
    if value is None:
        return None, schemas.Told()
    topic = (await found_by(visit.context.broker, call)).topic
    told = await schemas.Page(visit.context, call).told(topic, value)
    return (shown.by_schema(told.kind, told.json) if told.json else None), told


def _file(stored: Stored) -> Reply:
    """The value as it is, to be saved: a browser never shows it as a page."""
    headers = {
        **SECURITY,
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="message-{stored.offset}.bin"',
    }
    return Reply(200, stored.record.value or b"", messages.BINARY, headers)
