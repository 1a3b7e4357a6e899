"""One subscription: a group's cursors on a topic, and for Key_Shared who owns which slots.

The selector's members are the consumers that are attached, and are durable. A change is written first and applied when
it is stored, so that after a restart every slot is still with whom it was: reserved until that member is back, or its
session would have run out. Nobody who left keeps a slot longer than that commit takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.broker.subscriptions.timers import NEVER
from gateway.promise import Promise
from gateway.wire.errors import Error
from semantics.subscriptions import selectors
from semantics.subscriptions.selectors import Selector, SelectorError
from store.api import Outcome

if TYPE_CHECKING:
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.tools import Tools
    from gateway.config.group_configs import GroupConfig

log = logging.getLogger("magnetar.subscriptions")

KEY_SHARED = "key_shared"

RETRY_MS = 1000
"""When a change of the selector that was not stored is tried again."""


class Holder(Protocol):
    """Lanes say themselves what they hold: they are to know when a cursor has forgotten it."""

    def cursor_lost(self) -> None:
        """A cursor was thrown away."""
        ...

    def cursors_moved(self) -> None:
        """Cursors were moved from outside: lanes may not hold any more what they say."""
        ...

    def retyping(self) -> None:
        """The subscription is about to have another type, for which nothing is to be in anybody's hands."""
        ...

    def came_back(self, partition: int, ranges: Sequence[tuple[int, int]], /) -> None:
        """A transaction was aborted: records of a partition, by the store's id, are to come before others of their
        keys.
        """
        ...


