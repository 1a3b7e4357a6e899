"""Names of topics as Kafka's clients say them: in paths, and in properties of subscriptions that are configs and name a
topic, such as `pulsar.dead.letter.topic`. These are kept as the catalog calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.config.group_table import NAME_TOPICS
from semantics.names import dotted

if TYPE_CHECKING:
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker


def named(broker: Broker, local: str) -> str:
    """What the catalog calls a topic that a path names in public/default: by the name that Kafka clients use it may be
    one of another namespace. Where rights are asked for, the path says of which namespace a topic is.
    """
    settings = broker.settings
    return local if settings.authorization or settings.admin_authentication else broker.catalog.said(local)


def meant(call: Call, broker: Broker, name: str) -> str:
    """What the catalog calls a topic that a caller names as Kafka's clients do at home in public/default. One of
    another namespace is there for who may see it.
    """
    found = broker.catalog.said(name)
    return found if call.asker.sees(found) else name


def said(broker: Broker, properties: Mapping[str, str]) -> dict[str, str]:
    """What a client says, with names of the catalog."""
    return {
        name: broker.catalog.said(value) if name in NAME_TOPICS and "/" not in value else value
        for name, value in properties.items()
    }


def told(properties: Mapping[str, str]) -> dict[str, str]:
    """What a client is told."""
    return {name: dotted(value) if name in NAME_TOPICS else value for name, value in properties.items()}
