"""What the broker does without being asked: the list of its jobs. What else is to be done by time is one entry more.

How jobs are run, and what becomes of one that fails: `jobs.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from gateway import logs
from gateway.broker.clock_watch import KEEP_MS, keep_time
from gateway.broker.group_sweep import Sweep
from gateway.broker.jobs import Job
from gateway.broker.producer_expiry import ProducerExpiry
from gateway.broker.subscriptions.left_dying import LeftDying
from semantics.console.series import STEP_MS

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

log = logging.getLogger("magnetar.housekeeping")

SECOND = 1000
IDLE_MS = 60_000
"""What nobody asked for since the last look leaves memory."""
UNUSED_MS = 30_000
"""How late something may be deleted that nobody uses."""
LEAST_MS = 100
"""Of intervals that may be set to 0."""
QUEUES_MS = 10_000
BURY_MS = 1000
"""After the start: whoever waits to connect comes first."""


class HasConnections(Protocol):
    def second(self) -> None: ...


def jobs_of(broker: Broker, listeners: Sequence[HasConnections]) -> list[Job]:
    """Everything that a gateway does by time."""
    interval = broker.settings.integer
    producers = ProducerExpiry(
        broker, broker.clock_watch, lambda: (each.producers for each in broker.in_use.partitions())
    )

    sweep = Sweep(broker, broker.group_kinds)
    dying = LeftDying(broker, broker.subscriptions, broker.topic_by_id)

    def connections() -> None:
        for listener in listeners:
            listener.second()

    def idle() -> None:
        # in this order: a subscription that goes lets go of its partitions
        broker.subscriptions.release_idle()
        broker.in_use.release_idle()

    async def bury() -> None:
        """What was dying when the gateway stopped."""
        if count := await dying.bury():
            log.info("burials that the last stop left go on", extra={"cursors": count})

    return [
        Job("unfinished requests", SECOND, broker.receiving.second),
        Job("connections", SECOND, connections),
        Job("log", SECOND, logs.tell_untold),
        Job("audit", SECOND, broker.audit.tell_left_out),
        Job("clock", SECOND, broker.clock_watch.look),
        Job("time of use", KEEP_MS, lambda: keep_time(broker, broker.clock_watch), first_ms=0),
        Job("retention", interval("log.retention.check.interval.ms"), broker.retention.apply),
        Job("compaction", max(interval("log.cleaner.backoff.ms"), LEAST_MS), broker.compaction.apply),
        Job("time to live", interval("message.expiry.check.interval.ms"), broker.message_ttl_job.apply),
        Job("times to live that end", SECOND, broker.message_ttl_job.soon),
        Job("unused subscriptions", UNUSED_MS, broker.subscription_expiry.apply),
        Job("unused topics", UNUSED_MS, broker.inactive_topics.apply),
        Job("producers", interval("producer.id.expiration.check.interval.ms"), producers.run),
        Job(
            "open transactions",
            interval("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            broker.transactions.time_out,
        ),
        Job(
            "transactional ids",
            interval("transaction.remove.expired.transaction.cleanup.interval.ms"),
            broker.transactions.expire,
        ),
        Job("groups", interval("offsets.retention.check.interval.ms"), sweep.run, first_ms=0),
        Job("queues", QUEUES_MS, broker.queues.keep),
        Job("stuck consumers", SECOND, broker.queues.expel_stuck),
        Job("series", STEP_MS, broker.sampling.sample, first_ms=SECOND),
        Job("suspects", SECOND, broker.queues.give_again),
        Job("lanes that nobody has", SECOND, broker.queues.tell_again),
        Job("idle transactional ids", IDLE_MS, broker.transactions.release_idle),
        Job("idle quotas", IDLE_MS, broker.client_quotas.forget_idle),
        Job("idle groups", IDLE_MS, broker.group_kinds.release_idle),
        Job("idle internal topics", IDLE_MS, broker.internal_topics.close_idle),
        Job("idle topics", IDLE_MS, idle),
        Job("burials", BURY_MS, bury, first_ms=BURY_MS, once=True),
        Job(
            "jobs that were interrupted",
            BURY_MS,
            broker.redrive.store_interrupted,
            first_ms=BURY_MS,
            once=True,
        ),
    ]
