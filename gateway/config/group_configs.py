"""Group configs: what is taken, what they come to, how they are shown. The table is `group_table.py`.

A share group without any `pulsar.*` config behaves as Kafka's: released records come back at once, a lock lasts
30 s, five deliveries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.config.group_table import (
    EXCLUSIVE,
    FAILOVER,
    GROUP_CONFIGS,
    INITIAL_SUBSCRIPTION,
    STICKY,
    OffsetReset,
    Row,
    failover_priorities,
    offset_reset,
    sticky_ranges,
)
from gateway.config.schema import (
    INT_MAX,
    Described,
    Kind,
    Source,
    Synonym,
    Value,
    complaint,
    described,
    nearest,
    quoted,
)
from gateway.config.settings import Settings
from semantics.group_names import bare
from semantics.rates import Rate
from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.config import SubscriptionConfig

Ranges = Mapping[str, tuple[tuple[int, int], ...]]
"""Member or client id to its ranges of slots, half-open."""


class GroupConfig(NamedTuple):
    """What a group's configs come to, ready for the paths that need it. Times in ms."""

    subscription: SubscriptionConfig
    offset_reset: OffsetReset
    # only committed records of transactions are delivered
    read_committed: bool
    session_timeout_ms: int
    heartbeat_interval_ms: int
    # of members with group.protocol=consumer
    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    # RENEW is allowed
    renew: bool
    # of Key_Shared: auto_split, consistent_hashing or sticky, and the ranges of sticky
    mode: str
    ranges: Ranges
    # by name, who is active before others in failover
    priorities: Mapping[str, int]
    # None: the name that Pulsar gives it
    dead_letter_topic: str | None
    retry_letter_topic: str | None
    # made with the dead letter topic, so that nothing in it is missed
    dead_letter_subscription: str | None
    # of a queue topic: for how long a consumer may have deliveries without settling one; 0: without end
    stuck_ms: int
    # of a queue topic: which deliveries say what they are: redelivered, all or none
    queue_headers: str
    # how often a message may be a retry letter; -1: without end
    max_reconsume: int
    # of a queue topic: how long settled deliveries can be read again
    queue_retention_ms: int
    # how fast its consumers are given records of a partition, as policies of the topic say
    dispatch_rate: Rate = Rate()

    @property
    def exclusive(self) -> bool:
        """Whether the group has one member at most."""
        return self.subscription.type == EXCLUSIVE

    @property
    def failover(self) -> bool:
        """Whether a partition's consumer is chosen as in a Failover subscription of Pulsar's."""
        return self.subscription.type == FAILOVER

    def dead_letters_of(self, group_id: str, topic: str) -> str:
        """The topic that dead letters of a subscription go to."""
        return self.dead_letter_topic or f"{topic}-{bare(group_id)}-DLQ"

    def retries_of(self, group_id: str, topic: str) -> str:
        """The topic whose records are delivered to a subscription again, later."""
        return self.retry_letter_topic or f"{topic}-{bare(group_id)}-RETRY"


# -- what is taken ----------------------------------------------------------------------------------------------------


def validate(configs: Mapping[str, str], settings: Settings) -> str | None:
    """What is wrong with a group's configs, one by one and beside each other, in a sentence, or None."""
    values: dict[str, Value] = {}
    for name, text in configs.items():
        row = GROUP_CONFIGS.get(name)
        if row is None:
            near = nearest(name, list(GROUP_CONFIGS))
            hint = f' Did you mean "{near}"?' if near else ""
            return f'There is no group config "{name}".{hint}'
        try:
            value = values[name] = row.setting.parse(text)
        except ValueError as error:
            return f"{name} {complaint(error, quoted(text))}."
        if row.bounds is not None and isinstance(value, int):
            low, high = (settings.integer(bound) for bound in row.bounds)
            if not low <= value <= high:
                return (
                    f"{name} must be from {low} to {high} ({row.bounds[0]} and {row.bounds[1]} of the node), "
                    f"not {quoted(text)}."
                )
    return _together(_Values(configs, settings))


