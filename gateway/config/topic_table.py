"""The table of topic configs: Kafka 4.3's with the broker settings they fall back to, Pulsar's policies among them.

A config without effect here is checked, kept and shown as Kafka would, since tools write and read them back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gateway.config.policy_settings import CONFIGS
from gateway.config.schema import LONG_MAX, Check, Kind, Setting, Value, at_least, one_of
from gateway.config.table import SETTINGS
from semantics.names import DOMAINS
from semantics.policies import TABLE, Level, Policy


class Row(NamedTuple):
    """One topic config: its schema, its name as a broker setting, and whether it does anything here."""

    setting: Setting
    # Kafka's name for the default on the broker's side; it is in SETTINGS when it has an effect
    broker: str | None = None
    effect: bool = False
    # taken, but not listed: Kafka calls these internal
    hidden: bool = False


def _own(name: str, doc: str, broker: str | None = None) -> Row:
    """A config with an effect: type, check and default are those of the broker setting it falls back to."""
    setting = SETTINGS[broker or name]
    return Row(Setting(name, setting.kind, setting.default, doc, setting.check), setting.name, effect=True)


def _policy(policy: Policy) -> Row:
    """A policy of Pulsar's that a namespace may say as well. It is listed where somebody has said it."""
    return Row(CONFIGS[policy.name], effect=True, hidden=True)


_NOTHING = " Kept and shown; without effect here."


def _kept(
    name: str, kind: Kind, default: Value, doc: str, check: Check | None = None, broker: str | None = None
) -> Row:
    return Row(Setting(name, kind, default, doc + _NOTHING, check), broker)


_THROTTLED = re.compile(r"\*|\d+:\d+")


def _throttled(value: Value) -> str | None:
    assert isinstance(value, tuple)
    good = all(_THROTTLED.fullmatch(each) for each in value) and ("*" not in value or len(value) == 1)
    return None if good else "must be * or a list of partition:node"


def _no_tiers(value: Value) -> str | None:
    return "must be false: there is no tiered storage here" if value else None


_DAY_MS = 86_400_000

PERSISTENCE = "pulsar.persistence"
"""What Pulsar's name of a topic begins with; here a config, since Kafka's names have no such part."""

