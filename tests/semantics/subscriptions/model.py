"""What a Cursor should do, written as simply as it can be said: a dictionary of messages.

No ranges, no chunks, no queues, no memory of what is ready: every question is answered by looking at every message.
Where a subscription may choose (which of several free keys goes first), the model says whether a choice is right and
whether something was left out that should have been given.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from semantics.subscriptions.chosen import Act
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.owners import SEVERAL
from semantics.subscriptions.states import Acquired, Batch, Dying, Ending, Reason, Refusal

AVAILABLE, ACQUIRED, DONE, DELAYED, BACKOFF, DYING = (
    "AVAILABLE",
    "ACQUIRED",
    "DONE",
    "DELAYED",
    "BACKOFF",
    "DYING",
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
TRUSTEES = ("transaction a", "transaction b")


@dataclass
class Message:
    state: str = AVAILABLE
    slot: int = 0
    count: int = 0
    consumer: str | None = None
    deadline: int | None = None
    due: int | None = None
    reason: Reason | None = None
    # DYING: somebody is burying it; or could not, and tries again at that wall time
    taken: bool = False
    retry: int | None = None
    # its slot is known: after a restart a Key_Shared subscription reads again
    read: bool = True
    # nothing but the log itself says so: may be forgotten and read again
    from_log: bool = True
    # was DELAYED until then, and nothing but its waking happened to it, which no row says
    woke: int | None = None


@dataclass
class Model:
    config: SubscriptionConfig
    start: int
    read: int
    messages: dict[int, Message] = field(default_factory=dict)
    # whose a slot is, as (start, end, consumer)
    owners: list[tuple[int, int, str]] = field(default_factory=list)
    # open records that retention took
    expired: int = 0

    def copy(self) -> Model:
        return copy.deepcopy(self)

    # questions

    def state(self, offset: int) -> str:
        if offset < self.start:
            return DONE
        return self.messages[offset].state if offset in self.messages else "UNREAD"

    def owner(self, slot: int) -> str | None:
        return next((consumer for start, end, consumer in self.owners if start <= slot < end), None)

    def having(self, *states: str) -> list[int]:
        return sorted(offset for offset, message in self.messages.items() if message.state in states)

    def draining(self) -> dict[int, tuple[str, int]]:
        """Key_Shared: slot -> who holds how many records of it without owning it."""
        found: dict[int, tuple[str, int]] = {}
        if self.config.type == "key_shared" and not self.config.allow_out_of_order:
            held = [message for message in self.messages.values() if message.consumer is not None]
            for slot in {each.slot for each in held if each.read and each.consumer != self.owner(each.slot)}:
                whose = [each.consumer or "" for each in held if each.slot == slot and each.read]
                found[slot] = whose[0] if len(set(whose)) == 1 else SEVERAL, len(whose)
        return found

    def held_by(self, consumer: str) -> list[int]:
        return [offset for offset in self.having(ACQUIRED) if self.messages[offset].consumer == consumer]

    def room(self, consumer: str) -> int:
        """How many more may be acquired by a consumer."""
        locks = self.config.max_locks - len(self.having(ACQUIRED))
        return max(min(locks, self.config.receiver_queue - len(list(self.held_by(consumer)))), 0)

    def may_have(self, offset: int, consumer: str) -> bool:
        """The rules of delivery: whether this record may be given to this consumer now."""
        message = self.messages[offset]
        if message.state != AVAILABLE:
            return False
        if self.config.type == "shared":
            return True
        if not message.read or self.owner(message.slot) != consumer:
            return False
        # the earlier one first
        earlier = (other for at, other in self._of_slot(message.slot) if at < offset)
        return all(other.state != AVAILABLE for other in earlier) and not self.is_held_back(offset, consumer)

    def is_held_back(self, offset: int, consumer: str) -> bool:
        """Key_Shared: whether others in other states, of the same slot, are in its way. What cannot be opened has no
        key, and is in nobody's.
        """
        if self.config.allow_out_of_order:
            return False
        others = self._of_slot(self.messages[offset].slot)
        holders = {other.consumer for _, other in others if other.state == ACQUIRED}
        if not self.config.strict:
            return not holders <= {consumer}
        return bool(holders) or any(
            other.state in (BACKOFF, DYING) and at < offset and other.reason is not Reason.CORRUPT
            for at, other in others
        )

    def _of_slot(self, slot: int) -> list[tuple[int, Message]]:
        return [(at, other) for at, other in self.messages.items() if other.read and other.slot == slot]

    def waiting(self) -> Counter[int]:
        """Slot -> how many records of it wait for nothing but their turn."""
        return Counter(m.slot for m in self.messages.values() if m.read and m.state == AVAILABLE)

    def deliverable(self, consumer: str) -> list[int]:
        return [offset for offset in self.having(AVAILABLE) if self.may_have(offset, consumer)]

    # commands

    def feed(self, batches: Sequence[Batch], wall: int) -> None:
        for batch in batches:
            for offset in range(self.read, batch.first):
                self._meet(offset, Message(DONE))
            delayed = dict(batch.delayed)
            for offset in range(max(self.read, batch.first), batch.next):
                message = Message(slot=batch.slots[offset - batch.first] if batch.slots is not None else 0)
                if batch.skip:
                    message.state = DONE
                elif reasons := [reason for first, last, reason in batch.dead if first <= offset <= last]:
                    self._die(message, reasons[0])
                elif offset in delayed:
                    due = delayed[offset]
                    if not self.config.strict_delay:
                        due -= 1000  # Pulsar's tick
                    if due > wall:
                        message.state, message.due, message.from_log = DELAYED, due, False
                self._meet(offset, message)
            self.read = max(self.read, batch.next)
        self._advance()

    def _meet(self, offset: int, message: Message) -> None:
        if offset in self.messages:
            self.messages[offset].read = True
            self.messages[offset].slot = message.slot
        elif offset >= self.start:
            self.messages[offset] = message

    def poll(self, consumer: str, limit: int, now: int, given: Sequence[Acquired]) -> None:
        """Check what a poll gave, and believe it."""
        room = self.room(consumer)
        offsets = list(spread(given))
        assert len(offsets) <= min(limit, room), f"{len(offsets)} given, {limit} asked for, room for {room}"
        assert offsets == sorted(set(offsets)), f"not ascending: {offsets}"
        if self.config.type == "shared":
            assert offsets == self.having(AVAILABLE)[: min(limit, room)]
        for offset in offsets:
            assert self.may_have(offset, consumer), f"{offset} is not to be given to {consumer} now"
            self._acquire(offset, consumer, now)
        for first, last, count in given:
            for offset in range(first, last + 1):
                assert self.messages[offset].count == count, f"{offset}: count {count} said"
        if len(offsets) < min(limit, room):
            assert not self.deliverable(consumer), f"left out {self.deliverable(consumer)}"

    def _acquire(self, offset: int, consumer: str, now: int) -> None:
        message = self.messages[offset]
        message.state, message.consumer, message.deadline = ACQUIRED, consumer, now + self.config.lock_ms

    def give_back(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._free(self.messages[offset])

    def detach(self, consumer: str, ending: Ending, wall: int) -> None:
        counts = ending is Ending.CRASHED or (ending is Ending.LEFT and self.config.leave_counts)
        for offset in self.held_by(consumer):
            if counts:
                self._failed(self.messages[offset], wall, 0)
            else:
                self._free(self.messages[offset])
        self._advance()

    def acknowledge(
        self, consumer: str, batches: Sequence[tuple[int, int, bytes]], now: int, wall: int
    ) -> Refusal | None:
        before = -1
        steps: list[tuple[Message, int]] = []
        for first, last, types in batches:
            if not before < first <= last or len(types) not in (1, last - first + 1) or max(types) > RENEW:
                return Refusal.INVALID_REQUEST
            before = last
        for first, last, types in batches:
            for offset in range(max(first, self.start), last + 1):
                message = self.messages.get(offset)
                if message is None or (message.state, message.consumer) != (ACQUIRED, consumer):
                    return Refusal.INVALID_RECORD_STATE
                steps.append((message, types[0] if len(types) == 1 else types[offset - first]))
        for message, kind in steps:
            if kind in (GAP, ACCEPT):
                self._settle(message)
            elif kind == RELEASE:
                backoff = self.config.nack_backoff
                delay = backoff.delay_ms(message.count + 1) if backoff else self.config.nack_delay_ms
                self._failed(message, wall, delay)
            elif kind == REJECT:
                message.count += 1
                self._die(message, Reason.REJECTED)
            else:
                message.deadline = now + self.config.lock_ms
        self._advance()
        return None

    def entrust(self, offsets: Iterable[int], trustee: str) -> None:
        for offset in offsets:
            message = self.messages[offset]
            message.consumer, message.deadline = trustee, None

    def tick(self, now: int, wall: int) -> None:
        for message in self.messages.values():
            if message.state == ACQUIRED and message.deadline is not None and message.deadline <= now:
                backoff = self.config.timeout_backoff
                self._failed(message, wall, backoff.delay_ms(message.count + 1) if backoff else 0)
            elif message.state in (DELAYED, BACKOFF) and message.due is not None and message.due <= wall:
                message.woke = message.due if message.state == DELAYED else None
                message.state, message.due = AVAILABLE, None
            elif message.retry is not None and message.retry <= wall:
                message.retry, message.taken = None, False
        self._advance()

    def dying(self, limit: int, given: Sequence[Dying]) -> None:
        ready = [offset for offset in self.having(DYING) if not self.messages[offset].taken]
        offsets = [offset for dying in given for offset in range(dying.first, dying.last + 1)]
        assert sorted(offsets) == ready[:limit], f"dying {offsets}, not {ready[:limit]}"
        for dying in given:
            for offset in range(dying.first, dying.last + 1):
                message = self.messages[offset]
                assert (message.count, message.reason) == (dying.count, dying.reason)
                message.taken = True

    def buried(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if offset >= self.start:
                self._settle(self.messages[offset])
        self._advance()

    def not_buried(self, offsets: Iterable[int], retry: int) -> None:
        for offset in offsets:
            if offset >= self.start:
                self.messages[offset].retry = retry

    def trimmed(self, log_start: int) -> None:
        for offset in [offset for offset in self.messages if offset < log_start]:
            del self.messages[offset]
        self.start = max(self.start, log_start)
        self.read = max(self.read, self.start)
        self._advance()

    def first_held(self, end: int) -> tuple[int, str] | None:
        for offset in range(self.start, end):
            if self.state(offset) in (ACQUIRED, DELAYED, BACKOFF, DYING):
                return offset, self.state(offset)
        return None

    def expire(self, before: int) -> int:
        taken = sum([self.state(offset) != DONE for offset in range(self.start, before)])
        self.expired += taken
        self.trimmed(before)
        return taken

    def expire_open(self, first: int, end: int, keep: Sequence[int] = ()) -> int:
        known = max(self.messages, default=self.start - 1) + 1
        taken = 0
        for offset in range(max(first, self.start), end):
            if self.state(offset) in (AVAILABLE, BACKOFF, "UNREAD") and offset not in keep:
                taken += 1
                self.messages[offset] = Message(DONE, from_log=False)
        self.expired += taken
        if end > known and self.read == known:
            # what was read again ends there
            self.read = end
        self._advance()
        return taken

    def skip(self, count: int, end: int) -> int:
        skipped = 0
        for offset in range(self.start, end):
            if skipped == count:
                break
            if self.state(offset) != DONE:
                skipped += 1
                self._expire(offset)
        self._advance()
        return skipped

    def act(self, do: Act, offsets: Iterable[int], consumers: Collection[str]) -> int:
        """What an administrator does, whoever has them but trustees."""
        number = 0
        for offset in offsets:
            message = self.messages.get(offset)
            held = message is not None and message.state == ACQUIRED
            if message is None or (held and message.consumer not in consumers):
                continue
            if do is Act.TAKE_BACK and held:
                self._free(message)
            elif do is Act.DELIVER_NOW and message.state in (DELAYED, BACKOFF):
                message.state, message.due, message.woke, message.from_log = AVAILABLE, None, None, False
            elif do in (Act.SETTLE, Act.DEAD_LETTER) and (
                held or message.state in (AVAILABLE, DELAYED, BACKOFF)
            ):
                if do is Act.SETTLE:
                    self._settle(message)
                else:
                    self._die(message, Reason.REJECTED)
                message.due = None
            else:
                continue
            number += 1
        self._advance()
        return number

    def clear(self, end: int) -> None:
        for offset in range(self.start, end):
            self._expire(offset)
        self._advance()

    def _expire(self, offset: int) -> None:
        self.messages[offset] = Message(DONE, from_log=False)
        self.read = max(self.read, offset + 1)

    def seek(self, offset: int) -> None:
        self.messages.clear()
        self.start = self.read = offset

    def retyped(self, config: SubscriptionConfig, read: int) -> None:
        """Of another type; reading goes on from there: Key_Shared reads again, Shared where that was not finished."""
        before, self.config = self.config, config
        if before.type != config.type:
            for message in self.messages.values():
                message.read = config.type != "key_shared"
            if config.type == "key_shared":
                self.read = read
            else:
                assert read >= self.read
                self.forget_from(read)

    def crashed(self) -> None:
        """The gateway died: what was in hand is free, and nobody counts it; but what a transaction has."""
        for message in self.messages.values():
            if message.state == ACQUIRED and message.consumer not in TRUSTEES:
                self._free(message)
            message.taken, message.retry = False, None

    def waits_again(self, offset: int, wall: int) -> None:
        """After a crash it is DELAYED, as before it woke: right only if the clock was set back to before its time."""
        message = self.messages[offset]
        if message.state == AVAILABLE and message.woke is not None and message.woke > wall:
            message.state, message.due, message.woke = DELAYED, message.woke, None

    def cut(self, log_end: int) -> None:
        """The log lost its end."""
        for offset in [offset for offset in self.messages if offset >= log_end]:
            del self.messages[offset]
        self.start, self.read = min(self.start, log_end), min(self.read, log_end)
        self._advance()

    def forget_from(self, read: int) -> None:
        """After a restart the log is read again from `read`, earlier than before; check that nothing is lost by it."""
        for offset in [offset for offset in self.messages if offset >= read]:
            message = self.messages.pop(offset)
            assert message.from_log, f"{offset} was {message.state}, count {message.count}; it is forgotten"
        self.read = read

    # changes of one message

    def _free(self, message: Message) -> None:
        message.state, message.consumer, message.deadline = AVAILABLE, None, None

    def _settle(self, message: Message) -> None:
        self._free(message)
        message.state, message.due, message.from_log, message.retry = DONE, None, False, None

    def _failed(self, message: Message, wall: int, delay: int) -> None:
        self._free(message)
        message.count += 1
        message.from_log, message.woke = False, None
        if 0 < self.config.delivery_limit <= message.count:
            self._die(message, Reason.MAX_DELIVERIES)
        elif delay > 0:
            message.state, message.due = BACKOFF, wall + delay

    def _die(self, message: Message, reason: Reason) -> None:
        self._free(message)
        message.from_log, message.woke = False, None
        if self.config.dead_letters:
            message.state, message.reason = DYING, reason
        else:
            message.state = DONE

    def _advance(self) -> None:
        while self.start in self.messages and self.messages[self.start].state == DONE:
            del self.messages[self.start]
            self.start += 1
        self.read = max(self.read, self.start)


def spread(given: Sequence[Acquired]) -> Iterator[int]:
    """Every offset of ranges."""
    for first, last, _ in given:
        yield from range(first, last + 1)
