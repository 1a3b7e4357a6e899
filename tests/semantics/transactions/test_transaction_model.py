"""Whatever clients do, and whenever the gateway dies: what a transactional id never breaks.

Clients are drawn without sense. They use every id and epoch that anybody was ever told, end twice, commit what somebody
else began, stay silent until the timeout. The test believes only what was answered once it was durable, and what
readers find in the partitions' logs: who wrote what, and which marker came next. It keeps lists, and knows no states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantics.transactions import transaction
from semantics.transactions.events import (
    Abort,
    AddOffsets,
    AddPartitions,
    Answer,
    End,
    EndTxn,
    Event,
    Init,
    NeedId,
    Step,
    Tick,
)
from semantics.transactions.states import Partition, Producer, State
from semantics.transactions.transaction import Limits, Transaction
from tests.examples import examples
from tests.semantics.transactions.driving import Disk, same

NAMES = st.sampled_from(["a", "a", "a", "a\0"])
PARTITIONS = [Partition(bytes([topic]) * 16, number) for topic in (1, 2) for number in (0, 1)]
PARTITION = st.sampled_from(PARTITIONS)
GROUPS = st.sampled_from(["g", "h"])
WHICH = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 5])
"""Which of the ids and epochs that were told, counted from the newest"""
TIMEOUT = st.sampled_from([50, 100, 1000])
LIMITS = Limits(1000, 5000)
LOST = st.sampled_from([False, False, False, False, True])
"""Whether the gateway dies before the commit is durable"""
HIGHEST = 3
"""epoch, so that ids run out"""


class Written(NamedTuple):
    """A record in a partition's log."""

    producer: Producer
    number: int


class Marker(NamedTuple):
    """The end of a transaction in a partition's log."""

    producer: Producer
    committed: bool


class Seen:
    """What the world knows of one transactional id."""

    def __init__(self) -> None:
        # everybody who was told to be the producer, oldest first
        self.told: list[Producer] = []
        # what was added since the last end, whoever added it
        self.partitions: set[Partition] = set()
        self.groups: set[str] = set()
        # when the first of them was, and how long the transaction may last, as InitProducerId said
        self.since = 0
        self.timeout = 0
        # how the newest transaction of a producer ended, as an EndTxn was told, until it begins another
        self.verdict: dict[Producer, bool] = {}
        # who was told of the last end, until anything else happens
        self.recent: Producer | None = None
        # who has begun a transaction that nobody but it can have ended
        self.safe: Producer | None = None
        # who was told to be the producer before somebody else took over
        self.fenced: set[Producer] = set()
        # the producer ids that it ever had
        self.ids: set[int] = set()


