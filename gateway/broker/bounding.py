"""What bounds a partition: the quota of its backlog, and the rates at which it takes and gives records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.dispatching import pace_of
from gateway.broker.quota_gate import Gate
from semantics.rates import Throttle

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
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
    if not config.publish_rate.limits:
        partition.publish_throttle = None
    elif partition.publish_throttle is None or partition.publish_throttle.rate != config.publish_rate:
        partition.publish_throttle = Throttle(config.publish_rate, home.clock.monotonic_ms(), MOST_DEBT_MS)
    before = partition.dispatching
    partition.dispatching = pace_of(before, home, config.dispatch_rate, partition.published)
    if before is not None and partition.dispatching is not before:
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
