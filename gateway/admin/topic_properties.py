"""Verbs of what somebody keeps with a topic, `team=billing` and the like. It changes nothing of how the topic works.

They belong to the whole topic: a partition shows those of its topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.kept_properties import fits, read
from gateway.admin.topics import found_by, whole_topic

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.catalog import Topic


async def properties(context: Context, call: Call) -> Reply:
    """All of them."""
    return json((await found_by(context.broker, call)).topic.properties)


async def update(context: Context, call: Call) -> Reply:
    """Those in the body are added to those there are."""
    found = whole_topic(await found_by(context.broker, call), "Properties")
    said = read(call.json())

    def change(topic: Topic) -> Topic:
        together = fits({**topic.properties, **said}, "Properties")
        return msgspec.structs.replace(topic, properties=together)

    await context.broker.topics.keep(found.topic.name, change)
    return DONE


async def remove(context: Context, call: Call) -> Reply:
    """One of them, by the parameter `key`. One that is not there is gone already, as in Pulsar."""
    found = whole_topic(await found_by(context.broker, call), "Properties")
    name = call.query.get("key", "")
    if not name:
        raise RefusedError(412, "Say which property goes: the parameter key, or --key of the command.")

    def change(topic: Topic) -> Topic:
        left = {key: value for key, value in topic.properties.items() if key != name}
        return msgspec.structs.replace(topic, properties=left)

    await context.broker.topics.keep(found.topic.name, change)
    return DONE
