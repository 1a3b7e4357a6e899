"""A gateway, a log and thousands of consumers under virtual time.

Everything happens in turns, as in the gateway: what falls into one turn takes effect in the cursor, then its rows are
written together, and only then are acknowledgements answered. A turn may end with the gateway's death instead: then
nothing of it was written, and the cursor is loaded from the rows of the turns before.

All randomness comes from one seed; a run is repeated by it.
"""

from __future__ import annotations

import heapq
import random
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from semantics.subscriptions import selectors
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.hashing import slot_of
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.selectors import Selector
from semantics.subscriptions.states import Batch, Ending, Reason, Refusal
from tests.proofs.simulate.ledger import Broken, Ledger, Message
from tests.proofs.simulate.scenarios import BACKOFF, Scenario

EPOCH = 1_700_000_000_000
TURN_MS = 5
WAKE_MS = 20
BATCHES_A_POLL = 4
RECONNECTED_WITHIN_MS = 3000
SESSION_MS = 8000
ACCEPT, RELEASE, REJECT, RENEW = b"\x01", b"\x02", b"\x03", b"\x04"


@dataclass
class Consumer:
    name: str
    stalls: bool
    there: bool = True
    """connected and attached"""
    member: bool = True
    """its slots are kept for it"""
    polling: bool = False
    """a poll is parked"""
    ranges: list[tuple[int, int]] | None = None
    inbox: list[int] = field(default_factory=list)


