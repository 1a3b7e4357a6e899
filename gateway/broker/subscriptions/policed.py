"""What a topic's policies allow its subscriptions: bounds above what their groups say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.broker import policies
from semantics.policies import (
    DELAYED,
    DELAYED_MAX_MS,
    DELAYED_TICK_MS,
    SUBSCRIPTION_DISPATCH_RATE,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    Policy,
)

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.config.group_configs import GroupConfig


def within_policies(
    node: Node, catalog: Catalog, topic: Topic, config: GroupConfig, *, retries: bool
) -> GroupConfig:
    """A subscription's configuration with the bounds of its topic's policies. `retries`: its topic has retry letters,
    which wait as their consumers have asked, and not as who sent the messages.
    """

    def number(policy: Policy) -> int:
        return policies.number(node, catalog, policy, topic)

    its = config.subscription
    longest = its.max_sent_delay_ms
    if not retries:
        longest = _least(longest, number(DELAYED_MAX_MS))
        if not policies.in_force(node, catalog, DELAYED, topic):
            longest = 0
    bounded = replace(
        its,
        receiver_queue=_least(its.receiver_queue, number(UNACKED_PER_CONSUMER)),
        max_locks=_least(its.max_locks, number(UNACKED_PER_SUBSCRIPTION)),
        max_sent_delay_ms=longest,
        tick_ms=number(DELAYED_TICK_MS),
    )
    rate = policies.rate(node, catalog, SUBSCRIPTION_DISPATCH_RATE, topic)
    return config._replace(subscription=bounded, dispatch_rate=rate)


def _least(its: int, bound: int) -> int:
    """0 is no bound."""
    return min(its, bound) if bound else its
