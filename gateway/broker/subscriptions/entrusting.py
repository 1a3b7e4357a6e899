"""What is said of records inside of transactions, at a cursor: see `semantics/subscriptions/entrusted.py`.

All of it joins the open turn, so that a turn that fails throws the cursor away with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semantics.lanes.marks import Verb
from semantics.lanes.ranges import Ranges as Spans
from semantics.subscriptions.states import Ending

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

MANY = 64
"""From so many ranges on they are acknowledged by columns"""

Ranges = Sequence[tuple[int, int]]
"""(first, last), ascending and disjoint"""


def entrust(at: SubscriptionPartition, consumer: str, trustee: str, ranges: Ranges) -> Ranges:
    """Something is said of these: what of them the consumer holds is in the hands of the trustee. What that is. Raises
    KafkaError.
    """
    cursor = at.ready()
    at.touch()
    return cursor.entrust(consumer, trustee, ranges, at.node.clock.monotonic_ms())


def say_of(at: SubscriptionPartition, consumer: str, trustee: str, ranges: Ranges) -> Ranges:
    """The same of a member of a share group: see `consumers.unsaid`. Raises KafkaError."""
    moved = entrust(at, consumer, trustee, ranges)
    its = at.consumers[consumer]
    its.said = its.said or Spans()
    for first, last in moved:
        its.said.add(first, last + 1)
    return moved


def say(at: SubscriptionPartition, trustee: str, ranges: Ranges, verb: Verb, delay_ms: int | None) -> None:
    """Do what was said, since the transaction commits. Raises KafkaError."""
    cursor = at.ready()
    at.touch()
    clock = at.node.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    if verb is Verb.ACK:
        if len(ranges) < MANY or not at.key_shared or not _accept(cursor, trustee, ranges):
            cursor.settle(trustee, ranges, now, wall)
    elif verb is Verb.NACK:
        cursor.nack(trustee, ranges, delay_ms, now, wall)
    elif verb is Verb.DEAD:
        cursor.reject(trustee, ranges, now, wall)
    else:
        waiting, delay = cursor.reconsume_later(trustee, ranges, delay_ms, wall)
        if waiting:
            at.resend(waiting, delay)


def _accept(cursor: Cursor, trustee: str, ranges: Ranges) -> bool:
    """The same by columns; False, and nothing is done, where something is out of the ordinary."""
    import numpy as np

    columns = np.array(ranges, np.int64)
    return cursor.accept(trustee, columns[:, 0].copy(), columns[:, 1].copy())


def let_go(at: SubscriptionPartition, trustee: str, ending: Ending, ranges: Ranges) -> None:
    """The transaction is over. What the trustee still holds, of these, is available again. Raises KafkaError."""
    cursor = at.ready()
    at.touch()
    clock = at.node.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    # only lanes are to know
    back = cursor.holds(trustee, ranges) if at.subscription.config.subscription.lanes else []
    if ending is Ending.CRASHED:
        # as they lie, which may be far fewer pieces than they were named in
        cursor.crash(trustee, ranges, None, now, wall)
    cursor.detach(trustee, ending, now, wall)
    if back:
        at.subscription.came_back(at.id, back)
    at.parked.serve_soon()
