"""Transactional ids at work: requests into their machines, and what these decide into one commit of the open turn.

The end of a transaction is one commit: markers on its partitions, offsets of its groups, the rows of the id. What that
needs is seen to before the machine takes its step (`transaction_ends.py`); from there on nothing waits until all of it
is in the open turn.

A machine whose commit failed is thrown away, and read again by who asks next. Requests of one id are taken one after
another; a batch of its transaction waits for nobody (`admit`), and is stored with what makes it one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError, from_code, from_store
from gateway.broker.staged_offsets import PREFIX, StagedOffsets, prefix_of
from gateway.broker.transacted_acks import TransactedAcks
from gateway.broker.transaction_ends import TransactionEnds
from gateway.broker.turn_lost import Broken, Lost
from gateway.promise import Promise
from gateway.wire.errors import Error
from semantics.transactions import rows
from semantics.transactions.codes import Code
from semantics.transactions.connections import NewestConnections
from semantics.transactions.events import (
    Abort,
    Answer,
    EndTxn,
    Event,
    Fence,
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
from store.api import POWER_LOST, Delete, Family, Outcome, Put, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.committing import Committing
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.producer_ids import ProducerIds
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.transacted_acks import Holds, Saying
    from gateway.broker.turn import Turn
    from semantics.transactions.events import End
    from semantics.transactions.states import Producer
    from semantics.transactions.views import Described
    from store.api import Store

log = logging.getLogger("magnetar.transactions")

_RECOVERED = b"transactions.recovered"
"""Key of META: the value of `store.api.POWER_LOST` after which all ids were fenced."""
COORDINATOR_EPOCH = 0
"""In markers: there is one coordinator, and always was."""
PAGE = 500
"""Rows of transactional ids that are looked at before others have their turn."""


class _Live:
    """A transactional id in memory."""

    __slots__ = ("ending", "gone", "lock", "machine", "used")

    def __init__(self, machine: Transaction) -> None:
        self.machine = machine
        self.lock = asyncio.Lock()
        self.used = True
        # its open transaction is about to end: it takes nothing more
        self.ending = False
        # True when what is stored is read again by who asks next
        self.gone = False


class Transactions:
    """All transactional ids of this node."""

    def __init__(
        self,
        node: Node,
        *,
        store: Store,
        turn: Callable[[], Turn],
        in_use: InUse,
        producer_ids: ProducerIds,
        groups: Callable[[], Committing],
        subscriptions: Callable[[], Subscriptions],
        watch: ClockWatch,
    ) -> None:
        """`store`: where topics are that are persistent."""
        self._node = node
        self._store = store
        self._turn = turn
        self._producer_ids = producer_ids
        self._groups = groups
        self._watch = watch
        self._live: dict[str, _Live] = {}
        # producer id -> transactional id, of all that are stored
        self._by_producer: dict[int, str] = {}
        # those with a transaction open
        self._open: set[str] = set()
        # those of which memory may not be what is stored: to be read again before anything else
        self._stale: set[str] = set()
        # those that are to be forgotten whenever they were used
        self._unwanted: set[str] = set()
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
        self._acks = TransactedAcks(node.store, subscriptions)
        for reason in (*self.staged.unreadable, *self._acks.staged.unreadable):
            log.error("a part of an open transaction cannot be read: %s", reason)
        self._ends = TransactionEnds(
            node, store=store, in_use=in_use, staged=self.staged, acks=self._acks, groups=groups
        )

    # -- what batches and offsets meet ----------------------------------------------------------------------------

    def admit(self, producer_id: int, epoch: int, partition: Partition, implicit: bool) -> list[Write]:
        """See `topic_runtime.Transactions`."""
        live = self._of_producer(producer_id)
        if live.ending:
            raise KafkaError(Error.INVALID_TXN_STATE, "The transaction is about to end.")
        machine = live.machine
        admitted = machine.admit(
            producer_id, epoch, partition.topic_id, partition.index, implicit, self._node.clock.wall_ms()
        )
        if admitted.error is not Code.NONE:
            raise KafkaError(from_code(admitted.error).code, _WHY.get(admitted.error, ""))
        if not admitted.rows:
            return []
        self._open.add(machine.transactional_id)
        # beside the batch itself: if that is not stored, the partition is not part of the transaction either
        self._watch_turn(live)
        return _writes(admitted.rows)

    def stage(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        group_id: str,
        say: Callable[[Saying], Sequence[Put]],
        *,
        implicit: bool,
    ) -> tuple[int, list[Write]]:
        """What a group commits becomes part of a transaction: (an error code, what is to be stored in the open turn).
        `say` says something of messages, if it may, and answers rows of offsets.
        """
        error, writes = self._admit_offsets(transactional_id, producer, group_id, implicit)
        if error:
            return error, []
        saying = self._acks.saying(transactional_id)
        rows = say(saying)
        return 0, [*writes, *saying.writes, *self.staged.stage(transactional_id, rows)]

    def _admit_offsets(
        self, transactional_id: str, producer: tuple[int, int], group_id: str, implicit: bool
    ) -> tuple[int, list[Write]]:
        live = self._find(transactional_id)
        if live is None:
            return Error.INVALID_PRODUCER_ID_MAPPING, []
        if live.ending:
            return Error.INVALID_TXN_STATE, []
        admitted = live.machine.admit_offsets(*producer, group_id, implicit, self._node.clock.wall_ms())
        if admitted.error is not Code.NONE:
            return admitted.error, []
        self._open.add(transactional_id)
        self._watch_turn(live)
        return 0, _writes(admitted.rows)

    def entrusted(self, subscription: int, partition: int) -> Iterable[tuple[str, Sequence[tuple[int, int]]]]:
        """See `subscriptions.tools.Tools`. Raises KafkaError while that is not known."""
        for name in list(self._stale):
            self._find(name)
        return self._acks.held_at(subscription, partition, self._began)

    def withdraw(self, subscription: int, partition: int, holds: Holds) -> None:
        """See `subscriptions.tools.Tools`."""
        names, writes = self._acks.withdraw(subscription, partition, holds)
        if writes:
            self._watch_names(names)
            self._node.commit(writes, lambda outcome: None)

    def _began(self, transactional_id: str) -> int:
        """When its open transaction began, in ms since 1970; 0 where that cannot be read."""
        with contextlib.suppress(KafkaError):
            live = self._find(transactional_id)
            if live is not None and live.machine.head is not None:
                return live.machine.head.start
        return 0

    def beaten(self, keys: Sequence[bytes]) -> list[Write]:
        """Offsets are committed outside of transactions, in the open turn: what else is to be stored with that."""
        if not len(self.staged):
            return []
        names, writes = self.staged.beaten(keys)
        if writes:
            self._watch_names(names)
        return writes

    def _watch_names(self, names: Iterable[str]) -> None:
        """If the open turn is not stored, what these have staged is not what the store says."""

        def lost(error: StoreError) -> None:
            for name in names:
                self._renew(name, error)

        self._turn().join(Lost(self._store, lost))

    def _watch_turn(self, live: _Live) -> None:
        """If the open turn is not stored, the machine is not what the store says."""
        self._turn().join(Lost(self._store, lambda error: self._discard(live, error)))

    def late(self, transactional_id: str, producer: Producer, api: int, connection: int) -> bool:
        """Whether a request of a producer of the old protocol comes on a connection that it has given up."""
        try:
            live = self._find(transactional_id)
        except KafkaError:
            return False
        if live is None or live.machine.head is None or live.machine.head.producer != producer:
            # it is refused for who it is
            return False
        return not self.newest.takes(producer, api, connection)

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
                    if live.gone:
                        continue
                    try:
                        return await self._run(live, event)
                    finally:
                        if not live.machine.stored:
                            self._leave(live)
        except KafkaError as error:
            # of those that are worth another try, clients know this one from every request
            return _refused(event, Error.COORDINATOR_NOT_AVAILABLE if error.code.retriable else error.code)
        except StoreError as error:
            log.warning("transactional id %s: %s", transactional_id, error)
            return _refused(event, Error.COORDINATOR_NOT_AVAILABLE)

    async def _run(self, live: _Live, event: Event) -> ProducerAnswer | Plain:
        live.ending = isinstance(event, Init | EndTxn | Abort | Fence | Tick)
        try:
            return await self._stepped(live, event)
        finally:
            live.ending = False

    async def _stepped(self, live: _Live, event: Event) -> ProducerAnswer | Plain:
        machine = live.machine
        partitions: Sequence[Partition] = ()
        while True:
            if live.ending and machine.state is State.ONGOING:
                partitions = await self._ends.ready(
                    machine, committed=isinstance(event, EndTxn) and event.committed
                )
                if live.gone:
                    raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE)
            clock = self._node.clock
            # as they are now: an id may be in memory for long
            machine.limits = self._limits
            if machine.transactional_id in self._unwanted:
                machine.limits = machine.limits._replace(expiration_ms=-1)
            step = machine.step(event, clock.monotonic_ms(), clock.wall_ms())
            if not any(isinstance(effect, NeedId) for effect in step.effects):
                break
            assert isinstance(event, Init | EndTxn | Abort | Fence | Tick), "all others keep the producer"
            event = event._replace(new_id=await self._producer_ids.allocate())
        writes = _writes(step.rows)
        if step.end is not None:
            try:
                writes += self._end(machine.transactional_id, step.end, partitions)
            except Exception as error:
                # a fault of ours: half of it may be in the open turn, which must not be stored
                log.exception("transactional id %s", machine.transactional_id)
                self._turn().join(Broken(self._store, lambda why: self._discard(live, why)))
                self._leave(live)
                self._stale.add(machine.transactional_id)
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR) from error
        if writes and (outcome := await self._written(live, writes)) is not None:
            raise outcome
        answer: ProducerAnswer | Plain = Plain(0)
        for effect in step.effects:
            if isinstance(effect, Answer):
                answer = effect.value
            elif isinstance(effect, Note):
                # what a client asks for again and again is not to fill the log
                log.log(logging.INFO if isinstance(event, Abort | Tick) else logging.DEBUG, effect.text)
        return answer

    def _written(self, live: _Live, writes: Sequence[Write]) -> Promise[Outcome]:
        """Put a step into the open turn. What becomes of it is seen to, also when nobody waits for it any more."""
        promise: Promise[Outcome] = Promise()

        def done(outcome: Outcome) -> None:
            if outcome is None:
                self._index(live.machine)
            promise.tell(outcome)

        self._watch_turn(live)
        self._node.commit(writes, done)
        return promise

    def _end(self, transactional_id: str, end: End, partitions: Sequence[Partition]) -> list[Write]:
        """Put the end of a transaction into the open turn; rows that are to go with it are the answer."""
        now = self._node.clock.wall_ms()
        for partition in partitions:
            partition.end_transaction(end.producer_id, end.epoch, end.committed, COORDINATOR_EPOCH, now)
        taken, writes = self.staged.end(transactional_id, committed=end.committed)
        for group_id, puts in taken.items():
            self._groups().take_offsets(group_id, puts)
        return writes + self._acks.end(transactional_id, committed=end.committed)

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
            return live
        store, stale = self._node.store, transactional_id in self._stale
        try:
            if stale:
                self.staged.renew(transactional_id, store.scan(Family.TXN, prefix_of(transactional_id)))
                self._acks.renew(transactional_id)
            head = store.get(Family.TXN, rows.head_key(transactional_id))
            machine = Transaction.load(
                transactional_id,
                head,
                store.scan(Family.TXN, rows.parts_prefix(transactional_id)) if head is not None else (),
                self._limits,
            )
        except RowError as error:
            log.error("transactional id %s cannot be read: %s", transactional_id, error)
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        except StoreError as error:
            raise from_store(error) from error
        if stale:
            self._stale.discard(transactional_id)
            for producer_id in [each for each, its in self._by_producer.items() if its == transactional_id]:
                del self._by_producer[producer_id]
            self._index(machine)
        return self._enter(machine) if head is not None else None

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
        if not live.gone:
            self._leave(live)
            self._renew(live.machine.transactional_id, reason)

    def _renew(self, transactional_id: str, reason: Exception) -> None:
        """Read an id again, with what it has staged: now, or else before anything else is done with it."""
        log.warning("transactional id %s is read again from the store: %s", transactional_id, reason)
        live = self._live.get(transactional_id)
        if live is not None:
            self._leave(live)
        self._stale.add(transactional_id)
        with contextlib.suppress(KafkaError):
            self._find(transactional_id)

    def release_idle(self) -> None:
        """Let go of those without an open transaction that nobody asked for since the last call."""
        for live in list(self._live.values()):
            if not live.used and live.machine.idle and not live.lock.locked():
                self._leave(live)
            live.used = False

    # -- time ---------------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """At the start, before anybody is served: after a power cut producers may have been told of what is not there
        any more, such as a batch in the middle of an open transaction. Who was the producer of an id is not any more,
        and what was open is aborted. Raises StoreError, RowError.
        """
        store = self._node.store
        lost = store.get(Family.META, POWER_LOST)
        if lost is None or lost == store.get(Family.META, _RECOVERED):
            return
        count = 0
        async for name, _ in self.every():
            answer = await self.run(name, Fence(None))
            count += 1
            if answer.error:
                log.error("transactional id %s could not be fenced after a power cut: %s", name, answer.error)
        await self._node.write([Put(Family.META, _RECOVERED, lost)])
        if count:
            log.warning("producers begin anew after a power cut", extra={"transactional_ids": count})

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
            await self._forget(name, head)

    async def _forget(self, name: str, head: Head) -> None:
        await self.run(name, Tick())
        with contextlib.suppress(KafkaError):
            if self._find(name) is None:
                self._by_producer.pop(head.producer.id, None)
                self.newest.forget(head.producer.id)

    async def forget(self, prefix: str) -> None:
        """Forget transactional ids that begin so: what is open is aborted, and who was the producer of one is not any
        more. Raises KafkaError where one stays; StoreError.
        """
        async for name, _ in self.every():
            if not name.startswith(prefix):
                continue
            answer = await self.run(name, Fence(None))
            live = self._find(name)
            if live is None or live.machine.head is None:
                continue
            if answer.error:
                raise KafkaError(
                    Error.COORDINATOR_NOT_AVAILABLE,
                    f"Transactional id {name} could not be fenced; try again.",
                )
            self._unwanted.add(name)
            try:
                await self._forget(name, live.machine.head)
            finally:
                self._unwanted.discard(name)

    # -- what tools ask -----------------------------------------------------------------------------------------------

    def name_of(self, producer_id: int) -> str | None:
        """The transactional id of a producer id."""
        return self._by_producer.get(producer_id)

    def describe(self, transactional_id: str) -> Described | None:
        """As DescribeTransactions shows it; None if there is no such id. Raises KafkaError."""
        live = self._find(transactional_id)
        return live.machine.describe() if live is not None else None

    def open_ids(self) -> list[str]:
        """Transactional ids that have a transaction open, in any order."""
        return list(self._open)

    async def every(self, after: str = "") -> AsyncIterator[tuple[str, Head]]:
        """All transactional ids behind one with what is stored of each, in pages: others have their turn in between.
        Raises StoreError.
        """
        behind = rows.head_key(after) if after else None
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
