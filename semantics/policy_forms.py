"""How Pulsar's tools say policies: paths and bodies of the admin API, keys in Policies, verbs and flags of commands.

One form is one policy, or some that are said together. `gateway/admin/policies.py` serves the calls and
`gateway/cli/admin_policies.py` has the verbs, both from FORMS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semantics.policies import (
    AUTO_SUBSCRIPTIONS,
    AUTO_TOPIC_PARTITIONS,
    AUTO_TOPIC_TYPE,
    AUTO_TOPICS,
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    DELAYED,
    DELAYED_MAX_MS,
    DELAYED_TICK_MS,
    INACTIVE_DELETE,
    INACTIVE_MODE,
    INACTIVE_MS,
    MAX_CONSUMERS,
    MAX_CONSUMERS_PER_SUBSCRIPTION,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCERS,
    MAX_SUBSCRIPTIONS,
    MAX_TOPICS,
    MESSAGE_TTL,
    QUOTA_BYTES,
    QUOTA_BYTES_ACTION,
    QUOTA_MS,
    QUOTA_MS_ACTION,
    RETENTION_BYTES,
    RETENTION_MS,
    SUBSCRIPTION_EXPIRATION,
    SUBSCRIPTION_TYPES,
    TYPES,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
)
from semantics.policy_form import Field, Form, Reads
from semantics.policy_rate_forms import DISPATCH, PUBLISH, SUBSCRIPTION_RATE


def _one_limit_is_none(values: Mapping[str, Any]) -> str | None:
    if len([1 for value in values.values() if value == 0]) == 1:
        return (
            "Retention by time and by size are both 0, which keeps nothing, or neither is: -1 for a limit that "
            "does not count."
        )
    return None


def _is_kept(values: Mapping[str, Any]) -> str:
    minutes, megabytes = values.values()
    if not minutes and not megabytes:
        return "Nothing is kept."
    limits = [
        "for ever" if minutes < 0 else f"for {minutes} min" if minutes else "not at all",
        "of any size" if megabytes < 0 else f"up to {megabytes} MB" if megabytes else "of no size",
    ]
    return f"It is kept {', '.join(limits)}."


def _plain_has_one(values: Mapping[str, Any]) -> str | None:
    if values.get("topicType") == "non-partitioned" and values.get("defaultNumPartitions"):
        return "A topic that is non-partitioned has no number of partitions: leave defaultNumPartitions out."
    return None


_NO_LIMIT = "0 is no limit."

RETENTION = Form(
    "retention",
    "retention",
    "retention_policies",
    (
        Field(
            RETENTION_MS,
            "retentionTimeInMinutes",
            ("-t", "--time"),
            "100 (seconds), 30m, 12h, 7d, 2w; -1 is for ever.",
            reads=Reads.TIME,
            unit=60_000,
            unit_name="minutes",
        ),
        Field(
            RETENTION_BYTES,
            "retentionSizeInMB",
            ("-s", "--size"),
            "64k, 16m, 10g, 1t; -1 is no limit.",
            reads=Reads.SIZE,
            unit=1024 * 1024,
            unit_name="megabytes",
        ),
    ),
    "Keep acknowledged messages of {} so long, and so many.",
    "What of acknowledged messages {} keeps",
    "--time 7d --size 10g",
    "Takes effect at once. What is not acknowledged stays in any case. Old messages go a whole segment at a time.",
    wrong=_one_limit_is_none,
    sentence=_is_kept,
)

TTL = Form(
    "message-ttl",
    "messageTTL",
    "message_ttl_in_seconds",
    (
        Field(
            MESSAGE_TTL,
            "",
            ("-ttl", "--messageTTL"),
            "100 (seconds), 30m, 12h, 7d, 2w; 0 is for ever.",
            ("-t", "--ttl"),
            reads=Reads.TIME,
            unit=1000,
            unit_name="seconds",
            none="for ever",
        ),
    ),
    "Let messages of {} that nobody has acknowledged for so long count as acknowledged.",
    "How long messages of {} wait for their acknowledgement, in seconds",
    "--messageTTL 12h",
    "Their age counts from when they were sent or are due. What a consumer has in hand goes when it comes back.",
    topic_example="--ttl 12h",
    topic_query="messageTTL",
)

FORMS = (
    RETENTION,
    TTL,
    Form(
        "max-topics-per-namespace",
        "maxTopicsPerNamespace",
        "max_topics_per_namespace",
        (Field(MAX_TOPICS, "", ("-t", "--max-topics-per-namespace"), _NO_LIMIT, none="without a limit"),),
        "Limit how many topics {} may have.",
        "How many topics {} may have",
        "--max-topics-per-namespace 100",
        "Each partition counts as one. What there is already stays.",
        unset=0,
    ),
    Form(
        "max-subscriptions-per-topic",
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        (
            Field(
                MAX_SUBSCRIPTIONS,
                "",
                ("-m", "--max-subscriptions-per-topic"),
                _NO_LIMIT,
                ("-s", "--max-subscriptions-per-topic"),
                none="without a limit",
            ),
        ),
        "Limit how many subscriptions {each} may have.",
        "How many subscriptions {each} may have",
        "--max-subscriptions-per-topic 10",
        "Those there are already stay. Failover subscriptions are consumer groups here, and do not count.",
    ),
    Form(
        "max-consumers-per-topic",
        "maxConsumersPerTopic",
        "max_consumers_per_topic",
        (
            Field(
                MAX_CONSUMERS,
                "",
                ("-c", "--max-consumers-per-topic"),
                _NO_LIMIT,
                ("-c", "--max-consumers"),
                none="without a limit",
            ),
        ),
        "Limit how many consumers the Shared and Key_Shared subscriptions of {each} may have together.",
        "How many consumers the subscriptions of {each} may have together",
        "--max-consumers-per-topic 50",
        "Consumers are members of share groups, and of the consumer groups that read queue topics. Those there are "
        "already stay.",
        topic_segment="maxConsumers",
        topic_verb="max-consumers",
        topic_example="--max-consumers 50",
    ),
    Form(
        "max-consumers-per-subscription",
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        (
            Field(
                MAX_CONSUMERS_PER_SUBSCRIPTION,
                "",
                ("-c", "--max-consumers-per-subscription"),
                _NO_LIMIT,
                none="without a limit",
            ),
        ),
        "Limit how many consumers each Shared or Key_Shared subscription of {each} may have.",
        "How many consumers each subscription of {each} may have",
        "--max-consumers-per-subscription 8",
        "Consumers are members of share groups, and of the consumer groups that read queue topics. Those there are "
        "already stay.",
    ),
    Form(
        "compaction-threshold",
        "compactionThreshold",
        "compaction_threshold",
        (
            Field(
                COMPACTION_THRESHOLD,
                "",
                ("-t", "--threshold"),
                "64k, 16m, 10g, 1t; 0 is none.",
                reads=Reads.SIZE,
                none="the new part of it alone",
            ),
        ),
        "Compact partitions of {each} from so many new bytes on.",
        "From how many new bytes on partitions of {each} are compacted",
        "--threshold 10m",
        "It counts where cleanup.policy has compact in it.",
        put=True,
    ),
    Form(
        "max-unacked-messages-per-consumer",
        "maxUnackedMessagesPerConsumer",
        "max_unacked_messages_per_consumer",
        (
            Field(
                UNACKED_PER_CONSUMER,
                "",
                ("-c", "--max-unacked-messages-per-topic"),
                "0 is what its group says.",
                ("-m", "--maxNum"),
                none="what its group says",
            ),
        ),
        "Limit how many messages one consumer of {each} may have in hand.",
        "How many messages one consumer of {each} may have in hand",
        "--max-unacked-messages-per-topic 100",
        "It is counted for each partition, and counts for Shared and Key_Shared subscriptions. Takes effect at once; "
        "what is in hand already stays there.",
        topic_segment="maxUnackedMessagesOnConsumer",
        topic_example="--maxNum 100",
    ),
    Form(
        "max-unacked-messages-per-subscription",
        "maxUnackedMessagesPerSubscription",
        "max_unacked_messages_per_subscription",
        (
            Field(
                UNACKED_PER_SUBSCRIPTION,
                "",
                ("-c", "--max-unacked-messages-per-subscription"),
                "0 is what its group says.",
                ("-m", "--maxNum"),
                none="what its group says",
            ),
        ),
        "Limit how many messages all consumers of a subscription of {each} may have in hand together.",
        "How many messages all consumers of a subscription of {each} may have in hand together",
        "--max-unacked-messages-per-subscription 1000",
        "It is counted for each partition, and counts for Shared and Key_Shared subscriptions. Takes effect at once; "
        "what is in hand already stays there.",
        topic_segment="maxUnackedMessagesOnSubscription",
        topic_example="--maxNum 1000",
    ),
    Form(
        "max-message-size",
        "maxMessageSize",
        "max_message_size",
        (
            Field(
                MAX_MESSAGE_SIZE, "", ("-m", "--max-message-size"), "Bytes; 0 leaves it to max.message.bytes.",
                none="what max.message.bytes says", unit_name="bytes",
            ),
        ),
        "Limit how large a batch of messages for {} may be.",
        "How large a batch of messages for {} may be, in bytes",
        "--max-message-size 100000",
        "Kafka's clients send messages in batches, and it is these that are limited.",
    ),
    Form(
        "deduplication",
        "deduplication",
        "deduplicationEnabled",
        (
            Field(
                DEDUPLICATION, "", ("--enable/--disable", "-e/-d"), "Store them once, or as they come.",
                reads=Reads.FLAG,
            ),
        ),
        "Say whether a message of {} that is sent again is stored once.",
        "Whether a message of {} that is sent again is stored once",
        "--enable",
        "Messages say which they are by the header pulsar-sequence-id, a number that ascends for each producer "
        "(pulsar-producer-name, else the client id). Idempotent producers need none of this for what they send again "
        "by themselves.",
        topic_segment="deduplicationEnabled",
    ),
    Form(
        "max-producers-per-topic",
        "maxProducersPerTopic",
        "max_producers_per_topic",
        (
            Field(
                MAX_PRODUCERS,
                "",
                ("-p", "--max-producers-per-topic"),
                _NO_LIMIT,
                ("-p", "--max-producers"),
                none="without a limit",
            ),
        ),
        "Limit how many producers {each} may have.",
        "How many producers {each} may have",
        "--max-producers-per-topic 20",
        "A producer is a connection that has published to a partition. Those there are already stay.",
        topic_segment="maxProducers",
        topic_verb="max-producers",
        topic_example="--max-producers 20",
    ),
    PUBLISH,
    DISPATCH,
    SUBSCRIPTION_RATE,
    Form(
        "delayed-delivery",
        "delayedDelivery",
        "delayed_delivery_policies",
        (
            Field(DELAYED, "active", ("--enable/--disable", "-e/-d"), "Delay them, or do not.", reads=Reads.FLAG),
            Field(
                DELAYED_TICK_MS, "tickTime", ("-t", "--time"),
                "How much too early they may come, for groups that take that: 1s, 10s.",
                reads=Reads.TIME, unit_name="ms", optional=True,
            ),
            Field(
                DELAYED_MAX_MS, "maxDeliveryDelayInMillis", ("-md", "--maxDelay"),
                "The longest delay: 30m, 12h, 7d; 0 is what groups say.",
                reads=Reads.TIME, unit_name="ms", none="as groups say", optional=True,
            ),
        ),
        "Say whether messages of {} can be delayed by who sends them, and for how long.",
        "Whether messages of {} can be delayed by who sends them, and for how long",
        "--enable --maxDelay 7d",
        "Counts for what subscriptions read from now on; what is delayed already stays so. A longer delay is cut, and "
        "not refused. Retry letters wait in any case.",
    ),
    Form(
        "subscription-types-enabled",
        "subscriptionTypesEnabled",
        "subscription_types_enabled",
        (
            Field(
                SUBSCRIPTION_TYPES,
                "",
                ("-t", "--types"),
                f"Some of {', '.join(TYPES)}, with commas between.",
                reads=Reads.NAMES,
            ),
        ),
        "Allow only subscriptions of these types on {each}.",
        "Which types of subscriptions are allowed on {each}",
        "--types Shared,Key_Shared",
        "Those there are already stay. Plain consumer groups, which Failover subscriptions are here, read a log "
        "and need nobody's leave.",
        unset=(),
    ),
    Form(
        "auto-topic-creation",
        "autoTopicCreation",
        "autoTopicCreationOverride",
        (
            Field(
                AUTO_TOPICS, "allowAutoTopicCreation", ("--enable/--disable", "-e/-d"), "Make them, or do not.",
                reads=Reads.FLAG,
            ),
            Field(
                AUTO_TOPIC_TYPE, "topicType", ("-t", "--type"), "partitioned or non-partitioned.",
                reads=Reads.NAME, optional=True,
            ),
            Field(
                AUTO_TOPIC_PARTITIONS, "defaultNumPartitions", ("-n", "--num-partitions"),
                "How many partitions they get.", optional=True,
            ),
        ),
        "Say whether topics of {} are made that clients ask for, and as what.",
        "Whether topics of {} are made that clients ask for",
        "--enable --type partitioned --num-partitions 4",
        wrong=_plain_has_one,
    ),
    Form(
        "auto-subscription-creation",
        "autoSubscriptionCreation",
        "autoSubscriptionCreationOverride",
        (
            Field(
                AUTO_SUBSCRIPTIONS, "allowAutoSubscriptionCreation", ("--enable/--disable", "-e/-d"),
                "Make them, or do not.", reads=Reads.FLAG,
            ),
        ),
        "Say whether share groups that come to {each} get their subscriptions made.",
        "Whether share groups that come to {each} get their subscriptions made",
        "--disable",
        "Those there are already stay. Consumer groups read a log, and need no subscription.",
    ),
    Form(
        "subscription-expiration-time",
        "subscriptionExpirationTime",
        "subscription_expiration_time_minutes",
        (
            Field(
                SUBSCRIPTION_EXPIRATION, "", ("-t", "--time"), "Minutes; 0 is never.",
                unit=60_000, unit_name="minutes", none="never",
            ),
        ),
        "Delete subscriptions of {} that have had no consumers for so many minutes.",
        "After how many minutes without consumers subscriptions of {} are deleted",
        "--time 1440",
        "It counts from the gateway's start at the earliest. Their retries and dead letters stay where they are.",
    ),
    Form(
        "inactive-topic-policies",
        "inactiveTopicPolicies",
        "inactive_topic_policies",
        (
            Field(
                INACTIVE_DELETE, "deleteWhileInactive",
                ("--enable-delete-while-inactive/--disable-delete-while-inactive", "-e/-d"),
                "Delete them, or do not.", reads=Reads.FLAG,
            ),
            Field(
                INACTIVE_MS, "maxInactiveDurationSeconds", ("-t", "--max-inactive-duration"),
                "For how long nobody has used them: 100 (seconds), 30m, 12h, 7d.",
                reads=Reads.TIME, unit=1000, unit_name="seconds",
            ),
            Field(
                INACTIVE_MODE, "inactiveTopicDeleteMode", ("-m", "--delete-mode"),
                "delete_when_no_subscriptions or delete_when_subscriptions_caught_up.", reads=Reads.NAME,
            ),
        ),
        "Say whether topics of {} that nobody uses are deleted.",
        "Whether topics of {} that nobody uses are deleted",
        "--enable-delete-while-inactive --max-inactive-duration 1d --delete-mode delete_when_no_subscriptions",
        "Nobody uses a topic that has no producers and no consumers, and of which retention keeps nothing. Consumer "
        "groups that have committed offsets count as subscriptions.",
    ),
)  # fmt: skip
"""All that have verbs of their own."""

_ACTION = "producer_request_hold, producer_exception or consumer_backlog_eviction."

QUOTA_SIZE = Form(
    "backlog-quota",
    "backlogQuota",
    "backlog_quota_map",
    (
        Field(
            QUOTA_BYTES,
            "limitSize",
            ("-l", "--limit"),
            "64k, 16m, 10g, 1t; -1 is no limit.",
            reads=Reads.SIZE,
        ),
        Field(QUOTA_BYTES_ACTION, "policy", ("-p", "--policy"), _ACTION, reads=Reads.NAME),
    ),
    "Limit how much of {each} may wait for its acknowledgement.",
    "How much of {each} may wait for its acknowledgement",
    "--limit 2G --policy producer_request_hold",
    type="destination_storage",
)
QUOTA_AGE = Form(
    "backlog-quota",
    "backlogQuota",
    "backlog_quota_map",
    (
        Field(
            QUOTA_MS,
            "limitTime",
            ("-lt", "--limitTime"),
            "100 (seconds), 30m, 12h, 7d; -1 is no limit.",
            reads=Reads.TIME,
            unit=1000,
            unit_name="seconds",
        ),
        Field(QUOTA_MS_ACTION, "policy", ("-p", "--policy"), _ACTION, reads=Reads.NAME),
    ),
    "Limit how long messages of {each} may wait for their acknowledgement.",
    "How long messages of {each} may wait for their acknowledgement",
    "--limitTime 1h --policy producer_exception --type message_age",
    type="message_age",
)

QUOTAS = (QUOTA_SIZE, QUOTA_AGE)
"""They share their verbs, which say which by `--type`."""

ALL = (*FORMS, *QUOTAS)
"""All of them."""
