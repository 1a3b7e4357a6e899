"""00 Produce, versions 3 to 13: the shortest way through the gateway.

Each batch is admitted by its header and its CRC, put into the group of this loop turn, and answered when the group
is committed. Versions 0 to 2 are advertised because librdkafka needs them to be (KAFKA-18659), and not served: the
connection is closed, as Kafka does.
What the topics' configurations ask to be done to the records is done in a thread where it takes long (preparing.py).
A batch that is refused for some of its records says which (KIP-467, version 8), so that a client can fail those.
With acks=0 nothing is answered; if something is wrong the connection is closed, as Kafka does.

The right to write to a topic is asked for before anything else, and again behind each wait: of a topic that a client
may not write to it is not told whether it is there. A transactional id that it may not use refuses the whole request.
What follows from a record by itself (retries, dead letters) is made with the right of who set that up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from gateway.apis.checks import forbidden
from gateway.apis.produce_held import HELD_BYTES, HeldBatch, HeldSlot, Where, told_to_come_again
from gateway.apis.produce_owed import check_group, check_groups
from gateway.apis.produce_slots import Client, ProduceSlot, check_write, debt, nameless, refusal, take
from gateway.apis.reach import finder, said
from gateway.apis.registry import register_produce
from gateway.broker.errors import KafkaError
from gateway.broker.loading import TRIES, Loading, all_loaded
from gateway.broker.preparing import AT_ONCE_US, WAITING_SHARE, Prepared, Rules
from gateway.broker.quota_gate import HeldError, OutOfTurnError, Unmeasured
from gateway.rights import UNCHECKED
from gateway.wire import produce as wire
from gateway.wire.batch import TRANSACTIONAL, BatchError, Buffer, admit, header
from gateway.wire.crc import WORTH
from gateway.wire.errors import Error
from gateway.wire.produce_one import BY_ID, FIRST_VERSION, decode_one
from semantics import group_names
from semantics.access.acl import Operation
from semantics.names import Namespace
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.peer import Peer
    from gateway.rights import Rights
    from store.api import Store


register_produce(wire.MIN_VERSION, wire.MAX_VERSION)


Answer = ProduceSlot | bytes | None
Place = tuple[bytes, int]
"""Topic, as the request names it, and partition."""
Work = dict[Place, tuple[Rules, bytes]]
"""Batches to be prepared, by what rules."""


def produce(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    frame: bytes,
    position: int,
    end: int,
) -> Pending[Answer]:
    """A slot to be settled by the turn's commit, an answer that needs no commit, or None when none is due.

    Raises OwedError, and nothing of it is taken, where it has to wait for what a resource group owes.
    An awaitable of the same while batches are prepared in a thread, or a partition is loaded: nothing is taken yet, and
    what comes next on the connection has to wait.
    """
    now = broker.clock.wall_ms()
    # One batch for one partition: what nearly every request of a busy producer is.
    # Clients of other homes are answered below, where names are looked up for them.
    peer = connection.peer
    short = version >= FIRST_VERSION and not peer.prefix
    one = decode_one(version, frame, position, end) if short else None
    if one is not None:
        name, index, start, stop = one
        runtime = broker.topic_by_id(name) if version >= BY_ID else broker.at_home(name)
        if runtime is not None and 0 <= index < len(runtime.partitions):
            try:
                partition = runtime.partitions[index]
                publishing = connection.publishing
                publisher = publishing.at.get(partition) if partition is not None else None
                rights = peer.rights
                if rights is not UNCHECKED and (
                    publisher is None or publisher.allowed != rights.rules.version
                ):
                    check_write(rights, runtime)
                    if publisher is not None:
                        publisher.allowed = rights.rules.version
                if partition is None:
                    partition = broker.partition_of(runtime, index)
                    publisher = publishing.at.get(partition)
                if partition.asks_who:
                    request = _decode(peer, version, frame, position, end)
                    return _produce_any(broker, connection, version, correlation_id, request, end - position)
                batch: Buffer
                if stop - start < WORTH or not partition.plain:
                    batch = frame[start:stop]
                    found = admit(batch)
                else:
                    # the one copy of it is made when it gets its place in the log
                    batch = memoryview(frame)[start:stop]
                    found = admit(batch, frame, start)
                if found.attributes & TRANSACTIONAL:
                    raise nameless()
                if (
                    not partition.plain
                    and partition.rules.cost(found) > AT_ONCE_US
                    and _may_wait(broker, end - position)
                ):
                    request = _decode(peer, version, frame, position, end)
                    work = {(name, index): (partition.rules, bytes(batch))}
                    return _produce_later(
                        broker, connection, version, correlation_id, request, end - position, work
                    )
                if publisher is None:
                    check_group(broker, publishing, runtime.name)
                    publishing.check(partition)
                base_offset = partition.append(batch, found, now)
                if publisher is None:
                    publisher = publishing.begin(partition)
                publisher.records += found.count
                publisher.bytes += len(batch)
            except (Loading, HeldError, Unmeasured):
                request = _decode(peer, version, frame, position, end)
                return _produce_any(broker, connection, version, correlation_id, request, end - position)
            except KafkaError as error:
                wait = _charged(broker, connection, end - position)
                return wire.encode(version, correlation_id, [(name, [refusal(index, error)])], wait)
            except BatchError as error:
                damaged: wire.PartitionResult = (index, int(error.code), -1, -1, -1, (), str(error))
                wait = _charged(broker, connection, end - position)
                return wire.encode(version, correlation_id, [(name, [damaged])], wait)
            quotas = peer.quotas
            wait = 0
            if quotas is not None:
                bucket = quotas.at_once
                if bucket is not None and (left := bucket.level - (end - position)) >= 0:
                    # all but the first of those that come together
                    bucket.level = left
                elif not quotas.lets_produce(end - position):
                    wait = _charged(broker, connection, end - position)
            payload = wire.encode_one(
                correlation_id,
                partition.prefix_by_id if version >= BY_ID else partition.prefix,
                base_offset,
                partition.append_time(found, base_offset, now) if partition.log_append_time else -1,
                partition.log.start_offset,
                wait,
            )
            slot = ProduceSlot(
                connection, version, correlation_id, payload, (partition, base_offset), end - position
            )
            broker.turn.await_commit(slot, partition.store)
            return slot
    request = _decode(peer, version, frame, position, end)
    return _produce_any(broker, connection, version, correlation_id, request, end - position)


def _charged(broker: Broker, connection: Client, size: int) -> int:
    """A request was taken, or refused: ms that its client has to wait by its quotas, and is not read for."""
    quotas = connection.peer.quotas
    wait = quotas.after_produce(size, quotas.begin()) if quotas is not None else 0
    if wait:
        connection.throttle(wait)
        broker.metrics.produced_throttled.value += 1
    return wait


def _decode(peer: Peer, version: int, frame: bytes, position: int, end: int) -> wire.ProduceRequest:
    request = wire.decode(version, frame, position, end)
    if request.transactional_id is not None and peer.prefix:
        # as ids of such clients are kept
        said = request.transactional_id.decode("utf-8", "replace")
        request.transactional_id = group_names.scoped(Namespace.parse(peer.namespace), said).encode()
    return request


def _produce_any(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
    tries: int = TRIES,
) -> Pending[Answer]:
    """A request for whatever partitions, in whatever state; that they are loaded is waited for so often."""
    if connection.peer.rights.checked and _barred(connection.peer.rights, request):
        return _refused(broker, connection, version, correlation_id, request, size)
    if tries == TRIES and broker.resource_groups:
        check_groups(broker, connection, version >= BY_ID, request)
    long, loading = _look_ahead(broker, connection.peer, version, request)
    if loading and tries:
        broker.preparing_bytes += size
        return _produce_loaded(broker, connection, version, correlation_id, request, size, tries - 1, loading)
    if long and _may_wait(broker, size):
        return _produce_later(broker, connection, version, correlation_id, request, size, long)
    return _produce_many(broker, connection, version, correlation_id, request, size, {})


def _barred(rights: Rights, request: wire.ProduceRequest) -> bool:
    """Whether it has batches of a transaction, and its client may not use the transactional id."""
    named = request.transactional_id
    if named is not None and rights.transactional_id(Operation.WRITE, named.decode("utf-8", "replace")):
        return False
    for _, partitions in request.topics:
        for _, batch in partitions:
            try:
                if batch is not None and header(batch).attributes & TRANSACTIONAL:
                    return True
            except BatchError:
                # it is refused by itself
                continue
    return False


def _refused(
    broker: Broker,
    client: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
) -> bytes | None:
    """All of it. It counts as any other: else whoever is refused would be bound by no quota."""
    wait = _charged(broker, client, size)
    if request.acks == 0:
        client.close("a batch sent with acks=0 was refused")
        return None
    error = forbidden(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    results = [
        (name, [refusal(index, error) for index, _ in partitions]) for name, partitions in request.topics
    ]
    return wire.encode(version, correlation_id, results, wait)


async def _produce_loaded(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
    tries: int,
    loading: list[Loading | Unmeasured],
) -> Answer:
    """The same when its partitions are loaded. Must be awaited: until then the memory of the request counts."""
    try:
        await all_loaded(loading)
    finally:
        broker.preparing_bytes -= size
    answer = _produce_any(broker, connection, version, correlation_id, request, size, tries)
    return await answer if isinstance(answer, Awaitable) else answer


def _look_ahead(
    broker: Broker, peer: Peer, version: int, request: wire.ProduceRequest
) -> tuple[Work | None, list[Loading | Unmeasured]]:
    """(what is to be prepared, if that takes long altogether; partitions that are being loaded, or whose backlogs are
    being measured)
    """
    loading: list[Loading | Unmeasured] = []
    now = broker.clock.wall_ms()
    if not -1 <= request.acks <= 1:
        return None, loading
    look = finder(broker, peer, by_id=version >= BY_ID)
    work: Work = {}
    cost = 0
    for name, partitions in request.topics:
        runtime = look(name)
        if runtime is None or (peer.rights.checked and not peer.rights.topic(Operation.WRITE, runtime.name)):
            continue
        for index, batch in partitions:
            if batch is None or not 0 <= index < len(runtime.partitions):
                continue
            partition = runtime.partitions[index]
            if partition is not None and partition.plain:
                continue
            try:
                partition = partition or broker.partition_of(runtime, index)
                if partition.gate is not None and (unmeasured := partition.gate.look(now)) is not None:
                    loading.append(unmeasured)
                rules = partition.rules
                cost += rules.cost(header(batch))
            except Loading as error:
                loading.append(error)
                continue
            except (KafkaError, BatchError):
                # it is refused in its turn
                continue
            if (name, index) not in work and not rules.plain:
                work[name, index] = rules, batch
    return work if cost > AT_ONCE_US else None, loading


def _may_wait(broker: Broker, size: int) -> bool:
    """Whether there is memory for a request of so many bytes while its batches are prepared."""
    waiting = broker.preparing_bytes
    return not waiting or waiting + size <= broker.memory_limit // WAITING_SHARE


def _produce_later(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
    work: Work,
) -> Awaitable[Answer]:
    """`_produce_many` when everything was prepared. Must be awaited: until then the memory of the request counts."""
    broker.preparing_bytes += size
    return _prepared(broker, connection, version, correlation_id, request, size, work)


async def _prepared(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
    work: Work,
) -> Answer:
    prepared: dict[Place, Prepared] = {}
    try:
        for place, (rules, batch) in work.items():
            async with broker.preparing:
                prepared[place] = await broker.loop.run_in_executor(
                    None, Prepared, rules, batch, broker.clock.wall_ms(), broker.decompression_limit
                )
    finally:
        broker.preparing_bytes -= size
    return _produce_many(broker, connection, version, correlation_id, request, size, prepared)


def _produce_many(
    broker: Broker,
    connection: Client,
    version: int,
    correlation_id: int,
    request: wire.ProduceRequest,
    size: int,
    prepared: Mapping[Place, Prepared],
) -> Answer:
    quotas = connection.peer.quotas
    began = quotas.begin() if quotas is not None else 0
    now = broker.clock.wall_ms()
    # for a request without time, or where there is no memory for it, nobody waits
    may_wait = request.acks != 0 and request.timeout_ms > 0 and _may_wait(broker, size + HELD_BYTES)
    results: list[wire.TopicResult] = []
    held: list[HeldBatch] = []
    stored: list[Where] = []
    failed = False
    throttle_ms = 0
    look = finder(broker, connection.peer, by_id=version >= BY_ID)
    seen: set[Place] = set()
    rights = connection.peer.rights
    for name, partitions in request.topics:
        runtime = look(name)
        answers: list[wire.PartitionResult] = []
        for index, batch in partitions:
            try:
                if (name, index) in seen:
                    raise KafkaError(Error.INVALID_REQUEST, "A partition may appear once in a request.")
                seen.add((name, index))
                if rights.checked:
                    check_write(rights, runtime)
                    if runtime is None and version < BY_ID:
                        # that there is none is not told to who might not write to it: as `check_write` does
                        its = said(broker, connection.peer, name)
                        if not rights.topic(Operation.WRITE, its):
                            raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)
                known = prepared.get((name, index))
                answers.append(
                    take(broker, request, version, runtime, index, batch, now, known, connection.publishing)
                )
                throttle_ms = max(throttle_ms, debt(broker, runtime, index))
                stored.append((len(results), len(answers) - 1))
            except (HeldError, Unmeasured) as error:
                assert runtime is not None
                assert batch is not None
                place = runtime.topic_id, index
                if may_wait and not isinstance(error, OutOfTurnError):
                    where = len(results), len(answers)
                    why = (
                        error if isinstance(error, HeldError) else HeldError("Its backlog is being measured.")
                    )
                    # it is kept: without the frames that it came through
                    held.append(HeldBatch(place, batch, known, where, why.with_traceback(None)))
                else:
                    told_to_come_again(broker, place, batch)
                answers.append(refusal(index, error))
                failed = True
            except KafkaError as error:
                answers.append(refusal(index, error))
                failed = True
            except BatchError as error:
                answers.append((index, int(error.code), -1, -1, -1, (), str(error)))
                failed = True
        results.append((name, answers))
    if throttle_ms:
        broker.metrics.throttled("publish", throttle_ms, size)
    if quotas is not None:
        throttle_ms = max(throttle_ms, quotas.after_produce(size, began))
    if throttle_ms:
        connection.throttle(throttle_ms)
        # of one that is held the answer is yet to come, and may come too late to say so
        broker.metrics.produced_throttled.value += not held
    if request.acks == 0:
        if failed:
            connection.close("a batch sent with acks=0 was refused")
        if failed or not stored:
            return None
        # An answer of no bytes: what comes next on the connection must see what was stored.
        silent = ProduceSlot(connection, version, correlation_id, b"", None, size)
        broker.turn.await_commit(silent, _one_store(broker, look, request))
        return silent
    if held:
        return HeldSlot(
            broker, connection, version, correlation_id, request, results, held, stored, size, throttle_ms
        )
    payload = wire.encode(version, correlation_id, results, throttle_ms)
    if not stored:
        return payload
    slot = ProduceSlot(connection, version, correlation_id, payload, results, size)
    broker.turn.await_commit(slot, _one_store(broker, look, request))
    return slot


def _one_store(
    broker: Broker, look: Callable[[bytes], TopicRuntime | None], request: wire.ProduceRequest
) -> Store | None:
    """The store that all of a request goes to, None for several: what is in memory only is not to wait for a disk."""
    if not broker.catalog.has_transient:
        return None
    named = [look(name) for name, _ in request.topics]
    stores = {broker.store_of(runtime.topic) for runtime in named if runtime is not None}
    return stores.pop() if len(stores) == 1 else None
