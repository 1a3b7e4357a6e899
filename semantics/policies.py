"""Pulsar's policies: what is said of topics at one of three levels, and which level wins.

A policy is one row of TABLE. For a topic it is said as a topic config, by that name or by Kafka's config of the same
thing; for a namespace in the namespace's row, by that name; for all by a setting of the broker. The nearest wins: a
topic's own by Pulsar's name, its own by Kafka's name, its namespace's, the broker's. Each value by itself: one limit of
a topic does not hide the other of its namespace.

How Pulsar's tools say a policy, some of them two or three at a time, is `policy_forms.py`'s.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from semantics.backlog_quota import ACTIONS, Action

V = TypeVar("V")


class Level(enum.StrEnum):
    """Where a value was found."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Kind(enum.Enum):
    """What values are."""

    NUMBER = "a whole number"
    FLAG = "true or false"
    NAMES = "a list of names"
    NAME = "one of some names"


BOTH = frozenset([Level.TOPIC, Level.NAMESPACE])
NAMESPACES = frozenset([Level.NAMESPACE])
TOPICS = frozenset([Level.TOPIC])

MOST_INT = 2**31 - 1
"""Pulsar's numbers have 32 bits."""
MOST_LONG = 2**63 - 1


TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
"""Pulsar's types of subscriptions, as it writes them."""
SHARING_TYPES = {"shared": "Shared", "key_shared": "Key_Shared"}
"""Those that many consumers read at a time, by `SubscriptionConfig.type`."""
TYPE_NAMES = {**SHARING_TYPES, "exclusive": "Exclusive", "failover": "Failover"}
"""All of them, by the same."""

MOST_PARTITIONS = 10_000
"""Of one topic: a typo in a count should not fill the catalog."""


class Policy(NamedTuple):
    """One value, and where it can be said."""

    name: str
    """of the topic config, and of the namespace's"""
    doc: str
    """what it does, for people"""
    kafka: str | None = None
    """Kafka's topic config of the same thing, which may say more by it"""
    setting: str | None = None
    """the broker's, as Pulsar's broker.conf calls it"""
    kind: Kind = Kind.NUMBER
    least: int = 0
    most: int = MOST_INT
    levels: frozenset[Level] = BOTH
    """beside the broker's"""
    choices: tuple[str, ...] = ()
    """of names"""
    default: int | bool | str | tuple[str, ...] | None = 0
    """of the broker's setting; None: it is open"""
    unit: int = 1
    """what one of the broker's setting is"""
    units: tuple[str, str] = ("", "")
    """what is counted, of the topic config and of the broker's setting: stands in `doc` where the braces are"""


RETENTION_MS = Policy(
    "pulsar.retention.ms",
    "Pulsar's retention: how long what is acknowledged stays, in {}; -1 is for ever. Goes before retention.ms. What is "
    "not acknowledged stays in any case.",
    kafka="retention.ms",
    setting="defaultRetentionTimeInMinutes",
    least=-1,
    most=MOST_LONG,
    default=None,
    unit=60_000,
    units=("milliseconds", "minutes"),
)
RETENTION_BYTES = Policy(
    "pulsar.retention.bytes",
    "Pulsar's retention: how many {} a partition keeps of what is acknowledged; -1 is no limit. Goes before "
    "retention.bytes. What is not acknowledged stays in any case.",
    kafka="retention.bytes",
    setting="defaultRetentionSizeInMB",
    least=-1,
    most=MOST_LONG,
    default=None,
    unit=1024 * 1024,
    units=("bytes", "megabytes"),
)
MESSAGE_TTL = Policy(
    "pulsar.message.ttl.ms",
    "How long messages wait for their acknowledgement, in {}; then they count as acknowledged. 0 is for ever. Goes "
    "before retention.ms, which is a time to live as well where it was set.",
    kafka="retention.ms",
    setting="ttlDurationDefaultInSeconds",
    most=MOST_LONG,
    unit=1000,
    units=("milliseconds", "seconds"),
)
MAX_TOPICS = Policy(
    "pulsar.max.topics",
    "How many topics a namespace may have, each partition counted as one; 0 is no limit. What there is already stays.",
    setting="maxTopicsPerNamespace",
    levels=NAMESPACES,
)
MAX_SUBSCRIPTIONS = Policy(
    "pulsar.max.subscriptions",
    "How many Shared and Key_Shared subscriptions a topic may have; 0 is no limit. Those there are already stay. "
    "Failover subscriptions are consumer groups here, and do not count.",
    setting="maxSubscriptionsPerTopic",
)

