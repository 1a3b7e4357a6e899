"""What a topic's policies allow its subscriptions: bounds above what their groups say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gateway.config import topic_configs
from semantics.group_names import bare
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
    from gateway.config import Settings
    from gateway.config.group_configs import GroupConfig
    from semantics.rates import Rate


class Bounds(NamedTuple):
    """What policies say; 0 is no bound, but of `tick_ms`."""

    of_each: int
    of_all: int
    delayed: bool
    longest_ms: int
    tick_ms: int
    rate: Rate


_NAMES = frozenset(
    each.name
    for each in (
        *(UNACKED_PER_CONSUMER, UNACKED_PER_SUBSCRIPTION, DELAYED, DELAYED_MAX_MS, DELAYED_TICK_MS),
        *SUBSCRIPTION_DISPATCH_RATE,
    )
    if each is not None
)

_NOTHING: Mapping[str, str] = {}


def within_policies(
    node: Node, catalog: Catalog, topic: Topic, group: str, config: GroupConfig, *, retries: bool
) -> GroupConfig:
    """A subscription's configuration with the bounds of its topic's policies. `retries`: its topic has retry letters,
    which wait as their consumers have asked, and not as who sent the messages.
    """
    said = catalog.namespaces.policies_of(topic.name)
    # said by the name, whichever listeners there are
    own = topic.subscription_policies.get(bare(group)) if topic.subscription_policies else None
    if own:
        bounds = _bounds({**topic.configs, **own}, node.settings, said)
    elif _NAMES.isdisjoint(topic.configs) and _NAMES.isdisjoint(said):
        # nearly all
        bounds = _of_settings(node.settings)
    else:
        bounds = _bounds(topic.configs, node.settings, said)
    its = config.subscription
    longest = its.max_sent_delay_ms
    if not retries and (config.exclusive or config.failover):
        # as in Pulsar: records come in their order there, whatever their producers asked for
        longest = 0
    elif not retries:
        longest = _least(longest, bounds.longest_ms) if bounds.delayed else 0
    each, both = _least(its.receiver_queue, bounds.of_each), _least(its.max_locks, bounds.of_all)
    if (each, both, longest, bounds.tick_ms) != (
        *(its.receiver_queue, its.max_locks, its.max_sent_delay_ms, its.tick_ms),
    ):
        its = replace(
            its, receiver_queue=each, max_locks=both, max_sent_delay_ms=longest, tick_ms=bounds.tick_ms
        )
        config = config._replace(subscription=its)
    return config._replace(dispatch_rate=bounds.rate) if bounds.rate.limits else config


def _bounds(configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]) -> Bounds:
    def number(policy: Policy) -> int:
        return topic_configs.number_in_force(policy, configs, settings, namespace)

    return Bounds(
        number(UNACKED_PER_CONSUMER),
        number(UNACKED_PER_SUBSCRIPTION),
        bool(number(DELAYED)),
        number(DELAYED_MAX_MS),
        number(DELAYED_TICK_MS),
        topic_configs.rate_in_force(SUBSCRIPTION_DISPATCH_RATE, configs, settings, namespace),
    )


@lru_cache(maxsize=8)
def _of_settings(settings: Settings) -> Bounds:
    return _bounds(_NOTHING, settings, _NOTHING)


def _least(its: int, bound: int) -> int:
    """0 is no bound."""
    return min(its, bound) if bound else its
