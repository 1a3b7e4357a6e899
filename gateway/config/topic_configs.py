"""Topic configs: Kafka 4.3's table with the broker settings they fall back to, and what each does here.

A config without effect here is checked, kept and shown as Kafka would, since tools write and read them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from gateway.config.group_table import GROUP_CONFIGS
from gateway.config.policy_settings import CONFIGS, UNITS
from gateway.config.schema import (
    LONG_MAX,
    Check,
    Described,
    Kind,
    Setting,
    Source,
    Synonym,
    Value,
    at_least,
    between,
    complaint,
    described,
    nearest,
    quoted,
)
from gateway.config.settings import Settings
from gateway.config.table import SETTINGS
from semantics.backlog_quota import Action, Quota
from semantics.policies import (
    QUOTA_BYTES,
    QUOTA_BYTES_ACTION,
    QUOTA_MS,
    QUOTA_MS_ACTION,
    RETENTION_BYTES,
    RETENTION_MS,
    TABLE,
    Found,
    Level,
    Policy,
    resolve,
)


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

_ROWS = [
    _own(
        "cleanup.policy",
        "What happens to old records: delete, by age and size; compact, the last of each key stays; nothing, "
        "all stay. Until compaction comes, compact alone keeps everything.",
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
    _kept(
        "delete.retention.ms",
        Kind.LONG,
        _DAY_MS,
        "How long tombstones stay after compaction, in milliseconds.",
        at_least(0),
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
    _kept(
        "max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "The longest a record waits for compaction, in milliseconds.",
        at_least(1),
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
    _kept(
        "min.cleanable.dirty.ratio",
        Kind.DOUBLE,
        0.5,
        "The part of a log that must be new before it is compacted.",
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    _kept(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        "The shortest a record stays before it may be compacted away, in milliseconds.",
        at_least(0),
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

CODECS: dict[str, int | None] = {
    "producer": None,
    "uncompressed": 0,
    "gzip": 1,
    "snappy": 2,
    "lz4": 3,
    "zstd": 4,
}
"""compression.type to the codec in a batch's attributes; None leaves batches as they come."""


class TopicConfig(NamedTuple):
    """What a topic's configs come to, ready for the paths that need it. Times in ms, sizes in bytes."""

    # "os" or "fsync"
    durability: str
    # -1 is for ever; it counts only when `delete`
    retention_ms: int
    # somebody has set Kafka's limit, for the topic or the broker: open records of subscriptions go too
    retention_ms_set: bool
    # per partition, -1 is no limit; it counts only when `delete`
    retention_bytes: int
    # Kafka's limit, which goes for open records too
    retention_bytes_evict: bool
    segment_bytes: int
    segment_ms: int
    max_message_bytes: int
    log_append_time: bool
    # None when any past is fine, so that nobody needs to look
    timestamp_before_max_ms: int | None
    timestamp_after_max_ms: int
    # a codec number, or None for batches as they come
    compression: int | None
    # None leaves it to the codec's library
    compression_level: int | None
    # cleanup.policy has it: keyless records are refused
    compact: bool
    # cleanup.policy has it: retention applies
    delete: bool
    min_insync_replicas: int
    # readers are led past damaged batches
    skip_corrupt: bool
    quota: Quota


def validate(name: str, value: str | None) -> str | None:
    """What is wrong with one config, in a sentence, or None."""
    row = TOPIC_CONFIGS.get(name)
    if row is None and name in GROUP_CONFIGS:
        return (
            f'There is no topic config "{name}": it is one of groups (kafka-configs --entity-type groups), and of '
            "queue topics when they are made, if the topic before -<subscription>-QUEUE is there. Of a subscription "
            "that is there it is changed with: magnetar-admin topics update-subscription-properties."
        )
    if row is None:
        near = nearest(name, list(TOPIC_CONFIGS))
        hint = f' Did you mean "{near}"?' if near else ""
        return f'There is no topic config "{name}".{hint}'
    if value is None:
        return f"{name} has no value."
    try:
        row.setting.parse(value)
    except ValueError as error:
        return f"{name} {complaint(error, quoted(value))}."
    return None


def is_list(name: str) -> bool:
    """Whether values of this config (of a topic or broker) can be appended to and subtracted from (KIP-339)."""
    setting = _setting(name)
    return setting is not None and setting.kind is Kind.LIST


def default_text(name: str) -> str | None:
    """The default of a config (of a topic or broker): APPEND and SUBTRACT begin with it when it is not set."""
    setting = _setting(name)
    return None if setting is None else setting.render(setting.default)


def _setting(name: str) -> Setting | None:
    row = TOPIC_CONFIGS.get(name)
    return row.setting if row is not None else SETTINGS.get(name)


def policy_in_force(
    policy: Policy, configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]
) -> Found[Value] | None:
    """What a policy comes to for a topic with these configs, in a namespace with these policies; None where nothing but
    Kafka's broker settings is left. In the units of the topic config.
    """

    def broker(name: str) -> Value:
        value = settings.value(name)
        # -1 and 0 are no numbers of anything
        return value * UNITS[name] if type(value) is int and value > 0 else value

    return resolve(policy, partial(_parsed, configs), partial(_parsed, namespace), broker)


