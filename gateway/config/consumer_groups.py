"""Settings of consumer groups of the new protocol (KIP-848): defaults, bounds and limits, as Kafka has them.

They follow the scheme of `share_groups`.
"""

from __future__ import annotations

from gateway.config.schema import INT_MAX, Kind, Setting, Value, at_least, each_of, one_of
from gateway.config.share_groups import Family, Problem, ordered, out_of_order

ASSIGNORS = ("uniform", "range", "failover")
"""Those that there are: `gateway.coordinators.assignors`."""

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"
"""What group.consumer.migration.policy may be."""

FAMILIES = [
    Family(
        "session.timeout.ms",
        "How long a member of a consumer group (group.protocol=consumer) may be silent before it is out, in "
        "milliseconds. A group may set its own.",
        45_000,
        45_000,
        60_000,
        (at_least(1),) * 3,
        "consumer",
    ),
    Family(
        "heartbeat.interval.ms",
        "How often members of a consumer group (group.protocol=consumer) are told to say that they live, in "
        "milliseconds. A group may set its own.",
        5000,
        5000,
        15_000,
        (at_least(1),) * 3,
        "consumer",
    ),
]

_known = each_of(*ASSIGNORS)


def _assignors(value: Value) -> str | None:
    return _known(value) if value else "must name one at least"


LIMITS = [
    Setting(
        "group.consumer.max.size",
        Kind.INT,
        INT_MAX,
        "Members a consumer group (group.protocol=consumer) may have.",
        at_least(1),
    ),
    Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ASSIGNORS,
        "The assignors that members of consumer groups may ask for (group.remote.assignor); the first is that of "
        "members that ask for none.",
        _assignors,
    ),
    Setting(
        "group.consumer.migration.policy",
        Kind.STRING,
        BIDIRECTIONAL,
        "Which ways groups with members may go: upgrade, a classic group becomes a consumer group when the first "
        "member with group.protocol=consumer joins it; downgrade, it is a classic group again when the last of those "
        "is gone; bidirectional, both; disabled, neither.",
        one_of(DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL),
    ),
]

CONSUMER_GROUPS: list[Setting] = [row for family in FAMILIES for row in family.settings()] + LIMITS
"""All of them, in the order in which they are shown."""


def problems(integer: dict[str, int]) -> list[Problem]:
    """What does not fit together."""
    return out_of_order(FAMILIES, integer) + ordered(
        integer, "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", equal=False
    )