MAX_CONSUMERS_PER_SUBSCRIPTION = Policy(
    "pulsar.max.consumers.per.subscription",
    "How many consumers a Shared or Key_Shared subscription may have; 0 is no limit. Those there are already stay.",
    setting="maxConsumersPerSubscription",
)
MAX_CONSUMERS = Policy(
    "pulsar.max.consumers",
    "How many consumers all Shared and Key_Shared subscriptions of a topic may have together; 0 is no limit. Those "
    "there are already stay.",
    setting="maxConsumersPerTopic",
)
SUBSCRIPTION_TYPES = Policy(
    "pulsar.subscription.types.enabled",
    "Which types of subscriptions may be made on a topic. Those there are already stay, and go on. Failover "
    "subscriptions are consumer groups here, and are never refused.",
    setting="subscriptionTypesEnabled",
    kind=Kind.NAMES,
    choices=TYPES,
    default=TYPES,
)

AUTO_TOPICS = Policy(
    "pulsar.auto.topic.creation",
    "Whether a topic that a client asks for is made. Not set: auto.create.topics.enable says it.",
    setting="allowAutoTopicCreation",
    kind=Kind.FLAG,
    levels=NAMESPACES,
    default=None,
)
AUTO_TOPIC_TYPE = Policy(
    "pulsar.auto.topic.creation.type",
    "What such a topic is: partitioned, or plain with one partition (non-partitioned). Not set: plain, unless it gets "
    "several.",
    setting="allowAutoTopicCreationType",
    kind=Kind.NAME,
    choices=("partitioned", "non-partitioned"),
    levels=NAMESPACES,
    default=None,
)
AUTO_TOPIC_PARTITIONS = Policy(
    "pulsar.auto.topic.creation.partitions",
    "How many partitions such a topic gets. Not set: num.partitions says it.",
    setting="defaultNumPartitions",
    least=1,
    most=MOST_PARTITIONS,
    levels=NAMESPACES,
    default=None,
)
AUTO_SUBSCRIPTIONS = Policy(
    "pulsar.auto.subscription.creation",
    "Whether a share group that comes to a topic gets a subscription there. Otherwise somebody has to make it before.",
    setting="allowAutoSubscriptionCreation",
    kind=Kind.FLAG,
    default=True,
)

DELAYED = Policy(
    "pulsar.delayed.delivery.enabled",
    "Whether messages can be delayed by who sends them. Otherwise they are delivered at once, whatever their headers "
    "say; retry letters wait in any case.",
    setting="delayedDeliveryEnabled",
    kind=Kind.FLAG,
    default=True,
)
DELAYED_TICK_MS = Policy(
    "pulsar.delayed.delivery.tick.ms",
    "How much too early a delayed message may come, in {}, for groups that take that: those with "
    "pulsar.delayed.delivery.strict=false.",
    setting="delayedDeliveryTickTimeMillis",
    default=1000,
    units=("milliseconds", "milliseconds"),
)
DELAYED_MAX_MS = Policy(
    "pulsar.delayed.delivery.longest.ms",
    "The longest delay that who sends a message may give it, in {}; longer ones are cut. 0 is what its group says "
    "(pulsar.delayed.delivery.max.delay.ms), which is never exceeded.",
    setting="delayedDeliveryMaxDelayInMillis",
    most=MOST_LONG,
    units=("milliseconds", "milliseconds"),
)
_THEIRS = "What its group says is not exceeded either. Those in hand already stay there."
UNACKED_PER_CONSUMER = Policy(
    "pulsar.max.unacked.messages.per.consumer",
    "How many messages of a partition one consumer of a Shared or Key_Shared subscription may have in hand that it has "
    f"not acknowledged; 0 is what its group says (pulsar.receiver.queue.size). {_THEIRS}",
    setting="maxUnackedMessagesPerConsumer",
)
UNACKED_PER_SUBSCRIPTION = Policy(
    "pulsar.max.unacked.messages.per.subscription",
    "How many messages of a partition all consumers of a Shared or Key_Shared subscription may have in hand together; "
    f"0 is what its group says (share.partition.max.record.locks). {_THEIRS}",
    setting="maxUnackedMessagesPerSubscription",
)

