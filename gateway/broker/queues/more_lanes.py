"""Tells consumers that a queue topic has more lanes, until somebody has them: `news.py` says why more than once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.queues.news import News

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.queues.lane_groups import LaneGroups
    from gateway.broker.queues.queue import Queue
    from gateway.broker.subscriptions.node import Delivering

log = logging.getLogger("magnetar.queues")

NEWS_MS = 300_000
"""For how long consumers are told: by then they have looked for themselves."""


class MoreLanes:
    """Of all queue topics that have got more lanes of late."""

    def __init__(
        self,
        node: Delivering,
        groups: Callable[[], LaneGroups],
        assigned_in: Callable[[Topic], Mapping[str, Sequence[int]]],
        newest_connection: Callable[[], int],
    ) -> None:
        """`assigned_in` says which member has which lanes, and raises KafkaError while the group is not loaded;
        `newest_connection` is the highest number that a connection has so far.
        """
        self._node = node
        self._groups = groups
        self._assigned_in = assigned_in
        self._newest_connection = newest_connection
        # by topic id
        self._news: dict[bytes, News] = {}

    def of(self, topic: Topic) -> News | None:
        """What consumers of a queue topic are to hear, None when there is nothing any more."""
        news = self._news.get(topic.topic_id)
        if news is not None and news.until <= self._node.clock.monotonic_ms():
            self.forget(topic)
            return None
        return news

    def begin(self, topic: Topic) -> None:
        """It has more lanes, durably: whoever is connected now is to hear of it."""
        now = self._node.clock.monotonic_ms()
        self._news[topic.topic_id] = News(now, now + NEWS_MS, self._newest_connection())

    def forget(self, topic: Topic) -> None:
        """There is nothing to tell of it any more."""
        self._news.pop(topic.topic_id, None)

    def rebalance(self, topic: Topic) -> None:
        """Members of its group are to share the lanes out anew."""
        assert topic.queue is not None
        group = topic.queue.subscription
        try:
            self._groups().rebalance(group, f"{topic.name} has {len(topic.partitions)} lanes")
        except KafkaError as error:
            # not in memory: its members come anew anyway
            log.info("group %s is not rebalanced: %s", group, error)

    def tell_again(self, queues: Iterable[Queue]) -> None:
        """Where a group has shared out the old lanes alone, because the member that does so has missed the news, it is
        told once more.
        """
        now = self._node.clock.monotonic_ms()
        for queue in queues:
            news = None if queue.gone else self.of(queue.topic)
            if news is None:
                continue
            assert queue.topic.queue is not None
            try:
                if not self._groups().stable(queue.topic.queue.subscription):
                    # what is shared out now may have them all
                    continue
                assigned = self._assigned_in(queue.topic)
            except KafkaError:
                # not loaded, so nobody is in it
                continue
            have = {lane for lanes in assigned.values() for lane in lanes}
            if (
                have
                and len(have) < len(queue.topic.partitions)
                and news.again(now, self._newest_connection())
            ):
                # fetches that wait on a lane ask nothing before it is read again
                queue.retire("some of its lanes are nobody's")
                self.rebalance(queue.topic)