class World:
    """Runs one scenario to its end. Raises Broken."""

    def __init__(self, scenario: Scenario, seed: int, cursors: type[Cursor] = Cursor) -> None:
        self.scenario, self.config = scenario, scenario.config
        self.random = random.Random(f"{scenario.name}-{seed}")
        self.cursors = cursors
        self.ledger = Ledger(self.config)
        self.time = 0
        self._boot = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbered = 0
        self.log: list[Batch] = []
        self._batch_at: dict[int, int] = {}
        start = self.random.choice([0, 1000, 2**40])
        self.log_end = self._first = start
        self.rows: dict[tuple[RowKind, bytes], bytes] = {}
        self.cursor: Cursor = cursors.fresh(self.config, start)
        self.selector: Selector = selectors.make(scenario.mode)
        self.consumers: dict[str, Consumer] = {}
        self.published = 0
        self.crashes = self.turns = self.joined = 0
        self._answers: list[Callable[[], None]] = []
        self._reassign = False
        self._bury_from = self._wake_from = 0
        self._commit()

    # time

    @property
    def now(self) -> int:
        """Monotonic ms; it begins anew with every start of the gateway."""
        return self.time - self._boot

    @property
    def wall(self) -> int:
        return EPOCH + self.time

    def after(self, ms: float, do: Callable[[], None]) -> None:
        self._numbered += 1
        heapq.heappush(self._events, (self.time + max(int(ms), 1), self._numbered, do))

    def some(self, mean: float) -> float:
        return self.random.expovariate(1 / mean)

    def run(self, limit_ms: int = 40 * 60_000) -> None:
        """Until every message has ended. Raises Broken, also when that does not come within `limit_ms` of its time."""
        self.after(1, self.publish)
        for _ in range(self.scenario.consumers):
            self.after(self.some(200), self.join)
        if self.scenario.crash_every_ms:
            self.after(self.some(self.scenario.crash_every_ms), self.crash)
        if self.scenario.administer_ms:
            self.after(self.some(self.scenario.administer_ms), self.administer)
        while self.ledger.open or self.published < self.scenario.messages or self.cursor.start < self.log_end:
            if not self._events or self.time > limit_ms:
                raise Broken(self._stuck())
            try:
                self.turn()
            except Broken as broken:
                raise Broken(f"{self.scenario.name} at {self.time} ms: {broken}") from broken
        self.ledger.at_the_end()
        # of the chunk in which reading goes on a row may stay until that is full
        here = (self.cursor.start >> 10).to_bytes(8, "big")
        left = [key for key in self.rows if key not in ((RowKind.CURSOR, b""), (RowKind.COUNT, here))]
        if left:
            raise Broken(f"{self.scenario.name}: {len(left)} rows are left that nothing needs: {left[:3]}")

    def _stuck(self) -> str:
        offset = self.cursor.start
        return f"{self.scenario.name} at {self.time} ms: {self.ledger.open} open, stuck at {self.cursor.look(offset)}."

    def turn(self) -> None:
        """Everything of the next few milliseconds, then one commit."""
        self.turns += 1
        self.time = max(self.time, self._events[0][0])
        end = self.time + TURN_MS
        self._tick()
        while self._events and self._events[0][0] <= end:
            at, _, do = heapq.heappop(self._events)
            if at > self.time:
                self.time = at
                self._tick()
            do()
        self._tick()
        self._bury()
        self._wake()
        self._commit()
        self._set_alarm()

    def _tick(self) -> None:
        self._load_due()
        self.cursor.tick(self.now, self.wall)
        self.ledger.tick(self.now, self.wall)

    def _set_alarm(self) -> None:
        mono, wall = self.cursor.next_due(self.now, self.wall)
        times = [self._boot + mono] if mono is not None else []
        times += [wall - EPOCH] if wall is not None else []
        if times:
            self.after(max(min(times) - self.time, 1), _nothing)

    # the log

    def publish(self) -> None:
        scenario, pick = self.scenario, self.random
        first = self.log_end + (pick.randint(1, 3) if pick.random() < 0.05 else 0)
        count = min(pick.choice([1, 1, 3, 10, 40]), scenario.messages - self.published)
        self.log_end = first + count
        offsets = range(first, first + count)
        skipped, slots, delayed, dead = pick.random() < 0.03, array("H"), [], []
        corrupt = not skipped and pick.random() < 0.01
        for offset in offsets:
            key = (
                None
                if pick.random() < scenario.keyless
                else b"key-%d" % int(pick.paretovariate(0.2) % scenario.keys)
            )
            # what cannot be opened has no key that anybody knows
            slots.append(0 if corrupt else slot_of(key, None, offset))
            due = 0
            if pick.random() < scenario.delayed and not corrupt:
                due = self.wall + pick.choice([-5, 1, 200, 3000, 8000])
                delayed.append((offset, due))
            if not skipped and (self.config.dead_letters or not corrupt):
                poison = pick.random() < scenario.poison
                self.ledger.publish(Message(offset, slots[-1], due, poison, corrupt))
        if corrupt:
            dead = [(first, first + count - 1, Reason.CORRUPT)]
        if skipped or corrupt:
            self.ledger.not_for_delivery.update(offsets)
        keyed = slots if self.config.type == "key_shared" else None
        self.log.append(Batch(first, self.log_end, keyed, () if skipped else delayed, dead, skipped))
        self.published += count
        if self.published < scenario.messages:
            self.after(self.some(scenario.publish_ms * count / scenario.messages), self.publish)

    def _feed(self) -> None:
        read = self.cursor.read
        place = self._place_of(read)
        learnt = [
            batch._replace(delayed=[(offset, due) for offset, due in batch.delayed if due > self.wall])
            for batch in self.log[place : place + BATCHES_A_POLL]
        ]
        if learnt:
            self.cursor.feed(learnt, self.now, self.wall)

    def _place_of(self, offset: int) -> int:
        low, high = 0, len(self.log)
        while low < high:
            middle = (low + high) // 2
            if self.log[middle].next <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    # consumers

    def join(self) -> None:
        self.joined += 1
        consumer = Consumer(f"c{self.joined}", self.random.random() < self.scenario.stalling)
        self.consumers[consumer.name] = consumer
        if self.scenario.mode == "sticky":
            consumer.ranges = self._free_range()
        self._enter(consumer)
        self._attach(consumer)
        self.after(self.some(self.scenario.life_ms), lambda: self.end(consumer))

    def _free_range(self) -> list[tuple[int, int]]:
        """What nobody has, or a part of it: gaps wait for whoever comes next."""
        reached, free = 0, []
        for start, end, _ in [*self.selector.ranges(), (65_536, 65_536, "")]:
            if start > reached:
                free.append((reached, start))
            reached = end
        if not free:
            return []
        start, end = max(free, key=lambda gap: gap[1] - gap[0])
        if end - start > 2 * 65_536 // self.scenario.consumers:
            end = start + max((end - start) // 2, 1)
        return [(start, end)]

    def _enter(self, consumer: Consumer) -> None:
        consumer.member = True
        if self.config.type != "key_shared":
            return
        try:
            self.selector.add(consumer.name, consumer.ranges)
        except selectors.SelectorError:
            consumer.member = False
            return
        self.cursor.reassign(self.selector, self.now)

    def _leave(self, consumer: Consumer) -> None:
        if consumer.member and self.config.type == "key_shared":
            self.selector.remove(consumer.name)
            self.cursor.reassign(self.selector, self.now)
        consumer.member = False

    def _attach(self, consumer: Consumer) -> None:
        consumer.there = True
        self.cursor.attach(consumer.name, self.now)
        self._poll_later(consumer, 1)

    def end(self, consumer: Consumer) -> None:
        """It leaves or dies, and another one comes in its place."""
        if consumer.name not in self.consumers:
            return
        ending = Ending.LEFT if self.random.random() < 0.5 else Ending.CRASHED
        if consumer.there:
            self.cursor.detach(consumer.name, ending, self.now, self.wall)
            self.ledger.gone(consumer.name, ending, self.wall)
        self._leave(consumer)
        consumer.there = False
        del self.consumers[consumer.name]
        self.after(self.some(500), self.join)

    def _poll_later(self, consumer: Consumer, ms: float) -> None:
        born = self.crashes

        def again() -> None:
            if consumer.there and self.crashes == born:
                self.poll(consumer)

        self.after(ms, again)

    def poll(self, consumer: Consumer) -> None:
        consumer.polling = False
        worth = self.cursor.can_serve(consumer.name, self.log_end)
        while self.cursor.read < self.log_end and self.cursor.wants_more(consumer.name):
            self._feed()
        given = self.cursor.poll(consumer.name, self.random.choice([1, 10, 100, 500]), self.now, self.wall)
        if given and not worth:
            raise Broken(f"{consumer.name} was given {given[0]} and would not have been woken")
        if not given:
            consumer.polling = True
            return
        offsets = []
        for first, last, count in given:
            for offset in range(first, last + 1):
                if offset in self.ledger.not_for_delivery:
                    raise Broken(f"{offset} is no record to deliver")
                message = self.ledger.messages.get(offset)
                owner = (
                    self.selector.owner(message.slot)
                    if message and self.config.type == "key_shared"
                    else None
                )
                self.ledger.delivered(offset, count, consumer.name, owner, self.now, self.wall)
                offsets.append(offset)
        self._work(consumer, offsets)

    def _work(self, consumer: Consumer, offsets: list[int]) -> None:
        """Deal with what a poll gave: in some parts, each acknowledged at once; then poll again."""
        pick, at = self.random, 0.0
        if consumer.stalls:
            self._later(
                consumer,
                self.some(4 * self.config.lock_ms),
                lambda: self._acknowledge(consumer, offsets, ACCEPT),
            )
            self._poll_later(consumer, self.some(6 * self.config.lock_ms))
            return
        while offsets:
            part, offsets = offsets[: (size := pick.choice([1, 5, 50]))], offsets[size:]
            at += min(self.some(30), 300)
            by_kind: dict[bytes, list[int]] = {}
            for offset in part:
                by_kind.setdefault(self._fate(offset), []).append(offset)
            for kind, chosen in by_kind.items():
                if kind:
                    self._later(
                        consumer,
                        at,
                        partial(self._acknowledge, consumer, chosen, kind),
                    )
                if kind == RENEW:
                    self._later(
                        consumer,
                        at + self.some(300),
                        partial(self._acknowledge, consumer, chosen, ACCEPT),
                    )
        self._poll_later(consumer, at + 1)

    def _fate(self, offset: int) -> bytes:
        if self.ledger.messages[offset].poison:
            return RELEASE
        scenario, luck = self.scenario, self.random.random()
        for share, kind in (
            (scenario.released, RELEASE),
            (scenario.rejected, REJECT),
            (scenario.forgotten, b""),
            (scenario.renewed, RENEW),
        ):
            if luck < share:
                return kind
            luck -= share
        return ACCEPT

    def _later(self, consumer: Consumer, ms: float, do: Callable[[], None]) -> None:
        born = self.crashes

        def then() -> None:
            if consumer.there and self.crashes == born:
                do()

        self.after(ms, then)

    def _acknowledge(self, consumer: Consumer, offsets: list[int], kind: bytes) -> None:
        batches: list[tuple[int, int, bytes]] = []
        for offset in offsets:
            if batches and batches[-1][1] == offset - 1:
                batches[-1] = (batches[-1][0], offset, kind)
            else:
                batches.append((offset, offset, kind))
        refusal = self.cursor.acknowledge(consumer.name, batches, self.now, self.wall)
        if not self.ledger.may_settle(consumer.name, offsets):
            passed = all(
                offset < self.cursor.start
                for offset in offsets
                if offset not in self.ledger.holds(consumer.name)
            )
            sought = self.ledger.counts["sought"] and refusal is Refusal.INVALID_REQUEST  # it is not read yet
            if refusal is not Refusal.INVALID_RECORD_STATE and not passed and not sought:
                raise Broken(f"{consumer.name} acknowledged {batches[:3]} without holding it all: {refusal}")
            if refusal is not None:
                return
        elif refusal is not None:
            raise Broken(f"{consumer.name} holds {batches[:3]} and may not acknowledge it: {refusal}")
        for offset in offsets:
            if offset not in self.ledger.holds(consumer.name):
                continue
            if kind == ACCEPT:
                self.ledger.accepted(offset)
            elif kind == RELEASE:
                self.ledger.released(offset, self.wall)
            elif kind == REJECT:
                self.ledger.rejected(offset)
            else:
                self.ledger.renewed(offset, self.now)

    def _wake(self) -> None:
        """Parked polls that the cursor says are worth it; and some others, to see that it is right."""
        if self.time < self._wake_from:
            return
        self._wake_from = self.time + WAKE_MS
        self.after(WAKE_MS, _nothing)
        for consumer in list(self.consumers.values()):
            if consumer.polling and (
                self.cursor.can_serve(consumer.name, self.log_end) or self.random.random() < 0.001
            ):
                self.poll(consumer)

    # dead letters

    def _bury(self) -> None:
        """The append to the dead letter topic and the end of the original, in the commit of this turn."""
        if self.time < self._bury_from:
            return
        taken = self.cursor.dying(100)
        ranges = [(dying.first, dying.last) for dying in taken]
        for dying in taken:
            for offset in range(dying.first, dying.last + 1):
                self.ledger.to_bury(offset, dying.count, dying.reason)
        if taken and self.random.random() < 0.1:
            self.cursor.not_buried(ranges, "the dead letter topic is full", self.wall + int(self.some(300)))
        elif taken:
            self.cursor.buried(ranges)
            for first, last in ranges:
                for offset in range(first, last + 1):
                    self.ledger.buried(offset)
        self._bury_from = self.time + int(self.some(20))
        if len(taken) == 100 or self.random.random() < 0.05:
            self.after(20, _nothing)

    # administration

    def administer(self) -> None:
        """Somebody changes what is to be delivered, or how. It has a commit of its own."""
        self._commit()
        pick, ledger = self.random, self.ledger
        first = ledger.first_open()
        here = self.log_end if first is None else first
        what = pick.choice(["trim", "trim", "skip", "skip", "clear", "seek", "limits", "limits"])
        if what == "trim":
            self._first = max(self._first, min(here + pick.randint(0, 40), self.log_end))
            self.cursor.trimmed(self._first)
            ledger.settled_below(self._first)
        elif what == "skip" and self.cursor.read == self.log_end:
            # of what is not read nobody can say how many it are
            count = pick.choice([1, 5, 40])
            skipped = self.cursor.skip(count, self.log_end)
            if skipped != (known := ledger.skipped(count)):
                raise Broken(f"{skipped} messages were skipped, of the first {count}; there were {known}")
        elif what == "clear" and pick.random() < 0.3:
            self.cursor.clear(self.log_end)
            ledger.settled_below(self.log_end)
        elif what == "seek" and self.published < self.scenario.messages:
            offset = max(self._first, min(here + pick.randint(-60, 20), self.log_end))
            self.cursor.seek(offset)
            ledger.sought(offset, self.wall)
        elif what == "limits":
            self.config = ledger.config = replace(
                self.config,
                lock_ms=pick.choice([1000, 1500, 2500]),
                max_locks=pick.choice([20, 500]),
                nack_backoff=pick.choice([None, BACKOFF]),
                nack_delay_ms=pick.choice([0, 200]),
                delivery_limit=min(self.config.delivery_limit + pick.choice([0, 1]), 6),
                lookahead=pick.choice([50, 300]),
            )
            self.cursor.reconfigure(self.config)
        self._commit()
        if self.published < self.scenario.messages or self.ledger.open:
            self.after(self.some(self.scenario.administer_ms), self.administer)

    # the store

    def _commit(self) -> None:
        for kind, key, value in self.cursor.writes():
            if value is not None:
                self.rows[kind, key] = value
            elif key or kind is RowKind.CURSOR:
                self.rows.pop((kind, key), None)
            else:
                self.rows = {each: row for each, row in self.rows.items() if each[0] is not kind}
        self.ledger.committed()

    def _load_due(self) -> None:
        while (asked := self.cursor.needs_due) is not None:
            self._commit()
            keys = sorted(key for kind, key in self.rows if kind is RowKind.DUE and key >= asked.key)
            page = keys[: asked.limit]
            self.cursor.due_loaded(
                [CursorRow(RowKind.DUE, key, self.rows[RowKind.DUE, key]) for key in page],
                len(page) == len(keys),
            )

    def crash(self) -> None:
        """The gateway dies in the middle of a turn, and starts again at once or a little later."""
        self.crashes += 1
        self.time += int(self.some(300))
        self._boot = self.time - self.random.randint(0, 10**7)
        self.ledger.crashed()
        rows = [CursorRow(kind, key, value) for (kind, key), value in self.rows.items()]
        if self.random.random() < 0.5:
            rows = [row for row in rows if row.kind is not RowKind.DUE]
        self.cursor = self.cursors.load(self.config, rows, self._first, self.log_end, self.wall)
        self._load_due()
        if self.config.type == "key_shared":
            self.selector = selectors.load(self.selector.dump())
            self.cursor.reassign(self.selector, self.now)
        for consumer in self.consumers.values():
            consumer.there = consumer.polling = False
            if self.random.random() < 0.9:
                self._back(consumer, self.random.uniform(1, RECONNECTED_WITHIN_MS))
            else:
                # its session runs out, and with it what was kept for it
                self._session_ends(consumer)
        self.after(self.some(self.scenario.crash_every_ms), self.crash)

    def _back(self, consumer: Consumer, ms: float) -> None:
        born = self.crashes

        def again() -> None:
            if self.crashes == born and self.consumers.get(consumer.name) is consumer:
                self._attach(consumer)

        self.after(ms, again)

    def _session_ends(self, consumer: Consumer) -> None:
        born = self.crashes

        def then() -> None:
            if self.crashes == born and self.consumers.get(consumer.name) is consumer:
                self.end(consumer)

        self.after(SESSION_MS, then)


def _nothing() -> None:
    """Time has come; the turn does the rest."""
