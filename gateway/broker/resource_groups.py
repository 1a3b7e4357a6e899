"""Pulsar's resource groups: rates that all topics of all namespaces in a group have together (PIP-82).

A namespace says which group it is in. What is published there is spent of the group's bucket beside that of the topic,
and the longer wait counts; what is read likewise. Groups are rows, and all of them are in memory: there are few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.changing import stored
from gateway.broker.dispatching import Pace, Woken
from gateway.broker.errors import KafkaError, from_store
from gateway.wire.errors import Error
from semantics.rates import NO_LIMIT, Rate, Throttle
from store.api import Delete, Family, Put, StoreError

if TYPE_CHECKING:
    from gateway.broker.node import Node, Time

_PREFIX = b"resource-group/"

MOST = 1000
"""Groups that there may be."""
MOST_DEBT_MS = 10_000
"""As of the publish rate of a topic: what could not be paid in that time is forgiven."""


class GroupRow(msgspec.Struct, omit_defaults=True, frozen=True):
    """What is kept of one: what may go in a second. None is not said, and -1 and 0 are no limit either."""

    publish_messages: int | None = None
    publish_bytes: int | None = None
    dispatch_messages: int | None = None
    dispatch_bytes: int | None = None

    @property
    def publish(self) -> Rate:
        return Rate(self.publish_messages or 0, self.publish_bytes or 0)

    @property
    def dispatch(self) -> Rate:
        return Rate(self.dispatch_messages or 0, self.dispatch_bytes or 0)


_rows = msgspec.msgpack.Decoder(GroupRow)


class Used:
    """What went since the gateway started."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0


class ResourceGroup:
    """One group at work. It stays the same object while it is there, whatever its rates become."""

    __slots__ = ("_pace", "_throttle", "_time", "dispatched", "going", "name", "published", "row")

    def __init__(self, name: str, row: GroupRow, time: Time) -> None:
        self.name = name
        self._time = time
        self._throttle: Throttle | None = None
        self._pace: Pace | None = None
        self.published, self.dispatched = Used(), Used()
        # True while its deletion is on its way: no namespace comes into it any more
        self.going = False
        self.configure(row)

    def configure(self, row: GroupRow) -> None:
        """From now on these are its rates."""
        self.row = row
        if self._throttle is None or self._throttle.rate != row.publish:
            limits = row.publish.limits
            self._throttle = (
                Throttle(row.publish, self._time.clock.monotonic_ms(), MOST_DEBT_MS) if limits else None
            )
        before = self._pace
        if before is None or before.rate != row.dispatch:
            # it is relative to nothing that is published
            self._pace = Pace(self._time, row.dispatch, lambda: (0, 0)) if row.dispatch.limits else None
            if before is not None:
                before.end()

    # -- what is published ------------------------------------------------------------------------------------------

    def publish(self, messages: int, size: int, now: int) -> None:
        """So much was published in one of its namespaces."""
        self.published.messages += messages
        self.published.bytes += size
        if self._throttle is not None:
            self._throttle.spend(messages, size, now)

    def publish_wait(self, now: int) -> int:
        """ms for which whoever has published there is not read."""
        return self._throttle.wait(now) if self._throttle is not None else 0

    # -- what is read: as `dispatching.Dispatching` -----------------------------------------------------------------

    def room(self) -> tuple[int, int]:
        return self._pace.room() if self._pace is not None else (NO_LIMIT, NO_LIMIT)

    def shut(self, wake: Woken) -> bool:
        return self._pace is not None and self._pace.shut(wake)

    def spend(self, records: int, size: int) -> None:
        self.dispatched.messages += records
        self.dispatched.bytes += size
        if self._pace is not None:
            self._pace.spend(records, size)

    def forget(self, wake: Woken) -> None:
        if self._pace is not None:
            self._pace.forget(wake)

    def end(self) -> None:
        if self._pace is not None:
            self._pace.end()


class ResourceGroups:
    """All of them. Call `load` once, when the store is open."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._groups: dict[str, ResourceGroup] = {}
        # one change at a time: each begins with what the one before it left
        self._lock = asyncio.Lock()

    def load(self) -> None:
        """Raises StoreError."""
        skip = len(_PREFIX)
        for key, value in self._node.store.scan(Family.POLICY, _PREFIX):
            name = key[skip:].decode()
            self._groups[name] = ResourceGroup(name, _rows.decode(value), self._node)

    def get(self, name: str) -> ResourceGroup | None:
        return self._groups.get(name)

    def names(self) -> list[str]:
        return sorted(self._groups)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._groups)

    def __iter__(self) -> Iterator[ResourceGroup]:
        return iter(list(self._groups.values()))

    async def change(self, name: str, change: Callable[[GroupRow], GroupRow]) -> None:
        """Make a group, or change one that is there. Raises KafkaError, and what `change` raises."""
        async with self._lock:
            group = self._groups.get(name)
            if group is None and len(self._groups) >= MOST:
                raise KafkaError(Error.POLICY_VIOLATION, f"There are {MOST} resource groups at most.")
            await self._store(name, change(group.row if group is not None else GroupRow()))

    async def delete(self, name: str, free: Callable[[], Awaitable[None]]) -> None:
        """Delete one that no namespace is in: `free` raises where one is, and none comes in meanwhile. Raises what that
        raises, KafkaError.
        """
        async with self._lock:
            group = self._groups.get(name)
            if group is None:
                return
            group.going = True
            try:
                # a namespace may be on its way into it
                await self._node.write([])
                await free()
                await self._store(name, None)
            except StoreError as error:
                raise from_store(error) from error
            finally:
                group.going = False

    async def _store(self, name: str, row: GroupRow | None) -> None:
        key = _PREFIX + name.encode()
        write = (
            Put(Family.POLICY, key, msgspec.msgpack.encode(row))
            if row is not None
            else Delete(Family.POLICY, key)
        )

        def read_again() -> None:
            raw = self._node.store.get(Family.POLICY, key)
            self._set(name, _rows.decode(raw) if raw is not None else None)

        await stored(self._node, [write], lambda: self._set(name, row), read_again)

    def _set(self, name: str, row: GroupRow | None) -> None:
        """From now on a group is so, or is there no more."""
        group = self._groups.get(name)
        if group is not None:
            group.configure(row or GroupRow())
            if row is None:
                del self._groups[name]
        elif row is not None:
            self._groups[name] = ResourceGroup(name, row, self._node)
