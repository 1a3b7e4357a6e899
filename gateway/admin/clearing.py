"""A backlog that is cleared: what that would settle, as its dry run tells it, and how far it may go.

Messages go on coming while somebody looks: an act with the `ends` of the look settles none of those.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.exchange import RefusedError, previewed
from gateway.admin.places import committed_offset, cursor_of, indexes_of
from gateway.admin.reset_preview import counted, open_before, refuse_members
from gateway.admin.slices import Pace
from gateway.admin.stats import topic_id
from gateway.broker.loading import until_loaded

if TYPE_CHECKING:
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.places import Named
    from gateway.broker.broker import Broker

SHARE = 100
"""One in so many may be another than was looked at, as with plans of acts."""


class Bounds(NamedTuple):
    """How far somebody wants it to go."""

    # by partition: what lies before it
    ends: dict[int, int]
    # how many messages that were; -1 for however many
    messages: int = -1


def bounds_of(
    broker: Broker, at: Named, call: Call, does: str = "A backlog is cleared up to"
) -> Bounds | None:
    """What a body says: `ends` by partition, and `messages`. None without one. Refuses with 400 what makes no sense,
    in a sentence that begins with what `does` that.
    """
    body = call.json()
    # clients of Pulsar send an empty text here
    if body in (None, {}, ""):
        return None
    said = body.get("ends") if isinstance(body, dict) else None
    messages = body.get("messages", -1) if isinstance(body, dict) else -1
    if not isinstance(said, dict) or not isinstance(messages, int) or isinstance(messages, bool):
        raise RefusedError(400, f'{does} {{"ends": {{"0": 120}}, "messages": 120}}.')
    known = {str(index): index for index in indexes_of(at.found)}
    ends: dict[int, int] = {}
    for index, end in said.items():
        if index not in known or not isinstance(end, int) or isinstance(end, bool) or end < 0:
            raise RefusedError(
                400, f"{at.found.name} has no end {str(end)[:20]} of a partition {index[:20]!r}."
            )
        its = broker.partition(at.found.topic, known[index])
        ends[known[index]] = min(max(end, its.log_start), its.high_watermark)
    return Bounds(ends, messages)


async def preview(broker: Broker, at: Named, ends: dict[int, int]) -> Reply:
    """How many messages would be settled (`messages`), in all and `byPartition`, which has the `end`, too: it goes no
    further than that. Refuses with 412 what the act itself would.
    """
    if not at.shared:
        refuse_members(broker, at)
    counts = await open_by_partition(broker, at, ends)
    messages = sum(counts.values())
    return previewed(
        {
            "messages": messages,
            "byPartition": {
                str(index): {"end": ends[index], "messages": count} for index, count in counts.items()
            },
            "topicId": topic_id(at.found.topic),
            "subscriptionId": at.id,
            "explanation": f"{counted(messages)} of {at.name} on {at.found.name} would be settled without being "
            "delivered.",
        }
    )


async def check(broker: Broker, at: Named, bounds: Bounds) -> int:
    """How many messages it would settle now. Refuses with 409 more than one in a hundred more than were looked at: a
    reset has brought others, say. Those that were settled meanwhile are no harm.
    """
    messages = sum((await open_by_partition(broker, at, bounds.ends)).values())
    if bounds.messages >= 0 and messages * SHARE > bounds.messages * (SHARE + 1):
        raise RefusedError(
            409,
            f"It would settle {counted(messages)}, where {bounds.messages:,} "
            f"{'was' if bounds.messages == 1 else 'were'} looked at.",
        )
    return messages


async def open_by_partition(broker: Broker, at: Named, ends: dict[int, int]) -> dict[int, int]:
    """How many messages before these ends a subscription has still to acknowledge."""
    pace, found = Pace(), {}
    for index, end in ends.items():
        if at.shared:
            cursor = (await until_loaded(partial(cursor_of, broker, at, index))).ready()
            found[index] = await open_before(cursor, end, pace)
        else:
            its = broker.partition(at.found.topic, index)
            found[index] = max(0, end - committed_offset(broker, at, its))
        await pace.rest()
    return found
