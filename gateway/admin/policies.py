"""Verbs of policies, of namespaces and of topics: what is set, what is in force, set it, take it back.

A policy is kept as configs are (`semantics.policies`); here is how Pulsar's clients write each. Named in `routes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.admin.exchange import DONE, Call, RefusedError, Reply, json
from gateway.admin.topics import found_by, namespace_of
from semantics.policies import RETENTION_BYTES, RETENTION_MS

if TYPE_CHECKING:
    from gateway.admin.context import Context

_MINUTE_MS = 60_000
_MB = 1024 * 1024
_MOST = 2**31 - 1
"""Pulsar's numbers of minutes and megabytes have 32 bits"""


# -- retention


async def namespace_retention(context: Context, call: Call) -> Reply:
    """`{retentionTimeInMinutes, retentionSizeInMB}` of a namespace; null where nothing is set."""
    namespace = namespace_of(context.broker, *call.path[1:3])
    return json(_retention(context.broker.tenancy.namespace(namespace).policies))


async def set_namespace_retention(context: Context, call: Call) -> Reply:
    """The body is as `namespace_retention` answers it."""
    await _change_namespace(context, call, said_retention(call.json()))
    return DONE


async def remove_namespace_retention(context: Context, call: Call) -> Reply:
    """What all namespaces have counts again."""
    await _change_namespace(context, call, _NO_RETENTION)
    return DONE


async def topic_retention(context: Context, call: Call) -> Reply:
    """The same of a topic; with `applied` what is in force, whoever has set it."""
    topic = (await found_by(context.broker, call)).topic
    if not call.flag("applied"):
        return json(_retention(topic.configs))
    config = context.broker.effective(topic)
    return json(_shown(config.retention_ms, config.retention_bytes))


async def set_topic_retention(context: Context, call: Call) -> Reply:
    """The body is as `topic_retention` answers it."""
    await _change_topic(context, call, said_retention(call.json()))
    return DONE


async def remove_topic_retention(context: Context, call: Call) -> Reply:
    """What its namespace has counts again."""
    await _change_topic(context, call, _NO_RETENTION)
    return DONE


def retention_of(policies: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """As Pulsar's Policies of a namespace have it; nothing where nothing is set."""
    found = _retention(policies)
    return {} if found is None else {"retention_policies": found}


_NO_RETENTION: Mapping[str, str | None] = {RETENTION_MS.name: None, RETENTION_BYTES.name: None}


def _retention(said: Mapping[str, str]) -> dict[str, int] | None:
    ms, size = said.get(RETENTION_MS.name), said.get(RETENTION_BYTES.name)
    if ms is None and size is None:
        return None
    # what Kafka clients set of a topic may be one of the two
    return _shown(int(ms) if ms is not None else -1, int(size) if size is not None else -1)


def _shown(ms: int, size: int) -> dict[str, int]:
    return {"retentionTimeInMinutes": _rounded(ms, _MINUTE_MS), "retentionSizeInMB": _rounded(size, _MB)}


def _rounded(value: int, unit: int) -> int:
    """In whole units, rounded up: a limit below one unit is not shown as none that keeps nothing."""
    return min(-(-value // unit), _MOST) if value > 0 else max(value, -1)


def said_retention(body: object) -> dict[str, str]:
    """What a body as `namespace_retention` answers it says. Refuses others with 400 or 412."""
    if not isinstance(body, dict):
        raise RefusedError(
            400, 'The body is an object: {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}.'
        )
    minutes = _number(body, "retentionTimeInMinutes")
    megabytes = _number(body, "retentionSizeInMB")
    if (minutes == 0) != (megabytes == 0):
        raise RefusedError(
            400,
            "Retention by time and by size are both 0, which keeps nothing, or neither is: -1 for a limit that does"
            " not count.",
        )
    return {
        RETENTION_MS.name: str(minutes * _MINUTE_MS if minutes > 0 else minutes),
        RETENTION_BYTES.name: str(megabytes * _MB if megabytes > 0 else megabytes),
    }


def _number(body: dict[str, Any], name: str) -> int:
    """Of a body; 0 where it is missing, as Pulsar's clients mean it."""
    value = body.get(name, 0)
    if type(value) is not int or not -1 <= value <= _MOST:
        raise RefusedError(
            412, f"{name} is a whole number from -1 (no limit) to {_MOST}, not {str(value)[:40]!r}."
        )
    return value


# -- what is shared


async def _change_namespace(context: Context, call: Call, said: Mapping[str, str | None]) -> None:
    namespace = namespace_of(context.broker, *call.path[1:3])
    await context.broker.tenancy.change(
        namespace, lambda row: msgspec.structs.replace(row, policies=_changed(row.policies, said))
    )


async def _change_topic(context: Context, call: Call, said: Mapping[str, str | None]) -> None:
    topic = (await found_by(context.broker, call)).topic
    await context.broker.topics.configure(topic.name, lambda old: _changed(old, said))


def _changed(old: Mapping[str, str], said: Mapping[str, str | None]) -> dict[str, str]:
    kept = {name: value for name, value in old.items() if name not in said}
    return kept | {name: value for name, value in said.items() if value is not None}
