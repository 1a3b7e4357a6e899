"""Why a message of a subscription that lanes serve does not arrive: on which lane it is or is to be, and what holds it.

`explaining.explained` says what the cursor knows of it; here is added what the lanes know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin import explaining, lane_stats
from gateway.admin.exchange import RefusedError, iso
from gateway.admin.slices import turn
from gateway.broker.queues import telling
from gateway.broker.queues.lane import name_of
from semantics.names import dotted

if TYPE_CHECKING:
    from gateway.admin.lane_stats import Client, Stats
    from gateway.broker.broker import Broker
    from gateway.broker.queues.queue import Queue
    from gateway.broker.queues.telling import Delivery, LaneView
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.states import RecordState

_SHOWN = 3
"""Full lanes that a sentence names."""


async def of_record(broker: Broker, queue: Queue, at: SubscriptionPartition, offset: int) -> Stats:
    """What becomes of a record of a partition. Raises RefusedError (404) for one that is not there any more."""
    answer = await explaining.explained(at, offset)
    # where it waits for its key, the consumer is who has an earlier record of that
    holder = answer.get("consumer") if answer["state"] == "ACQUIRED" else None
    found = await find(queue, at.id, offset, holder)
    _add(broker, queue, answer, found)
    return answer


async def why(
    broker: Broker, queue: Queue, at: SubscriptionPartition, found: RecordState, due: int | None
) -> Stats:
    """The same of an open record, from what memory knows: see `explaining.why`."""
    answer = explaining.why(at, found, due)
    holder = answer.get("consumer") if answer["state"] == "ACQUIRED" else None
    _add(broker, queue, answer, await find(queue, at.id, found.offset, holder))
    return answer


async def of_delivery(broker: Broker, queue: Queue, lane: int, offset: int) -> Stats:
    """What becomes of the delivery at an offset of a lane. Raises RefusedError (404) for one that is not there yet, or
    not any more.
    """
    at, record, found = _at(queue, lane, offset)
    try:
        answer = await explaining.explained(at, record)
    except RefusedError as error:
        said = f"It is of record {record} of {dotted(at.subscription.topic)}, partition {at.index}. {error.reason}"
        raise RefusedError(error.status, said) from None
    answer["topic"], answer["partition"] = dotted(at.subscription.topic), at.index
    last = found
    if not found.open:
        # the record may have been delivered again since, on another lane too
        last = await find(queue, at.id, record, None) or found
    _add(broker, queue, answer, last)
    if last != found:
        answer["explanation"] = (
            f"Delivery {offset} of lane {lane} is over; its record was delivered again. {answer['explanation']}"
        )
    return answer


def nth_open(queue: Queue, lane: int, number: int) -> tuple[SubscriptionPartition, int]:
    """(where, which record) of the n-th open delivery of a lane, from 1. Raises RefusedError (404)."""
    offset = telling.nth_open(queue.at[lane].lane, number)
    if offset is None:
        raise RefusedError(404, f"Lane {lane} of {dotted(queue.name)} has no open delivery {number}.")
    at, record, _ = _at(queue, lane, offset)
    return at, record


async def find(queue: Queue, source: int, offset: int, holder: str | None) -> Delivery | None:
    """The last delivery of a record: on the lane that holds it, else on any that still knows of one."""
    lanes = [at.index for at in queue.at if holder is None or at.consumer == holder]
    best: Delivery | None = None
    for found in telling.search(queue, source, offset, lanes):
        if found is None:
            await turn()
        elif best is None or found.open:
            best = found
    return best


def _at(queue: Queue, lane: int, offset: int) -> tuple[SubscriptionPartition, int, Delivery]:
    known = queue.at[lane].lane
    if offset >= known.end:
        raise RefusedError(
            404,
            f"Lane {lane} of {dotted(queue.name)} has no delivery {offset} yet: it ends at offset {known.end}.",
        )
    run = telling.run_at(known, offset)
    source = queue.sources.get(run.source) if run is not None else None
    if run is None or source is None:
        raise RefusedError(
            404,
            f"Delivery {offset} of lane {lane} of {dotted(queue.name)} is not kept any more: it begins at offset"
            f" {known.start}.",
        )
    (record,) = run.offsets(offset, offset + 1)
    return source.at, record, telling.delivery(queue, lane, offset, run)


def _add(broker: Broker, queue: Queue, answer: Stats, found: Delivery | None) -> None:
    """Say in an answer on which lane the record is, or is to be, and what that waits for."""
    topic = queue.topic
    assert topic.queue is not None
    lanes = _Lanes(
        queue,
        telling.lanes_of(queue, broker.clock.monotonic_ms()),
        lane_stats.members(broker, topic.queue.subscription),
    )
    owner = next((view for view in lanes.views if name_of(view.lane) == answer.get("owner")), None)
    its = lanes.views[found.lane] if found is not None else owner
    if found is not None:
        answer["delivery"] = {"lane": found.lane, "offset": found.offset, "open": found.open}
        if found.open:
            # of others that is forgotten
            answer["delivery"] |= {"sent": found.sent, "suspect": found.suspected}
    said = lanes.sentence(answer, found, owner)
    if its is not None:
        answer["lane"] = lane_stats.shown(broker, topic, its, lanes.members)
        refused = broker.queues.refusals.of(topic.partitions[its.lane])
        if refused is not None:
            said += (
                f" The last commit of lane {its.lane} that was refused, at {iso(refused.at)}, was of offset"
                f" {refused.offset} with {refused.metadata!r}: {refused.why}"
            )
    answer["explanation"] = said


class _Lanes:
    """The lanes of a queue topic, and who has them: for sentences."""

    def __init__(self, queue: Queue, views: list[LaneView], members: dict[str, Client]) -> None:
        self.topic = dotted(queue.name)
        assert queue.topic.queue is not None
        self.group = queue.topic.queue.subscription
        self.shared = queue.lanes.shared
        self.views = views
        self.members = members

    def sentence(self, answer: Stats, found: Delivery | None, owner: LaneView | None) -> str:
        """In place of the one that knows nothing of lanes; `owner`: the lane of its key."""
        said: str = answer["explanation"]
        state: str = answer["state"]
        times = answer.get("failedDeliveries", 0)
        failed = f" It failed {times} time{'s' if times > 1 else ''} so far." if times else ""
        if state == "ACQUIRED" and found is not None and found.open:
            return f"{self._in_hand(found)}{failed}"
        before = ""
        if found is not None:
            before = f" It was last delivered at offset {found.offset} of lane {found.lane} of {self.topic}."
        if state == "AVAILABLE":
            return f"It can be delivered. {self._waits(owner)}{failed}{before}"
        if state == "UNREAD" and (
            self.shared or all(view.member is None or view.full for view in self.views)
        ):
            # of a key that nobody knows yet any lane may be the one
            return f"{said} {self._waits(None)}{before}"
        if state == "BLOCKED":
            # a key that moves does so when nothing of it is open on the lane that had it
            names = {answer.get("owner"), answer.get("consumer")}
            has = [self._has(view) for view in self.views if name_of(view.lane) in names]
            return " ".join([said, *has]) + before
        return said + before

    def _in_hand(self, found: Delivery) -> str:
        its = self.views[found.lane]
        said = f"It is at offset {found.offset} of lane {found.lane} of {self.topic}."
        if its.member is None and found.sent:
            said += (
                f" Nobody has the lane at present, and somebody was sent it: if that is a reader of another group than"
                f" {self.group}, or of none, its commits settle nothing. Whoever gets the lane finds it there."
            )
        elif its.member is None:
            said += " Nobody has the lane at present: whoever gets it finds it there."
        elif found.sent:
            said += f" {self._name(its.member)} has the lane and was sent it; no commit has settled it."
        else:
            said += (
                f" {self._name(its.member)} has the lane and was not sent it yet: it has not fetched so far."
            )
        if found.suspected:
            said += (
                f" It is one of {its.suspects} that a consumer had in hand when it was lost: they are delivered in"
                f" ever smaller windows, now of {its.allowed}."
            )
        return said

    def _waits(self, owner: LaneView | None) -> str:
        """Why what can be delivered is not: by the lane of its key, or for Shared by all."""
        owned = [view for view in ([owner] if owner is not None else self.views) if view.member is not None]
        if not owned:
            return f"No consumer has {'any lane' if owner is None else f'lane {owner.lane}'}."
        if all(view.full for view in owned):
            return " ".join([self._full(view) for view in owned[:_SHOWN]])
        if owner is None:
            return "The consumer that asks next and whose lane has room gets it."
        return f"{self._has(owner)} It gets it when it has read what is before it and asks for more."

    def _full(self, view: LaneView) -> str:
        assert view.member is not None
        if not view.allowed and not view.suspects:
            return (
                f"Lane {view.lane} is given nothing for now: {self._name(view.member)} is to have one message alone, on"
                " another of its lanes, since a consumer was lost with it again and again."
            )
        if view.allowed < view.window:
            return (
                f"Lane {view.lane} may have {view.allowed} open, and has {view.open}: {view.suspects} messages were in"
                " the hands of a consumer that was lost, and come again in ever smaller windows, until the one that"
                " makes consumers crash is alone."
            )
        return (
            f"Lane {view.lane} is full: {view.open} of {view.window} deliveries are open, and"
            f" {self._name(view.member)} has to commit some first."
        )

    def _has(self, view: LaneView) -> str:
        if view.member is None:
            return f"No consumer has lane {view.lane}."
        return f"{self._name(view.member)} has lane {view.lane}."

    def _name(self, member: str) -> str:
        found = self.members.get(member)
        return f"{member} ({found.client_id} at {found.host})" if found is not None else member
