"""Topic configs: what is taken, what they come to, how they are shown. The table is `topic_table.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from gateway.config.group_table import GROUP_CONFIGS
from gateway.config.policy_settings import CONFIGS, UNITS
from gateway.config.schema import (
    LONG_MAX,
    Described,
    Kind,
    Setting,
    Source,
    Synonym,
    Value,
    complaint,
    described,
    nearest,
    quoted,
)
from gateway.config.settings import Settings
from gateway.config.table import SETTINGS
from gateway.config.topic_table import TOPIC_CONFIGS, Row
from semantics.backlog_quota import Action, Quota
from semantics.policies import (
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    DISPATCH_RATE,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCERS,
    POLICIES,
    PUBLISH_RATE,
    QUOTA_BYTES,
    QUOTA_BYTES_ACTION,
    QUOTA_MS,
    QUOTA_MS_ACTION,
    RETENTION_BYTES,
    RETENTION_MS,
    Found,
    OfRate,
    Policy,
    resolve,
)
from semantics.rates import Rate

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
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_dirty_ratio: float
    delete_retention_ms: int
    # of new bytes, from which on it is compacted in any case; 0 is none
    compaction_threshold: int
    # cleanup.policy has it: retention applies
    delete: bool
    min_insync_replicas: int
    # readers are led past damaged batches
    skip_corrupt: bool
    # consumer groups hold what they have not read
    groups_hold: bool
    # messages expire by when they were sent, due or not
    ttl_from_publish: bool
    quota: Quota
    # messages that were taken before are passed over
    deduplicate: bool
    # producers of a partition; 0 is no limit
    max_producers: int
    # of a partition
    publish_rate: Rate
    dispatch_rate: Rate
    # of a non-persistent partition in memory
    memory_bytes: int


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
    name, kafka = policy.name, policy.kafka
    if name not in configs and name not in namespace and (kafka is None or kafka not in configs):
        # nearly all of them
        return _of_broker(name, settings)
    return resolve(
        policy, partial(parsed, configs), partial(parsed, namespace), partial(_of_settings, settings)
    )


@lru_cache(maxsize=1024)
def _of_broker(policy: str, settings: Settings) -> Found[Value] | None:
    """What a policy comes to where neither a topic nor a namespace says anything."""
    return resolve(POLICIES[policy], _nothing, _nothing, partial(_of_settings, settings))


def _of_settings(settings: Settings, name: str) -> Value:
    value = settings.value(name)
    # -1 and 0 are no numbers of anything
    return value * UNITS[name] if type(value) is int and value > 0 else value


def _nothing(name: str) -> Value:
    return None


def number_in_force(
    policy: Policy, configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]
) -> int:
    """The same of one that is a number and has a default."""
    found = policy_in_force(policy, configs, settings, namespace)
    value = found.value if found is not None else policy.default
    assert isinstance(value, int)
    return value


def rate_in_force(
    policies: OfRate, configs: Mapping[str, str], settings: Settings, namespace: Mapping[str, str]
) -> Rate:
    """What the policies of a rate come to."""

    def number(policy: Policy | None) -> int:
        return number_in_force(policy, configs, settings, namespace) if policy is not None else 0

    messages, size = number(policies.messages), number(policies.bytes)
    if messages <= 0 and size <= 0:
        # nearly all
        return _NO_RATE
    return Rate(messages, size, 1000 * (number(policies.seconds) or 1), bool(number(policies.relative)))


_NO_RATE = Rate()


def parsed(said: Mapping[str, str], name: str) -> Value:
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
        return parsed(configs, name)

    below = _fallbacks(settings)

    def get(name: str) -> Value:
        value = own(name) if name in configs else None
        return below[name] if value is None else value

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
    own_size = own(MAX_MESSAGE_SIZE.name)
    assert own_size is None or isinstance(own_size, int)
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
        max_message_bytes=own_size or integer("max.message.bytes"),
        log_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=None if before == LONG_MAX else before,
        timestamp_after_max_ms=integer("message.timestamp.after.max.ms"),
        compression=CODECS[compression],
        compression_level=None if compression == "gzip" and level == -1 else level,
        compact="compact" in policy,
        min_compaction_lag_ms=integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=integer("max.compaction.lag.ms"),
        min_dirty_ratio=float(get("min.cleanable.dirty.ratio")),  # type: ignore[arg-type]
        delete_retention_ms=integer("delete.retention.ms"),
        compaction_threshold=number_in_force(COMPACTION_THRESHOLD, configs, settings, namespace),
        delete="delete" in policy,
        min_insync_replicas=integer("min.insync.replicas"),
        skip_corrupt=text("corrupt.message.policy") == "skip",
        groups_hold=get("pulsar.group.holds.backlog") is True,
        ttl_from_publish=text("pulsar.ttl.from") == "publish",
        quota=_quota(configs, settings, namespace),
        deduplicate=bool(number_in_force(DEDUPLICATION, configs, settings, namespace)),
        max_producers=number_in_force(MAX_PRODUCERS, configs, settings, namespace),
        publish_rate=rate_in_force(PUBLISH_RATE, configs, settings, namespace),
        dispatch_rate=rate_in_force(DISPATCH_RATE, configs, settings, namespace),
        memory_bytes=integer("pulsar.non.persistent.max.bytes"),
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
        text, below = (
            said.get(name) if parsed(said, name) is not None else None for said in (configs, namespace)
        )
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


@lru_cache(maxsize=8)
def _fallbacks(settings: Settings) -> dict[str, Value]:
    """What counts where neither a topic nor its namespace says anything, by config."""
    return {name: _fallback(row, settings) for name, row in TOPIC_CONFIGS.items()}


def _synonyms(row: Row, settings: Settings) -> tuple[Synonym, ...]:
    if row.broker is None:
        return ()
    if row.effect:
        return settings.synonyms(row.broker)
    return (Synonym(row.broker, row.setting.render(row.setting.default), Source.DEFAULT),)
