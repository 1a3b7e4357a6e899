"""What a reset of a subscription would do, as its dry run tells it: counted in slices, and nothing is moved."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.exchange import RefusedError, previewed
from gateway.admin.places import committed_offset, cursor_of
from gateway.admin.slices import Pace
from gateway.admin.stats import topic_id
from gateway.broker.loading import until_loaded
from semantics.subscriptions.states import DONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.admin.places import Named
    from gateway.broker.broker import Broker
    from semantics.subscriptions.cursor import Cursor


class _Sums(NamedTuple):
    """Of one partition, or of all."""

    # from where it would begin on
    messages: int = 0
    # of these
    settled_again: int = 0
    # before that place, and to be settled
    open_before: int = 0
    # of all of them
    in_hand: int = 0

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(*[one + two for one, two in zip(self, other, strict=True)])

    def told(self) -> dict[str, int]:
        return {
            "messages": self.messages,
            "settledAgain": self.settled_again,
            "openBefore": self.open_before,
            "inHand": self.in_hand,
        }


async def preview(
    broker: Broker, at: Named, targets: Mapping[int, int], ends: Mapping[int, int] | None = None
) -> Reply:
    """How many messages would be delivered from there on (`messages`), how many of these were settled already and come
    again (`settledAgain`), how many open ones before it would be settled (`openBefore`), how many are in hands now
    (`inHand`): in all and `byPartition`, which has the offset, too, and the `end` up to which it counted: that of
    an earlier look, where there are `ends`; of a share group also how many `members` are connected. Refuses with 412
    what the reset itself would.
    """
    if not at.shared:
        refuse_members(broker, at)
    pace, whole = Pace(), _Sums()
    by_partition: dict[str, dict[str, int]] = {}
    for index, wanted in targets.items():
        partition = broker.partition(at.found.topic, index)
        end = partition.high_watermark
        if ends is not None:
            end = min(ends[index], end)
        target = min(max(wanted, partition.log_start), end)
        if at.shared:
            cursor = (await until_loaded(partial(cursor_of, broker, at, index))).ready()
            its = await _of_cursor(cursor, target, end, pace)
        else:
            begin = min(committed_offset(broker, at, partition), end)
            its = _Sums(end - target, max(begin - target, 0), max(target - begin, 0))
        whole = whole.plus(its)
        by_partition[str(index)] = {"offset": target, "end": end, **its.told()}
        await pace.rest()
    members = {"members": broker.share_groups.members(at.name)} if at.shared else {}
    return previewed(
        {
            **whole.told(),
            **members,
            "byPartition": by_partition,
            "topicId": topic_id(at.found.topic),
            "subscriptionId": at.id,
            "explanation": _says(at, whole),
        }
    )


async def _of_cursor(cursor: Cursor, target: int, end: int, pace: Pace) -> _Sums:
    # a record that is settled meanwhile is none of both: the sum is a preview
    start, known, in_hand = cursor.start, min(cursor.known, end), cursor.acquired
    before = await open_before(cursor, target, pace)
    behind = await _open(cursor, max(target, start), known, pace) + end - max(target, known)
    messages = end - target
    return _Sums(messages, max(messages - behind, 0), before, in_hand)


async def open_before(cursor: Cursor, end: int, pace: Pace) -> int:
    """How many messages before an offset are not settled."""
    start, known = cursor.start, cursor.known
    return await _open(cursor, start, min(end, known), pace) + max(end - max(start, known), 0)


async def _open(cursor: Cursor, first: int, end: int, pace: Pace) -> int:
    """How many of [first, end) are not settled."""
    found = 0
    if first < end:
        for piece in cursor.planes(first, end):
            found += len(piece.states) - piece.states.count(DONE)
            await pace.rest()
    return found


def refuse_members(broker: Broker, at: Named) -> None:
    """A group that is at work commits offsets of its own: it is refused with 412."""
    its = broker.committing.of(at.name)
    of = broker.consumer_groups if its is broker.consumer_groups else broker.groups
    if of.members(at.name):
        raise RefusedError(412, "The consumer group has connected members: stop them first.")


def _says(at: Named, whole: _Sums) -> str:
    said = [f"{counted(whole.messages)} of {at.name} on {at.found.name} would be delivered from there on"]
    if whole.settled_again:
        again = (
            "was settled already and comes" if whole.settled_again == 1 else "were settled already and come"
        )
        said.append(f", of which {whole.settled_again:,} {again} again")
    said.append(". ")
    if whole.open_before:
        said.append(
            f"{counted(whole.open_before, 'open message')} before it would be settled without being delivered."
        )
    else:
        said.append("No open message lies before it.")
    return "".join(said)


def counted(number: int, what: str = "message") -> str:
    """A number of things, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
