"""Transactional ids in each of their states, and a disk that takes their rows."""

from __future__ import annotations

from semantics.transactions import rows
from semantics.transactions.events import (
    Abort,
    AddOffsets,
    AddPartitions,
    Answer,
    EndTxn,
    Init,
    NeedId,
    Plain,
    ProducerAnswer,
    Step,
    Tick,
)
from semantics.transactions.rows import Row
from semantics.transactions.states import Partition, Producer
from semantics.transactions.transaction import Limits, Transaction

NAME = "payments-1"
ID = 4000
FRESH = 5000
"""handed in where a step may need a producer id"""
TIMEOUT, EXPIRATION = 60_000, 7 * 24 * 3_600_000
LIMITS = Limits(max_timeout_ms=900_000, expiration_ms=EXPIRATION)
WALL = 1_750_000_000_000
ORDERS, BILLS = Partition(b"o" * 16, 0), Partition(b"b" * 16, 7)
OTHER = Partition(b"x" * 16, 1)
GROUP = "group-a"


class Disk(dict[bytes, bytes]):
    """The family of rows."""

    def take(self, written: list[Row] | tuple[Row, ...]) -> None:
        for key, value in written:
            if value is None:
                del self[key]  # what is deleted was there
            else:
                self[key] = value

    def load(self, name: str = NAME, limits: Limits = LIMITS) -> Transaction:
        begin = rows.parts_prefix(name)
        parts = [(key, value) for key, value in sorted(self.items()) if key.startswith(begin)]
        return Transaction.load(name, self.get(rows.head_key(name)), parts, limits)


class Driven:
    """A machine, its disk and a clock."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.machine = Transaction(NAME, LIMITS)
        self.wall = WALL
        self.ends: list[object] = []

    def step(
        self, event: Init | AddPartitions | AddOffsets | EndTxn | Abort | Tick
    ) -> ProducerAnswer | Plain | NeedId | None:
        """What the request is answered with; rows go to the disk, which then says the same as the machine."""
        self.wall += 1
        done: Step = self.machine.step(event, 0, self.wall)
        self.disk.take(list(done.rows))
        if done.end is not None:
            self.ends.append(done.end)
        same(self.disk.load(limits=self.machine.limits), self.machine)
        found: ProducerAnswer | Plain | NeedId | None = None
        for effect in done.effects:
            if isinstance(effect, NeedId):
                found = effect
            elif isinstance(effect, Answer):
                assert effect.token == (None if isinstance(event, Tick) else event.token)
                assert found is None, "answered once"
                found = effect.value
        return found

    @property
    def producer(self) -> Producer:
        assert self.machine.head is not None
        return self.machine.head.producer

    def begin(self) -> None:
        assert self.step(AddPartitions("t", self.producer, [ORDERS, BILLS])) == Plain(0)
        assert self.step(AddOffsets("t", self.producer, GROUP)) == Plain(0)

    def to_epoch(self, epoch: int) -> None:
        """Pretend that the producer has lived through so many epochs."""
        machine = self.machine
        assert machine.head is not None
        head = machine.head._replace(producer=Producer(ID, epoch))
        if head.last is not None:
            gap = machine.head.producer.epoch - head.last.producer.epoch
            head = head._replace(last=head.last._replace(producer=Producer(ID, epoch - gap)))
        machine.head = head
        self.disk.take([rows.put_head(NAME, head)])


def same(one: Transaction, other: Transaction) -> None:
    """Two machines would do the same for ever."""
    assert one.head == other.head
    assert set(one.partitions) == set(other.partitions)
    assert set(one.groups) == set(other.groups)
    assert one.next_due() == other.next_due()
    assert one.describe() == other.describe()
