"""How a partition is dealt among the consumers that are served from it: how many records one is given at most.

Those share who hold records, wait for some or have asked in the last RECENT_MS: one that does not come any more does
not keep what it might have got. Where one came in the last RECENT_MS those members of the group count as well that have
not come yet: who starts first does not take all that may be in hand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.timers import NEVER

if TYPE_CHECKING:
    from gateway.broker.subscriptions.consumers import Consumer
    from gateway.broker.subscriptions.node import Sessions
    from semantics.subscriptions.cursor import Cursor

RECENT_MS = 5_000
"""A consumer with nothing in hand that has not asked for records for so long is dealt no share of them."""
COUNTED_MS = 1_000
"""How often the consumers are counted among whom records are dealt."""
UNBOUNDED = 1_000_000
"""Records: more than one fetch ever brings."""


class Sharers:
    """Those among whom one partition is dealt. Times are monotonic ms."""

    __slots__ = (
        "_coming",
        "_consumers",
        "_counted_at",
        "_group",
        "_members_on",
        "_sessions",
        "_there",
        "_topic",
    )

    def __init__(
        self,
        group: str,
        topic: str,
        consumers: Mapping[str, Consumer],
        sessions: Sessions,
        members_on: Callable[[str, str], int],
    ) -> None:
        """`members_on`: how many members of a group subscribe to a topic; raises KafkaError while it is not loaded."""
        self._group = group
        self._topic = topic
        self._consumers = consumers
        self._sessions = sessions
        self._members_on = members_on
        self._there: frozenset[str] = frozenset()
        # members that subscribe to the topic and have not come yet
        self._coming = 0
        # when these were counted
        self._counted_at = NEVER

    def changed(self) -> None:
        """A consumer came or went: they are counted again by the next that asks."""
        self._counted_at = NEVER

    def share(self, consumer: str, cursor: Cursor, end: int, now: int, *, evenly: bool) -> int:
        """How many records a consumer is to be given at most, so that those who share with it can have some in hand;
        `evenly`: and so that they have as many. The partition's records end before offset `end`.
        """
        if not 0 <= now - self._counted_at < COUNTED_MS:
            self._count(cursor, now)
        there = self._there
        others = len(there) - (consumer in there)
        if not others and not self._coming:
            return UNBOUNDED
        share = cursor.lock_share(consumer, there, self._coming)
        if not evenly or not others:
            return share
        return min(share, cursor.fair_share(consumer, others + 1, end))

    def _count(self, cursor: Cursor, now: int) -> None:
        group, consumers, wants = self._group, self._consumers, self._sessions.wants
        holding = cursor.holding()
        self._there = frozenset(
            each for each in consumers if holding.get(each) or wants(group, each, now - RECENT_MS)
        )
        self._coming = 0
        if any(now - each.attached_at <= RECENT_MS for each in consumers.values()):
            # of a group that is not loaded nobody comes for now
            with contextlib.suppress(KafkaError):
                self._coming = max(self._members_on(group, self._topic) - len(consumers), 0)
        self._counted_at = now