_ROWS = [
    _own(
        "cleanup.policy",
        "What happens to old records: delete, by age and size; compact, the last of each key stays; nothing, "
        "all stay.",
        "log.cleanup.policy",
    ),
    _own("compression.gzip.level", "Level for compression.type gzip, 1 to 9; -1 leaves it to the library."),
    _own("compression.lz4.level", "Level for compression.type lz4, 1 to 17."),
    _own("compression.type", "How batches are stored: producer, as they come, or compressed again."),
    _own("compression.zstd.level", "Level for compression.type zstd, up to 22; negative ones are faster."),
    _own(
        "corrupt.message.policy",
        "What readers of damaged batches get: error, CORRUPT_MESSAGE; skip, what comes behind them.",
    ),
    _own(
        "delete.retention.ms",
        "How long tombstones stay after compaction, in milliseconds.",
        "log.cleaner.delete.retention.ms",
    ),
    _own(
        "durability",
        "What an acknowledgement survives: os, the death of the process; fsync, a power cut as well.",
    ),
    _kept(
        "file.delete.delay.ms",
        Kind.LONG,
        60_000,
        "How long files stay after they were deleted, in milliseconds.",
        at_least(0),
        "log.segment.delete.delay.ms",
    ),
    _kept(
        "flush.messages",
        Kind.LONG,
        LONG_MAX,
        "Records after which Kafka forces them to disk; use durability.",
        at_least(1),
        "log.flush.interval.messages",
    ),
    _kept(
        "flush.ms",
        Kind.LONG,
        LONG_MAX,
        "Milliseconds after which Kafka forces records to disk; use durability.",
        at_least(0),
        "log.flush.interval.ms",
    ),
    _kept(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas whose copying is slowed down on the followers' side.",
        _throttled,
    ),
    _kept(
        "index.interval.bytes",
        Kind.INT,
        4096,
        "Bytes of log between two entries of the index.",
        at_least(0),
        "log.index.interval.bytes",
    ),
    _kept(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas whose copying is slowed down on the leader's side.",
        _throttled,
    ),
    _kept(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        "Bytes kept on local disks beside tiered storage.",
        at_least(-2),
        "log.local.retention.bytes",
    ),
    _kept(
        "local.retention.ms",
        Kind.LONG,
        -2,
        "Milliseconds kept on local disks beside tiered storage.",
        at_least(-2),
        "log.local.retention.ms",
    ),
    _own(
        "max.compaction.lag.ms",
        "The longest a record waits for compaction, in milliseconds; then subscriptions hold nothing back.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _own(
        "max.message.bytes",
        "The largest record batch that is taken, in bytes, compressed.",
        "message.max.bytes",
    ),
    _own(
        "message.timestamp.after.max.ms",
        "How far a producer's timestamp may lie in the future, in milliseconds.",
        "log.message.timestamp.after.max.ms",
    ),
    _own(
        "message.timestamp.before.max.ms",
        "How far a producer's timestamp may lie in the past, in milliseconds.",
        "log.message.timestamp.before.max.ms",
    ),
    _own(
        "message.timestamp.type",
        "Whose clock stamps a record: the producer's (CreateTime) or the gateway's (LogAppendTime).",
        "log.message.timestamp.type",
    ),
    _own(
        "min.cleanable.dirty.ratio",
        "The part of a log that must be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _own(
        "min.compaction.lag.ms",
        "The shortest a record stays before it may be compacted away, in milliseconds.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _own("min.insync.replicas", "Copies that must have a record before acks=all is answered."),
    _kept(
        "preallocate",
        Kind.BOOLEAN,
        False,
        "Whether segment files are made in full size at once.",
        broker="log.preallocate",
    ),
    _own(
        "pulsar.group.holds.backlog",
        "Whether retention keeps what a consumer group has not read, from its committed offset on.",
    ),
    _own(
        "pulsar.ttl.from",
        "What the age counts from by which messages expire: available, sent or due, the later; publish, sent.",
    ),
    Row(
        Setting(
            PERSISTENCE,
            Kind.STRING,
            DOMAINS[0],
            "Where the topic's messages are: persistent, on disk; non-persistent, in memory only, for so long as "
            "non.persistent.max.ms and the bounds of memory allow. Said when the topic is made.",
            one_of(*DOMAINS),
        ),
        effect=True,
        hidden=True,
    ),
    _own(
        "pulsar.non.persistent.max.bytes",
        "Bytes of a non-persistent topic's partition in memory. The oldest messages go first.",
        "non.persistent.partition.max.bytes",
    )._replace(hidden=True),
    _kept("remote.log.copy.disable", Kind.BOOLEAN, False, "Stops copying to tiered storage."),
    _kept(
        "remote.log.delete.on.disable", Kind.BOOLEAN, False, "Deletes tiered data when that is switched off."
    ),
    _kept("remote.storage.enable", Kind.BOOLEAN, False, "Tiered storage.", _no_tiers),
    *(_policy(policy) for policy in TABLE if Level.TOPIC in policy.levels),
    _own("retention.bytes", "How many bytes a partition keeps; -1 is no limit.", "log.retention.bytes"),
    _own("retention.ms", "How long records are kept, in milliseconds; -1 is for ever.", "log.retention.ms"),
    _own(
        "segment.bytes",
        "Size of a segment file, in bytes. Old records go a whole segment at a time.",
        "log.segment.bytes",
    ),
    _kept(
        "segment.index.bytes",
        Kind.INT,
        10_485_760,
        "Size of a segment's index file, in bytes.",
        at_least(4),
        "log.index.size.max.bytes",
    ),
    _kept(
        "segment.jitter.ms",
        Kind.LONG,
        0,
        "Milliseconds by which the rolling of segments is spread at random.",
        at_least(0),
        "log.roll.jitter.ms",
    ),
    _own("segment.ms", "Age at which a new segment is begun, in milliseconds.", "log.roll.ms"),
    _kept(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "Whether a replica that lags behind may become leader.",
        broker="unclean.leader.election.enable",
    ),
    Row(
        Setting(
            "internal.segment.bytes",
            Kind.INT,
            None,
            "Size of a segment file below what segment.bytes allows, for tests.",
            at_least(1),
        ),
        effect=True,
        hidden=True,
    ),
]

TOPIC_CONFIGS: dict[str, Row] = {row.setting.name: row for row in _ROWS}
"""Every topic config by name."""
