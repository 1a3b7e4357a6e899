"""The dispatch rate of one subscription on a topic, which goes before what its topic says of all.

It may be said before there is such a subscription, as in Pulsar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.policies import applied_to, changes_of, set_of
from gateway.admin.topics import found_by, whole_topic
from semantics.policy_rate_forms import SUBSCRIPTION_RATE

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.catalog import Topic

MOST = 1000
"""Subscriptions of a topic of which something may be said: its row is read whole."""


async def rate(context: Context, call: Call) -> Reply:
    """What is set for a subscription; `applied`: what is in force."""
    topic = (await found_by(context.broker, call)).topic
    own = topic.subscription_policies.get(call.path[4], {})
    if not call.flag("applied"):
        return json(set_of(SUBSCRIPTION_RATE, own))
    return json(
        applied_to(
            context, SUBSCRIPTION_RATE, msgspec.structs.replace(topic, configs={**topic.configs, **own})
        )
    )


async def change_rate(context: Context, call: Call) -> Reply:
    """Set it, or take it back."""
    found = whole_topic(await found_by(context.broker, call), "The rate of a subscription")
    name, said = call.path[4], changes_of(SUBSCRIPTION_RATE, call)

    def change(topic: Topic) -> Topic:
        own = {key: value for key, value in said.items() if value is not None}
        others = {key: value for key, value in topic.subscription_policies.items() if key != name}
        if own and len(others) >= MOST:
            raise RefusedError(412, f"A topic has rates of {MOST} subscriptions at most: take some back.")
        return msgspec.structs.replace(topic, subscription_policies={**others, name: own} if own else others)

    await context.broker.topics.keep(found.topic.name, change)
    return DONE
