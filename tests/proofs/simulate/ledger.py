"""What the simulation knows of every message by itself, and the promises it holds the cursor to.

The cursor is never asked. What is said here follows from what consumers were given and what they were answered: who
holds a message, how often its delivery failed, until when it may not come, how it ended. Everything is kept twice, as
it is and as it was when the store last had it, because a gateway that dies forgets the difference.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.states import Ending, Reason


class Broken(AssertionError):
    """A promise that was not kept. The text says which, of which message, when."""


@dataclass(slots=True)
class Facts:
    """What a gateway that dies takes back to the last commit."""

    failures: int = 0
    """deliveries that ended with a nack, a lock that ran out, or the end of the consumer"""
    wait: int = 0
    """wall ms before which it may not be delivered again"""
    dying: Reason | None = None
    limit: int = 0
    """of deliveries, as it was when they were used up"""
    end: str | None = None
    """acked, dead, dropped or expired"""


@dataclass(slots=True)
class Message:
    offset: int
    slot: int
    due: int
    """wall ms before which it may not be delivered; 0 is none"""
    poison: bool = False
    corrupt: bool = False
    now: Facts = field(default_factory=Facts)
    stored: Facts = field(default_factory=Facts)
    holder: str | None = None
    deadline: int = 0
    """monotonic"""
    deliveries: int = 0
    rejected: bool = False


class Ledger:
    """Every message, and the rules."""

    def __init__(self, config: SubscriptionConfig) -> None:
        self.config = config
        self.messages: dict[int, Message] = {}
        self.not_for_delivery: set[int] = set()
        # by slot, ascending: what has not ended
        self._open: dict[int, list[int]] = {}
        self._held: dict[str, set[int]] = {}
        # (deadline, offset), also of locks that are no more
        self._locks: list[tuple[int, int]] = []
        self._touched: set[int] = set()
        self.open = 0
        self.dead_letters: list[int] = []
        self._dead_unsaved: list[int] = []
        self.counts: Counter[str] = Counter()
        self.lateness: list[int] = []

    # the log

    def publish(self, message: Message) -> None:
        self.messages[message.offset] = message
        insort(self._open.setdefault(message.slot, []), message.offset)
        self.open += 1

    # deliveries

    def delivered(
        self, offset: int, count: int, consumer: str, owner: str | None, now: int, wall: int
    ) -> None:
        """Raises Broken."""
        message = self.messages.get(offset)
        self._promise(message is not None, offset, "there is no such record to deliver")
        assert message is not None
        facts = message.now
        self._promise(not message.corrupt, offset, "was delivered and cannot be opened")
        self._promise(facts.end is None, offset, f"was delivered again after it was {facts.end}")
        self._promise(facts.dying is None, offset, f"was delivered and is to be buried: {facts.dying}")
        self._promise(message.holder is None, offset, f"went to {consumer} while {message.holder} holds it")
        self._promise(wall >= message.due, offset, f"was delivered {message.due - wall} ms before it is due")
        self._promise(wall >= facts.wait, offset, f"was redelivered {facts.wait - wall} ms too early")
        self._promise(
            count == facts.failures,
            offset,
            f"says {count} deliveries before, and there were {facts.failures}",
        )
        limit = self.config.delivery_limit
        self._promise(not limit or facts.failures < limit, offset, f"had its {limit} deliveries")
        if self.config.type == "key_shared":
            self._promise(
                owner == consumer, offset, f"of slot {message.slot} went to {consumer}, not to {owner}"
            )
            self._in_order(message, consumer, wall)
        if message.due and not message.deliveries:
            self.lateness.append(wall - message.due)
        message.deliveries += 1
        message.holder = consumer
        self.renewed(offset, now)
        self._held.setdefault(consumer, set()).add(offset)
        self.counts["redelivered" if message.deliveries > 1 else "delivered"] += 1

    def _in_order(self, message: Message, consumer: str, wall: int) -> None:
        offsets = self._open[message.slot]
        place = bisect_left(offsets, message.offset)
        strict, loose = self.config.strict, self.config.allow_out_of_order
        for offset in offsets[:place]:
            earlier = self.messages[offset]
            where = f"came before {offset} of its slot {message.slot}, which"
            if earlier.holder is not None:
                ours = earlier.holder == consumer
                self._promise(
                    loose or (ours and not strict), message.offset, f"{where} {earlier.holder} holds"
                )
            elif earlier.corrupt:
                pass  # nobody knows its key
            elif earlier.now.dying is not None:
                self._promise(not strict or loose, message.offset, f"{where} is to be buried")
            elif earlier.now.wait > wall:
                self._promise(not strict or loose, message.offset, f"{where} waits after a nack")
            else:
                self._promise(earlier.due > wall, message.offset, f"{where} waits for a consumer")
        if loose:
            return
        for offset in offsets[place + 1 :]:
            later = self.messages[offset]
            if later.holder is not None:
                ours = later.holder == consumer
                self._promise(
                    ours and not strict,
                    message.offset,
                    f"went to {consumer} while {later.holder} holds {offset}",
                )

    # what becomes of them

    def holds(self, consumer: str) -> set[int]:
        return self._held.get(consumer, set())

    def may_settle(self, consumer: str, offsets: list[int]) -> bool:
        held = self.holds(consumer)
        return all(offset in held for offset in offsets)

    def accepted(self, offset: int) -> None:
        message = self._take(offset)
        self._end(message, "acked")

    def released(self, offset: int, wall: int) -> None:
        backoff = self.config.nack_backoff
        message = self._take(offset)
        delay = backoff.delay_ms(message.now.failures + 1) if backoff else self.config.nack_delay_ms
        self._failed(message, wall, delay)
        self.counts["nacked"] += 1

    def rejected(self, offset: int) -> None:
        message = self._take(offset)
        message.rejected = True
        message.now.failures += 1
        self._dies(message, Reason.REJECTED)

    def renewed(self, offset: int, now: int) -> None:
        self.messages[offset].deadline = now + self.config.lock_ms
        heappush(self._locks, (now + self.config.lock_ms, offset))

    def gone(self, consumer: str, ending: Ending, wall: int) -> None:
        for offset in sorted(self.holds(consumer)):
            message = self._take(offset)
            if ending is Ending.CRASHED or self.config.leave_counts:
                self._failed(message, wall, 0)
        self._held.pop(consumer, None)

    def tick(self, now: int, wall: int) -> None:
        """Locks that ran out."""
        backoff = self.config.timeout_backoff
        while self._locks and self._locks[0][0] <= now:
            deadline, offset = heappop(self._locks)
            if self.messages[offset].holder is not None and self.messages[offset].deadline == deadline:
                message = self._take(offset)
                self._failed(message, wall, backoff.delay_ms(message.now.failures + 1) if backoff else 0)
                self.counts["timed out"] += 1

    def to_bury(self, offset: int, count: int, reason: Reason) -> None:
        """Somebody begins to bury it. Raises Broken."""
        message = self.messages[offset]
        self._promise(message.now.end is None, offset, f"is to be buried after it was {message.now.end}")
        if message.corrupt:
            self._promise(reason is Reason.CORRUPT, offset, f"cannot be opened, and dies as {reason}")
            return
        self._promise(
            message.now.dying is reason, offset, f"dies as {reason}, and not as {message.now.dying}"
        )
        self._promise(
            count == message.now.failures, offset, f"dies after {count}, not {message.now.failures}"
        )
        self._promise(count <= message.deliveries, offset, f"dies after {count} of {message.deliveries}")
        if reason is Reason.MAX_DELIVERIES:
            self._promise(
                message.deliveries >= message.now.limit > 0,
                offset,
                f"dead after {message.deliveries} deliveries, of {message.now.limit}",
            )
        else:
            self._promise(message.rejected, offset, "dies as rejected, and nobody rejected it")

    def buried(self, offset: int) -> None:
        self._dead_unsaved.append(offset)
        self._end(self.messages[offset], "dead")

    # administration

    def first_open(self) -> int | None:
        return min((offsets[0] for offsets in self._open.values() if offsets), default=None)

    def settled_below(self, offset: int) -> None:
        """Trimmed, or cleared: whatever it was, in whosever hands."""
        for offsets in self._open.values():
            for each in offsets[: bisect_left(offsets, offset)]:
                self._end(self._take(each), "expired")

    def skipped(self, count: int) -> int:
        """The first so many that are open. How many it were."""
        first = sorted(offset for offsets in self._open.values() for offset in offsets)[:count]
        if first:
            self.settled_below(first[-1] + 1)
        return len(first)

    def sought(self, offset: int, wall: int) -> None:
        """All from there on begins anew, and what lies before is over. What was done before is committed."""
        self.settled_below(offset)
        self._held.clear()
        for message in [message for message in self.messages.values() if message.offset < offset]:
            message.holder = None
        for old in [message for message in self.messages.values() if message.offset >= offset]:
            if old.now.end is not None:
                insort(self._open[old.slot], old.offset)
                self.open += 1
            due = old.due if old.due > wall else 0
            self.messages[old.offset] = Message(old.offset, old.slot, due, old.poison, old.corrupt)
            self._touched.discard(old.offset)
        self.dead_letters = [each for each in self.dead_letters if each < offset]
        self.counts["sought"] += 1

    def _take(self, offset: int) -> Message:
        message = self.messages[offset]
        if message.holder is not None:
            self._held[message.holder].discard(offset)
        message.holder = None
        self._touched.add(offset)
        return message

    def _failed(self, message: Message, wall: int, delay: int) -> None:
        message.now.failures += 1
        if 0 < self.config.delivery_limit <= message.now.failures:
            message.now.limit = self.config.delivery_limit
            self._dies(message, Reason.MAX_DELIVERIES)
        else:
            message.now.wait = wall + delay if delay else 0

    def _dies(self, message: Message, reason: Reason) -> None:
        message.now.wait = 0
        if self.config.dead_letters:
            message.now.dying = reason
        else:
            self._end(message, "dropped")

    def _end(self, message: Message, how: str) -> None:
        self._touched.add(message.offset)
        message.now.end = how
        offsets = self._open[message.slot]
        del offsets[bisect_left(offsets, message.offset)]
        self.open -= 1

    # commit and crash

    def committed(self) -> None:
        for offset in self._touched:
            message = self.messages[offset]
            facts = message.now
            if facts.end is not None and message.stored.end is None:
                self.counts[facts.end] += 1
            message.stored = replace(facts)
        self._touched.clear()
        self.dead_letters += self._dead_unsaved
        self._dead_unsaved = []

    def crashed(self) -> None:
        """Nobody holds anything, nobody counts it, and what was not committed did not happen."""
        for held in self._held.values():
            for offset in held:
                self.messages[offset].holder = None
        self._held.clear()
        self._locks.clear()
        for offset in self._touched:
            message, stored = self.messages[offset], self.messages[offset].stored
            if message.now.end is not None and stored.end is None:
                insort(self._open[message.slot], offset)
                self.open += 1
            message.now = replace(stored)
        self._touched.clear()
        self._dead_unsaved = []

    def at_the_end(self) -> None:
        """Every message ended once. Raises Broken."""
        for offset, message in self.messages.items():
            self._promise(message.stored.end is not None, offset, "never came to an end")
            if message.stored.end == "acked":
                self._promise(message.deliveries > 0, offset, "is acknowledged, and nobody was given it")
        doubles = [offset for offset, times in Counter(self.dead_letters).items() if times > 1]
        self._promise(not doubles, doubles[0] if doubles else 0, "is in the dead letter topic twice")
        dead = {offset for offset, message in self.messages.items() if message.stored.end == "dead"}
        self._promise(dead == set(self.dead_letters), 0, "the dead letter topic holds others than the dead")

    def _promise(self, kept: bool, offset: int, otherwise: str) -> None:
        if not kept:
            raise Broken(f"Message {offset} {otherwise}.")
