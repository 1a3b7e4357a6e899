"""The table of group configs: Kafka 4.3's for share groups and for consumer groups (KIP-848), Pulsar's for the
subscription that a share group is.

Sticky ranges (`pulsar.key.shared.ranges`) are a list of `name:first-last`: the slots `first` to `last` of 0 to
65535, both included as in Pulsar's `Range.of`, go to the member of that member id, or else of that client id.
A name may come more than once, ranges may not overlap, and slots that nobody has wait.

Priorities (`pulsar.failover.priorities`) are a list of `name=level`: the member of that name, which is its
group.instance.id, or else its client.id, has this priority level of Pulsar's; 0 is the highest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.config.schema import INT_MAX, LONG_MAX, Check, Kind, Setting, Value, at_least, between, one_of
from gateway.config.table import SETTINGS
from semantics import names

SLOTS = 65_536
"""Slots that keys are hashed to in a Key_Shared subscription."""

SHARED, KEY_SHARED = "shared", "key_shared"
EXCLUSIVE, FAILOVER = "exclusive", "failover"
AUTO_SPLIT, CONSISTENT_HASHING, STICKY = "auto_split", "consistent_hashing", "sticky"
REDELIVERED, ALL, NONE = "redelivered", "all", "none"


class OffsetReset(NamedTuple):
    """Where a subscription begins: "earliest", "latest", or "by_duration" with how many ms ago."""

    strategy: str
    ago_ms: int = 0


class Row(NamedTuple):
    """One group config: its schema, and where Kafka keeps its default and its bounds."""

    setting: Setting
    # the setting of the node it falls back to
    broker: str | None = None
    # the settings of the node it must lie between
    bounds: tuple[str, str] | None = None
    # what the value is when it is open, for people
    open: str = ""
    # False: it is checked, kept and shown, but does nothing here
    effect: bool = True


# -- what values must be ----------------------------------------------------------------------------------------------

_RESETS = "must be earliest, latest or by_duration:PnDTnHnMn.nS (such as by_duration:PT1H30M)"
_DURATION = re.compile(
    r"([-+]?)P(?=.)(?:([-+]?\d+)D)?(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?\Z",
    re.IGNORECASE | re.ASCII,
)


def duration_ms(text: str) -> int:
    """ISO 8601's PnDTnHnMn.nS as Java's Duration takes it, in ms, rounded down. Raises ValueError."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError("must be a duration such as P1DT12H or PT90S")
    sign, days, hours, minutes, second_sign, seconds, fraction = match.groups()
    ms = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000
    part = int(seconds or 0) * 1000 + int((fraction or "").ljust(3, "0")[:3])
    ms += -part if second_sign == "-" else part
    ms = -ms if sign == "-" else ms
    if not 0 <= ms <= LONG_MAX:
        raise ValueError("must be a duration that is not negative")
    return ms


def offset_reset(text: str) -> OffsetReset:
    """The value of share.auto.offset.reset. Raises ValueError."""
    if text in ("earliest", "latest"):
        return OffsetReset(text)
    strategy, _, duration = text.partition(":")
    if strategy != "by_duration":
        raise ValueError(_RESETS)
    try:
        return OffsetReset(strategy, duration_ms(duration))
    except ValueError:
        raise ValueError(_RESETS) from None


