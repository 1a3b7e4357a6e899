"""What bounds a partition: the quota of its backlog, and the rates at which it takes and gives records: its own, and
those of the resource group that its namespace is in.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.dispatching import Pace, Paces, pace_of
from gateway.broker.quota_gate import Gate
from semantics.rates import Throttle

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.resource_groups import ResourceGroup
    from gateway.broker.topic_runtime import Home
    from gateway.config.topic_configs import TopicConfig
    from semantics.backlog_quota import Quota

MOST_DEBT_MS = 10_000
"""Who publishes beyond a rate is not made to wait for longer at a time, and all that is beyond that is forgiven: one
large burst is not to slow its partition for hours.
"""


def bound(partition: Partition, home: Home, config: TopicConfig) -> None:
    """Take over what a configuration says of it: what was counted stays where the bound does."""
    if partition.gate is not None:
        partition.gate.quota = config.quota
        partition.gate.forget()
    elif (config.quota.limits or home.refusals) and partition.rules.retries_of is None:
        # a consumer that cannot write a retry letter cannot settle its message; and the partition that was here
        # before may have had one
        partition.gate = _gate(partition, home, config.quota)
    group = home.resource_group_of(partition.topic.name)
    _bound_publishing(partition, home, config, group)
    _bound_dispatching(partition, home, config, group)


class PublishRate:
    """What a partition's own rate and that of a resource group leave: the longer wait counts."""

    __slots__ = ("group", "own")

    def __init__(self, own: Throttle | None, group: ResourceGroup | None) -> None:
        self.own = own
        self.group = group

    def spend(self, messages: int, size: int, now: int) -> None:
        """So much was published."""
        if self.own is not None:
            self.own.spend(messages, size, now)
        if self.group is not None:
            self.group.publish(messages, size, now)

    def wait(self, now: int) -> int:
        """ms for which whoever has published is not read."""
        own = self.own.wait(now) if self.own is not None else 0
        return max(own, self.group.publish_wait(now)) if self.group is not None else own


def _bound_publishing(
    partition: Partition, home: Home, config: TopicConfig, group: ResourceGroup | None
) -> None:
    before = partition.publish_throttle
    own = before.own if before is not None else None
    if not config.publish_rate.limits:
        own = None
    elif own is None or own.rate != config.publish_rate:
        own = Throttle(config.publish_rate, home.clock.monotonic_ms(), MOST_DEBT_MS)
    partition.publish_throttle = PublishRate(own, group) if own is not None or group is not None else None


def _bound_dispatching(
    partition: Partition, home: Home, config: TopicConfig, group: ResourceGroup | None
) -> None:
    before = partition.dispatching
    there = before.each if isinstance(before, Paces) else (before,)
    old = next((each for each in there if isinstance(each, Pace)), None)
    own = pace_of(old, home, config.dispatch_rate, partition.published)
    now = tuple(each for each in (own, group) if each is not None)
    if now == there:
        return
    partition.dispatching = Paces(now) if len(now) > 1 else now[0] if now else None
    if before is not None:
        before.end()


def _gate(partition: Partition, home: Home, quota: Quota) -> Gate:
    gate = Gate(
        quota,
        (partition.topic.topic_id, partition.index),
        home.refusals,
        lambda: home.measure_backlog(partition, gate),
        partial(home.waited_for, partition.topic.topic_id, partition.index),
    )
    return gate
