"""A cursor beside its naive model, the log, the consumers and the store; and what must be true after every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.owners import SEVERAL
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.states import Batch
from tests.semantics.subscriptions.model import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DONE,
    DYING,
    TRUSTEES,
    Model,
)
from tests.semantics.subscriptions.small import KEPT, SHARE

CONSUMERS = ("ann", "bob", "cid")


SLOTS = (0, 7, 30_000, 65_535)


SHARED = SubscriptionConfig(type="shared")


backoffs = st.one_of(st.none(), st.builds(Backoff, st.just(100), st.just(1000)))


configs = {
    "lock_ms": st.sampled_from([500, 2000]),
    "max_locks": st.sampled_from([1, 5, 50, 50]),
    "delivery_limit": st.sampled_from([0, 1, 2, 4, 4]),
    "nack_delay_ms": st.sampled_from([0, 300]),
    "nack_backoff": backoffs,
    "timeout_backoff": backoffs,
    "dead_letters": st.sampled_from([True, True, True, False]),
    "leave_counts": st.booleans(),
    "receiver_queue": st.sampled_from([3, 1000, 1000]),
    "strict_delay": st.sampled_from([True, True, True, False]),
    "lookahead": st.sampled_from([1, 6, 6, 20_000]),
}


Rows = dict[tuple[RowKind, bytes], bytes]


def apply(rows: Rows, changes: Iterable[CursorRow]) -> None:
    """As the store does: puts, deletes, and the row that deletes all of its kind."""
    for kind, key, value in changes:
        if value is not None:
            rows[kind, key] = value
        elif key or kind == RowKind.CURSOR:
            rows.pop((kind, key), None)
        else:
            for each in [each for each in rows if each[0] == kind]:
                del rows[each]


class Compared(RuleBasedStateMachine):
    """One subscription on one partition, its log, its consumers, its store."""

    kind = SHARED
    cursors: type[Cursor] = Cursor
    # of an offset, to the number of its chunk
    shift = 10
    most_due = 32_768

    @initialize(
        start=st.sampled_from([0, 1, 1020, 2**40 + 1023]),
        changes=st.fixed_dictionaries(configs),
        there=st.sampled_from([CONSUMERS, CONSUMERS[:2], ()]),
    )
    def begin(self, start: int, changes: dict[str, object], there: tuple[str, ...]) -> None:
        self.config = replace(self.kind, **changes)  # type: ignore[arg-type]
        self.now, self.wall = 1_000_000, 1_700_000_000_000
        self.cursor = self.cursors.fresh(self.config, start)
        self.model = Model(self.config, start, start)
        # what is in the log: batches with all their delays, due or not
        self.log: list[Batch] = []
        self.log_start = self.log_end = start
        self.attached: set[str] = set()
        # draining slot -> since when
        self.since: dict[int, int] = {}
        # slots of which several were in hand when `strict` came to hold
        self.several: set[int] = set()
        self.rows: Rows = {}
        self.burying: list[tuple[int, int]] = []
        self.commit()
        for consumer in there:
            self.attached.add(consumer)
            self.cursor.attach(consumer, self.now)
        if there:
            self.assign([there[number % len(there)] for number in range(4)])

    def assign(self, owners: Sequence[str | None]) -> None:
        ends = [*SLOTS[1:], 65_536]
        self.model.owners = [
            (start, end, owner)
            for start, end, owner in zip(SLOTS, ends, owners, strict=True)
            if owner is not None
        ]
        self.cursor.reassign(self, self.now)
        self.since = {slot: self.since.get(slot, self.now) for slot in self.model.draining()}

    def ranges(self) -> list[tuple[int, int, str]]:
        return self.model.owners

    @rule()
    def commit(self) -> None:
        apply(self.rows, self.cursor.writes())
        self.stored = self.model.copy()
        if not self.model.having(DELAYED, BACKOFF) and self.cursor.needs_due is None:
            left = [key for kind, key in self.rows if kind == RowKind.DUE]
            assert not left, f"due rows that nothing waits for: {left}"

    # whether enough was read

    def is_full(self) -> bool:
        """Key_Shared: whether so much waits that no more is to be read."""
        if self.config.type != "key_shared":
            return False
        if self.cursor.window_full:
            assert sum(self.model.waiting().values()) >= self.config.lookahead
            assert self.cursor.deep()
            return True
        return sum(self.shallow()) >= self.config.lookahead

    def shallow(self) -> list[int]:
        """How many wait of each slot that is not deep."""
        deep = {each.slot for each in self.cursor.deep()}
        return [count for slot, count in self.model.waiting().items() if slot not in deep]

    def no_slot_has_it_all(self) -> None:
        """Small: when no more is read, it is not for one slot's sake."""
        if self.cursors is not Cursor and self.config.strict and not self.cursor.window_full:
            shallow = self.shallow()
            # what is parked and what is in queues is weighed each by itself, and not for each single one
            assert max(shallow) <= 2 * max(2 * KEPT, sum(shallow) // SHARE) + sum(shallow) // 8 + 1

    # what is always true

    @invariant()
    def always(self) -> None:
        self.the_same_state()
        self.the_same_numbers()
        self.mark_delete_plus_one_is_open()
        self.one_consumer_a_slot()
        self.who_drains()
        self.timers_are_set()
        self.memory_of_due_times()
        self.who_is_deep()

    def the_same_state(self) -> None:
        while self.model.read < self.cursor.read and self.model.state(self.model.read) == DONE:
            # Key_Shared, reading again: what is known to be settled may be passed over
            self.model.read += 1
        assert (self.cursor.start, self.cursor.read) == (self.model.start, self.model.read)
        for offset, message in self.model.messages.items():
            if not message.read:
                continue
            seen = self.cursor.look(offset)
            said = AVAILABLE if seen.state == "BLOCKED" else seen.state
            # what could not be buried is shown as what it does: it waits
            state = BACKOFF if message.retry is not None else message.state
            assert said == state, f"{offset} is {seen}, not {message}"
            assert seen.count == message.count or message.state == DONE, f"{offset} is {seen}, not {message}"
            if message.state == ACQUIRED:
                assert (seen.consumer, seen.deadline) == (message.consumer, message.deadline)
            if message.state in (DELAYED, BACKOFF) and seen.due is not None:
                assert seen.due == message.due
            if message.state == AVAILABLE and self.config.type == "key_shared":
                owner = self.model.owner(message.slot)
                # whoever asks: while nobody owns anything it is a consumer that is missing, and no slot is in the way
                nobodys = owner is None and bool(self.model.owners)
                waits = nobodys or self.model.is_held_back(offset, owner or "")
                assert (seen.state == "BLOCKED") == waits, f"{offset} is {seen}, not {message}"

    def the_same_numbers(self) -> None:
        assert (
            self.cursor.acquired
            == len(self.model.having(ACQUIRED))
            <= max(self.config.max_locks, self.cursor.acquired)
        )
        stats = self.cursor.stats()
        assert stats["expired"] == self.model.expired
        assert stats["redelivering"] == sum(
            m.state == AVAILABLE and m.count > 0 for m in self.model.messages.values()
        )
        if all(message.read for message in self.model.messages.values()):
            assert (stats["delayed"], stats["backoff"], stats["dying"]) == tuple(
                len(self.model.having(state)) for state in (DELAYED, BACKOFF, DYING)
            )
            assert stats["open"] == sum(m.state != DONE for m in self.model.messages.values())
            assert self.cursor.available == len(self.model.having(AVAILABLE))
            assert self.cursor.waiting == len(self.model.having(DELAYED, BACKOFF))

    def mark_delete_plus_one_is_open(self) -> None:
        assert self.cursor.start == self.cursor.read or self.cursor.look(self.cursor.start).state != DONE

    def one_consumer_a_slot(self) -> None:
        if self.config.type == "key_shared" and not self.config.allow_out_of_order:
            for slot in SLOTS:
                held = [
                    message
                    for message in self.model.messages.values()
                    if message.state == ACQUIRED and message.slot == slot
                ]
                assert len({message.consumer for message in held} - {*TRUSTEES}) <= 1
                if len(held) <= 1:
                    self.several.discard(slot)
                assert len(held) <= 1 or not self.config.strict or slot in self.several

    def who_drains(self) -> None:
        draining = self.model.draining()
        self.since = {slot: since for slot, since in self.since.items() if slot in draining}
        for slot in draining:
            # it was read again after a start
            self.since.setdefault(slot, 0)
        seen = {each.slot: (each.holder, each.in_hand) for each in self.cursor.draining()}
        # some hands of one may have become one hand, which is not looked for
        assert {
            slot: (SEVERAL if seen[slot][0] == SEVERAL else who, n) for slot, (who, n) in draining.items()
        } == seen
        assert {each.slot: each.since for each in self.cursor.draining()} == self.since
        assert all(each.owner == self.model.owner(each.slot) for each in self.cursor.draining())

    def who_is_deep(self) -> None:
        keyed = self.cursor._records.keyed
        if keyed is None or self.config.allow_out_of_order or not self.config.strict:
            return
        waiting = self.model.waiting()
        for each in self.cursor.deep():
            assert (each.waiting, each.owner) == (waiting.pop(each.slot), self.model.owner(each.slot))
        assert keyed.queued == sum(waiting.values())

    def memory_of_due_times(self) -> None:
        times = self.cursor._records.due
        runs = sum(len(group.runs) for group in times._groups.values())
        assert times._size == runs + sum(map(len, times._delayed.values())) <= self.most_due
        assert sorted(times._groups.keys() | times._delayed.keys()) == sorted(times._heap)

    def timers_are_set(self) -> None:
        mono, wall = self.cursor.next_due(self.now, self.wall)
        deadlines = [m.deadline for m in self.model.messages.values() if m.deadline is not None]
        assert (mono is None) == (not deadlines)
        if deadlines and mono is not None:
            assert mono <= min(deadlines)
        holding = self.cursor.holding()
        assert {name: holding.pop(name) for name in self.attached} == {
            name: len(self.model.held_by(name)) for name in self.attached
        }
        assert all(holding[name] == len(self.model.held_by(name)) for name in holding)
        assert holding.keys() <= {*TRUSTEES}
        dues = [m.due or m.retry for m in self.model.messages.values() if m.read and (m.due or m.retry)]
        if dues and not self.cursor.needs_due:
            assert wall is not None
            assert wall <= min(due for due in dues if due is not None)
