"""Failover in a share group: one of a partition's consumers is given its records, and the others wait.

Who that is, is Pulsar's rule (`semantics.subscriptions.failover`), over those that are attached, in the order in which
they came. Where another one becomes active, it begins when those before it have nothing more in hand: so records stay
in their order, and none is in two hands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from semantics.subscriptions import failover
from semantics.subscriptions.failover import FailoverConsumer

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.ports import Subscribed
    from semantics.subscriptions.cursor import Cursor


class Active:
    """Who is active on one partition."""

    __slots__ = ("_consumers", "_index", "_known", "_plain_name", "_several", "_subscription")

    def __init__(
        self,
        subscription: Subscribed,
        index: int,
        consumers: Iterable[str],
        plain_name: Callable[[Topic], str | None],
        several: Callable[[str], bool],
    ) -> None:
        """`consumers`: who is attached, in the order in which they came. `plain_name`: Pulsar's name of a topic without
        partitions, None of any other; `several`: whether a group reads more than one of these.
        """
        self._subscription = subscription
        self._index = index
        self._consumers = consumers
        self._plain_name = plain_name
        self._several = several
        # what it was found by, and who it is
        self._known: tuple[Mapping[str, int], Topic, bool, str | None] | None = None

    def changed(self) -> None:
        """A consumer came or went."""
        self._known = None

    def consumer(self, topic: Topic) -> str | None:
        """The active consumer; None when nobody is there. `topic`: as it is now."""
        priorities = self._subscription.config.priorities
        several = self._several(self._subscription.group)
        known = self._known
        if known is None or known[0] is not priorities or known[1] is not topic or known[2] is not several:
            known = self._known = priorities, topic, several, self._found(topic, several)
        return known[3]

    def _found(self, topic: Topic, several: bool) -> str | None:
        names = list(self._consumers)
        client_ids, priorities = self._subscription.client_ids, self._subscription.config.priorities
        those = []
        for member in names:
            name = client_ids.get(member) or member
            those.append(FailoverConsumer(name, priorities.get(name, 0)))
        plain = self._plain_name(topic)
        if plain is None:
            at = failover.active_of_partition(those, self._index)
        elif several:
            at = failover.active_by_hash(those, plain)
        else:
            at = failover.active_of_topic(those)
        return names[at] if at is not None else None

    def others_hold(self, consumer: str, cursor: Cursor) -> bool:
        """Whether others than this one have records in hand."""
        holding = cursor.holding()
        return any(each != consumer and holding.get(each) for each in self._consumers)
