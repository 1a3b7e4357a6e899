"""A Produce on its way: its answer, and what becomes of each batch of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.apis.checks import forbidden
from gateway.broker.errors import KafkaError, RecordsRefused, from_code, from_store
from gateway.broker.partition import Partition
from gateway.broker.preparing import Prepared
from gateway.broker.topic_runtime import TopicRuntime
from gateway.wire import produce as wire
from gateway.wire.batch import TRANSACTIONAL, admit
from gateway.wire.compression import ZSTD
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.transactions.codes import Api, spoken
from store.api import Outcome
from store.steps import step

if TYPE_CHECKING:
    from gateway.apis.produce_held import HeldSlot
    from gateway.broker.broker import Broker
    from gateway.broker.publishers import Publishing
    from gateway.peer import Peer
    from gateway.rights import Rights


IMPLICIT = 12
"""From this version of Produce on a batch brings its partition into the transaction (KIP-890)."""


def nameless() -> KafkaError:
    """What a batch of a transaction is refused with whose request has no transactional id."""
    return KafkaError(
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "A batch of a transaction comes with its transactional id.",
    )


def check_write(rights: Rights, runtime: TopicRuntime | None) -> None:
    """Raises KafkaError where a client may not write to a topic. To be called where `rights.checked`."""
    if runtime is not None and not rights.topic(Operation.WRITE, runtime.name):
        raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)


class Client(Protocol):
    """The connection, as far as it matters here."""

    peer: Peer

    @property
    def publishing(self) -> Publishing:
        """Where it is a producer."""
        ...

    def throttle(self, ms: int) -> None:
        """Read nothing of it for so long, once what has come is answered."""
        ...

    def settled(self, slot: ProduceSlot) -> None: ...
    def held_behind(self, slot: HeldSlot) -> list[HeldSlot]: ...
    def held_no_longer(self, slot: HeldSlot) -> None: ...
    def close(self, reason: str) -> None: ...


class ProduceSlot:
    """A Produce on its way: the answer is made when the batch is taken and leaves when the commit is done."""

    __slots__ = ("_connection", "_correlation_id", "_results", "_version", "payload", "ready", "size")

    def __init__(
        self,
        connection: Client,
        version: int,
        correlation_id: int,
        payload: bytes,
        results: list[wire.TopicResult] | tuple[Partition, int] | None,
        size: int,
    ) -> None:
        self._connection = connection
        self._version = version
        self._correlation_id = correlation_id
        # what to tell if the commit fails; None with acks=0, where nobody is told anything
        self._results = results
        self.payload = payload
        self.ready = False
        # bytes of the request: what the connection has in flight
        self.size = size

    @step("slot.before", "slot.after")
    def settle(self, outcome: Outcome) -> None:
        """The commit is over."""
        if outcome is not None:
            self._fail(from_store(outcome))
        self.ready = True
        self._connection.settled(self)

    def _fail(self, error: KafkaError) -> None:
        results = self._results
        if results is None:
            self._connection.close("a batch sent with acks=0 could not be stored")
            return
        if isinstance(results, tuple):
            partition, _ = results
            name = partition.topic.topic_id if self._version >= 13 else partition.topic.name_utf8
            failed = [(name, [refusal(partition.index, error)])]
        else:
            failed = [
                (
                    name,
                    [result if result[1] else refusal(result[0], error) for result in partitions],
                )
                for name, partitions in results
            ]
        self.payload = wire.encode(self._version, self._correlation_id, failed)


def contended(partition: Partition, now: int) -> bool:
    """Whether others have used up what was measured: one that is told nothing is let in then, for it is lost else."""
    gate = partition.gate
    return gate is not None and not gate.known(now)


def refusal(index: int, error: KafkaError) -> wire.PartitionResult:
    named = error.records if isinstance(error, RecordsRefused) else ()
    return index, int(error.code), -1, -1, -1, named, error.text


def take(
    broker: Broker,
    request: wire.ProduceRequest,
    version: int,
    runtime: TopicRuntime | None,
    index: int,
    batch: bytes | None,
    now: int,
    prepared: Prepared | None,
    publishing: Publishing,
    *,
    waited: bool = False,
) -> wire.PartitionResult:
    if not -1 <= request.acks <= 1:
        raise KafkaError(Error.INVALID_REQUIRED_ACKS, f"acks={request.acks}: use -1 (all), 0 or 1.")
    if runtime is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_ID if version >= 13 else Error.UNKNOWN_TOPIC_OR_PARTITION)
    partition = broker.partition_of(runtime, index)
    if batch is None:
        raise KafkaError(Error.INVALID_RECORD, "A partition without records.")
    found = admit(batch)
    if version < 7 and found.codec == ZSTD:
        raise KafkaError(
            Error.UNSUPPORTED_COMPRESSION_TYPE, f"Produce {version} is older than zstd, which came with 7."
        )
    publisher = publishing.at.get(partition)
    if publisher is None:
        publishing.check(partition)
    transactional = found.attributes & TRANSACTIONAL
    if transactional:
        if request.transactional_id is None:
            raise nameless()
        name = broker.transactions.name_of(found.producer_id)
        if name is None or name.encode() != request.transactional_id:
            raise KafkaError(
                Error.INVALID_PRODUCER_ID_MAPPING, "The producer id is not that of the transactional id."
            )
    try:
        base_offset = partition.append(
            batch,
            found,
            now,
            prepared,
            waited=waited,
            unmeasured=request.acks == 0 and contended(partition, now),
            client=publishing.client,
            implicit=version >= IMPLICIT,
        )
    except KafkaError as error:
        if transactional and (code := spoken(error.code, Api.PRODUCE, version)) != error.code:
            raise KafkaError(from_code(code).code, error.text) from error
        raise
    if publisher is None:
        publisher = publishing.begin(partition)
    publisher.records += found.count
    publisher.bytes += len(batch)
    append_time = partition.append_time(found, base_offset, now) if partition.log_append_time else -1
    return index, 0, base_offset, append_time, partition.log.start_offset, (), None


def debt(broker: Broker, runtime: TopicRuntime | None, index: int) -> int:
    """For how many ms a partition has taken more than its rate allows; its client is not read for so long."""
    partition = runtime.partitions[index] if runtime is not None else None
    throttle = partition.publish_throttle if partition is not None else None
    return throttle.wait(broker.clock.monotonic_ms()) if throttle is not None else 0
