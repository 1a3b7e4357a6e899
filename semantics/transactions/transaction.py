"""What happens to a transactional id, as a pure state machine: one `Transaction` is one id.

Nothing here does I/O, reads a clock or makes a producer id. `step(event, now, wall)` changes the state in memory and
says what must be made durable, in one commit, and what follows once it is. The end of a transaction is such a commit:
markers, staged offsets and state in one. So there is no state between begun and complete, nobody is told to wait for
the end of another transaction (CONCURRENT_TRANSACTIONS), and what was answered is readable.

| state            | event                                            | then           | producer | answer | end       |
|------------------|--------------------------------------------------|----------------|----------|--------|-----------|
| any              | Init, its timeout out of bounds                  | same           | same     | 50     |           |
| Dead             | Init, whoever it says that it is                 | Empty          | new      | 0      |           |
| Dead             | any other request                                | Dead           |          | 49     |           |
| Empty, Complete* | Init of nobody                                   | Empty          | + 1      | 0      |           |
| Empty, Complete* | Init of the producer                             | Empty          | + 1      | 0      |           |
| Empty, Complete* | Init of the last one, if it is not the producer  | Empty          | same     | 0      |           |
| Ongoing          | Init of nobody                                   | Empty          | + 1      | 0      | aborted   |
| Ongoing          | Init of the producer                             | Empty          | + 1      | 0      | aborted   |
| not Dead         | Init of anybody else                             | same           | same     | 90     |           |
| not Dead         | AddPartitions, AddOffsets                        | Ongoing        | same     | 0      |           |
| not Dead         | Produce, TxnOffsetCommit that may add            | Ongoing        | same     | 0      |           |
| not Dead         | Produce, TxnOffsetCommit of what was not added   | same           | same     | 120    |           |
| Ongoing          | Produce, TxnOffsetCommit of what was added       | same           | same     | 0      |           |
| Ongoing          | EndTxn, commit                                   | CompleteCommit | same     | 0      | committed |
| Ongoing          | EndTxn, abort                                    | CompleteAbort  | same     | 0      | aborted   |
| Ongoing          | EndTxn 5, commit                                 | CompleteCommit | + 1      | 0      | committed |
| Ongoing          | EndTxn 5, abort                                  | CompleteAbort  | + 1      | 0      | aborted   |
| Complete*        | EndTxn as the last end                           | same           | same     | 0      |           |
| bumped           | EndTxn 5 as the last end                         | same           | same     | 0      |           |
| not bumped       | EndTxn 5 as the last end                         | same           | + 1      | 0      |           |
| Complete*        | EndTxn of the last one, other verdict            | same           | same     | 48     |           |
| bumped           | EndTxn 5 of the last one, other verdict          | same           | same     | 48     |           |
| Empty, bumped    | EndTxn of the producer                           | same           | same     | 48     |           |
| Empty, Complete* | EndTxn 5, abort                                  | CompleteAbort  | + 1      | 0      |           |
| Empty, bumped    | EndTxn 5, commit                                 | same           | same     | 48     |           |
| not Dead         | any but Init, Fence, Tick; another epoch         | same           | same     | 90     |           |
| not Dead         | any but Init, Fence, Tick; another id            | same           | same     | 49     |           |
| Ongoing          | Tick, start + timeout is over                    | CompleteAbort  | + 1      |        | aborted   |
| Ongoing          | Abort                                            | CompleteAbort  | + 1      | 0      | aborted   |
| Empty, Complete* | Abort                                            | same           | same     | 0      |           |
| Ongoing          | Fence                                            | Empty          | + 1      | 0      | aborted   |
| Empty, Complete* | Fence                                            | Empty          | + 1      | 0      |           |
| Dead             | Fence                                            | Dead           |          | 0      |           |
| Empty, Complete* | Tick, idle for the time of expiration            | Dead           |          |        |           |
| any              | Tick, before that                                | same           | same     |        |           |

"Complete*" is CompleteCommit and CompleteAbort. They are *bumped* if the last end gave the producer another epoch:
EndTxn from version 5 on (KIP-890), a timeout, an abort from outside. "Init" is InitProducerId, the *producer* the
current id and epoch, *last* as in `rows.Last`: who ended a transaction last, or asked for a new epoch.

"+ 1" is the next epoch; above 32,766 it is epoch 0 of a new id, in the same commit. Markers that come with it have the
old id and the next epoch, which may be 32,767 and fences whoever still writes as the old producer.

- A retry must be told from the next call (KIP-360, KIP-890). Whoever is `last` and not the producer has not heard of
  the epoch that it was given, so it is told again. Whoever calls without id and epoch clears `last`: all others are
  fenced.
- After a timeout the producer is `last`, too. Nobody else has its new epoch, so its abort is answered with 0, and it
  may go on; its commit is not.
- `last` counts for both versions of EndTxn: a client that restores id and epoch from a checkpoint does not know by
  which version it has ended before.
- EndTxn 5 gives another epoch even if there was nothing to end, because the client begins its sequences anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from semantics.transactions import rows
from semantics.transactions.codes import Code
from semantics.transactions.events import (
    Abort,
    AddOffsets,
    AddPartitions,
    Admitted,
    Answer,
    Effect,
    End,
    EndTxn,
    Event,
    Fence,
    Init,
    NeedId,
    Note,
    Plain,
    ProducerAnswer,
    Step,
    Tick,
)
from semantics.transactions.rows import NO_TIME, Head, Last, Row, RowError
from semantics.transactions.states import LAST_EPOCH, Partition, Producer, State
from semantics.transactions.views import Described

_ADMITTED = Admitted(Code.NONE)


class Limits(NamedTuple):
    """What settings say of transactions, in ms."""

    max_timeout_ms: int
    """transaction.max.timeout.ms"""
    expiration_ms: int
    """transactional.id.expiration.ms"""


class _NoIdError(Exception):
    """The step needs a producer id, and none was handed in. Nothing has been changed."""


class Transaction:
    """One transactional id, and its open transaction if there is one. `wall` is ms since 1970."""

    __slots__ = (
        "_effects",
        "_end",
        "_rows",
        "_wall",
        "groups",
        "head",
        "limits",
        "partitions",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, limits: Limits) -> None:
        """An id without a row."""
        self.transactional_id = transactional_id
        self.limits = limits
        """may be replaced at any time"""
        self.head: Head | None = None
        """None: there is no row"""
        # those of the open transaction, in the order in which they came
        self.partitions: dict[Partition, None] = {}
        self.groups: dict[str, None] = {}
        # of the step under way
        self._wall = 0
        self._rows: list[Row] = []
        self._end: End | None = None
        self._effects: list[Effect] = []

    @classmethod
    def load(
        cls, transactional_id: str, head: bytes | None, parts: Iterable[tuple[bytes, bytes]], limits: Limits
    ) -> Self:
        """The machine as its rows say: the value under `rows.head_key`, and all under `rows.parts_prefix`.

        Raises RowError.
        """
        found = cls(transactional_id, limits)
        if head is not None:
            found.head = rows.read_head(head)
        for key, value in parts:
            name, part = rows.read_part(key, value)
            if name != transactional_id:
                raise RowError(f"a part of a transaction of {name!r} is not {transactional_id!r}'s to have")
            if found.state is not State.ONGOING:
                # left behind by a power cut, or a fault: of no transaction, and it holds nobody up
                continue
            if isinstance(part, Partition):
                found.partitions[part] = None
            else:
                found.groups[part] = None
        return found

    # -- the machine -------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int, wall: int) -> Step:
        """Take in one event. `now` (monotonic ms) is not looked at: timeouts go on while no gateway runs."""
        self._wall = wall
        self._rows, self._end, self._effects = [], None, []
        try:
            _ON[type(event)](self, event)
        except _NoIdError:
            return Step((), None, (NeedId(None if isinstance(event, Tick) else event.token),))
        return Step(self._rows, self._end, self._effects)

    def _on_init(self, event: Init) -> None:
        head, claimed = self.head, event.producer
        if not 0 < event.timeout_ms <= self.limits.max_timeout_ms:
            self._note(
                f"was asked for a timeout of {event.timeout_ms} ms; transaction.max.timeout.ms allows 1 to "
                f"{self.limits.max_timeout_ms}"
            )
            self._answer(event.token, ProducerAnswer(Code.INVALID_TRANSACTION_TIMEOUT))
            return
        last = None
        if head is None:
            if event.new_id is None:
                raise _NoIdError
            producer = Producer(event.new_id, 0)
        elif claimed is None or claimed == head.producer:
            producer = self._next(head, event.new_id)
            if claimed is not None:
                last = Last(claimed, None)
            if head.state is State.ONGOING:
                self._note("is taken over: its open transaction is aborted")
                self._finish(head, False, head.producer.epoch + 1)
        elif head.last is not None and claimed == head.last.producer:
            producer, last = head.producer, Last(claimed, None)
        else:
            self._answer(event.token, ProducerAnswer(Code.PRODUCER_FENCED))
            return
        self._put(Head(producer, event.timeout_ms, State.EMPTY, NO_TIME, self._wall, last))
        self._answer(event.token, ProducerAnswer(Code.NONE, producer))

    def _on_add_partitions(self, event: AddPartitions) -> None:
        error = self._mismatch(event.producer)
        if error is Code.NONE:
            self._rows += self._add(event.partitions, (), self._wall)
        self._answer(event.token, Plain(error))

    def _on_add_offsets(self, event: AddOffsets) -> None:
        error = self._mismatch(event.producer)
        if error is Code.NONE:
            self._rows += self._add((), (event.group_id,), self._wall)
        self._answer(event.token, Plain(error))

    def _on_end(self, event: EndTxn) -> None:
        head = self.head
        if head is not None and event.producer == head.producer:
            answer = self._end_of_producer(head, event)
        elif head is not None and head.last is not None and self._was(head.last, event.producer):
            answer = (
                ProducerAnswer(Code.NONE, head.producer)
                if head.last.committed == event.committed
                else ProducerAnswer(Code.INVALID_TXN_STATE)
            )
        else:
            answer = ProducerAnswer(self._mismatch(event.producer))
        self._answer(event.token, answer)

    def _end_of_producer(self, head: Head, event: EndTxn) -> ProducerAnswer:
        """EndTxn with the current id and epoch."""
        ongoing = head.state is State.ONGOING
        # Only ends that leave the epoch as it is can be repeated by who is still the producer.
        repeated = head.last == Last(head.producer, event.committed)
        empty_abort = event.bumps and not event.committed
        if not (ongoing or repeated or empty_abort):
            return ProducerAnswer(Code.INVALID_TXN_STATE)
        if repeated and not event.bumps:
            return ProducerAnswer(Code.NONE, head.producer)
        producer = self._next(head, event.new_id) if event.bumps else head.producer
        if ongoing:
            self._finish(head, event.committed, head.producer.epoch + event.bumps)
        self._put(
            Head(
                producer,
                head.timeout_ms,
                State.COMPLETE_COMMIT if event.committed else State.COMPLETE_ABORT,
                head.start if ongoing else self._wall,
                self._wall,
                Last(head.producer, event.committed),
            )
        )
        return ProducerAnswer(Code.NONE, producer)

    def _on_abort(self, event: Abort) -> None:
        head, error = self.head, self._mismatch(event.producer)
        if error is Code.NONE and head is not None and head.state is State.ONGOING:
            self._abort(head, event.new_id)
            self._note("had its open transaction aborted by a tool")
        self._answer(event.token, Plain(error))

    def _on_fence(self, event: Fence) -> None:
        head = self.head
        if head is not None:
            producer = self._next(head, event.new_id)
            if head.state is State.ONGOING:
                self._finish(head, False, head.producer.epoch + 1)
            self._put(Head(producer, head.timeout_ms, State.EMPTY, NO_TIME, self._wall, None))
        self._answer(event.token, Plain(Code.NONE))

    def _on_tick(self, event: Tick) -> None:
        head, due = self.head, self.next_due()
        if head is None or due is None or due > self._wall:
            return
        if head.state is State.ONGOING:
            self._abort(head, event.new_id)
            self._note(f"had a transaction open for its timeout of {head.timeout_ms} ms: it is aborted")
        else:
            self.head = None
            self._rows.append(Row(rows.head_key(self.transactional_id), None))
            self._note(f"was not used for {self.limits.expiration_ms} ms: it is forgotten")

    # -- what writes meet --------------------------------------------------------------------------------------------

    def admit(
        self, producer_id: int, epoch: int, topic_id: bytes, partition: int, implicit: bool, wall: int
    ) -> Admitted:
        """Whether a batch may be written to a partition. `implicit`: it may add it (Produce 12 on; KIP-890).

        If not `implicit`, nothing changes: that also answers an AddPartitionsToTxn which only wants to verify.
        To be asked last, since what was added stays, even if the batch is refused for another reason. A partition
        without a batch needs no marker.
        """
        error = self._mismatch((producer_id, epoch))
        if error is not Code.NONE:
            return Admitted(error)
        added = Partition(topic_id, partition)
        if added in self.partitions:
            return _ADMITTED
        if not implicit:
            return Admitted(Code.TRANSACTION_ABORTABLE)
        return Admitted(Code.NONE, self._add((added,), (), wall))

    def admit_offsets(
        self, producer_id: int, epoch: int, group_id: str, implicit: bool, wall: int
    ) -> Admitted:
        """Whether offsets of a group may be staged. `implicit`: it may add the group (TxnOffsetCommit 5 on)."""
        error = self._mismatch((producer_id, epoch))
        if error is not Code.NONE:
            return Admitted(error)
        if group_id in self.groups:
            return _ADMITTED
        if not implicit:
            return Admitted(Code.TRANSACTION_ABORTABLE)
        return Admitted(Code.NONE, self._add((), (group_id,), wall))

    # -- parts of a step ---------------------------------------------------------------------------------------------

    def _mismatch(self, producer: tuple[int, int]) -> Code:
        """What somebody gets who is not the producer; NONE for the producer."""
        head = self.head
        if head is None or head.producer.id != producer[0]:
            return Code.INVALID_PRODUCER_ID_MAPPING
        return Code.NONE if head.producer.epoch == producer[1] else Code.PRODUCER_FENCED

    @staticmethod
    def _was(last: Last, producer: Producer) -> bool:
        """Whether that producer has ended the last transaction."""
        return last.committed is not None and last.producer == producer

    @staticmethod
    def _next(head: Head, new_id: int | None) -> Producer:
        """Who the producer is after a bump. Raises _NoIdError: so ask before anything is changed."""
        producer = head.producer
        if producer.epoch < LAST_EPOCH:
            return Producer(producer.id, producer.epoch + 1)
        if new_id is None:
            raise _NoIdError
        return Producer(new_id, 0)

    def _add(self, partitions: Sequence[Partition], groups: Sequence[str], wall: int) -> list[Row]:
        """Make parts of the open transaction, and begin it if need be. Only what is new has rows."""
        head, name = self.head, self.transactional_id
        assert head is not None
        written: list[Row] = []
        for partition in partitions:
            if partition not in self.partitions:
                self.partitions[partition] = None
                written.append(rows.put_partition(name, partition))
        for group_id in groups:
            if group_id not in self.groups:
                self.groups[group_id] = None
                written.append(rows.put_group(name, group_id))
        if written and head.state is not State.ONGOING:
            self.head = Head(head.producer, head.timeout_ms, State.ONGOING, wall, wall, None)
            written.append(rows.put_head(name, self.head))
        return written

    def _abort(self, head: Head, new_id: int | None) -> None:
        """End the open transaction, whatever its producer thinks."""
        producer = self._next(head, new_id)
        self._finish(head, False, head.producer.epoch + 1)
        self._put(
            Head(
                producer,
                head.timeout_ms,
                State.COMPLETE_ABORT,
                head.start,
                self._wall,
                Last(head.producer, False),
            )
        )

    def _finish(self, head: Head, committed: bool, epoch: int) -> None:
        """The end of the open transaction, with markers of this epoch. The head is the caller's to put."""
        name = self.transactional_id
        self._end = End(head.producer.id, epoch, committed, tuple(self.partitions), tuple(self.groups))
        self._rows += [Row(rows.partition_key(name, each), None) for each in self.partitions]
        self._rows += [Row(rows.group_key(name, each), None) for each in self.groups]
        self.partitions, self.groups = {}, {}

    def _put(self, head: Head) -> None:
        self.head = head
        self._rows.append(rows.put_head(self.transactional_id, head))

    def _answer(self, token: Any, value: ProducerAnswer | Plain) -> None:
        self._effects.append(Answer(token, value))

    def _note(self, text: str) -> None:
        self._effects.append(Note(f"transactional id {self.transactional_id} {text}"))

    # -- what others ask ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return State.DEAD if self.head is None else self.head.state

    @property
    def stored(self) -> bool:
        """Whether a row exists, or its write was handed out."""
        return self.head is not None

    @property
    def idle(self) -> bool:
        """Nothing waits for the producer or the clock, but for the expiration of the id."""
        return self.state is not State.ONGOING

    def next_due(self) -> int | None:
        """The next instant at which a Tick changes something, ms since 1970: a timeout, or when the id expires."""
        head = self.head
        if head is None:
            return None
        if head.state is State.ONGOING:
            return head.start + head.timeout_ms
        return head.updated + self.limits.expiration_ms

    def describe(self) -> Described | None:
        """As DescribeTransactions shows it; None if there is no such id."""
        head = self.head
        if head is None:
            return None
        return Described(
            self.transactional_id,
            head.producer,
            head.state.shown,
            head.timeout_ms,
            head.start,
            tuple(sorted(self.partitions)),
            tuple(sorted(self.groups)),
        )


_ON: dict[type[Any], Callable[[Transaction, Any], None]] = {
    Init: Transaction._on_init,
    AddPartitions: Transaction._on_add_partitions,
    AddOffsets: Transaction._on_add_offsets,
    EndTxn: Transaction._on_end,
    Abort: Transaction._on_abort,
    Fence: Transaction._on_fence,
    Tick: Transaction._on_tick,
}
