"""Pulsar's policies: what is said of a topic at one of three levels, and which level wins.

A policy is one row here. For a topic it is said as a topic config, by that name or by Kafka's config of the same thing;
for a namespace in the namespace's row, by that name; for all by a setting of the broker. The nearest wins: a topic's
own by Pulsar's name, its own by Kafka's name, its namespace's, the broker's. Each value by itself: one limit of a topic
does not hide the other of its namespace.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class Level(enum.StrEnum):
    """Where a value was found."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Policy(NamedTuple):
    """One value that can be said at all levels."""

    name: str
    """of the topic config, and of the namespace's"""
    kafka: str | None
    """Kafka's topic config of the same thing, which may say more by it"""
    setting: str | None
    """the broker's, as Pulsar's broker.conf calls it"""


RETENTION_MS = Policy("pulsar.retention.ms", "retention.ms", "defaultRetentionTimeInMinutes")
RETENTION_BYTES = Policy("pulsar.retention.bytes", "retention.bytes", "defaultRetentionSizeInMB")

POLICIES = (RETENTION_MS, RETENTION_BYTES)
"""All of them."""

NAMES = frozenset([policy.name for policy in POLICIES])
"""What a namespace's row may say."""


class Found(NamedTuple, Generic[V]):
    """A value that somebody has set, under which name and at which level."""

    value: V
    name: str
    level: Level


def resolve(
    policy: Policy,
    topic: Callable[[str], V | None],
    namespace: Callable[[str], V | None],
    broker: Callable[[str], V | None],
) -> Found[V] | None:
    """What is in force for a topic; None where nobody has set it, by any name but that of Kafka's broker. Each of the
    three says what is set by a name at its level, None where nothing is.
    """
    for name, level, said in (
        (policy.name, Level.TOPIC, topic),
        (policy.kafka, Level.TOPIC, topic),
        (policy.name, Level.NAMESPACE, namespace),
        (policy.setting, Level.BROKER, broker),
    ):
        value = said(name) if name is not None else None
        if name is not None and value is not None:
            return Found(value, name, level)
    return None
