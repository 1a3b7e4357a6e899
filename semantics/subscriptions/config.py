"""The configuration of a subscription: its type, its limits, its waits."""

from __future__ import annotations

from dataclasses import dataclass

from semantics.subscriptions.backoff import Backoff


@dataclass(frozen=True, slots=True)
class SubscriptionConfig:
    """How one subscription behaves. Times in ms."""

    type: str = "shared"
    """shared or key_shared"""
    lock_ms: int = 30_000
    """how long a record stays acquired: share.record.lock.duration.ms or pulsar.ack.timeout.ms"""
    max_locks: int = 2000
    """records of a partition acquired at once: a count, not a span"""
    receiver_queue: int = 1000
    """records of a partition that one consumer holds at once"""
    delivery_limit: int = 5
    """deliveries of a record, pulsar.max.redeliver.count + 1; 0 is without end"""
    nack_delay_ms: int = 0
    """wait after a nack; 0 is at once, as in Kafka"""
    nack_backoff: Backoff | None = None
    """wins over nack_delay_ms"""
    timeout_backoff: Backoff | None = None
    """wait after a lock that ran out"""
    leave_counts: bool = True
    """when a consumer leaves, what it holds counts one delivery more, as in Kafka; False: the count stays, as in
    Pulsar
    """
    dead_letters: bool = True
    """False: dead records are dropped and counted, as in Kafka"""
    lanes: bool = False
    """Key_Shared: its consumers are lanes, which keep an order by themselves: many records of a slot at a time"""
    one_of_a_key: bool = False
    """of lanes: one record of a slot at a time is in hand, as members of share groups have it"""
    strict: bool = True
    """Key_Shared: hold a key back while an earlier record of it is not settled"""
    allow_out_of_order: bool = False
    """Key_Shared: the owner of a slot need not wait for what others hold of it"""
    strict_delay: bool = True
    """never early; False: by a tick, as in Pulsar"""
    tick_ms: int = 1000
    """that tick"""
    max_delay_ms: int = 10 * 24 * 3_600_000
    """longest wait that a consumer may ask for"""
    max_sent_delay_ms: int = 10 * 24 * 3_600_000
    """longest delay that a record may bring: those due later after they were sent are due then; the batches fed to the
    cursor say when that was. 0: none is delayed
    """
    lookahead: int = 20_000
    """Key_Shared: records of a partition that may wait for their keys"""
