"""Names of topics in the properties of subscriptions: those that are configs and name a topic, such as
`pulsar.dead.letter.topic`. They are kept as the catalog calls it, and said and told as Kafka's clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.config.group_table import NAME_TOPICS
from semantics.names import dotted

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


def said(broker: Broker, properties: Mapping[str, str]) -> dict[str, str]:
    """What a client says, with names of the catalog."""
    return {
        name: broker.catalog.said(value) if name in NAME_TOPICS and "/" not in value else value
        for name, value in properties.items()
    }


def told(properties: Mapping[str, str]) -> dict[str, str]:
    """What a client is told."""
    return {name: dotted(value) if name in NAME_TOPICS else value for name, value in properties.items()}