def sticky_ranges(items: tuple[str, ...]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The value of pulsar.key.shared.ranges, half-open. Raises ValueError."""
    found: dict[str, list[tuple[int, int]]] = {}
    taken: list[tuple[int, int, str]] = []
    for item in items:
        name, colon, text = item.rpartition(":")
        first, dash, last = text.partition("-")
        good = colon and dash and name and all(end.isascii() and end.isdigit() for end in (first, last))
        if not good or len(first) > 5 or len(last) > 5 or not int(first) <= int(last) < SLOTS:
            raise ValueError(
                f"must be a list of name:first-last with slots from 0 to {SLOTS - 1}, both ends included, such as "
                f'client-a:0-32767,client-b:32768-65535, and "{item}" is not'
            )
        found.setdefault(name, []).append((int(first), int(last) + 1))
        taken.append((int(first), int(last) + 1, name))
    taken.sort()
    for (_, end, one), (start, _, other) in itertools.pairwise(taken):
        if start < end:
            raise ValueError(
                f"must give each slot to one only, and slot {start} is both {one}'s and {other}'s"
            )
    return {name: tuple(sorted(ranges)) for name, ranges in found.items()}


def failover_priorities(items: tuple[str, ...]) -> dict[str, int]:
    """The value of pulsar.failover.priorities, by name. Raises ValueError."""
    found: dict[str, int] = {}
    for item in items:
        name, _, level = item.rpartition("=")
        if not name or not level.isascii() or not level.isdigit() or len(level) > 9:
            raise ValueError(
                "must be a list of name=level with levels from 0, the highest, such as client-a=0,client-b=1, and "
                f'"{item}" is not'
            )
        if found.setdefault(name, int(level)) != int(level):
            raise ValueError(f"must give each name one level, and {name} has {found[name]} and {int(level)}")
    return found


def _raising(parse: Callable[[Any], object]) -> Check:
    """A check out of a function that raises ValueError."""

    def check(value: Value) -> str | None:
        try:
            parse(value)
        except ValueError as error:
            return str(error)
        return None

    return check


INITIAL_SUBSCRIPTION = "pulsar.dead.letter.initial.subscription"

NAME_TOPICS = frozenset(
    ("errors.deadletterqueue.topic.name", "pulsar.dead.letter.topic", "pulsar.retry.letter.topic")
)
"""Configs whose values are names of topics: of groups, and of queue topics, which are made with their group's. A queue
topic's pattern is none: it is read as one over the namespace of who says it."""


def _topic(value: Value) -> str | None:
    # as the catalog calls it; a client's word for it has no slashes
    if not names.is_canonical(str(value)):
        return "must be a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"
    return "must not begin with '__', as Kafka's own topics do" if str(value).startswith("__") else None


def _multiplier(value: Value) -> str | None:
    wrong = isinstance(value, (int, float)) and not 1 < value <= 1000
    return "must be above 1 and at most 1000" if wrong else None


def _ack_timeout(value: Value) -> str | None:
    """Pulsar's clients refuse less than a second: 30 that was meant in seconds would let every record die."""
    wrong = isinstance(value, int) and value != 0 and not 1000 <= value <= INT_MAX
    return f"must be 0, or from 1000 to {INT_MAX}" if wrong else None


def _some(value: Value) -> str | None:
    return None if value else "must be the id of a group"


# -- the table --------------------------------------------------------------------------------------------------------


def _bounded(name: str, doc: str, floor: int) -> Row:
    """A config of Kafka's with a default and bounds among the settings of the node; `floor` is Kafka's own bound."""
    kind, _, rest = name.partition(".")
    broker = SETTINGS[f"group.{kind}.{rest}"]
    return Row(
        Setting(name, broker.kind, broker.default, doc, at_least(floor)),
        broker.name,
        (f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"),
    )


_NUMBER_MS = between(0, INT_MAX)

_ROWS = [
    _bounded(
        "consumer.session.timeout.ms",
        "Of group.protocol=consumer: how long a member may be silent before it is out, in ms.",
        1,
    ),
    _bounded(
        "consumer.heartbeat.interval.ms",
        "Of group.protocol=consumer: how often members are told to send heartbeats, in ms.",
        1,
    ),
    Row(
        Setting(
            "consumer.assignment.interval.ms",
            Kind.INT,
            1000,
            "How long changes of a group are collected before partitions are shared out anew, in ms. Kept and shown; "
            "without effect here: they are shared out at once.",
            between(0, 15_000),
        ),
        "group.consumer.assignment.interval.ms",
        effect=False,
    ),
    _bounded("share.session.timeout.ms", "How long a member may be silent before it is out, in ms.", 1),
    _bounded("share.heartbeat.interval.ms", "How often members are told to send heartbeats, in ms.", 1),
    _bounded(
        "share.record.lock.duration.ms",
        "How long a record stays acquired before it is taken back, in ms; the delivery counts. pulsar.ack.timeout.ms "
        "wins.",
        1000,
    ),
    _bounded(
        "share.delivery.count.limit",
        "How many times a record is delivered at most. pulsar.max.redeliver.count wins.",
        2,
    ),
    _bounded(
        "share.partition.max.record.locks",
        "How many records of a partition may be acquired at once: their number, so that one stuck record does not hold "
        "up the others. Half of it is for all members in equal parts.",
        100,
    ),
    Row(
        Setting(
            "share.auto.offset.reset",
            Kind.STRING,
            "latest",
            "Where a new subscription begins: earliest; latest; or by_duration:PnDTnHnMn.nS, at the first record not "
            "older than that.",
            _raising(offset_reset),
        )
    ),
    Row(
        Setting(
            "share.isolation.level",
            Kind.STRING,
            "read_uncommitted",
            "Whether records of open and aborted transactions are delivered: read_uncommitted, all are; "
            "read_committed, only committed ones.",
            one_of("read_committed", "read_uncommitted"),
        )
    ),
    Row(
        Setting(
            "share.renew.acknowledge.enable",
            Kind.BOOLEAN,
            True,
            "Whether consumers may hold a record longer with RENEW (KIP-1222).",
        )
    ),
    Row(
        Setting(
            "share.assignment.interval.ms",
            Kind.INT,
            1000,
            "How long assignments are collected before members are told, in ms. Kept and shown; without effect here: "
            "every member gets every partition, with the answer to its first heartbeat.",
            between(0, 15_000),
        ),
        "group.share.assignment.interval.ms",
        effect=False,
    ),
    Row(
        Setting(
            "pulsar.subscription.type",
            Kind.STRING,
            SHARED,
            "The type of the group's subscriptions. Of share groups: shared, any member takes the next record; "
            "key_shared, records of one key go to one member, in order. Of all groups: exclusive, there is one member, "
            "and a second one is refused; failover, one member at a time has a partition, and it is Pulsar's rule "
            "who that is, whatever assignor members ask for. Without it a consumer group has the assignor that its "
            "members ask for. It can change while the group has no members.",
            one_of(SHARED, KEY_SHARED, EXCLUSIVE, FAILOVER),
        )
    ),
    Row(
        Setting(
            "pulsar.failover.priorities",
            Kind.LIST,
            (),
            "Who is active before others in failover: name=level. The name is the member's group.instance.id, or else "
            "its client.id; level 0 is the highest, and that of all who are not named.",
            _raising(failover_priorities),
        )
    ),
    Row(
        Setting(
            "pulsar.key.shared.mode",
            Kind.STRING,
            AUTO_SPLIT,
            "How slots of keys are dealt to members in key_shared: auto_split, the largest range is halved for each "
            "newcomer; consistent_hashing, points on a ring; sticky, by pulsar.key.shared.ranges. It can change while "
            "the group has no members.",
            one_of(AUTO_SPLIT, CONSISTENT_HASHING, STICKY),
        )
    ),
    Row(
        Setting(
            "pulsar.key.shared.ranges",
            Kind.LIST,
            (),
            f"Who has which slots in sticky mode: name:first-last, where name is a member id or a client id and slots "
            f"go from 0 to {SLOTS - 1}, both ends included. A name may come more than once; ranges may not overlap.",
            _raising(sticky_ranges),
        )
    ),
    Row(
        Setting(
            "pulsar.key.shared.strict",
            Kind.BOOLEAN,
            True,
            "Hold back later records of a key while an earlier one is acquired, waits for its redelivery or for a dead "
            "letter. false: Pulsar's behaviour, a key's next records go on while a refused one backs off.",
        )
    ),
    Row(
        Setting(
            "pulsar.key.shared.allow.out.of.order",
            Kind.BOOLEAN,
            False,
            "Let the new owner of a slot begin while the former one still holds records of it. true switches "
            "pulsar.key.shared.strict off.",
        )
    ),
    Row(
        Setting(
            "pulsar.key.shared.look.ahead",
            Kind.INT,
            20_000,
            "How many records of a partition may wait for their keys to become free before no more are read. Deep "
            "slots (hot keys) do not count.",
            between(1, 1_000_000),
        )
    ),
    Row(
        Setting(
            "pulsar.nack.delay.ms",
            Kind.INT,
            0,
            "How long a released record waits for its redelivery, in ms. Pulsar's consumers have 60000.",
            _NUMBER_MS,
        )
    ),
    Row(
        Setting(
            "pulsar.nack.backoff.min.ms",
            Kind.INT,
            None,
            "The wait after the first release, in ms. Any of the three pulsar.nack.backoff configs switches the "
            "backoff on, min x multiplier^(deliveries - 1) up to max, which wins over pulsar.nack.delay.ms.",
            _NUMBER_MS,
        ),
        open="no backoff, or 1000",
    ),
    Row(
        Setting(
            "pulsar.nack.backoff.max.ms",
            Kind.INT,
            None,
            "The longest wait after a release, in ms.",
            _NUMBER_MS,
        ),
        open="no backoff, or 60000",
    ),
    Row(
        Setting(
            "pulsar.nack.backoff.multiplier",
            Kind.DOUBLE,
            None,
            "By how much each wait is longer than the one before it.",
            _multiplier,
        ),
        open="no backoff, or 2",
    ),
    Row(
        Setting(
            "pulsar.ack.timeout.ms",
            Kind.INT,
            None,
            "How long a record stays acquired before it is taken back, in ms; 0 is for as long as its consumer lives, "
            "as in Pulsar.",
            _ack_timeout,
        ),
        open="`share.record.lock.duration.ms`",
    ),
    Row(
        Setting(
            "pulsar.ack.timeout.backoff.min.ms",
            Kind.INT,
            None,
            "The wait after the first ack timeout, in ms. Any of the three pulsar.ack.timeout.backoff configs switches "
            "the backoff on; without it the record comes back at once.",
            _NUMBER_MS,
        ),
        open="no backoff, or 1000",
    ),
    Row(
        Setting(
            "pulsar.ack.timeout.backoff.max.ms",
            Kind.INT,
            None,
            "The longest wait after an ack timeout, in ms.",
            _NUMBER_MS,
        ),
        open="no backoff, or 60000",
    ),
    Row(
        Setting(
            "pulsar.ack.timeout.backoff.multiplier",
            Kind.DOUBLE,
            None,
            "By how much each wait is longer than the one before it.",
            _multiplier,
        ),
        open="no backoff, or 2",
    ),
    Row(
        Setting(
            "pulsar.max.redeliver.count",
            Kind.INT,
            None,
            "How many times a record is delivered again before it is dead: N gives N + 1 deliveries. -1: without end.",
            between(-1, 10_000),
        ),
        open="`share.delivery.count.limit` less one",
    ),
    Row(
        Setting(
            "pulsar.max.reconsume.count",
            Kind.INT,
            16,
            "How many times a message may be a retry letter before it is a dead letter, whatever its deliveries. -1: "
            "without end.",
            between(-1, 10_000),
        )
    ),
    Row(
        Setting(
            "pulsar.receiver.queue.size",
            Kind.INT,
            1000,
            "How many records of a partition one member may hold that it has not acknowledged.",
            between(1, 1_000_000),
        )
    ),
    Row(
        Setting(
            "pulsar.queue.retention.ms",
            Kind.LONG,
            3_600_000,
            "How long deliveries of a queue topic can be read again once all up to them are settled.",
            at_least(0),
        )
    ),
    Row(
        Setting(
            "pulsar.queue.in.hand.per.key",
            Kind.INT,
            0,
            "Key_Shared: how many records of a key a lane of a queue topic may have open. 1: the next comes when "
            "the one before is settled, for clients that cannot seek and must not see a later one after a nack. 0: as "
            "many as there is room for.",
            between(0, 1),
        )
    ),
    Row(
        Setting(
            "pulsar.queue.headers",
            Kind.STRING,
            REDELIVERED,
            "Which deliveries of a queue topic bear pulsar-message-id, pulsar-redelivery-count and their origin: "
            "redelivered, those that come again and retry letters; all, which takes each batch apart; none.",
            one_of(REDELIVERED, ALL, NONE),
        )
    ),
    Row(
        Setting(
            "pulsar.leave.counts",
            Kind.BOOLEAN,
            True,
            "Whether a record that a leaving member still holds has one delivery more, as in Kafka. false: its count "
            "stays as it was, as in Pulsar; then a record that makes its consumer close comes back for ever.",
        )
    ),
    Row(
        Setting(
            "pulsar.dead.letter.enable",
            Kind.BOOLEAN,
            True,
            "Whether dead records (rejected, delivered too often, unreadable) go to the dead letter topic. false: they "
            "are dropped and counted, as in Kafka.",
        )
    ),
    Row(
        Setting(
            "pulsar.dead.letter.topic",
            Kind.STRING,
            None,
            "The topic for dead letters; it is made when missing.",
            _topic,
        ),
        open="`errors.deadletterqueue.topic.name`, else `<topic>-<group>-DLQ`",
    ),
    Row(
        Setting(
            INITIAL_SUBSCRIPTION,
            Kind.STRING,
            None,
            "A group that gets a subscription on the dead letter topic when that is made, so that it misses nothing.",
            _some,
        ),
        open="none",
    ),
    Row(
        Setting(
            "errors.deadletterqueue.topic.name",
            Kind.STRING,
            None,
            "Kafka's name for pulsar.dead.letter.topic (KIP-1191); that one wins.",
            _topic,
        ),
        open="none",
    ),
    Row(
        Setting(
            "pulsar.retry.letter.topic",
            Kind.STRING,
            None,
            "The topic whose records are delivered again after their DELAY_TIME. Where another name "
            "would change the type of a subscription, only while that has no members.",
            _topic,
        ),
        open="`<topic>-<group>-RETRY`",
    ),
    Row(
        Setting(
            "pulsar.delayed.delivery.strict",
            Kind.BOOLEAN,
            True,
            "Never deliver a delayed record early. false: it may be early by a tick, as in Pulsar.",
        )
    ),
    Row(
        Setting(
            "pulsar.delayed.delivery.max.delay.ms",
            Kind.LONG,
            10 * 86_400_000,
            "The longest delay, in ms from the record's timestamp; records due later than that are due then.",
            at_least(0),
        )
    ),
]

GROUP_CONFIGS: dict[str, Row] = {row.setting.name: row for row in _ROWS}
"""Every group config by name."""
