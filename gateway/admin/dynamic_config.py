"""Verbs of settings that are altered while the gateway runs: what `kafka-configs.sh --entity-type brokers` alters, too.

A setting is altered for all nodes. Where this node has a value of its own, that goes: what was said
last is in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import DONE, RefusedError, Reply, json

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker


async def names(context: Context, call: Call) -> Reply:
    """The settings that may be altered."""
    return json([row.name for row in context.broker.settings.describe() if not row.read_only])


async def values(context: Context, call: Call) -> Reply:
    """Those that were altered and are in force, as text; none that is secret."""
    broker = context.broker
    altered = {**broker.broker_configs.cluster, **broker.broker_configs.node}
    rows = {row.name: row for row in broker.settings.describe() if not row.sensitive}
    return json(
        {
            name: rows[name].value
            for name, value in sorted(altered.items())
            if name in rows and broker.settings.altered(name, value) is None
        }
    )


async def update(context: Context, call: Call) -> Reply:
    """Alter one. Refuses with 412 what is none, is read at the start only, or is out of its bounds."""
    name, value = call.path[2:4]
    await _alter(context.broker, "", name, value)
    await _forget_own(context.broker, name)
    return DONE


async def delete(context: Context, call: Call) -> Reply:
    """What the start said of one counts again. Refuses with 412 what is none that may be altered."""
    name = call.path[2]
    await _alter(context.broker, "", name, None)
    await _forget_own(context.broker, name)
    return DONE


async def _forget_own(broker: Broker, name: str) -> None:
    """Take back what was said of one for this node alone."""
    if name in broker.broker_configs.node:
        await _alter(broker, str(broker.node_id), name, None)


async def _alter(broker: Broker, node: str, name: str, value: str | None) -> None:
    problem = broker.settings.altered(name, value)
    if problem is not None:
        raise RefusedError(412, problem)

    def change(old: dict[str, str]) -> dict[str, str]:
        left = {key: each for key, each in old.items() if key != name}
        return left if value is None else {**left, name: value}

    await broker.broker_configs.alter(node, change)
