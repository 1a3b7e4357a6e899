"""A Cursor and a naive model are given the same commands, chosen by Hypothesis, and must be of one opinion.

After every step the invariants of the design are checked, and at the end of every run everything that is open must
still come to an end: whatever was done to the cursor, no message is stuck in it.
"""

from __future__ import annotations

import os
import random
import sys
from array import array
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from semantics.subscriptions.chosen import Act
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.states import Batch, Ending, Reason
from tests.examples import examples
from tests.semantics.subscriptions.checked import Checked
from tests.semantics.subscriptions.compared import CONSUMERS, SHARED, SLOTS, Compared, configs
from tests.semantics.subscriptions.driving import left_over
from tests.semantics.subscriptions.model import (
    ACCEPT,
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DYING,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    TRUSTEES,
    spread,
)
from tests.semantics.subscriptions.small import MOST, small_cursor

STRICT = SubscriptionConfig(type="key_shared")
NOT_STRICT = SubscriptionConfig(type="key_shared", strict=False)
OUT_OF_ORDER = SubscriptionConfig(type="key_shared", strict=False, allow_out_of_order=True)

SHRINK = bool(os.environ.get("SHRINK"))

consumers = st.sampled_from(CONSUMERS)


class Machine(Compared):
    # the log

    @rule(
        gap=st.sampled_from([0, 0, 0, 1, 5]),
        slots=st.lists(st.sampled_from(SLOTS), min_size=1, max_size=40),
        delays=st.dictionaries(st.integers(0, 39), st.sampled_from([-1, 0, 1, 900, 4000, 10**7]), max_size=6),
        dead=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 39)),
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
                array("H", slots),
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

    @precondition(lambda self: len(self.attached) < len(CONSUMERS))
    @rule(data=st.data())
    def attach(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(sorted(set(CONSUMERS) - self.attached)))
        self.attached.add(consumer)
        self.cursor.attach(consumer, self.now)

    @precondition(lambda self: self.attached)
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def detach(self, data: st.DataObject, ending: Ending) -> None:
        self.leaves(data.draw(st.sampled_from(sorted(self.attached))), ending)

    def leaves(self, consumer: str, ending: Ending) -> None:
        self.attached.discard(consumer)
        self.cursor.detach(consumer, ending, self.now, self.wall)
        self.model.detach(consumer, ending, self.wall)

    @precondition(lambda self: self.config.type == "key_shared")
    @rule(owners=st.lists(st.sampled_from([*CONSUMERS, *CONSUMERS, None]), min_size=4, max_size=4))
    def reassign(self, owners: list[str | None]) -> None:
        self.assign(owners)

    @precondition(lambda self: self.attached)
    @rule(data=st.data(), limit=st.sampled_from([1, 2, 5, 1000]))
    def poll(self, data: st.DataObject, limit: int) -> None:
        self.polls(data.draw(st.sampled_from(sorted(self.attached))), limit)

    @precondition(lambda self: self.attached and self.model.having(AVAILABLE))
    @rule(data=st.data(), limit=st.sampled_from([3, 1000]))
    def poll_what_is_there(self, data: st.DataObject, limit: int) -> None:
        self.polls(data.draw(st.sampled_from(sorted(self.attached))), limit)

    def polls(self, consumer: str, limit: int) -> list[int]:
        room, ready = self.model.room(consumer), self.model.deliverable(consumer)
        worth = self.cursor.can_serve(consumer, self.log_end)
        more = self.cursor.wants_more(consumer)
        if not room:
            assert not worth
            assert not more
        elif ready:
            assert worth, f"not worth waking {consumer} for {ready}"
        else:
            if self.is_full():
                assert not more, "enough is waiting, and more would be read"
            if not self.cursor.poll(consumer, limit, self.now, self.wall):
                # after a poll in vain it is known that there is nothing for it
                more = self.cursor.wants_more(consumer)
                assert more == (not self.is_full())
                if more:
                    assert self.cursor.can_serve(consumer, self.log_end) == (self.cursor.read < self.log_end)
                else:
                    self.no_slot_has_it_all()
        given = self.cursor.poll(consumer, limit, self.now, self.wall)
        assert worth or not given, "a consumer that would have been given something was not worth waking"
        self.model.poll(consumer, limit, self.now, given)
        return list(spread(given))

    @precondition(lambda self: self.attached and self.model.having(AVAILABLE))
    @rule(data=st.data(), limit=st.integers(1, 9), keep=st.integers(0, 4))
    def poll_and_give_back(self, data: st.DataObject, limit: int, keep: int) -> None:
        consumer = data.draw(st.sampled_from(sorted(self.attached)))
        back = self.polls(consumer, limit)[keep:]
        if back:
            self.cursor.give_back(consumer, runs(back), self.now)
            self.model.give_back(back)

    @precondition(lambda self: self.model.having(ACQUIRED))
    @rule(
        data=st.data(),
        kind=st.sampled_from([ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW, GAP, None]),
    )
    def acknowledge(self, data: st.DataObject, kind: int | None) -> None:
        consumer = data.draw(st.sampled_from(sorted(c for c in self.attached if self.model.held_by(c))))
        held = self.model.held_by(consumer)
        some = st.lists(st.sampled_from(held), min_size=1, max_size=12, unique=True).map(sorted)
        chosen = data.draw(st.one_of(some, st.just(held)))
        batches = []
        for first, last in runs(chosen):
            if kind is not None:
                types = bytes([kind])
            else:
                count = last - first + 1
                types = bytes(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
            batches.append((first, last, types))
        self._acknowledge(consumer, batches)

    @precondition(lambda self: self.attached)
    @rule(seed=st.integers(0, 10**6))
    def live(self, seed: int) -> None:
        """A little of everything that goes on all the time, so that there is much for the other rules to disturb."""
        pick = random.Random(seed)
        if pick.random() < 0.5:
            # a slot may have most of it
            often = [pick.choice(SLOTS)] * pick.choice([0, 0, 20])
            slots = [pick.choice([*SLOTS, *often]) for _ in range(pick.randint(1, 30))]
            delays = {pick.randrange(30): pick.choice([1, 900, 4000]) for _ in range(pick.choice([0, 2, 8]))}
            self.publish(pick.choice([0, 2]), slots, delays, None, False)
        if self.cursor.read < self.log_end:
            self.feed(pick.randint(1, 3))
        for consumer in sorted(self.attached):
            for _ in range(pick.choice([1, 2])):
                self.polls(consumer, pick.choice([2, 1000]))
            held = self.model.held_by(consumer)
            chosen = sorted(pick.sample(held, pick.randint(0, len(held))))
            kinds = [bytes([pick.choice([ACCEPT, ACCEPT, RELEASE, REJECT, RENEW])]) for _ in chosen]
            if chosen and pick.random() < 0.3:
                self._acknowledge(consumer, [(*run, kinds[0]) for run in runs(chosen)])
            elif chosen:
                self._acknowledge(consumer, [(at, at, kind) for at, kind in zip(chosen, kinds, strict=True)])
        if pick.random() < 0.3:
            self.time_passes(pick.choice([100, 500, 2000]), 0)

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
        if batches and all(types == bytes([ACCEPT]) for _, _, types in batches):
            firsts, lasts, _ = zip(*batches, strict=True)
            if self.cursor.accept(consumer, np.array(firsts, np.int64), np.array(lasts, np.int64)):
                assert expected is None, f"accepted, not {expected}"
                return
        refusal = self.cursor.acknowledge(consumer, batches, self.now, self.wall)
        # which of the two it is, where there are reasons for both, is not said
        assert (refusal is None) == (expected is None), f"{refusal}, not {expected}"

    # transactions

    @precondition(lambda self: self.model.having(ACQUIRED))
    @rule(data=st.data(), trustee=st.sampled_from(TRUSTEES), some=st.integers(1, 7))
    def entrust(self, data: st.DataObject, trustee: str, some: int) -> None:
        """A consumer says something inside of a transaction."""
        names = {self.model.messages[offset].consumer or "" for offset in self.model.having(ACQUIRED)}
        consumer = data.draw(st.sampled_from(sorted(names)))
        before = self.model.draining()
        offsets = [offset for offset in self.model.held_by(consumer) if offset % 7 < some]
        if consumer in TRUSTEES:
            return
        said = runs(offsets)
        assert all(who == consumer for *_, who, _ in self.cursor.holders(said))
        moved = self.cursor.entrust(consumer, trustee, said, self.now)
        assert [offset for first, last in moved for offset in range(first, last + 1)] == offsets
        assert self.cursor.entrust(consumer, trustee, said, self.now) == [], "they are not its own any more"
        self.model.entrust(offsets, trustee)
        self.since |= {slot: self.now for slot in self.model.draining() if slot not in before}

    @precondition(lambda self: any(self.model.held_by(trustee) for trustee in TRUSTEES))
    @rule(trustee=st.sampled_from(TRUSTEES), committed=st.booleans(), kind=st.sampled_from([ACCEPT, REJECT]))
    def end_transaction(self, trustee: str, committed: bool, kind: int) -> None:
        theirs = runs(self.model.held_by(trustee))
        if committed:
            say = self.cursor.settle if kind == ACCEPT else self.cursor.reject
            say(trustee, theirs, self.now, self.wall)
            batches = [(first, last, bytes([kind])) for first, last in theirs]
            assert self.model.acknowledge(trustee, batches, self.now, self.wall) is None
        self.cursor.detach(trustee, Ending.CRASHED, self.now, self.wall)
        self.model.detach(trustee, Ending.CRASHED, self.wall)

    # time

    @rule(
        ms=st.sampled_from([0, 1, 99, 100, 500, 501, 2000, 10_000, 10**8]),
        jump=st.sampled_from([0, 0, -700, -20_000, 3000]),
    )
    def time_passes(self, ms: int, jump: int) -> None:
        self.now += ms
        self.wall += ms + jump
        self.cursor.tick(self.now, self.wall)
        loaded = False
        while self.cursor.needs_due is not None:
            # what is loaded may be due already
            self.load_due()
            self.cursor.tick(self.now, self.wall)
            loaded = True
        self.model.tick(self.now, self.wall)
        if loaded:
            # what was stored meanwhile knew of the tick, and the model did not yet
            self.commit()
        mono, wall = self.cursor.next_due(self.now, self.wall)
        assert mono is None or mono > self.now, "the same tick would be asked for again"
        assert wall is None or wall > self.wall or self.cursor.needs_due

    def load_due(self) -> None:
        while (asked := self.cursor.needs_due) is not None:
            self.commit()
            keys = sorted(key for kind, key in self.rows if kind == RowKind.DUE and key >= asked.key)
            page = keys[: asked.limit]
            self.cursor.due_loaded(
                [CursorRow(RowKind.DUE, key, self.rows[RowKind.DUE, key]) for key in page],
                len(page) == len(keys),
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

    @rule(
        do=st.sampled_from(Act),
        part=st.integers(0, 20),
        some=st.lists(st.integers(0, 20), max_size=6, unique=True),
    )
    def act(self, do: Act, part: int, some: list[int]) -> None:
        """An administrator names messages, or a range of them."""
        first = self.model.start + part
        offsets = sorted(first + each for each in some) or list(range(first, first + 10))
        if do is Act.DELIVER_NOW and self.cursor.due_beyond is not None:
            # a backoff of which only the rows know ends early when the record backs off again
            offsets = [each for each in offsets if self.model.state(each) != BACKOFF]
        offsets = [each for each in offsets if each < self.cursor.known]
        did = self.cursor.act(do, runs(offsets), self.attached)
        assert did == self.model.act(do, offsets, self.attached)

    @rule(part=st.integers(0, 20))
    def expire(self, part: int) -> None:
        """Retention, which takes nothing that is held."""
        before = min(self.model.start + part, self.log_end)
        held = self.model.first_held(before)
        assert self.cursor.first_held(before) == held
        if held is None:
            assert self.cursor.expire(before) == self.model.expire(before)

    @rule(skipped=st.sampled_from([0, 0, 3]), part=st.integers(0, 20), kept=st.sets(st.integers(0, 20)))
    def expire_open(self, skipped: int, part: int, kept: set[int]) -> None:
        """A time to live, which spares what was due not long ago: that was read."""
        first = min(self.model.start + skipped, self.cursor.known)
        end = min(first + part, self.log_end)
        keep = [offset for offset in sorted(first + each for each in kept) if offset < self.cursor.known]
        assert self.cursor.expire_open(first, end, keep) == self.model.expire_open(first, end, keep)

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

    @precondition(lambda self: not self.model.having(ACQUIRED))
    @rule(like=st.sampled_from([SHARED, STRICT, NOT_STRICT, OUT_OF_ORDER]))
    def retype(self, like: SubscriptionConfig) -> None:
        before = self.config
        self.config = replace(
            before, type=like.type, strict=like.strict, allow_out_of_order=like.allow_out_of_order
        )
        self.cursor.reconfigure(self.config)
        self.model.retyped(self.config, self.cursor.read)
        if self.config.type == "key_shared" != before.type:
            self.cursor.reassign(self, self.now)

    @precondition(lambda self: self.config.type == "key_shared" and not self.config.allow_out_of_order)
    @rule()
    def strict_or_not(self) -> None:
        self.config = self.model.config = replace(self.config, strict=not self.config.strict)
        self.cursor.reconfigure(self.config)
        held = [self.model.messages[offset].slot for offset in self.model.having(ACQUIRED)]
        self.several = {slot for slot in held if held.count(slot) > 1}

    # the store

    @rule(
        saved=st.booleans(),
        due_at_once=st.booleans(),
        clock=st.integers(0, 10**6),
        down=st.sampled_from([0, 0, 800, 10**6]),
        lost=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def crash(self, saved: bool, due_at_once: bool, clock: int, down: int, lost: int) -> None:
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
        for _ in range(lost):
            # the log lost its last batch, which was not synced
            if len(self.log) > 1:
                self.log.pop()
                self.log_end = self.log[-1].next
        self.model.cut(self.log_end)
        rows = [
            CursorRow(kind, key, value)
            for (kind, key), value in self.rows.items()
            if due_at_once or kind != RowKind.DUE
        ]
        self.cursor = self.cursors.load(self.config, rows, self.log_start, self.log_end, self.wall)
        for trustee in TRUSTEES:
            theirs = self.model.held_by(trustee)
            again = self.cursor.entrusted_again(trustee, runs(theirs), self.now)
            assert [offset for first, last in again for offset in range(first, last + 1)] == theirs
        for chunk in self.cursor._records.window.chunks.values():
            chunk.state = Checked(chunk.state)
        for offset in self.model.messages:
            if offset < self.cursor.known and self.cursor.look(offset).state == DELAYED:
                self.model.waits_again(offset, self.wall)
        if self.config.type == "key_shared":
            for message in self.model.messages.values():
                message.read = False
            self.model.read = self.cursor.read
            assert self.cursor.read >= self.model.start
            self.model.owners = owners
            self.cursor.reassign(self, self.now)
        else:
            # rows know what was read before Key_Shared began anew for the slots, however far it came since
            known = max(self.model.messages, default=-1) + 1
            assert self.model.start <= self.cursor.read <= max(self.model.read, known)
            for message in self.model.messages.values():
                message.read = True
            self.model.forget_from(self.cursor.read)
        # what woke before may be DELAYED in its row: the first tick wakes it again
        self.time_passes(0, 0)
        self.load_due()
        self.commit()

    @rule(
        due=st.lists(st.sampled_from([1, 300, 900, 2500, 4000, 10**7]), min_size=2, max_size=30),
        passes=st.sampled_from([1, 500, 1000, 3000]),
        taken=st.integers(0, 6),
        gap=st.sampled_from([0, 0, 20]),
        saved=st.booleans(),
    )
    def crash_while_some_wait(self, due: list[int], passes: int, taken: int, gap: int, saved: bool) -> None:
        """Some of a chunk woke, which no row says; some of these were settled; then the gateway dies."""
        if self.cursor.read < self.log_end:
            self.feed(4)
        self.publish(gap, [0] * len(due), dict(enumerate(due)), None, False)
        if self.cursor.read < self.log_end:
            self.feed(4)
        self.commit()
        self.time_passes(passes, 0)
        self.commit()
        if self.attached and taken:
            consumer = min(self.attached)
            held = self.polls(consumer, taken)
            if held:
                self._acknowledge(consumer, [(*run, bytes([ACCEPT])) for run in runs(held[: taken // 2])])
        self.crash(saved, False, self.now, 0, 0)

    # what is always true

    def teardown(self) -> None:
        """Given time and a consumer that accepts, everything ends, and nothing is left over."""
        if not hasattr(self, "cursor") or sys.exc_info()[0] is not None:
            return
        for consumer in sorted(self.attached):
            self.leaves(consumer, Ending.STOPPED)
        for trustee in TRUSTEES:
            self.end_transaction(trustee, False, ACCEPT)
        self.attached.add("ann")
        self.cursor.attach("ann", self.now)
        if self.config.type == "key_shared":
            self.assign(["ann"] * 4)
        for _ in range(10_000):
            if self.cursor.start == self.log_end:
                break
            if self.cursor.read < self.log_end:
                self.feed(100)
            self.polls("ann", 1000)
            for first, last in runs(self.model.held_by("ann")):
                self._acknowledge("ann", [(first, last, bytes([ACCEPT]))])
            self.take_dying(1000)
            if self.burying:
                self.bury(True, 0)
            self.time_passes(10**8, 0)
            self.always()
        assert self.cursor.start == self.cursor.read == self.log_end, "something is stuck"
        self.commit()
        if (keyed := self.cursor._records.keyed) is not None:
            assert not keyed.queued
            left = left_over(keyed)
            assert not left, f"slots that nothing is in: {left}"
        # of the chunk in which reading goes on a row may stay until that is full
        here = (self.cursor.start >> self.shift).to_bytes(8, "big")
        kept = [key for key in self.rows if key not in ((RowKind.CURSOR, b""), (RowKind.COUNT, here))]
        assert not kept, f"rows that nothing needs: {kept}"


def runs(offsets: list[int]) -> list[tuple[int, int]]:
    """Ascending offsets as (first, last)."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def machine(config: SubscriptionConfig, cursors: type[Cursor] = Cursor) -> type:
    """What pytest runs. A failure is told as it was met, since to make it smaller may take minutes."""
    small: dict[str, Any] = {"shift": 4, "most_due": 4 * MOST + 2 * 16} if cursors is not Cursor else {}
    made: type[Machine] = type("Test", (Machine,), {"kind": config, "cursors": cursors, **small})
    case = made.TestCase

    class Test(case):  # type: ignore[misc, valid-type]
        settings = settings(
            max_examples=examples(30),
            stateful_step_count=40,
            deadline=None,
            report_multiple_bugs=False,
            phases=tuple(Phase) if SHRINK else (Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=[
                HealthCheck.filter_too_much,
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
            ],
        )

        def runTest(self) -> None:  # noqa: N802
            try:
                super().runTest()
            except Exception as failure:
                failure.add_note("For a shorter example set SHRINK=1")
                raise

    return Test


Small = small_cursor().Cursor

TestShared = machine(SHARED)
TestSharedSmall = machine(SHARED, Small)
TestKeySharedStrict = machine(STRICT)
TestKeySharedStrictSmall = machine(STRICT, Small)
TestKeySharedNotStrict = machine(NOT_STRICT)
TestKeySharedNotStrictSmall = machine(NOT_STRICT, Small)
TestKeySharedOutOfOrder = machine(OUT_OF_ORDER)
TestKeySharedOutOfOrderSmall = machine(OUT_OF_ORDER, Small)
