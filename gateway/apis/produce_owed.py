"""A Produce that comes while its client owes something: by a new connection, or after a wait that was not the whole.

Who produces too much is told in the answer for how long to wait. Who closes its connection and comes back has not been
told, so its first Produce waits for what is owed as it comes: so long, and no longer, whatever others that share the
bucket take meanwhile. Otherwise who is told in answers would always be before it.

It waits in memory, as long as its client's patience lasts (`timeout_ms`) and what waits so has room. Else it is
told NOT_ENOUGH_REPLICAS, which clients of all kinds try again, and for how long to wait; with acks=0, where nothing can
be told, it waits for as long as it takes, and its connection ends where there is no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.apis.produce_held import HELD_BYTES, WAITS
from gateway.apis.reach import finder
from gateway.client_bounds import MOST_WAIT_MS, PRODUCE
from gateway.wire import produce as wire
from gateway.wire.errors import Error
from semantics.access.acl import Operation

if TYPE_CHECKING:
    from gateway.apis.produce_slots import Client
    from gateway.broker.broker import Broker
    from gateway.broker.publishers import Publishing
    from gateway.broker.resource_groups import ResourceGroup
    from gateway.client_bounds import ClientBounds
    from gateway.peer import Peer


class OwedError(Exception):
    """A connection is to publish for the first time in a resource group that owes something."""

    def __init__(self, group: ResourceGroup) -> None:
        super().__init__(group.name)
        self.group = group


GROUP = "publish"
"""What metrics call a wait for a resource group."""
SHARE = 8
"""What waits so holds at most the eighth part of memory.max.bytes."""
LOOK_AGAIN_MS = 1000
"""After so long it is asked again what is owed: a quota may have been raised or taken away."""
MOST_HELD_MS = 30_000
"""A client may give its answer 24 days, and be gone without a word."""
GRACE_MS = 1000
"""What comes so soon after one that was told to come again was mostly sent before its client knew, and must not be
taken before it: it is told the same."""
NO_ROOM_MS = 5000
"""Where there is no room to wait in memory, the connection is not read for so long."""


MOST_DUE = 8
"""Buckets that are remembered: a connection may call itself otherwise with each request."""


class Owing:
    """What one connection has to wait for. It is given up when a Produce of it may be taken."""

    __slots__ = ("_began", "_broker", "_crowded", "_due", "_grace", "_kept", "groups")

    def __init__(self, broker: Broker, began: int | None = None, group: ResourceGroup | None = None) -> None:
        """`began`: monotonic ms, since when the first Produce may have waited. `group`: whose topics it is for."""
        self._broker = broker
        # by bucket, monotonic ms: when what was owed there as it came is paid
        self._due: dict[object, int] = {}
        self.groups: frozenset[ResourceGroup] = frozenset(() if group is None else (group,))
        """what is owed to others than its own bucket: to that of its home, and of topics"""
        # since when the Produce that is there waits; until when others are told to come again
        self._began = began
        self._grace = 0
        # bytes of `broker.owing_bytes`; whether there was no room for it
        self._kept = 0
        self._crowded = False

    def left(self, peer: Peer, now: int) -> int:
        """ms that a client has to wait yet, for what it owes, or the resource group of its home, or of a topic."""
        left = self._grace - now
        quotas = peer.quotas
        if quotas is not None and quotas.produced is not None:
            left = max(left, self._left(quotas.produced, quotas.produced.wait(now), PRODUCE, now))
        if (home := self._broker.resource_group_of(f"{peer.prefix}any")) is not None:
            self.groups |= {home}
        for group in self.groups:
            left = max(left, self._left(group, group.publish_wait(now), GROUP, now))
        return max(left, 0)

    def _left(self, whose: object, owed: int, why: str, now: int) -> int:
        """`owed`: ms until nothing is owed any more to a bucket, by anybody."""
        due = self._due.get(whose)
        if due is None:
            if len(self._due) >= MOST_DUE:
                self._due.clear()
            due = self._due[whose] = now + owed
            if owed:
                self._broker.metrics.throttled(why, min(owed, MOST_WAIT_MS), 0)
        return min(owed, due - now)

    def keep(self, request: wire.ProduceRequest, left: int, size: int, now: int) -> int:
        """Keep a Produce of `size` bytes for so many ms, after which it is asked again; 0: it is not kept."""
        if self._began is None:
            self._began = now
        wait = min(left, LOOK_AGAIN_MS)
        if request.acks:
            patience = min(int(request.timeout_ms * WAITS), MOST_HELD_MS) - (now - self._began)
            wait = min(wait, patience) if now >= self._grace else 0
        if wait <= 0:
            return 0
        size += HELD_BYTES
        self._crowded = self._broker.owing_bytes + size > self._broker.memory_limit // SHARE
        if self._crowded:
            return 0
        self._kept = size
        self._broker.owing_bytes += size
        return wait

    def release(self) -> None:
        """Nothing is kept any more."""
        self._broker.owing_bytes -= self._kept
        self._kept = 0

    def refuse(self, quotas: ClientBounds | None, now: int) -> int:
        """One is told to come again, and the work on it counts: for how many ms its connection is not read."""
        pause, worked = NO_ROOM_MS if self._crowded else 0, 0
        if quotas is not None:
            quotas.worked(quotas.begin())
            worked = quotas.after_request()
        self._began, self._crowded = None, False
        if now >= self._grace or worked:
            self._grace = now + max(pause, worked) + GRACE_MS
        return pause


def check_group(broker: Broker, publishing: Publishing, topic: str) -> None:
    """Whether a connection may publish to a topic for the first time. Raises OwedError."""
    group = broker.resource_group_of(topic)
    if group is not None and group not in publishing.groups:
        if group.publish_wait(broker.clock.monotonic_ms()):
            raise OwedError(group)
        publishing.groups.add(group)


def check_groups(broker: Broker, client: Client, by_id: bool, request: wire.ProduceRequest) -> None:
    """The same of all topics of a request that its client may write to."""
    look, rights = finder(broker, client.peer, by_id=by_id), client.peer.rights
    for name, _ in request.topics:
        runtime = look(name)
        if runtime is not None and (not rights.checked or rights.topic(Operation.WRITE, runtime.name)):
            check_group(broker, client.publishing, runtime.name)


def told_to_wait(version: int, correlation_id: int, request: wire.ProduceRequest, left: int) -> bytes:
    """The answer to one that is not taken, as what is owed takes `left` ms yet."""
    text = "Its client, or its namespace, has produced more than it may: try again after throttle_time_ms."
    refusal = int(Error.NOT_ENOUGH_REPLICAS), -1, -1, -1, (), text
    results: list[wire.TopicResult] = [
        (name, [(index, *refusal) for index, _ in partitions]) for name, partitions in request.topics
    ]
    return wire.encode(version, correlation_id, results, min(left, MOST_WAIT_MS))
