"""A Cursor and a naive model are given the same commands, chosen by Hypothesis, and must be of one opinion.

After every step the invariants of the design are checked, and at the end of every run everything that is open must
still come to an end: whatever was done to the cursor, no message is stuck in it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import Row, RowKind
from semantics.subscriptions.states import Batch, Reason, Refusal
from tests.semantics.subscriptions.model import (
    ACCEPT,
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DONE,
    DYING,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Model,
    spread,
)

CONSUMERS = ("ann", "bob", "cid")
SLOTS = (0, 7, 30_000, 65_535)
SHARED = SubscriptionConfig(type="shared")
STRICT = SubscriptionConfig(type="key_shared")
NOT_STRICT = SubscriptionConfig(type="key_shared", strict=False)
OUT_OF_ORDER = SubscriptionConfig(type="key_shared", strict=False, allow_out_of_order=True)

consumers = st.sampled_from(CONSUMERS)
backoffs = st.one_of(st.none(), st.builds(Backoff, st.just(100), st.just(1000)))
configs = {
    "lock_ms": st.sampled_from([500, 2000]),
    "max_locks": st.sampled_from([1, 3, 50]),
    "delivery_limit": st.sampled_from([0, 1, 2, 4]),
    "nack_delay_ms": st.sampled_from([0, 300]),
    "nack_backoff": backoffs,
    "timeout_backoff": backoffs,
    "dead_letters": st.sampled_from([True, True, True, False]),
    "max_delay_ms": st.sampled_from([5000, 10**9]),
}

Rows = dict[tuple[RowKind, bytes], bytes]


def apply(rows: Rows, changes: Iterable[Row]) -> None:
    """As the store does: puts, deletes, and the row that deletes all of its kind."""
    for kind, key, value in changes:
        if value is not None:
            rows[kind, key] = value
        elif key or kind is RowKind.CURSOR:
            rows.pop((kind, key), None)
        else:
            for each in [each for each in rows if each[0] is kind]:
                del rows[each]


class Machine(RuleBasedStateMachine):
    """One subscription on one partition, its log, its consumers, its store."""

    kind = SHARED

    @initialize(
        start=st.sampled_from([0, 1, 1020, 2**40 + 1023]),
        changes=st.fixed_dictionaries(configs),
    )
    def begin(self, start: int, changes: dict[str, object]) -> None:
        self.config = replace(self.kind, **changes)  # type: ignore[arg-type]
        self.now, self.wall = 1_000_000, 1_700_000_000_000
        self.cursor = Cursor.fresh(self.config, start)
        self.model = Model(self.config, start, start)
        # what is in the log: batches with all their delays, due or not
        self.log: list[Batch] = []
        self.log_start = self.log_end = start
        self.attached: set[str] = set()
        self.rows: Rows = {}
        self.burying: list[tuple[int, int]] = []
        self.commit()

    # the log

    @rule(
        gap=st.sampled_from([0, 0, 0, 1, 5]),
        slots=st.lists(st.sampled_from(SLOTS), min_size=1, max_size=12),
        delays=st.dictionaries(st.integers(0, 11), st.sampled_from([-1, 0, 1, 900, 4000, 10**7]), max_size=3),
        dead=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 11)),
        skip=st.sampled_from([False, False, False, False, True]),
    )
    def publish(
        self, gap: int, slots: list[int], delays: dict[int, int], dead: int | None, skip: bool
    ) -> None:
        first, count = self.log_end + gap, len(slots)
        self.log_end = first + count
        broken = (
            []
            if dead is None or dead >= count or skip
            else [(first + dead, self.log_end - 1, Reason.CORRUPT)]
        )
        delayed = [(first + i, self.wall + d) for i, d in sorted(delays.items()) if i < count and not skip]
        if broken:
            delayed = [(offset, due) for offset, due in delayed if offset < broken[0][0]]
        self.log.append(
            Batch(
                first,
                self.log_end,
                array("H", slots) if self.config.type == "key_shared" else None,
                delayed,
                broken,
                skip,
            )
        )

    @precondition(lambda self: self.cursor.read < self.log_end)
    @rule(batches=st.integers(1, 4))
    def feed(self, batches: int) -> None:
        unread = [batch for batch in self.log if batch.next > self.cursor.read][:batches]
        learnt = [
            batch._replace(delayed=[(offset, due) for offset, due in batch.delayed if due > self.wall])
            for batch in unread
        ]
        self.cursor.feed(learnt, self.now, self.wall)
        self.model.feed(learnt, self.wall)

    # consumers

    @rule(consumer=consumers)
    def attach(self, consumer: str) -> None:
        assume(consumer not in self.attached)
        self.attached.add(consumer)
        self.cursor.attach(consumer, self.now)

    @rule(consumer=consumers, graceful=st.booleans())
    def detach(self, consumer: str, graceful: bool) -> None:
        assume(consumer in self.attached)
        self.attached.discard(consumer)
        self.cursor.detach(consumer, graceful, self.now, self.wall)
        self.model.detach(consumer, graceful, self.wall)

    @rule(owners=st.lists(st.sampled_from([*CONSUMERS, *CONSUMERS, None]), min_size=4, max_size=4))
    def reassign(self, owners: list[str | None]) -> None:
        assume(self.config.type == "key_shared")
        ends = [*SLOTS[1:], 65_536]
        self.model.owners = [
            (start, end, owner)
            for start, end, owner in zip(SLOTS, ends, owners, strict=True)
            if owner is not None
        ]
        self.cursor.reassign(self, self.now)

    def ranges(self) -> list[tuple[int, int, str]]:
        return self.model.owners

    @rule(consumer=consumers, limit=st.sampled_from([1, 2, 5, 1000]))
    def poll(self, consumer: str, limit: int) -> None:
        assume(consumer in self.attached)
        worth = self.cursor.can_serve(consumer, self.log_end)
        given = self.cursor.poll(consumer, limit, self.now, self.wall)
        assert worth or not given, "a consumer that would have been given something was not worth waking"
        self.model.poll(consumer, limit, self.now, given)

    @rule(consumer=consumers, limit=st.integers(1, 9), keep=st.integers(0, 4))
    def poll_and_give_back(self, consumer: str, limit: int, keep: int) -> None:
        assume(consumer in self.attached)
        given = self.cursor.poll(consumer, limit, self.now, self.wall)
        self.model.poll(consumer, limit, self.now, given)
        back = list(spread(given))[keep:]
        if back:
            self.cursor.give_back(consumer, runs(back), self.now)
            self.model.give_back(back)

    @rule(
        consumer=consumers,
        data=st.data(),
        kind=st.sampled_from([ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW, GAP, None]),
    )
    def acknowledge(self, consumer: str, data: st.DataObject, kind: int | None) -> None:
        held = self.model.held_by(consumer)
        assume(held)
        chosen = data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=12, unique=True).map(sorted))
        batches = []
        for first, last in runs(chosen):
            if kind is not None:
                types = bytes([kind])
            else:
                count = last - first + 1
                types = bytes(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
            batches.append((first, last, types))
        self._acknowledge(consumer, batches)

    @rule(
        consumer=consumers,
        ranges=st.lists(st.tuples(st.integers(-6, 12), st.integers(-1, 4)), min_size=1, max_size=3),
        types=st.binary(max_size=3).map(lambda b: bytes(v % 6 for v in b)),
    )
    def acknowledge_anything(self, consumer: str, ranges: list[tuple[int, int]], types: bytes) -> None:
        base = self.model.start
        batches = [
            (max(base + first, 0), max(base + first, 0) + more, types or bytes([ACCEPT]))
            for first, more in ranges
        ]
        self._acknowledge(consumer, batches)

    def _acknowledge(self, consumer: str, batches: list[tuple[int, int, bytes]]) -> None:
        expected = self.model.acknowledge(consumer, batches, self.now, self.wall)
        refusal = self.cursor.acknowledge(consumer, batches, self.now, self.wall)
        if expected is None or refusal is None:
            assert refusal == expected
        else:
            assert refusal in Refusal

    # time

    @rule(
        ms=st.sampled_from([0, 1, 99, 100, 500, 501, 2000, 10_000, 10**8]),
        jump=st.sampled_from([0, 0, -700, 3000]),
    )
    def time_passes(self, ms: int, jump: int) -> None:
        self.now += ms
        self.wall += ms + jump
        self.load_due()
        self.cursor.tick(self.now, self.wall)
        self.model.tick(self.now, self.wall)
        mono, wall = self.cursor.next_due(self.now, self.wall)
        assert mono is None or mono > self.now, "the same tick would be asked for again"
        assert wall is None or wall > self.wall or self.cursor.needs_due

    def load_due(self) -> None:
        while (asked := self.cursor.needs_due) is not None:
            self.commit()
            keys = sorted(key for kind, key in self.rows if kind is RowKind.DUE and key >= asked.key)
            page = keys[: asked.limit]
            self.cursor.due_loaded(
                [Row(RowKind.DUE, key, self.rows[RowKind.DUE, key]) for key in page], len(page) == len(keys)
            )

    # dead letters

    @rule(limit=st.sampled_from([1, 3, 100]))
    def take_dying(self, limit: int) -> None:
        given = self.cursor.dying(limit)
        self.model.dying(limit, given)
        self.burying += [(dying.first, dying.last) for dying in given]

    @precondition(lambda self: self.burying)
    @rule(succeeds=st.booleans(), later=st.sampled_from([0, 50, 5000]))
    def bury(self, succeeds: bool, later: int) -> None:
        ranges, self.burying = self.burying, []
        offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
        if succeeds:
            self.cursor.buried(ranges)
            self.model.buried(offsets)
        else:
            self.cursor.not_buried(ranges, "the topic is full", self.wall + later)
            self.model.not_buried(offsets, self.wall + later)

    # administration

    @rule(part=st.integers(0, 20))
    def trim(self, part: int) -> None:
        self.log_start = max(self.log_start, min(self.model.start + part, self.log_end))
        self.log = [batch for batch in self.log if batch.next > self.log_start]
        self.cursor.trimmed(self.log_start)
        self.model.trimmed(self.log_start)
        self._forget_burials()

    @rule(count=st.sampled_from([0, 1, 3, 1000]))
    def skip(self, count: int) -> None:
        assert self.cursor.skip(count, self.log_end) == self.model.skip(count, self.log_end)
        self._forget_burials()

    @rule()
    def clear(self) -> None:
        self.cursor.clear(self.log_end)
        self.model.clear(self.log_end)
        self._forget_burials()

    @rule(part=st.floats(0, 1))
    def seek(self, part: float) -> None:
        offset = self.log_start + int((self.log_end - self.log_start) * part)
        self.cursor.seek(offset)
        self.model.seek(offset)
        self.burying = []

    def _forget_burials(self) -> None:
        """The appends under way when messages were skipped still end, and say so; whoever buries asks first."""
        self.burying = [
            (offset, offset)
            for first, last in self.burying
            for offset in range(first, last + 1)
            if self.model.state(offset) == DYING
        ]

    @rule(changes=st.fixed_dictionaries({}, optional=configs))
    def reconfigure(self, changes: dict[str, object]) -> None:
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]
        self.cursor.reconfigure(self.config)
        self.model.config = self.config

    # the store

    @rule()
    def commit(self) -> None:
        apply(self.rows, self.cursor.writes())
        self.stored = self.model.copy()

    @rule(
        saved=st.booleans(),
        due_at_once=st.booleans(),
        clock=st.integers(0, 10**6),
        down=st.sampled_from([0, 0, 800, 10**6]),
    )
    def crash(self, saved: bool, due_at_once: bool, clock: int, down: int) -> None:
        """The gateway dies, perhaps before its last rows were written, and comes back."""
        if saved:
            self.commit()
        self.now, self.wall = clock, self.wall + down
        self.attached.clear()
        self.burying = []
        owners = self.model.owners
        self.model = self.stored.copy()
        self.model.config = self.config
        self.model.crashed()
        self.model.trimmed(self.log_start)
        rows = [
            Row(kind, key, value)
            for (kind, key), value in self.rows.items()
            if due_at_once or kind is not RowKind.DUE
        ]
        self.cursor = Cursor.load(self.config, rows, self.log_start, self.log_end, self.wall)
        if self.config.type == "key_shared":
            for message in self.model.messages.values():
                message.read = False
            self.model.read = self.cursor.read
            assert self.cursor.read >= self.model.start
            self.model.owners = owners
            self.cursor.reassign(self, self.now)
        else:
            assert self.model.start <= self.cursor.read <= self.model.read
            self.model.forget_from(self.cursor.read)
        self.load_due()
        self.commit()

    # what is always true

    @invariant()
    def always(self) -> None:
        self.the_same_state()
        self.the_same_numbers()
        self.mark_delete_plus_one_is_open()
        self.one_consumer_a_slot()
        self.timers_are_set()

    def the_same_state(self) -> None:
        assert (self.cursor.start, self.cursor.read) == (self.model.start, self.model.read)
        for offset, message in self.model.messages.items():
            if not message.read:
                continue
            seen = self.cursor.look(offset)
            said = AVAILABLE if seen.state == "BLOCKED" else seen.state
            assert said == message.state, f"{offset} is {seen}, not {message}"
            assert seen.count == message.count or message.state == DONE, f"{offset} is {seen}, not {message}"
            if message.state == ACQUIRED:
                assert (seen.consumer, seen.deadline) == (message.consumer, message.deadline)
            if message.state in (DELAYED, BACKOFF) and seen.due is not None:
                assert seen.due == message.due
            if message.state == AVAILABLE and self.config.type == "key_shared":
                owner = self.model.owner(message.slot)
                must = owner is not None and self.model.must_have(offset, owner)
                may = owner is not None and not self.model.is_held_back(offset, owner)
                assert must <= (seen.state == AVAILABLE) <= may, f"{offset} is {seen}, not {message}"

    def the_same_numbers(self) -> None:
        assert (
            self.cursor.acquired
            == len(self.model.having(ACQUIRED))
            <= max(self.config.max_locks, self.cursor.acquired)
        )
        if all(message.read for message in self.model.messages.values()):
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
                assert len({message.consumer for message in held}) <= 1
                assert len(held) <= 1 or not self.config.strict

    def timers_are_set(self) -> None:
        mono, wall = self.cursor.next_due(self.now, self.wall)
        deadlines = [m.deadline for m in self.model.messages.values() if m.deadline is not None]
        if deadlines:
            assert mono is not None
            assert mono <= min(deadlines)
        dues = [m.due or m.retry for m in self.model.messages.values() if m.read and (m.due or m.retry)]
        if dues and not self.cursor.needs_due:
            assert wall is not None
            assert wall <= min(due for due in dues if due is not None)

    def teardown(self) -> None:
        """Given time and a consumer that accepts, everything ends, and nothing is left over."""
        if not hasattr(self, "cursor") or sys.exc_info()[0] is not None:
            return
        for consumer in sorted(self.attached):
            self.detach(consumer, True)
        assert not self.attached
        self.attach("ann")
        self.reassign_all("ann")
        for _ in range(10_000):
            if self.cursor.start == self.log_end:
                break
            if self.cursor.read < self.log_end:
                self.feed(100)
            self.poll("ann", 1000)
            for first, last in runs(self.model.held_by("ann")):
                self._acknowledge("ann", [(first, last, bytes([ACCEPT]))])
            self.take_dying(1000)
            if self.burying:
                self.bury(True, 0)
            self.time_passes(10**8, 0)
            self.always()
        assert self.cursor.start == self.cursor.read == self.log_end, "something is stuck"
        # due times of what was skipped
        self.time_passes(10**10, 0)
        self.commit()
        left = [(kind, key) for kind, key in self.rows if kind is not RowKind.CURSOR]
        assert not left, f"rows that nothing needs: {left}"

    def reassign_all(self, consumer: str) -> None:
        if self.config.type == "key_shared":
            self.reassign([consumer] * 4)


def runs(offsets: list[int]) -> list[tuple[int, int]]:
    """Ascending offsets as (first, last)."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def machine(config: SubscriptionConfig) -> type:
    test = type("Test", (Machine,), {"kind": config}).TestCase
    test.settings = settings(
        max_examples=120,
        stateful_step_count=40,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    return test


TestShared = machine(SHARED)
TestKeySharedStrict = machine(STRICT)
TestKeySharedNotStrict = machine(NOT_STRICT)
TestKeySharedOutOfOrder = machine(OUT_OF_ORDER)
