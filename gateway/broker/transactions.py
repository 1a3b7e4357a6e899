"""Transactional ids at work: requests into their machines, and what these decide into one commit of the open turn.

The end of a transaction is one commit: markers on its partitions, offsets of its groups, the rows of the id. What that
needs is seen to before the machine takes its step (partitions in memory, large batches on the disk: `_ready`); from
there on nothing waits until all of it is in the open turn.

A machine whose commit failed is thrown away, and read again by who asks next. Requests of one id are taken one after
another; a batch of its transaction waits for nobody (`admit`), and is stored with what makes it one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError, from_code, from_store
from gateway.broker.loading import Loading, load
from gateway.broker.staged_offsets import PREFIX, StagedOffsets, prefix_of
from gateway.wire.errors import Error
from semantics.transactions import rows
from semantics.transactions.codes import Code
from semantics.transactions.connections import NewestConnections
from semantics.transactions.events import (
    Abort,
    Answer,
    EndTxn,
    Event,
    Init,
    NeedId,
    Note,
    Plain,
    ProducerAnswer,
    Tick,
)
from semantics.transactions.rows import Head, Row, RowError
from semantics.transactions.states import State
from semantics.transactions.transaction import Limits, Transaction
from store.api import Delete, Family, Outcome, Put, StoreError, Write, of_group

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.groups import Groups
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.producer_ids import ProducerIds
    from semantics.transactions.events import End
    from semantics.transactions.views import Described

log = logging.getLogger("magnetar.transactions")

COORDINATOR_EPOCH = 0
"""In markers: there is one coordinator, and always was."""
PAGE = 500
"""Rows of transactional ids that are looked at before others have their turn."""


class _Live:
    """A transactional id in memory."""

    __slots__ = ("gone", "lock", "machine", "used")

    def __init__(self, machine: Transaction) -> None:
        self.machine = machine
        self.lock = asyncio.Lock()
        self.used = True
        # True when what is stored is read again by who asks next
        self.gone = False


class Transactions:
    """All transactional ids of this node."""

    def __init__(
        self,
        node: Node,
        *,
        catalog: Catalog,
        in_use: InUse,
        producer_ids: ProducerIds,
        groups: Callable[[], Groups],
        watch: ClockWatch,
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._in_use = in_use
        self._producer_ids = producer_ids
        self._groups = groups
        self._watch = watch
        self._live: dict[str, _Live] = {}
        # producer id -> transactional id, of all that are stored
        self._by_producer: dict[int, str] = {}
        # those with a transaction open
        self._open: set[str] = set()
        for key, value in node.store.scan(Family.TXN, rows.heads_prefix()):
            try:
                name, head = rows.read_head_key(key), rows.read_head(value)
            except RowError as error:
                log.error("a transactional id cannot be read: %s", error)
                continue
            self._by_producer[head.producer.id] = name
            if head.state is State.ONGOING:
                self._open.add(name)
        self.newest = NewestConnections()
        self.staged = StagedOffsets(node.store.scan(Family.TXN, PREFIX))

    # -- what batches and offsets meet ----------------------------------------------------------------------------

    def admit(self, producer_id: int, epoch: int, partition: Partition, implicit: bool) -> list[Write]:
        """See `topic_runtime.Transactions`."""
        live = self._of_producer(producer_id)
        machine = live.machine
        admitted = machine.admit(
            producer_id, epoch, partition.topic_id, partition.index, implicit, self._node.clock.wall_ms()
        )
        if admitted.error is not Code.NONE:
            raise KafkaError(from_code(admitted.error).code, _WHY.get(admitted.error, ""))
        if not admitted.rows:
            return []
        self._open.add(machine.transactional_id)
        # behind them the batch itself: if that is not stored, the partition is not part of the transaction either
        self._node.commit((), lambda outcome: self._landed(live, outcome))
        return _writes(admitted.rows)

    def stage_offsets(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        group_id: str,
        puts: Sequence[Put],
        *,
        implicit: bool,
    ) -> tuple[int, list[Write]]:
        """Offsets of a group become part of a transaction: (an error code, what is to be stored in the open turn)."""
        live = self._find(transactional_id)
        if live is None:
            return Error.INVALID_PRODUCER_ID_MAPPING, []
        admitted = live.machine.admit_offsets(*producer, group_id, implicit, self._node.clock.wall_ms())
        if admitted.error is not Code.NONE:
            return admitted.error, []
        self._open.add(transactional_id)
        self._node.commit((), lambda outcome: self._landed(live, outcome))
        return 0, [*_writes(admitted.rows), *self.staged.stage(transactional_id, puts)]

    def beaten(self, keys: Sequence[bytes]) -> list[Write]:
        """Offsets are committed outside of transactions, in the open turn: what else is to be stored with that."""
        if not len(self.staged):
            return []
        names, writes = self.staged.beaten(keys)
        if writes:

            def landed(outcome: Outcome) -> None:
                if outcome is not None:
                    for name in names:
                        self._renew(name)

            self._node.commit((), landed)
        return writes

    def _landed(self, live: _Live, outcome: Outcome) -> None:
        if outcome is not None:
            self._discard(live, outcome)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def run(self, transactional_id: str, event: Event) -> ProducerAnswer | Plain:
        """Take a request to its transactional id: the answer, once what it says is durable."""
        try:
            while True:
                live = self._find(transactional_id)
                if live is None:
                    if not isinstance(event, Init):
                        return _refused(event, Error.INVALID_PRODUCER_ID_MAPPING)
                    live = self._enter(Transaction(transactional_id, self._limits))
                async with live.lock:
                    if not live.gone:
                        return await self._run(live, event)
        except KafkaError as error:
            return _refused(event, error.code)
        except StoreError as error:
            log.warning("transactional id %s: %s", transactional_id, error)
            return _refused(event, Error.COORDINATOR_NOT_AVAILABLE)

    async def _run(self, live: _Live, event: Event) -> ProducerAnswer | Plain:
        machine = live.machine
        while True:
            if machine.state is State.ONGOING and isinstance(event, Init | EndTxn | Abort | Tick):
                await self._ready(live, committed=isinstance(event, EndTxn) and event.committed)
                if live.gone:
                    raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE)
            clock = self._node.clock
            step = machine.step(event, clock.monotonic_ms(), clock.wall_ms())
            if not any(isinstance(effect, NeedId) for effect in step.effects):
                break
            assert isinstance(event, Init | EndTxn | Abort | Tick), "all others keep the producer"
            event = event._replace(new_id=await self._producer_ids.allocate())
        writes = _writes(step.rows)
        if step.end is not None:
            try:
                writes += self._end(machine.transactional_id, step.end)
            except Exception as error:
                # a fault of ours: half of it may be in the open turn, which must not be stored
                log.exception("transactional id %s", machine.transactional_id)
                self._discard(live, error)
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR) from error
        if writes:
            try:
                await self._node.write(writes, then=lambda: self._stepped(live))
            except StoreError as error:
                self._discard(live, error)
                raise
        answer: ProducerAnswer | Plain = Plain(0)
        for effect in step.effects:
            if isinstance(effect, Answer):
                answer = effect.value
            elif isinstance(effect, Note):
                log.info(effect.text)
        if not machine.stored:
            self._leave(live)
        return answer

    async def _ready(self, live: _Live, *, committed: bool) -> None:
        """See to it that the open transaction can be ended in one turn: its partitions and groups are loaded, and what
        a power cut could take of it is on the disk. Raises KafkaError, StoreError.
        """
        machine = live.machine
        while not live.gone:
            try:
                found = self._partitions(machine)
            except Loading as loading:
                await loading.wait()
                continue
            loading_groups = load(
                self._node.store, map(of_group, self.staged.groups_of(machine.transactional_id))
            )
            if loading_groups is not None:
                await loading_groups
                continue
            assert machine.head is not None
            producer_id = machine.head.producer.id
            for partition in found:
                partition.transacting.check_end(producer_id, committed)
            if not committed or not await self._synced(found, producer_id):
                return

    async def _synced(self, partitions: Sequence[Partition], producer_id: int) -> bool:
        """Make batches durable that a power cut could take while it leaves the commit. Whether that took some time."""
        logs = [found for each in partitions if (found := each.transacting.to_sync(producer_id)) is not None]
        syncing = self._node.store.sync(logs) if logs else None
        firsts = {(each.id): each for each in partitions}
        if syncing is None:
            return False
        for partition, first in logs:
            # what comes meanwhile is noted again
            firsts[partition].open.unsynced.discard(first)
        try:
            await syncing
        except BaseException:
            for partition, first in logs:
                firsts[partition].open.unsynced.add(first)
            raise
        return True

    def _partitions(self, machine: Transaction) -> list[Partition]:
        """Those of the open transaction that there still are. Raises KafkaError; Loading."""
        found: list[Partition] = []
        for topic_id, index in machine.partitions:
            runtime = self._in_use.topic_by_id(topic_id)
            if runtime is None or runtime.deleting:
                # it was deleted: nobody will read it
                continue
            found.append(self._in_use.partition_of(runtime, index))
        return found

    def _end(self, transactional_id: str, end: End) -> list[Write]:
        """Put the end of a transaction into the open turn; rows that are to go with it are the answer."""
        now = self._node.clock.wall_ms()
        for topic_id, index in end.partitions:
            runtime = self._in_use.topic_by_id(topic_id)
            if runtime is not None and not runtime.deleting:
                partition = self._in_use.partition_of(runtime, index)
                partition.end_transaction(end.producer_id, end.epoch, end.committed, COORDINATOR_EPOCH, now)
        taken, writes = self.staged.end(transactional_id, committed=end.committed)
        for group_id, puts in taken.items():
            self._groups().take_offsets(group_id, puts)
        return writes

    def _stepped(self, live: _Live) -> None:
        """What a step came to is durable: others find it."""
        self._index(live.machine)

    def _index(self, machine: Transaction) -> None:
        name, head = machine.transactional_id, machine.head
        (self._open.add if machine.state is State.ONGOING else self._open.discard)(name)
        if head is not None:
            self._by_producer[head.producer.id] = name
        if head is not None and head.last is not None and head.last.producer.id != head.producer.id:
            self._by_producer.pop(head.last.producer.id, None)
            self.newest.forget(head.last.producer.id)

    # -- in memory and out -------------------------------------------------------------------------------------------

    @property
    def _limits(self) -> Limits:
        settings = self._node.settings
        return Limits(
            settings.integer("transaction.max.timeout.ms"), settings.integer("transactional.id.expiration.ms")
        )

    def _of_producer(self, producer_id: int) -> _Live:
        """Raises KafkaError INVALID_PRODUCER_ID_MAPPING."""
        name = self._by_producer.get(producer_id)
        live = self._find(name) if name is not None else None
        if live is None:
            raise KafkaError(
                Error.INVALID_PRODUCER_ID_MAPPING,
                "No transactional id has this producer id: initialize anew.",
            )
        return live

    def _find(self, transactional_id: str) -> _Live | None:
        """The id, from memory or its rows; None if there is none. Raises KafkaError."""
        live = self._live.get(transactional_id)
        if live is not None:
            live.used = True
            live.machine.limits = self._limits
            return live
        store = self._node.store
        try:
            head = store.get(Family.TXN, rows.head_key(transactional_id))
            if head is None:
                return None
            parts = store.scan(Family.TXN, rows.parts_prefix(transactional_id))
            machine = Transaction.load(transactional_id, head, parts, self._limits)
        except RowError as error:
            log.error("transactional id %s cannot be read: %s", transactional_id, error)
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        except StoreError as error:
            raise from_store(error) from error
        return self._enter(machine)

    def _enter(self, machine: Transaction) -> _Live:
        live = self._live[machine.transactional_id] = _Live(machine)
        return live

    def _leave(self, live: _Live) -> None:
        name = live.machine.transactional_id
        live.gone = True
        if self._live.get(name) is live:
            del self._live[name]

    def _discard(self, live: _Live, reason: Exception) -> None:
        """What is in memory is not what the store says."""
        if live.gone:
            return
        name = live.machine.transactional_id
        log.warning("transactional id %s is read again from the store: %s", name, reason)
        self._leave(live)
        for producer_id in [each for each, its in self._by_producer.items() if its == name]:
            del self._by_producer[producer_id]
        self._open.discard(name)
        self._renew(name)
        with contextlib.suppress(KafkaError):
            found = self._find(name)
            if found is not None:
                self._index(found.machine)

    def _renew(self, transactional_id: str) -> None:
        """Read again what it has staged."""
        try:
            self.staged.renew(
                transactional_id, self._node.store.scan(Family.TXN, prefix_of(transactional_id))
            )
        except (RowError, StoreError) as error:
            log.error("staged offsets of %s cannot be read: %s", transactional_id, error)

    def release_idle(self) -> None:
        """Let go of those without an open transaction that nobody asked for since the last call."""
        for live in list(self._live.values()):
            if not live.used and live.machine.idle and not live.lock.locked():
                self._leave(live)
            live.used = False

    # -- time ---------------------------------------------------------------------------------------------------------

    async def time_out(self) -> None:
        """Abort transactions that have been open for too long."""
        for name in list(self._open):
            if not self._watch.trusted:
                return
            with contextlib.suppress(KafkaError):
                live = self._find(name)
                due = live.machine.next_due() if live is not None else None
                if due is not None and due <= self._node.clock.wall_ms():
                    await self.run(name, Tick())

    async def expire(self) -> None:
        """Forget transactional ids that nobody has used for long."""
        async for name, head in self.every():
            before = self._node.clock.wall_ms() - self._limits.expiration_ms
            if not self._watch.trusted or head.state is State.ONGOING or head.updated > before:
                continue
            await self.run(name, Tick())
            with contextlib.suppress(KafkaError):
                if self._find(name) is None:
                    self._by_producer.pop(head.producer.id, None)
                    self.newest.forget(head.producer.id)

    # -- what tools ask -----------------------------------------------------------------------------------------------

    def name_of(self, producer_id: int) -> str | None:
        """The transactional id of a producer id."""
        return self._by_producer.get(producer_id)

    def describe(self, transactional_id: str) -> Described | None:
        """As DescribeTransactions shows it; None if there is no such id. Raises KafkaError."""
        live = self._find(transactional_id)
        return live.machine.describe() if live is not None else None

    async def every(self) -> AsyncIterator[tuple[str, Head]]:
        """All transactional ids with what is stored of each, in pages: others have their turn in between. Raises
        StoreError.
        """
        behind: bytes | None = None
        while True:
            start = None if behind is None else behind + b"\0"
            page = list(self._node.store.scan(Family.TXN, rows.heads_prefix(), start, PAGE))
            for key, value in page:
                with contextlib.suppress(RowError):
                    yield rows.read_head_key(key), rows.read_head(value)
            if len(page) < PAGE:
                return
            behind = page[-1][0]
            await asyncio.sleep(0)


def _refused(event: Event, error: int) -> ProducerAnswer | Plain:
    return Plain(error) if isinstance(event, Tick) else event.refused(error)


def _writes(those: Sequence[Row]) -> list[Write]:
    return [
        Put(Family.TXN, key, value) if value is not None else Delete(Family.TXN, key) for key, value in those
    ]


_WHY = {
    Code.PRODUCER_FENCED: "Another producer with this transactional id has begun since.",
    Code.INVALID_PRODUCER_ID_MAPPING: "The transactional id has another producer id by now: initialize anew.",
    Code.TRANSACTION_ABORTABLE: "The partition is not part of the transaction.",
}
