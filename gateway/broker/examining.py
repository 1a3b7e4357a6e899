"""The way of batches that must be looked at before they are stored: those of a partition that is not `plain`.

A partition may take no more messages, have a bound on its backlog, a rate, names of messages to deduplicate by, or
configs that concern records. All others never come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.deduplicating import Left, left_of, named_by
from gateway.broker.errors import KafkaError
from gateway.broker.preparing import refused
from gateway.wire import records
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.preparing import Prepared
    from gateway.broker.topic_runtime import Home
    from gateway.wire.batch import Header


class Examined:
    """A batch that may be stored, as it is to be stored, once `take` has counted it."""

    __slots__ = ("ahead", "batch", "count", "dropped", "left")

    def __init__(self, batch: bytes, count: int, left: Left | None) -> None:
        self.batch = batch
        self.left = left
        self.dropped = self.ahead = 0
        if left is not None and left.dropped:
            # an empty one: all of it was stored before
            self.batch, self.dropped, self.ahead = left.batch, left.dropped, left.ahead
        # records that are stored
        self.count = count - self.dropped


def examine(
    partition: Partition,
    home: Home,
    batch: bytes,
    header: Header,
    now: int,
    prepared: Prepared | None,
    waited: bool,
    unmeasured: bool,
    client: str,
) -> Examined:
    """What is to be stored of a batch; nothing is counted yet. The arguments are those of `Partition.append`.

    Raises KafkaError with what Kafka answers in each case, HeldError, and Unmeasured.
    """
    if partition.terminated:
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"Partition {partition.index} of topic {partition.topic.name} is terminated: it takes no more messages.",
        )
    rules, gate, limit = partition.rules, partition.gate, home.decompression_limit
    if gate is not None:
        gate.queue_up(header, first=waited)
    if prepared is not None and prepared.rules != rules:
        prepared = None
    # what a transaction has may never be in force: it is no duplicate, and nothing is a duplicate of it
    named = rules.deduplicates and not header.transactional
    left = _left_of(partition, limit, batch, header, prepared, client) if named else None
    examined = Examined(batch, header.count, left)
    if examined.dropped:
        home.metrics.produced_duplicates.value += 1
        if not examined.batch:
            if gate is not None:
                gate.came(header)
            return examined
        prepared = None
    if gate is not None and not unmeasured:
        gate.check(now)
    if prepared is not None:
        examined.batch = prepared.result()
    elif not rules.plain:
        examined.batch = rules.prepare(examined.batch, now, limit)
    return examined


def too_new(batch: bytes, newest: int, limit: int) -> KafkaError:
    """The refusal of a batch with timestamps above `newest` (ms since 1970), which unfolds to `limit` bytes at most."""
    return refused(
        Error.INVALID_TIMESTAMP,
        "The timestamp is more than message.timestamp.after.max.ms ahead of the gateway's clock.",
        (at for at, (_, stamp, _) in enumerate(records.skim(batch, limit)) if stamp > newest),
    )


def take(
    partition: Partition, home: Home, examined: Examined, header: Header, base_offset: int, now: int
) -> None:
    """It is stored at that offset: it counts for whatever bounds the partition."""
    size = len(examined.batch)
    if partition.gate is not None:
        partition.gate.take(size, header)
    if partition.publish_throttle is not None:
        partition.publish_throttle.spend(examined.count, size, home.clock.monotonic_ms())
    if examined.left is not None:
        partition.producers.names.take(examined.left.named, base_offset, now)


def _left_of(
    partition: Partition, limit: int, batch: bytes, header: Header, prepared: Prepared | None, client: str
) -> Left | None:
    """What is left of a batch without its duplicates; None where no message says which it is."""
    said = prepared.said if prepared is not None else partition.rules.said(batch, limit)
    if said is None:
        return None
    named = named_by(said, client.encode("utf-8", "surrogateescape"))
    return left_of(partition.producers.names, batch, header, named, limit)