def _together(values: _Values) -> str | None:
    """What is wrong with values beside each other."""
    for kind in ("consumer", "share"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        timeout, interval = values.integer(session), values.integer(heartbeat)
        if timeout <= interval:
            return f"{session} ({timeout}) must be greater than {heartbeat} ({interval})."
    for kind in ("nack", "ack.timeout"):
        numbers = values.backoff_numbers(kind)
        if numbers is not None and numbers[0] > numbers[1]:
            return (
                f"pulsar.{kind}.backoff.min.ms ({numbers[0]}) must not be above "
                f"pulsar.{kind}.backoff.max.ms ({numbers[1]})."
            )
    dead = values.get("pulsar.dead.letter.topic") or values.get("errors.deadletterqueue.topic.name")
    if dead is not None and dead == values.get("pulsar.retry.letter.topic"):
        return f"pulsar.dead.letter.topic and pulsar.retry.letter.topic must differ, and both are {dead}."
    if values.text("pulsar.key.shared.mode") == STICKY and not values.get("pulsar.key.shared.ranges"):
        return "pulsar.key.shared.mode sticky needs pulsar.key.shared.ranges: name:first-last, ..."
    return None


def is_list(name: str) -> bool:
    """Whether values of this config can be appended to and subtracted from (KIP-339)."""
    row = GROUP_CONFIGS.get(name)
    return row is not None and row.setting.kind is Kind.LIST


# -- what they come to ------------------------------------------------------------------------------------------------


class _Values:
    """A group's configs over the node's settings, parsed. What no longer parses counts as not set."""

    def __init__(self, configs: Mapping[str, str], settings: Settings) -> None:
        self._configs = configs
        self._settings = settings

    def get(self, name: str) -> Value:
        row = GROUP_CONFIGS[name]
        text = self._configs.get(name)
        if text is not None:
            try:
                value = row.setting.parse(text)
            except ValueError:
                pass
            else:
                if row.bounds is not None and isinstance(value, int):
                    # The bounds may have changed since: as Kafka, to the nearest that is allowed.
                    low, high = (self._settings.integer(bound) for bound in row.bounds)
                    return max(low, min(value, high))
                return value
        return _fallback(row, self._settings)

    def integer(self, name: str) -> int:
        value = self.get(name)
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self.get(name)
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        assert isinstance(value, bool)
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.get(name)
        assert value is None or isinstance(value, str)
        return value

    def backoff_numbers(self, kind: str) -> tuple[int, int, float] | None:
        """Min and max in ms and the multiplier of "nack" or "ack.timeout"; None unless one of them is set."""
        prefix = f"pulsar.{kind}.backoff."
        low, high, multiplier = (self.get(prefix + name) for name in ("min.ms", "max.ms", "multiplier"))
        if low is None and high is None and multiplier is None:
            return None
        if not isinstance(low, int):
            low = min(1000, high) if isinstance(high, int) else 1000
        if not isinstance(high, int):
            high = max(60_000, low)
        return low, high, multiplier if isinstance(multiplier, float) else 2.0

    def backoff(self, kind: str) -> Backoff | None:
        """The backoff of "nack" or "ack.timeout"."""
        numbers = self.backoff_numbers(kind)
        # A pair in the wrong order is refused when it is set: here it would be damage.
        return None if numbers is None or numbers[0] > numbers[1] else Backoff(*numbers)


def effective(configs: Mapping[str, str], settings: Settings) -> GroupConfig:
    """The group's own configs over the node's."""
    values = _Values(configs, settings)
    timeout, redeliveries = values.get("pulsar.ack.timeout.ms"), values.get("pulsar.max.redeliver.count")
    if isinstance(timeout, int):
        # 0: held for as long as the consumer lives, here 24 days
        lock = timeout or INT_MAX
    else:
        lock = values.integer("share.record.lock.duration.ms")
    if isinstance(redeliveries, int):
        limit = redeliveries + 1
    else:
        limit = values.integer("share.delivery.count.limit")
    out_of_order = values.flag("pulsar.key.shared.allow.out.of.order")
    ranges = values.get("pulsar.key.shared.ranges")
    priorities = values.get("pulsar.failover.priorities")
    assert isinstance(ranges, tuple)
    assert isinstance(priorities, tuple)
    return GroupConfig(
        subscription=SubscriptionConfig(
            type=values.text("pulsar.subscription.type"),
            lock_ms=lock,
            max_locks=values.integer("share.partition.max.record.locks"),
            receiver_queue=values.integer("pulsar.receiver.queue.size"),
            delivery_limit=limit,
            nack_delay_ms=values.integer("pulsar.nack.delay.ms"),
            nack_backoff=values.backoff("nack"),
            timeout_backoff=values.backoff("ack.timeout"),
            leave_counts=values.flag("pulsar.leave.counts"),
            dead_letters=values.flag("pulsar.dead.letter.enable"),
            strict=values.flag("pulsar.key.shared.strict") and not out_of_order,
            allow_out_of_order=out_of_order,
            one_of_a_key=values.integer("pulsar.queue.in.hand.per.key") == 1,
            strict_delay=values.flag("pulsar.delayed.delivery.strict"),
            max_delay_ms=values.integer("pulsar.delayed.delivery.max.delay.ms"),
            max_sent_delay_ms=values.integer("pulsar.delayed.delivery.max.delay.ms"),
            lookahead=values.integer("pulsar.key.shared.look.ahead"),
        ),
        offset_reset=offset_reset(values.text("share.auto.offset.reset")),
        read_committed=values.text("share.isolation.level") == "read_committed",
        session_timeout_ms=values.integer("share.session.timeout.ms"),
        heartbeat_interval_ms=values.integer("share.heartbeat.interval.ms"),
        consumer_session_timeout_ms=values.integer("consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=values.integer("consumer.heartbeat.interval.ms"),
        renew=values.flag("share.renew.acknowledge.enable"),
        mode=values.text("pulsar.key.shared.mode"),
        ranges=sticky_ranges(ranges),
        priorities=failover_priorities(priorities),
        dead_letter_topic=values.optional_text("pulsar.dead.letter.topic")
        or values.optional_text("errors.deadletterqueue.topic.name"),
        retry_letter_topic=values.optional_text("pulsar.retry.letter.topic"),
        dead_letter_subscription=values.optional_text(INITIAL_SUBSCRIPTION),
        stuck_ms=timeout if isinstance(timeout, int) else 0,
        queue_headers=values.text("pulsar.queue.headers"),
        max_reconsume=values.integer("pulsar.max.reconsume.count"),
        queue_retention_ms=values.integer("pulsar.queue.retention.ms"),
    )


# -- how they are shown -----------------------------------------------------------------------------------------------


def describe(configs: Mapping[str, str], settings: Settings) -> Iterator[Described]:
    """All group configs for DescribeConfigs, with where each value comes from (KIP-226)."""
    for name, row in GROUP_CONFIGS.items():
        text = configs.get(name)
        own = None if text is None else Synonym(name, text, Source.GROUP)
        yield described(row.setting, own, _fallback(row, settings), _synonyms(row, settings))


def _fallback(row: Row, settings: Settings) -> Value:
    return settings.value(row.broker) if row.effect and row.broker else row.setting.default


def _synonyms(row: Row, settings: Settings) -> tuple[Synonym, ...]:
    if row.effect and row.broker:
        return settings.synonyms(row.broker)
    default = row.setting.render(row.setting.default)
    return () if default is None else (Synonym(row.broker or row.setting.name, default, Source.DEFAULT),)
