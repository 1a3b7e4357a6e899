"""Configs of one subscription, which is a topic and a name: what it says of itself, over what its group says.

A subscription carries configs in its properties, named like the group's (`pulsar.nack.delay.ms=1000`). What is no
config is kept as it is: it is the administrator's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.config import group_configs
from gateway.config.group_table import EXCLUSIVE, FAILOVER, GROUP_CONFIGS
from gateway.config.schema import nearest

if TYPE_CHECKING:
    from gateway.config.settings import Settings

TYPE = "pulsar.subscription.type"
MODE = "pulsar.key.shared.mode"

OF_THE_GROUP = frozenset({"pulsar.retry.letter.topic", "pulsar.failover.priorities"})
"""Those of Pulsar's configs that are not a subscription's: the topic collects the retries of all the group reads, and
the members are the group's.
"""

NAMES = frozenset(name for name in GROUP_CONFIGS if name.startswith("pulsar.") and name not in OF_THE_GROUP)
"""What a subscription may say of itself."""

MOST_BYTES = 64 * 1024
"""Bytes of all properties of a subscription, names and values, in UTF-8."""

PULSAR_NACK_DELAY_MS = 60_000
"""What a nacked message waits in Pulsar unless a client says otherwise."""


def of_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The configs among the properties."""
    return {name: value for name, value in properties.items() if name in NAMES}


def merged(overrides: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """What a subscription says of itself: what it was made with, and above that its properties."""
    return {**overrides, **of_properties(properties)}


def as_pulsars(group: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """What a subscription is made with so that it behaves as Pulsar's clients do: no ack timeout, and a nacked message
    waits a minute. What the group or the properties say already is left to them.
    """
    said = {*group, *properties}
    found: dict[str, str] = {}
    if not any(name.startswith("pulsar.nack.") for name in said):
        found["pulsar.nack.delay.ms"] = str(PULSAR_NACK_DELAY_MS)
    if "share.record.lock.duration.ms" not in said and not any(
        name.startswith("pulsar.ack.timeout.") for name in said
    ):
        found["pulsar.ack.timeout.ms"] = "0"
    return found


def beside(group: Mapping[str, str], own: Mapping[str, str]) -> str | None:
    """What is wrong with the type that a subscription says of itself, where its group has one for its members."""
    its = group.get(TYPE)
    if its not in (EXCLUSIVE, FAILOVER) or TYPE not in own:
        return None
    return (
        f"The subscription is {own[TYPE]} and its group {its}, which is about all members of the group: take {TYPE} "
        "from the group (kafka-configs.sh --entity-type groups --delete-config), or make the subscription without one."
    )


def check(
    properties: Mapping[str, str],
    group: Mapping[str, str],
    overrides: Mapping[str, str],
    settings: Settings,
) -> str | None:
    """What is wrong with a subscription's properties, over its group's configs, in a sentence, or None."""
    size = 0
    for name, value in properties.items():
        size += len(name.encode("utf-8", "surrogatepass")) + len(value.encode("utf-8", "surrogatepass"))
        if not name:
            return "A property has a name: write name=value."
        if name in NAMES:
            continue
        if name in GROUP_CONFIGS:
            return (
                f"{name} belongs to the group and not to one of its subscriptions: set it with kafka-configs.sh "
                f"--entity-type groups. A subscription may have {_LISTED}."
            )
        near = nearest(name, sorted(NAMES)) if name.startswith("pulsar.") else None
        if near is not None:
            return f'There is no config "{name}". Did you mean "{near}"?'
    if size > MOST_BYTES:
        return f"The properties of a subscription have {MOST_BYTES} bytes at most, and these have {size}."
    own = merged(overrides, properties)
    if own.get(TYPE) in (EXCLUSIVE, FAILOVER):
        return (
            f"{TYPE} of one subscription is shared or key_shared; {own[TYPE]} is said of a group, about its members: "
            "set it with kafka-configs.sh --entity-type groups."
        )
    return beside(group, own) or group_configs.validate({**group, **own}, settings)


_LISTED = ", ".join(sorted(NAMES))
