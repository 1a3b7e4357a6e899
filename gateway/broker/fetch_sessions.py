"""What a consumer fetches, remembered between its requests (KIP-227), and which of it needs a look.

A `FetchState` is a set of partitions with the offset wanted of each. It watches them, so that a session of 10,000
partitions costs a look only at those that grew or were asked anew. A fetch without a session uses one for a moment.

A session belongs to the connection that made it, and so to one principal, and ends with it: nobody else can go on with
it, change it or end it, whatever id they name. Clients begin a new one when they connect again, as they must after a
restart of the gateway.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.readable import Readable
    from store.api import Write

MAX_EPOCH = 0x7FFFFFFF
EVICTION_MS = 120_000
"""A session unused for this long makes room for a new one (Kafka's min.incremental.fetch.session.eviction.ms)."""

MAX_PARTITIONS = 250_000
"""Partitions that all sessions remember together, some 400 bytes each. Beyond that clients name theirs every time."""

Key = tuple[bytes, int]
"""Topic (name in UTF-8, or topic id) and partition."""


class Parked(Protocol):
    """A fetch that waits for its state to have something to tell."""

    def advanced(self, appended: int) -> None: ...
    def rights_changed(self) -> None: ...


class Wanted:
    """One partition of a fetch: what the client asked, and what it was told last. Waits on the partition itself."""

    __slots__ = (
        "index",
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "stable",
        "state",
        "told_high",
        "told_start",
        "topic",
    )

    def __init__(self, state: FetchState, topic: bytes, index: int) -> None:
        self.state = state
        self.topic = topic
        self.index = index
        self.offset = 0
        self.max_bytes = 0
        self.leader_epoch = -1
        # the runtime that this watches, if there is one
        self.partition: Readable | None = None
        # high watermark and log start of the last answer: a session repeats neither
        self.told_high = -2
        self.told_start = -2
        # the last stable offset when it was looked at, or woken; whether that was the high watermark
        self.stable = -1, False

    def wake(self, partition: Readable, appended: int) -> None:
        state = self.state
        state.ready[self] = None
        if state.parked is None:
            return
        if state.committed and appended:
            appended = self._decided(partition, appended)
            if not appended:
                return
        pace = partition.dispatching
        if pace is not None and appended and pace.shut(self.opened):
            return
        state.parked.advanced(appended)

    def _decided(self, partition: Readable, appended: int) -> int:
        """How many bytes more may be read by those who read what is committed, with so many appended."""
        before, whole = self.stable
        stable = partition.last_stable_offset
        self.stable = stable, stable == partition.high_watermark
        if stable <= before:
            return 0
        return appended if whole and self.stable[1] else max(1, partition.size_between(before, stable))

    def opened(self) -> None:
        """What kept its partition from being read is over, unless others were quicker."""
        partition = self.partition
        if partition is not None and (pace := partition.dispatching) is not None and pace.shut(self.opened):
            return
        if partition is not None:
            self.wake(partition, 0)

    @property
    def watches(self) -> bool:
        """Whether its partition wakes it. What is let go while a disk is asked must be looked at again."""
        return self.partition is not None

    def unwatch(self) -> None:
        if self.partition is not None:
            if self.partition.dispatching is not None:
                self.partition.dispatching.forget(self.opened)
            self.partition.watchers.discard(self)
            self.partition = None


class FetchState:
    """The partitions of one fetch or one session."""

    __slots__ = (
        "by_id",
        "checked",
        "committed",
        "counted",
        "epoch",
        "owner",
        "parked",
        "ready",
        "session_id",
        "used_at",
        "wanted",
    )

    def __init__(self, session_id: int, by_id: bool, owner: int = 0) -> None:
        self.session_id = session_id
        # the connection that made it
        self.owner = owner
        self.by_id = by_id
        # whether its client must have the right to read each topic
        self.checked = False
        # whether it reads what is committed, and no more
        self.committed = False
        # how many partitions of it are in the sessions' total
        self.counted = 0
        # what the next incremental fetch must carry
        self.epoch = 1
        self.used_at = 0
        self.wanted: dict[Key, Wanted] = {}
        # those that a fetch must look at, in turn: who was served goes to the end
        self.ready: dict[Wanted, None] = {}
        self.parked: Parked | None = None

    def want(self, topic: bytes, index: int, leader_epoch: int, offset: int, max_bytes: int) -> None:
        key = (topic, index)
        wanted = self.wanted.get(key)
        if wanted is None:
            wanted = self.wanted[key] = Wanted(self, topic, index)
        wanted.leader_epoch = leader_epoch
        wanted.offset = offset
        wanted.max_bytes = max_bytes
        self.ready[wanted] = None

    def forget(self, topic: bytes, index: int) -> None:
        wanted = self.wanted.pop((topic, index), None)
        if wanted is not None:
            self.ready.pop(wanted, None)
            wanted.unwatch()

    def close(self) -> None:
        for wanted in self.wanted.values():
            wanted.unwatch()
        self.wanted.clear()
        self.ready.clear()
        self.parked = None


def _any_id() -> int:
    """Nobody can guess one, and after a restart nobody's old id is somebody else's new one."""
    return 1 + secrets.randbelow(MAX_EPOCH)


class FetchSessions:
    """The sessions of all connections, at most `slots` of them."""

    def __init__(self, slots: int, draw: Callable[[], int] = _any_id) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchState] = OrderedDict()
        # connection -> ids of its sessions
        self._of: dict[int, set[int]] = {}
        self._draw = draw
        self.evicted = 0
        # what waits for data without a session
        self._waiting: set[Parked] = set()
        # partitions over all sessions
        self.total = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self) -> int:
        """Partitions over all sessions."""
        return sum(len(session.wanted) for session in self._sessions.values())

    def count(self, session: FetchState) -> bool:
        """Its partitions have become more or fewer. False when all sessions together have too many now."""
        self.total += len(session.wanted) - session.counted
        session.counted = len(session.wanted)
        return self.total <= MAX_PARTITIONS

    def create(self, owner: int, by_id: bool, now: int, partitions: int = 0) -> FetchState | None:
        """A session of a connection for so many partitions, or None when all slots are taken by sessions in use, or
        they remember too much already. `now` in monotonic ms.
        """
        if self.total + partitions > MAX_PARTITIONS:
            return None
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or oldest.parked is not None or now - oldest.used_at < EVICTION_MS:
                return None
            self.remove(oldest)
            self.evicted += 1
        session_id = self._draw()
        while session_id in self._sessions:
            session_id = self._draw()
        session = FetchState(session_id, by_id, owner)
        session.used_at = now
        self._sessions[session_id] = session
        self._of.setdefault(owner, set()).add(session_id)
        return session

    def get(self, owner: int, session_id: int, now: int) -> FetchState | None:
        """The session of that id, if it is this connection's."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            return None
        session.used_at = now
        self._sessions.move_to_end(session_id)
        return session

    def park(self, state: FetchState, fetch: Parked) -> None:
        """A fetch waits until its state has something to tell."""
        state.parked = fetch
        if not state.session_id and state.checked:
            self._waiting.add(fetch)

    def unpark(self, state: FetchState, fetch: Parked) -> None:
        """It waits no longer, or never did."""
        self._waiting.discard(fetch)
        if state.parked is fetch:
            state.parked = None

    def rights_changed(self) -> None:
        """Somebody may read what they might not before, or the other way round; `Peer.rights` says so already. Fetches
        that wait tell what may not be read any more; all else is looked up again when it is asked for next.
        """
        for waiting in list(self._waiting):
            waiting.rights_changed()
        for session in list(self._sessions.values()):
            if not session.checked:
                continue
            if session.parked is not None:
                session.parked.rights_changed()
                continue
            for wanted in session.wanted.values():
                if wanted.partition is not None:
                    wanted.unwatch()
                    session.ready[wanted] = None

    def remove(self, session: FetchState) -> None:
        """It ends. One that has ended, or was for a moment, is passed over."""
        if self._sessions.pop(session.session_id, None) is None:
            return
        ids = self._of[session.owner]
        ids.discard(session.session_id)
        if not ids:
            del self._of[session.owner]
        self.total -= session.counted
        session.close()

    def connection_lost(self, owner: int) -> None:
        """The connection is gone, and its sessions with it."""
        for session_id in list(self._of.get(owner, ())):
            self.remove(self._sessions[session_id])

    def follow(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """A topic is deleted: nothing is to be written, and its partitions tell so when it is gone."""
        return [], partial(self._forget, topic.topic_id)

    def _forget(self, topic_id: bytes) -> None:
        """The partitions of a topic tell that it is gone at their next look, since their runtimes were retired."""
        for session in self._sessions.values():
            for wanted in session.wanted.values():
                if wanted.topic == topic_id:
                    session.ready[wanted] = None
