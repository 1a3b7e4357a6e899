"""00 Produce, versions 3 to 13: the shortest way through the gateway.

Each batch is admitted by its header and its CRC, put into the group of this loop turn, and answered when the group
is committed. Versions 0 to 2 are advertised because librdkafka needs them to be (KAFKA-18659), and not served: the
connection is closed, as Kafka does.
What the topics' configurations ask to be done to the records is done in a thread where it takes long (preparing.py).
A batch that is refused for some of its records says which (KIP-467, version 8), so that a client can fail those.
With acks=0 nothing is answered; if something is wrong the connection is closed, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.apis.registry import register_produce
from gateway.broker.errors import KafkaError, RecordsRefused, from_store
from gateway.broker.loading import TRIES, Loading, all_loaded
from gateway.broker.partition import Partition, TopicRuntime
from gateway.broker.preparing import AT_ONCE_US, WAITING_SHARE, Prepared, Rules
from gateway.broker.quota_gate import HeldError, OutOfTurnError, Unmeasured
from gateway.wire import produce as wire
from gateway.wire.batch import BatchError, admit, header
from gateway.wire.compression import ZSTD
from gateway.wire.errors import Error
from gateway.wire.produce_one import BY_ID, FIRST_VERSION, decode_one
from store.api import Outcome
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer


register_produce(wire.MIN_VERSION, wire.MAX_VERSION)


class Client(Protocol):
    """The connection, as far as it matters here."""

    peer: Peer

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
            failed = [(name, [_refusal(partition.index, error)])]
        else:
            failed = [
                (
                    name,
                    [result if result[1] else _refusal(result[0], error) for result in partitions],
                )
                for name, partitions in results
            ]
        self.payload = wire.encode(self._version, self._correlation_id, failed)


WAITS = 0.9
"""Of the time that a request gives for its answer, as much a batch may wait for a backlog."""

HELD_BYTES = 4_000
"""What a request that waits takes besides its own bytes."""

HeldPlace = tuple[bytes, int]
"""A topic's id and a partition of it."""
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

    An awaitable of the same while batches are prepared in a thread, or a partition is loaded: nothing is taken yet, and
    what comes next on the connection has to wait.
    """
    now = broker.clock.wall_ms()
    # One batch for one partition: what nearly every request of a busy producer is.
    one = decode_one(version, frame, position, end) if version >= FIRST_VERSION else None
    if one is not None:
        name, index, batch = one
        runtime = broker.topic_by_id(name) if version >= BY_ID else broker.topic(name)
        if runtime is not None and 0 <= index < len(runtime.partitions):
            try:
                partition = runtime.partitions[index] or broker.partition_of(runtime, index)
                found = admit(batch)
                if (
                    not partition.plain
                    and partition.rules.cost(found) > AT_ONCE_US
                    and _may_wait(broker, end - position)
                ):
                    request = wire.decode(version, frame, position, end)
                    work = {(name, index): (partition.rules, batch)}
                    return _produce_later(
                        broker, connection, version, correlation_id, request, end - position, work
                    )
                base_offset = partition.append(batch, found, now)
            except (Loading, HeldError, Unmeasured):
                request = wire.decode(version, frame, position, end)
                return _produce_any(broker, connection, version, correlation_id, request, end - position)
            except KafkaError as error:
                return wire.encode(version, correlation_id, [(name, [_refusal(index, error)])])
            except BatchError as error:
                damaged: wire.PartitionResult = (index, int(error.code), -1, -1, -1, (), str(error))
                return wire.encode(version, correlation_id, [(name, [damaged])])
            start = partition.prefix_by_id if version >= BY_ID else partition.prefix
            payload = wire.encode_one(
                correlation_id,
                start,
                base_offset,
                partition.append_time(found, base_offset, now) if partition.log_append_time else -1,
                partition.log.start_offset,
            )
            slot = ProduceSlot(
                connection, version, correlation_id, payload, (partition, base_offset), end - position
            )
            broker.turn.await_commit(slot, partition.store)
            return slot
    request = wire.decode(version, frame, position, end)
    return _produce_any(broker, connection, version, correlation_id, request, end - position)


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
    long, loading = _look_ahead(broker, version, request)
    if loading and tries:
        broker.preparing_bytes += size
        return _produce_loaded(broker, connection, version, correlation_id, request, size, tries - 1, loading)
    if long and _may_wait(broker, size):
        return _produce_later(broker, connection, version, correlation_id, request, size, long)
    return _produce_many(broker, connection, version, correlation_id, request, size, {})


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
    broker: Broker, version: int, request: wire.ProduceRequest
) -> tuple[Work | None, list[Loading | Unmeasured]]:
    """(what is to be prepared, if that takes long altogether; partitions that are being loaded, or whose backlogs are
    being measured)
    """
    loading: list[Loading | Unmeasured] = []
    now = broker.clock.wall_ms()
    if request.transactional_id is not None or not -1 <= request.acks <= 1:
        return None, loading
    work: Work = {}
    cost = 0
    for name, partitions in request.topics:
        runtime = broker.topic_by_id(name) if version >= 13 else broker.topic(name)
        if runtime is None:
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
    now = broker.clock.wall_ms()
    # for a request without time, or where there is no memory for it, nobody waits
    may_wait = request.acks != 0 and request.timeout_ms > 0 and _may_wait(broker, size + HELD_BYTES)
    results: list[wire.TopicResult] = []
    held: list[HeldBatch] = []
    stored: list[Where] = []
    failed = False
    seen: set[Place] = set()
    for name, partitions in request.topics:
        runtime = broker.topic_by_id(name) if version >= 13 else broker.topic(name)
        answers: list[wire.PartitionResult] = []
        for index, batch in partitions:
            try:
                if (name, index) in seen:
                    raise KafkaError(Error.INVALID_REQUEST, "A partition may appear once in a request.")
                seen.add((name, index))
                known = prepared.get((name, index))
                answers.append(_take(broker, request, version, runtime, index, batch, now, known))
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
                    held.append(HeldBatch(place, batch, known, where, why))
                else:
                    _told_to_come_again(broker, place, batch)
                answers.append(_refusal(index, error))
                failed = True
            except KafkaError as error:
                answers.append(_refusal(index, error))
                failed = True
            except BatchError as error:
                answers.append((index, int(error.code), -1, -1, -1, (), str(error)))
                failed = True
        results.append((name, answers))
    if request.acks == 0:
        if failed:
            connection.close("a batch sent with acks=0 was refused")
        if failed or not stored:
            return None
        # An answer of no bytes: what comes next on the connection must see what was stored.
        silent = ProduceSlot(connection, version, correlation_id, b"", None, size)
        broker.turn.await_commit(silent)
        return silent
    if held:
        return HeldSlot(broker, connection, version, correlation_id, request, results, held, stored, size)
    payload = wire.encode(version, correlation_id, results)
    if not stored:
        return payload
    slot = ProduceSlot(connection, version, correlation_id, payload, results, size)
    broker.turn.await_commit(slot)
    return slot


def _contended(partition: Partition, now: int) -> bool:
    """Whether others have used up what was measured: one that is told nothing is let in then, for it is lost else."""
    gate = partition.gate
    return gate is not None and not gate.known(now)


def _told_to_come_again(broker: Broker, place: HeldPlace, batch: bytes) -> None:
    """A batch is refused for want of room: those that its producer has sent behind it must not overtake it."""
    broker.refusals.note(*place, header(batch))


Where = tuple[int, int]
"""Of an answer's topics which, and of this topic's partitions which."""


class HeldBatch(NamedTuple):
    """A batch that waits for a backlog."""

    place: HeldPlace
    batch: bytes
    prepared: Prepared | None
    where: Where
    error: KafkaError
    """what it is told when it has waited for too long"""


class _Stored:
    """Batches of a held request that were taken in one turn: told when its commit is over."""

    __slots__ = ("_slot", "_where")

    def __init__(self, slot: HeldSlot, where: list[Where]) -> None:
        self._slot = slot
        self._where = where

    def settle(self, outcome: Outcome) -> None:
        self._slot.stored(self._where, outcome)


class HeldSlot(ProduceSlot):
    """A Produce of which some batches wait for a backlog to become smaller: the rest of it is taken already. Its answer
    leaves when none waits any more and all commits are over that anything of it was in.
    """

    __slots__ = ("_awaited", "_broker", "_held", "_request", "deadline")

    def __init__(
        self,
        broker: Broker,
        connection: Client,
        version: int,
        correlation_id: int,
        request: wire.ProduceRequest,
        results: list[wire.TopicResult],
        held: list[HeldBatch],
        stored: list[Where],
        size: int,
    ) -> None:
        """`results` has a refusal for each that is held; `stored` are in the open turn."""
        super().__init__(connection, version, correlation_id, b"", results, size)
        self._broker = broker
        self._request = request
        self._held = held
        # commits that are not over
        self._awaited = 0
        # a client must not give up the connection before it hears of it
        self.deadline = broker.clock.monotonic_ms() + int(request.timeout_ms * WAITS)
        broker.preparing_bytes += size + HELD_BYTES
        broker.metrics.produced_held.value += 1
        broker.held_back.add(self)
        if stored:
            self._await(stored)

    @property
    def places(self) -> list[HeldPlace]:
        """What it still waits for."""
        return [each.place for each in self._held]

    def go_on(self, place: HeldPlace) -> bool:
        """See `held_back.Item`."""
        broker = self._broker
        number, each = next((n, each) for n, each in enumerate(self._held) if each.place == place)
        runtime = broker.topic_by_id(place[0])
        index = place[1]
        now = broker.clock.wall_ms()
        stored: list[Where] = []
        try:
            found = _take(
                broker,
                self._request,
                self._version,
                runtime,
                index,
                each.batch,
                now,
                each.prepared,
                waited=True,
            )
            stored.append(each.where)
        except OutOfTurnError as error:
            found = _refusal(index, error)
        except HeldError as error:
            self._held[number] = each._replace(error=error)
            return False
        except (Unmeasured, Loading):
            return False
        except KafkaError as error:
            found = _refusal(index, error)
        except BatchError as error:
            found = (index, int(error.code), -1, -1, -1, (), str(error))
        self._tell(each.where, found)
        self._held.remove(each)
        self._over([place], stored)
        return True

    def give_up(self) -> None:
        """See `held_back.Item`. What the same client sent behind it for one of these partitions gives up as well."""
        held = list(self._held)
        if not held:
            return
        places = set(self.places)
        for later in self._connection.held_behind(self):
            if not places.isdisjoint(later.places):
                later.give_up()
        for each in held:
            _told_to_come_again(self._broker, each.place, each.batch)
            self._tell(each.where, _refusal(each.place[1], each.error))
        self._held.clear()
        self._over([each.place for each in held], [])

    def _over(self, places: list[HeldPlace], stored: list[Where]) -> None:
        """It waits no longer for these, of which some were taken."""
        self._broker.held_back.over(self, places)
        if stored or not self._held:
            # the answer leaves behind a commit in any case
            self._await(stored)
        if not self._held:
            self._broker.preparing_bytes -= self.size + HELD_BYTES

    def _await(self, stored: list[Where]) -> None:
        self._awaited += 1
        self._broker.turn.await_commit(_Stored(self, stored))

    def stored(self, where: list[Where], outcome: Outcome) -> None:
        """A commit is over that these were in."""
        if outcome is not None:
            error = from_store(outcome)
            for each in where:
                name, partitions = self._request.topics[each[0]]
                index, batch = partitions[each[1]]
                self._tell(each, _refusal(index, error))
                runtime = self._broker.topic_by_id(name) if self._version >= 13 else self._broker.topic(name)
                if runtime is not None and batch is not None:
                    _told_to_come_again(self._broker, (runtime.topic_id, index), batch)
        self._awaited -= 1
        if not self._awaited and not self._held:
            assert isinstance(self._results, list)
            self.payload = wire.encode(self._version, self._correlation_id, self._results)
            self._connection.held_no_longer(self)
            self.settle(None)

    def _tell(self, where: Where, found: wire.PartitionResult) -> None:
        results = self._results
        assert isinstance(results, list)
        results[where[0]][1][where[1]] = found


def _refusal(index: int, error: KafkaError) -> wire.PartitionResult:
    named = error.records if isinstance(error, RecordsRefused) else ()
    return index, int(error.code), -1, -1, -1, named, error.text


def _take(
    broker: Broker,
    request: wire.ProduceRequest,
    version: int,
    runtime: TopicRuntime | None,
    index: int,
    batch: bytes | None,
    now: int,
    prepared: Prepared | None,
    *,
    waited: bool = False,
) -> wire.PartitionResult:
    if not -1 <= request.acks <= 1:
        raise KafkaError(Error.INVALID_REQUIRED_ACKS, f"acks={request.acks}: use -1 (all), 0 or 1.")
    if request.transactional_id is not None:
        raise KafkaError(
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "This gateway does not serve transactions yet."
        )
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
    base_offset = partition.append(
        batch,
        found,
        now,
        prepared,
        waited=waited,
        unmeasured=request.acks == 0 and _contended(partition, now),
    )
    append_time = partition.append_time(found, base_offset, now) if partition.log_append_time else -1
    return index, 0, base_offset, append_time, partition.log.start_offset, (), None
