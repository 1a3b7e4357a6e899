"""What is counted of those whom a subscription serves on a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semantics.lanes.ranges import Ranges

if TYPE_CHECKING:
    from gateway.metrics_catalog import GatewayMetrics
    from semantics.subscriptions.cursor import Cursor


class Consumer:
    """What is counted of a consumer on one partition. Times in monotonic ms."""

    __slots__ = (
        "acked",
        "asked",
        "attached_at",
        "begun",
        "delivered",
        "delivered_at",
        "nacked",
        "said",
        "sent_bytes",
        "told",
    )

    def __init__(self, now: int) -> None:
        self.attached_at = now
        self.delivered = self.sent_bytes = 0
        self.acked = self.nacked = 0
        self.delivered_at = -1
        # records its last fetch asked for
        self.asked = 0
        # of a lane: the cursor that knows what it holds
        self.told: Cursor | None = None
        # how often it began anew: what its fetches before that wait for is not for it
        self.begun = 0
        # of what it had, what it has said in transactions; it may have to say something of it once more
        self.said: Ranges | None = None


Acks = Sequence[tuple[int, int, bytes]]
"""(first, last, types): one type for all or one for each."""


def unsaid(cursor: Cursor, name: str, consumer: Consumer, acks: Acks) -> Acks:
    """What a consumer says, without what it has said in a transaction: its client insists that something is said of all
    that it was given, and that says nothing. What it has been given once more by now counts.
    """
    said = consumer.said
    assert said is not None
    found: list[tuple[int, int, bytes]] = []
    for first, last, types in acks:
        over = Ranges()
        for begin, end in said.within(first, last + 1):
            over.add(begin, end)
        for begin, end in list(over):
            for given, upto in cursor.holds(name, [(begin, end - 1)]):
                over.remove(given, upto + 1)
        for begin, end in over.outside(first, last + 1):
            found.append((begin, end - 1, types if len(types) == 1 else types[begin - first : end - first]))
        said.remove(first, last + 1)
    if not said.total:
        consumer.said = None
    return found


def count_acks(
    metrics: GatewayMetrics, consumer: Consumer | None, acks: Sequence[tuple[int, int, bytes]]
) -> None:
    """Count what a consumer said of records that it had: see `SubscriptionPartition.acknowledge`. None: it is gone."""
    accepted = refused = 0
    firsts, lasts, said = zip(*acks, strict=True)
    if said.count(b"\x01") == len(said):
        accepted = sum(lasts) - sum(firsts) + len(said)
        acks = ()
    for first, last, types in acks:
        if len(types) == 1:
            if types[0] == 1:
                accepted += last - first + 1
            elif types[0] in (2, 3):
                refused += last - first + 1
        else:
            accepted += types.count(1)
            refused += types.count(2) + types.count(3)
    metrics.share_acks.value += accepted
    metrics.share_nacks.value += refused
    if consumer is not None:
        consumer.acked += accepted
        consumer.nacked += refused