class Subscription:
    """In memory while somebody uses it. `base` is the topic whose retries these are, None for any other."""

    def __init__(self, row: SubscriptionRow, config: GroupConfig, base: str | None, tools: Tools) -> None:
        self._tools = tools
        self.node = tools.node
        self.row = row
        self.id = row.id
        self.group = row.group
        self.topic = row.topic
        self.topic_id = row.topic_id
        self.place = (row.group, row.topic_id)
        self.base = base
        self.gone = False
        self.partitions: dict[int, SubscriptionPartition] = {}
        # consumer -> how many partitions it is attached to; its client id
        self.consumers: dict[str, int] = {}
        self.client_ids: dict[str, str] = {}
        # Key_Shared: members from before a restart, and until when their slots wait for them (monotonic ms)
        self.reserved: dict[str, int] = {}
        self.selector: Selector | None = None
        # why a consumer got no slots
        self.refused: dict[str, str] = {}
        # True while the row is being written; those who wait for that may be many, so they have an event
        self._changing = False
        self._written: asyncio.Event | None = None
        # of the timers
        self.due_at = NEVER
        # whose lanes are its consumers, if it has such
        self.holder: Holder | None = None
        self._take(config)

    def _take(self, config: GroupConfig) -> None:
        self.config = config
        self.selector = None
        self.reserved.clear()
        if config.subscription.type != KEY_SHARED:
            return
        if self.row.selector:
            known = selectors.load(self.row.selector)
            if known.mode == config.mode:
                self.selector = known
                until = self.node.clock.monotonic_ms() + config.session_timeout_ms
                self.reserved = {member: until for member in known.members() if member not in self.consumers}
                self._arm()
        if self.selector is None:
            self.selector = selectors.make(config.mode)

    def partition(self, index: int) -> SubscriptionPartition:
        """Raises KafkaError when the topic has no such partition."""
        found = self.partitions.get(index)
        if found is None:
            found = self.partitions[index] = SubscriptionPartition(self, index, self._tools)
        return found

    @property
    def unsaved(self) -> bool:
        """Whether a cursor says something that is not stored yet."""
        return any(each.unsaved for each in self.partitions.values())

    @property
    def idle(self) -> bool:
        return not (self.partitions or self.reserved or self._changing)

    # -- configuration --------------------------------------------------------------------------------------------

    def reconfigure(self, config: GroupConfig, base: str | None) -> None:
        """Its configs, its group's or those of its base may be others now, and so may its base."""
        self.base = base
        old = self.config
        if config == old:
            return
        # its type, and the topic of its dead letters
        self._tools.counted.changed.add(self.place)
        if _kind(config) != _kind(old):
            self._take(config)
            for each in self.partitions.values():
                # Made again as the other type by whoever comes next; nobody is connected.
                each.retype()
            self.change()
            return
        self.config = config
        for each in self.partitions.values():
            each.pacing.configure(config.dispatch_rate)
            if each.cursor is not None:
                each.cursor.reconfigure(config.subscription)
                each.touch()
        if self.selector is not None and config.ranges != old.ranges:
            self.refused.clear()
            self.change(everybody=True)

    async def keep(self, properties: dict[str, str]) -> None:
        """Store these properties in place of those there are. Raises StoreError; KafkaError when it is deleted."""
        row = msgspec.structs.replace(await self.rewriting(), properties=properties)
        written = Promise[Outcome]()

        def done(outcome: Outcome) -> None:
            self.rewritten(row if outcome is None else None)
            written.tell(outcome)

        self.node.commit([rows.writes_changed(row)], done)
        if (outcome := await written) is not None:
            raise outcome

    async def rewriting(self) -> SubscriptionRow:
        """Its row, for who is about to write another in its place and says how that ended: `rewritten`. Raises
        KafkaError when it is deleted.
        """
        while self._changing:
            # The row is on its way with other changes, and one of the two would be lost.
            self._written = self._written or asyncio.Event()
            await self._written.wait()
        if self.gone:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The subscription was deleted.")
        self._changing = True
        return self.row

    def rewritten(self, row: SubscriptionRow | None) -> None:
        """That is its row now; None: it could not be stored."""
        if row is not None:
            self.row = row
        self._wrote()
        # members that came or went meanwhile
        self.change()

    def cursor_lost(self) -> None:
        """A cursor was thrown away."""
        if self.holder is not None:
            self.holder.cursor_lost()

    def cursors_moved(self) -> None:
        """Cursors were moved from outside: see `positions.move`."""
        if self.holder is not None:
            self.holder.cursors_moved()

    def retyping(self) -> None:
        """It is about to have another type."""
        if self.holder is not None:
            self.holder.retyping()

    def came_back(self, partition: int, ranges: Sequence[tuple[int, int]]) -> None:
        """A transaction that had these in hand was aborted."""
        if self.holder is not None:
            self.holder.came_back(partition, ranges)

    def _wrote(self) -> None:
        """The row is no longer being written."""
        self._changing = False
        if self._written is not None:
            self._written.set()
            self._written = None

    # -- members of the selector ----------------------------------------------------------------------------------

    def joined(self, consumer: str, client_id: str) -> None:
        """A consumer was attached to a partition."""
        self._tools.counted.changed.add(self.place)
        if client_id:
            self.client_ids[consumer] = client_id
        self.consumers[consumer] = self.consumers.get(consumer, 0) + 1
        if self.consumers[consumer] == 1:
            self.reserved.pop(consumer, None)
            if self.selector is not None:
                self.change()

    def left(self, consumer: str) -> None:
        """A consumer was detached from a partition."""
        self._tools.counted.changed.add(self.place)
        count = self.consumers[consumer] - 1
        if count:
            self.consumers[consumer] = count
            return
        del self.consumers[consumer]
        self.client_ids.pop(consumer, None)
        self.refused.pop(consumer, None)
        if self.selector is not None and not self._tools.stopping():
            self.change()

    def forget(self, member: str) -> None:
        """A member of the group is gone for good: nothing waits for it."""
        if self.reserved.pop(member, None) is not None:
            self.change()

    def change(self, *, everybody: bool = False) -> None:
        """Bring the selector in line with who is there; `everybody` leaves and enters again."""
        current = self.selector
        if current is None or self._changing or self.gone:
            return
        runtime = self.node.in_use.topic_by_id(self.topic_id)
        if runtime is None or runtime.deleting:
            return
        there = set(current.members())
        wanted = [each for each in (*self.consumers, *self.reserved) if everybody or each not in self.refused]
        keep = set() if everybody else there & set(wanted)
        if keep == there and len(wanted) == len(there):
            return
        changed = selectors.load(current.dump())
        for member in there - keep:
            changed.remove(member)
        for member in wanted:
            if member not in keep:
                try:
                    changed.add(member, self._ranges(member))
                except SelectorError as error:
                    log.warning("group %s: consumer %s gets no slots: %s", self.group, member, error)
                    self.refused[member] = str(error)
        row = msgspec.structs.replace(self.row, selector=changed.dump())
        self._changing = True

        def done(outcome: Outcome) -> None:
            self._wrote()
            if self.gone or self.selector is not current:
                return
            if outcome is not None:
                self._tools.timers.arm(self, self.node.clock.monotonic_ms() + RETRY_MS)
                return
            self.row = row
            self.selector = changed
            now = self.node.clock.monotonic_ms()
            for each in list(self.partitions.values()):
                if each.cursor is not None:
                    each.cursor.reassign(changed, now)
                    each.parked.serve_soon()
            self.change()

        self.node.commit([rows.writes_selector(row)], done)

    def _ranges(self, member: str) -> list[tuple[int, int]] | None:
        """The ranges that configs give a member in sticky mode, by its member id or its client id."""
        ranges = self.config.ranges
        found = ranges.get(member) or ranges.get(self.client_ids.get(member, ""))
        return list(found) if found is not None else None

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Members that did not come back after a restart; a change that was not stored."""
        now = self.node.clock.monotonic_ms()
        for member in [each for each, until in self.reserved.items() if until <= now]:
            log.info("group %s: member %s did not come back, others get its slots", self.group, member)
            del self.reserved[member]
        self.change()

    def next_due(self) -> int:
        return min(self.reserved.values(), default=NEVER)

    def _arm(self) -> None:
        self._tools.timers.arm(self, self.next_due())

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """It was deleted, with its topic or by itself: whoever is at it finds that out."""
        self.gone = True
        self._tools.timers.disarm(self)
        for each in list(self.partitions.values()):
            each.end()
        self.partitions.clear()

    def let_go(self, index: int) -> None:
        """Let go of a cursor that was loaded for a moment, unless somebody uses it by now."""
        at = self.partitions.get(index)
        # the first call finds out that it is idle, the second lets go of it
        if at is not None and (at.release() or at.release()):
            del self.partitions[index]

    def release_idle(self) -> None:
        """Let go of cursors that nobody uses."""
        for index, each in list(self.partitions.items()):
            if each.release():
                # at rest less is known of what is open
                self._tools.counted.changed.add(self.place)
                del self.partitions[index]


def _kind(config: GroupConfig) -> tuple[str, str, bool]:
    """What a cursor cannot take over from one of another kind."""
    return config.subscription.type, config.mode, config.subscription.lanes