MAX_PRODUCERS = Policy(
    "pulsar.max.producers",
    "How many producers a partition may have at a time; 0 is no limit. A producer is a connection that has published "
    "there. Those there are already stay.",
    setting="maxProducersPerTopic",
)


MAX_MESSAGE_SIZE = Policy(
    "pulsar.max.message.size",
    "The largest record batch that is taken, in bytes, compressed. Goes before max.message.bytes; 0 leaves it to that.",
    kafka="max.message.bytes",
    levels=TOPICS,
)
SUBSCRIPTION_EXPIRATION = Policy(
    "pulsar.subscription.expiration.ms",
    "After how many {} without consumers a Shared or Key_Shared subscription is deleted; 0 is never.",
    setting="subscriptionExpirationTimeMinutes",
    levels=NAMESPACES,
    most=MOST_LONG,
    unit=60_000,
    units=("milliseconds", "minutes"),
)
INACTIVE_DELETE = Policy(
    "pulsar.inactive.topics.delete",
    "Whether a topic is deleted that nobody uses: no producers, no consumers, nothing that retention keeps, and no "
    "subscriptions.",
    setting="brokerDeleteInactiveTopicsEnabled",
    kind=Kind.FLAG,
    default=False,
)
INACTIVE_MODE = Policy(
    "pulsar.inactive.topics.mode",
    "What subscriptions of such a topic there may be: none (delete_when_no_subscriptions), or those without a backlog "
    "(delete_when_subscriptions_caught_up).",
    setting="brokerDeleteInactiveTopicsMode",
    kind=Kind.NAME,
    choices=("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
    default="delete_when_no_subscriptions",
)
INACTIVE_MS = Policy(
    "pulsar.inactive.topics.ms",
    "For how many {} nobody has used it then.",
    setting="brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
    least=1,
    most=MOST_LONG,
    default=60,
    unit=1000,
    units=("milliseconds", "seconds"),
)
DEDUPLICATION = Policy(
    "pulsar.deduplication",
    "Whether a message is stored once, however often it is sent: one that says which it is (header pulsar-sequence-id, "
    "a number that ascends) is left out when it is not above the highest of its producer (pulsar-producer-name, else "
    "the client id), and lies in no gap between two batches.",
    setting="brokerDeduplicationEnabled",
    kind=Kind.FLAG,
    default=False,
)
COMPACTION_THRESHOLD = Policy(
    "pulsar.compaction.threshold",
    "From how many {} of new messages on a partition with cleanup.policy=compact is compacted, whatever part of it "
    "they are. 0: min.cleanable.dirty.ratio says it.",
    setting="brokerServiceCompactionThresholdInBytes",
    most=MOST_LONG,
    units=("bytes", "bytes"),
)


class OfRate(NamedTuple):
    """The policies that make a rate: each may be said by itself."""

    messages: Policy
    bytes: Policy
    seconds: Policy | None = None
    relative: Policy | None = None


_PUBLISHED = (
    "How many {} may be published to a partition in a second; -1 and 0 are no limit. Who publishes faster is told to "
    "wait (KIP-219), and is not read meanwhile."
)
PUBLISH_RATE = OfRate(
    Policy(
        "pulsar.publish.rate.messages",
        _PUBLISHED,
        setting="maxPublishRatePerTopicInMessages",
        least=-1,
        units=("messages", "messages"),
    ),
    Policy(
        "pulsar.publish.rate.bytes",
        _PUBLISHED,
        setting="maxPublishRatePerTopicInBytes",
        least=-1,
        most=MOST_LONG,
        units=("bytes", "bytes"),
    ),
)


def _dispatched(name: str, setting: str, whom: str) -> OfRate:
    doc = f"How many {{}} {whom} may be given in the rate's time; -1 and 0 are no limit. The rest waits."
    return OfRate(
        Policy(
            f"pulsar.{name}.messages",
            doc,
            setting=f"{setting}InMsg",
            least=-1,
            units=("messages", "messages"),
        ),
        Policy(
            f"pulsar.{name}.bytes",
            doc,
            setting=f"{setting}InByte",
            least=-1,
            most=MOST_LONG,
            units=("bytes", "bytes"),
        ),
        Policy(f"pulsar.{name}.seconds", "The time that this rate is counted for.", least=1, default=1),
        Policy(
            f"pulsar.{name}.relative",
            "Whether as much as is published may go besides.",
            setting="dispatchThrottlingRateRelativeToPublishRate",
            kind=Kind.FLAG,
            default=False,
        ),
    )


DISPATCH_RATE = _dispatched(
    "dispatch.rate", "dispatchThrottlingRatePerTopic", "all consumers of a partition together"
)
SUBSCRIPTION_DISPATCH_RATE = _dispatched(
    "subscription.dispatch.rate",
    "dispatchThrottlingRatePerSubscription",
    "the consumers of one Shared or Key_Shared subscription of a partition",
)


_USED_UP = (
    "What happens when the backlog quota is used up: who publishes waits and is told to try again "
    "(producer_request_hold), is refused (producer_exception), or the oldest messages count as acknowledged "
    "(consumer_backlog_eviction)."
)
QUOTA_BYTES = Policy(
    "pulsar.backlog.quota.bytes",
    "How many bytes of a partition its slowest subscription may leave unacknowledged; -1 is no limit.",
    setting="backlogQuotaDefaultLimitBytes",
    least=-1,
    most=MOST_LONG,
    default=-1,
)
QUOTA_BYTES_ACTION = Policy(
    "pulsar.backlog.quota.bytes.policy",
    _USED_UP,
    setting="backlogQuotaDefaultRetentionPolicy",
    kind=Kind.NAME,
    choices=ACTIONS,
    default=str(Action.HOLD),
)
QUOTA_MS = Policy(
    "pulsar.backlog.quota.ms",
    "How old the oldest message may become that a partition's slowest subscription has not acknowledged, in {}; -1 is "
    "no limit.",
    setting="backlogQuotaDefaultLimitSecond",
    least=-1,
    most=MOST_LONG,
    default=-1,
    unit=1000,
    units=("milliseconds", "seconds"),
)
QUOTA_MS_ACTION = Policy(
    "pulsar.backlog.quota.ms.policy",
    _USED_UP,
    setting="backlogQuotaDefaultRetentionPolicy",
    kind=Kind.NAME,
    choices=ACTIONS,
    default=str(Action.HOLD),
)

TABLE = (
    RETENTION_MS,
    RETENTION_BYTES,
    MESSAGE_TTL,
    QUOTA_BYTES,
    QUOTA_BYTES_ACTION,
    QUOTA_MS,
    QUOTA_MS_ACTION,
    MAX_TOPICS,
    MAX_SUBSCRIPTIONS,
    MAX_CONSUMERS,
    MAX_CONSUMERS_PER_SUBSCRIPTION,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    DEDUPLICATION,
    COMPACTION_THRESHOLD,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCERS,
    *[each for each in PUBLISH_RATE if each is not None],
    *[each for each in DISPATCH_RATE if each is not None],
    *[each for each in SUBSCRIPTION_DISPATCH_RATE if each is not None],
    DELAYED,
    DELAYED_TICK_MS,
    DELAYED_MAX_MS,
    SUBSCRIPTION_TYPES,
    AUTO_TOPICS,
    AUTO_TOPIC_TYPE,
    AUTO_TOPIC_PARTITIONS,
    AUTO_SUBSCRIPTIONS,
    SUBSCRIPTION_EXPIRATION,
    INACTIVE_DELETE,
    INACTIVE_MODE,
    INACTIVE_MS,
)
"""All of them."""

POLICIES = {policy.name: policy for policy in TABLE}
"""The same by name: what a namespace's row may say."""


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