def number_in_force(
    policy: Policy, configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]
) -> int:
    """The same of one that is a number and has a default."""
    found = policy_in_force(policy, configs, settings, namespace)
    assert found is not None
    assert isinstance(found.value, int)
    return found.value


def _parsed(said: Mapping[str, str], name: str) -> Value:
    """One that is stored, and no longer parses, counts as not set."""
    text = said.get(name)
    if text is not None:
        try:
            return (CONFIGS.get(name) or TOPIC_CONFIGS[name].setting).parse(text)
        except ValueError:
            pass
    return None


_NONE: Mapping[str, str] = {}


def effective(
    configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str] = _NONE
) -> TopicConfig:
    """The topic's own configs over its namespace's policies and the broker's settings."""

    def own(name: str) -> Value:
        return _parsed(configs, name)

    def get(name: str) -> Value:
        value = own(name)
        return _fallback(TOPIC_CONFIGS[name], settings) if value is None else value

    def integer(name: str) -> int:
        value = get(name)
        assert isinstance(value, int)
        return value

    def text(name: str) -> str:
        value = get(name)
        assert isinstance(value, str)
        return value

    policy = get("cleanup.policy")
    assert isinstance(policy, tuple)
    ms = policy_in_force(RETENTION_MS, configs, settings, namespace)
    size = policy_in_force(RETENTION_BYTES, configs, settings, namespace)
    kept_ms = integer("retention.ms") if ms is None else ms.value
    kept_bytes = integer("retention.bytes") if size is None else size.value
    assert isinstance(kept_ms, int)
    assert isinstance(kept_bytes, int)
    before = integer("message.timestamp.before.max.ms")
    small = get("internal.segment.bytes")
    compression = text("compression.type")
    level = integer(f"compression.{compression}.level") if compression in ("gzip", "lz4", "zstd") else None
    return TopicConfig(
        durability=text("durability"),
        retention_ms=kept_ms,
        retention_ms_set=settings.retention_ms_set if ms is None else ms.name == RETENTION_MS.kafka,
        # Kafka takes any negative number for "no limit"
        retention_bytes=max(kept_bytes, -1),
        retention_bytes_evict=size is None or size.name == RETENTION_BYTES.kafka,
        segment_bytes=small if isinstance(small, int) else integer("segment.bytes"),
        segment_ms=integer("segment.ms"),
        max_message_bytes=integer("max.message.bytes"),
        log_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=None if before == LONG_MAX else before,
        timestamp_after_max_ms=integer("message.timestamp.after.max.ms"),
        compression=CODECS[compression],
        compression_level=None if compression == "gzip" and level == -1 else level,
        compact="compact" in policy,
        delete="delete" in policy,
        min_insync_replicas=integer("min.insync.replicas"),
        skip_corrupt=text("corrupt.message.policy") == "skip",
        quota=_quota(configs, settings, namespace),
    )


def _quota(configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]) -> Quota:
    size = number_in_force(QUOTA_BYTES, configs, settings, namespace)
    age = number_in_force(QUOTA_MS, configs, settings, namespace)
    if size < 0 and age < 0:
        # nearly all
        return _UNLIMITED
    actions = [
        policy_in_force(each, configs, settings, namespace) for each in (QUOTA_BYTES_ACTION, QUOTA_MS_ACTION)
    ]
    of_size, of_age = [Action(str(found.value)) for found in actions if found is not None]
    return Quota(size, of_size, age, of_age)


_UNLIMITED = Quota()


def describe(
    configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str] = _NONE
) -> Iterator[Described]:
    """All topic configs for DescribeConfigs, by name, with where each value comes from (KIP-226). What the topic's
    namespace says is told as what all topics have: Kafka knows no namespaces.
    """
    for name, row in TOPIC_CONFIGS.items():
        text, below = configs.get(name), namespace.get(name)
        if row.hidden and text is None and below is None:
            continue
        synonyms = _synonyms(row, settings)
        if below is not None:
            synonyms = (Synonym(name, below, Source.DYNAMIC_DEFAULT_BROKER), *synonyms)
        own = None if text is None else Synonym(name, text, Source.TOPIC)
        fallback = _fallback(row, settings) if below is None else row.setting.parse(below)
        yield described(row.setting, own, fallback, synonyms)


def _fallback(row: Row, settings: Settings) -> Value:
    if row.broker == "log.retention.ms":
        return settings.retention_ms
    if row.broker == "log.roll.ms":
        return settings.roll_ms
    return settings.value(row.broker) if row.effect and row.broker else row.setting.default


def _synonyms(row: Row, settings: Settings) -> tuple[Synonym, ...]:
    if row.broker is None:
        return ()
    if row.effect:
        return settings.synonyms(row.broker)
    return (Synonym(row.broker, row.setting.render(row.setting.default), Source.DEFAULT),)
