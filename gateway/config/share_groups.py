"""Settings of share groups: defaults of group configs, the bounds these may be set within, limits of a node.

A group config `share.x` falls back to `group.share.x` and must lie between `group.share.min.x` and
`group.share.max.x`: Kafka's scheme (KIP-932, KIP-1240). Two upper bounds are wider than Kafka's.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.config.schema import INT_MAX, Check, Kind, Setting, at_least, between


class Family(NamedTuple):
    """A default and its two bounds; each with the range that it may itself be set within."""

    # without "group.share." or "group.consumer."
    name: str
    doc: str
    default: int
    low: int
    high: int
    checks: tuple[Check, Check, Check]
    kind: str = "share"

    def settings(self) -> list[Setting]:
        """The rows of the table: default, min, max."""
        return [
            Setting(f"group.{self.kind}.{self.name}", Kind.INT, self.default, self.doc, self.checks[0]),
            Setting(
                f"group.{self.kind}.min.{self.name}",
                Kind.INT,
                self.low,
                f"The least that a group may set {self.kind}.{self.name} to.",
                self.checks[1],
            ),
            Setting(
                f"group.{self.kind}.max.{self.name}",
                Kind.INT,
                self.high,
                f"The most that a group may set {self.kind}.{self.name} to.",
                self.checks[2],
            ),
        ]


FAMILIES = [
    Family(
        "session.timeout.ms",
        "How long a member of a share group may be silent before it is out, in milliseconds. A group may set "
        "its own.",
        45_000,
        45_000,
        60_000,
        (at_least(1),) * 3,
    ),
    Family(
        "heartbeat.interval.ms",
        "How often members of a share group are told to say that they live, in milliseconds. A group may set its own.",
        5000,
        5000,
        15_000,
        (at_least(1),) * 3,
    ),
    Family(
        "record.lock.duration.ms",
        "How long a record stays acquired before it is taken back from its consumer, in milliseconds. A group may "
        "set its own.",
        30_000,
        15_000,
        60_000,
        (between(1000, 3_600_000), between(1000, 30_000), between(30_000, 3_600_000)),
    ),
    Family(
        "delivery.count.limit",
        "How many times a record is delivered to a share group at most. A group may set its own.",
        5,
        2,
        1000,  # Kafka's is 10; Pulsar's maxRedeliverCount knows no bound
        (between(2, 1000), between(2, 5), between(5, 1000)),
    ),
    Family(
        "partition.max.record.locks",
        "How many records of a partition the consumers of a share group may hold at once. A group may set its own.",
        2000,
        100,
        1_000_000,  # Kafka's is 4000, of which one stuck record may take all
        (between(100, 10_000_000), between(100, 2000), between(2000, 10_000_000)),
    ),
]

LIMITS = [
    Setting(
        "group.share.max.size",
        Kind.INT,
        10_000,  # Kafka: 200; Pulsar has no bound
        "Members a share group may have.",
        between(1, 1_000_000),  # Kafka: 1000
    ),
    Setting(
        "group.share.max.share.sessions",
        Kind.INT,
        50_000,  # Kafka: 2000
        "Share sessions, one for each member that fetches, that the node keeps at once.",
        between(1, INT_MAX),
    ),
]

SHARE_GROUPS: list[Setting] = [row for family in FAMILIES for row in family.settings()] + LIMITS
"""All of them, in the order in which they are shown."""


Problem = tuple[tuple[str, str], str]
"""The two settings concerned, and a sentence."""


def problems(integer: dict[str, int]) -> list[Problem]:
    """What does not fit together."""
    found = out_of_order(FAMILIES, integer)
    found += ordered(
        integer, "group.share.heartbeat.interval.ms", "group.share.session.timeout.ms", equal=False
    )
    return found + ordered(integer, "group.share.max.size", "group.share.max.share.sessions")


def out_of_order(families: list[Family], integer: dict[str, int]) -> list[Problem]:
    """Defaults that do not lie between their bounds."""
    found: list[Problem] = []
    for family in families:
        name, low, high = (row.name for row in family.settings())
        found += ordered(integer, low, name)
        found += ordered(integer, name, high)
    return found


def ordered(integer: dict[str, int], low: str, high: str, *, equal: bool = True) -> list[Problem]:
    """What is wrong if the first setting is above the second, or as high where it may not be."""
    if integer[low] < integer[high] or (equal and integer[low] == integer[high]):
        return []
    rule = "must not be above" if equal else "must be below"
    return [((low, high), f"{low} ({integer[low]}) {rule} {high} ({integer[high]}).")]