class Ids(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.disk = Disk()
        self.machines: dict[str, Transaction] = {}
        self.seen: dict[str, Seen] = {}
        self.logs: dict[Partition, list[Written | Marker]] = {partition: [] for partition in PARTITIONS}
        self.committed: list[tuple[Partition, int]] = []
        """records that somebody was told are committed"""
        self.wall = 1_000_000
        self.next_id = 100
        self.numbers = 0

    @initialize()
    def begin(self) -> None:
        self.patch.setattr(transaction, "LAST_EPOCH", HIGHEST)
        for name in ("a", "a\0"):
            self.machines[name] = Transaction(name, LIMITS)
            self.seen[name] = Seen()
            self.tell(name, self.ask(name, Init("t", 100)).producer)
            self.seen[name].timeout = 100

    def teardown(self) -> None:
        self.patch.undo()

    # -- the shell ---------------------------------------------------------------------------------------------------

    def ask(self, name: str, event: Event, lost: bool = False) -> Any:
        """A request, durable and answered; or None, and the gateway is another one."""
        self.wall += 1
        done = self.machines[name].step(event, 0, self.wall)
        if any(isinstance(effect, NeedId) for effect in done.effects):
            assert not done.rows
            assert done.end is None
            assert not isinstance(event, AddPartitions | AddOffsets)
            same(self.loaded(name), self.machines[name])
            self.next_id += 1
            done = self.machines[name].step(event._replace(new_id=self.next_id), 0, self.wall)
        if lost:
            self.machines[name] = self.loaded(name)
            return None
        self.commit(name, done, fences=not isinstance(event, EndTxn) or event.bumps)
        (answer,) = [effect for effect in done.effects if isinstance(effect, Answer)] or [Answer(None, None)]  # type: ignore[arg-type]
        return answer.value

    def commit(self, name: str, done: Step, fences: bool = False) -> None:
        self.disk.take(list(done.rows))
        if done.end is not None:
            self.end(name, done.end, fences)
        same(self.loaded(name), self.machines[name])

    def end(self, name: str, end: End, fences: bool) -> None:
        """What a commit does to partitions: each of those added since the last end, and no other, gets one marker.

        A partition refuses batches of lower epochs than its marker's: that fences who wrote before.
        """
        seen = self.seen[name]
        assert len(set(end.partitions)) == len(end.partitions)
        assert set(end.partitions) == seen.partitions
        assert set(end.groups) == seen.groups
        seen.partitions, seen.groups, seen.safe = set(), set(), None
        for partition in end.partitions:
            log = self.logs[partition]
            for earlier in log:
                if earlier.producer.id == end.producer_id:
                    assert earlier.producer.epoch <= end.epoch, "the epoch of a producer id went back"
                    if fences and isinstance(earlier, Written):
                        assert earlier.producer.epoch < end.epoch, "not fenced"
            log.append(Marker(Producer(end.producer_id, end.epoch), end.committed))

    def loaded(self, name: str) -> Transaction:
        return self.disk.load(name, LIMITS)

    def fate(self, partition: Partition, number: int) -> bool | None:
        """What a reader finds: True for committed, False for aborted, None for open."""
        log = self.logs[partition]
        place = next(
            at for at, entry in enumerate(log) if isinstance(entry, Written) and entry.number == number
        )
        for entry in log[place + 1 :]:
            if isinstance(entry, Marker) and entry.producer.id == log[place].producer.id:
                return entry.committed
        return None

    def open_records(self, producer_id: int) -> list[tuple[Partition, int]]:
        return [
            (partition, entry.number)
            for partition, log in self.logs.items()
            for entry in log
            if isinstance(entry, Written)
            and entry.producer.id == producer_id
            and self.fate(partition, entry.number) is None
        ]

    # -- clients -----------------------------------------------------------------------------------------------------

    def who(self, name: str, which: int) -> Producer | None:
        told = self.seen[name].told
        return told[-1 - which] if which < len(told) else None

    def tell(self, name: str, producer: Producer) -> None:
        """Somebody was told to be the producer."""
        seen = self.seen[name]
        if seen.told and producer == seen.told[-1]:
            return
        assert producer not in seen.told, "an id and epoch were given twice"
        for earlier in seen.told:
            assert producer.id != earlier.id or producer.epoch > earlier.epoch, "the epoch went back"
        if producer.id not in seen.ids:
            assert all(producer.id not in other.ids for other in self.seen.values()), "an id was given twice"
            seen.ids.add(producer.id)
        assert 0 <= producer.epoch <= HIGHEST
        seen.told.append(producer)

    @rule(name=NAMES, timeout=TIMEOUT, lost=LOST)
    def init(self, name: str, timeout: int, lost: bool) -> None:
        before = self.seen[name].told[-1:]
        answer = self.ask(name, Init("t", timeout), lost)
        if answer is not None:
            assert answer.error == 0
            assert answer.producer not in before, "another producer, another epoch"
            self.seen[name].fenced.update(self.seen[name].told)
            self.tell(name, answer.producer)
            self.closed(name, timeout)

    @rule(name=NAMES, which=WHICH, timeout=TIMEOUT, lost=LOST)
    def init_again(self, name: str, which: int, timeout: int, lost: bool) -> None:
        """A client that knows who it is, or was."""
        claimed = self.who(name, which)
        if claimed is None:
            return
        newest, parts = self.seen[name].told[-1], set(self.seen[name].partitions)
        forgotten = not self.machines[name].stored
        answer = self.ask(name, Init("t", timeout, claimed), lost)
        if answer is None:
            return
        if answer.error:
            assert answer.error == 90
            assert claimed != newest, "who was told last is the producer, or was before a timeout"
            assert not forgotten
            return
        assert forgotten or claimed not in self.seen[name].fenced
        if not forgotten and claimed != newest:
            assert answer.producer == newest, "a retry is told the same"
            assert not parts, "a retry ends nothing"
        self.tell(name, answer.producer)
        self.closed(name, timeout)
        if not forgotten:
            assert self.ask(name, Init("t", timeout, claimed)) == answer, "a retry is told the same"

    @rule(name=NAMES, which=WHICH, partitions=st.lists(PARTITION, min_size=1, max_size=3), lost=LOST)
    def add_partitions(self, name: str, which: int, partitions: list[Partition], lost: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        answer = self.ask(name, AddPartitions("t", claimed, partitions), lost)
        if answer is not None and answer.error == 0:
            self.added(name, claimed, partitions, [])
        elif answer is not None:
            assert answer.error in (49, 90)
            assert self.seen[name].safe != claimed

    @rule(name=NAMES, which=WHICH, group=GROUPS, lost=LOST)
    def add_offsets(self, name: str, which: int, group: str, lost: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        answer = self.ask(name, AddOffsets("t", claimed, group), lost)
        if answer is not None and answer.error == 0:
            self.added(name, claimed, [], [group])

    @rule(name=NAMES, which=WHICH, partition=PARTITION, implicit=st.booleans(), lost=LOST)
    def produce(self, name: str, which: int, partition: Partition, implicit: bool, lost: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        self.wall += 1
        given = self.machines[name].admit(*claimed, partition.topic_id, partition.number, implicit, self.wall)
        if given.error:
            assert not given.rows
            assert self.seen[name].safe != claimed or given.error == 120
            return
        if lost:
            self.machines[name] = self.loaded(name)
            return
        self.commit(name, Step(given.rows, None, ()))
        self.added(name, claimed, [partition], [], implicit)
        log = self.logs[partition]
        for entry in log:
            if entry.producer.id == claimed.id:
                assert entry.producer.epoch <= claimed.epoch, "a zombie wrote behind its fence"
        self.numbers += 1
        log.append(Written(claimed, self.numbers))

    @rule(name=NAMES, which=WHICH, group=GROUPS, implicit=st.booleans())
    def commit_offsets(self, name: str, which: int, group: str, implicit: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        self.wall += 1
        given = self.machines[name].admit_offsets(*claimed, group, implicit, self.wall)
        if given.error == 0:
            self.commit(name, Step(given.rows, None, ()))
            self.added(name, claimed, [], [group], implicit)
        else:
            assert not given.rows

    def added(
        self,
        name: str,
        claimed: Producer,
        partitions: list[Partition],
        groups: list[str],
        may_add: bool = True,
    ) -> None:
        seen = self.seen[name]
        assert claimed not in seen.fenced
        assert claimed == seen.told[-1], "only the newest producer changes anything"
        if not may_add:
            assert seen.partitions.issuperset(partitions)
            assert seen.groups.issuperset(groups)
        if not seen.partitions and not seen.groups:
            seen.verdict.pop(claimed, None)
            seen.safe, seen.recent, seen.since = claimed, None, self.wall
        seen.partitions.update(partitions)
        seen.groups.update(groups)

    @rule(
        name=NAMES, which=WHICH, committed=st.booleans(), bumps=st.booleans(), lost=LOST, again=st.booleans()
    )
    def end_txn(self, name: str, which: int, committed: bool, bumps: bool, lost: bool, again: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        seen = self.seen[name]
        newest, safe, disk = seen.told[-1], seen.safe, dict(self.disk)
        records = self.open_records(claimed.id)
        known = seen.verdict.get(claimed)
        empty_abort = bumps and not committed and claimed == newest
        answer = self.ask(name, EndTxn("t", claimed, committed, bumps), lost)
        if answer is None:
            return
        if answer.error:
            assert dict(self.disk) == disk
            assert safe != claimed, "what is open, is the client's to end"
            assert seen.recent != claimed or known is not committed, (
                "who was told of an end is told of it again"
            )
            return
        assert claimed not in seen.fenced
        assert known is None or known is committed or empty_abort, "another verdict than before"
        if claimed != newest:
            assert dict(self.disk) == disk, "who is fenced changes nothing"
        for partition, number in records:
            assert self.fate(partition, number) is committed, "lost, or torn"
            if committed:
                self.committed.append((partition, number))
        assert not self.open_records(claimed.id)
        if bumps and claimed == newest:
            assert answer.producer != claimed, "another epoch"
        self.tell(name, answer.producer)
        seen.verdict[claimed], seen.recent = committed, claimed
        if again:
            settled = dict(self.disk)
            retry = self.ask(name, EndTxn("t", claimed, committed, bumps))
            assert retry == answer, "a retry is told the same"
            assert dict(self.disk) == settled, "a retry changes nothing"

    @rule(
        name=NAMES,
        partitions=st.lists(PARTITION, min_size=1, max_size=3),
        committed=st.booleans(),
        bumps=st.booleans(),
        lost=LOST,
    )
    def transact(
        self, name: str, partitions: list[Partition], committed: bool, bumps: bool, lost: bool
    ) -> None:
        """What a client with sense does; only its last request may meet the end of the gateway, and is tried again."""
        if not bumps:
            self.add_partitions(name, 0, partitions, False)
        for partition in partitions:
            self.produce(name, 0, partition, bumps, False)
        self.end_txn(name, 0, committed, bumps, lost, True)
        if lost:
            self.end_txn(name, 0, committed, bumps, False, True)

    @rule(name=NAMES, which=WHICH, lost=LOST)
    def abort(self, name: str, which: int, lost: bool) -> None:
        claimed = self.who(name, which)
        if claimed is None:
            return
        open_parts = set(self.seen[name].partitions)
        answer = self.ask(name, Abort("t", claimed), lost)
        if answer is not None and answer.error == 0:
            assert not self.open_records(claimed.id)
        elif answer is not None:
            assert self.seen[name].partitions == open_parts

    # -- time --------------------------------------------------------------------------------------------------------

    @rule(name=NAMES, early=st.integers(0, 2), lost=LOST)
    def wait(self, name: str, early: int, lost: bool) -> None:
        """Until something is due, or shortly before."""
        machine = self.machines[name]
        due = machine.next_due()
        if due is None:
            return
        self.wall = max(self.wall, due - 1 - early)
        late, was = self.wall + 1 >= due, machine.state
        self.ask(name, Tick(), lost)
        if lost or not late:
            assert self.machines[name].state is was
        elif was is State.ONGOING:
            assert not self.seen[name].partitions
            assert not self.seen[name].groups
        else:
            assert self.machines[name].head is None
            self.seen[name].recent = None

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        self.machines[name] = self.loaded(name)

    def closed(self, name: str, timeout: int) -> None:
        """Nothing is open any more, and somebody begins anew."""
        seen = self.seen[name]
        seen.recent, seen.timeout = None, timeout
        assert not seen.partitions
        assert not seen.groups
        for producer_id in seen.ids:
            assert not self.open_records(producer_id)

    # -- always ------------------------------------------------------------------------------------------------------

    @invariant()
    def what_is_open_is_what_was_added(self) -> None:
        for name, machine in self.machines.items():
            seen = self.seen[name]
            assert set(machine.partitions) == seen.partitions
            assert set(machine.groups) == seen.groups
            assert (machine.state is State.ONGOING) is bool(seen.partitions or seen.groups)
            if seen.partitions or seen.groups:
                assert machine.next_due() == seen.since + seen.timeout
            for producer_id in seen.ids:
                for partition, _ in self.open_records(producer_id):
                    assert partition in seen.partitions, "nobody would ever end it"
            described = machine.describe()
            if described is not None:
                assert described.partitions == tuple(sorted(seen.partitions))
                assert described.groups == tuple(sorted(seen.groups))

    @precondition(lambda self: self.committed)
    @invariant()
    def what_was_told_committed_stays_so(self) -> None:
        assert all(self.fate(partition, number) is True for partition, number in self.committed)

    @invariant()
    def the_disk_has_no_more_rows_than_needed(self) -> None:
        rows = sum(
            (machine.head is not None) + len(machine.partitions) + len(machine.groups)
            for machine in self.machines.values()
        )
        assert len(self.disk) == rows


TestIds = Ids.TestCase
TestIds.settings = settings(max_examples=examples(400), stateful_step_count=60, deadline=None)
