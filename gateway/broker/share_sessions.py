"""Share sessions (KIP-932): what a member of a share group fetches, remembered between its requests.

A session is known by its group and member and belongs to the connection that opened it. While it is open the member is
a consumer of each of its partitions; when it ends, what the member still holds returns:

| how it ends                                      | what was in hand                         |
|--------------------------------------------------|------------------------------------------|
| epoch -1                                         | returns, its count as it was             |
| the member left its group                        | the same, a second after that            |
| its connection is lost, or the group fences it   | counts one delivery, returns at once     |
| the member opens another one (epoch 0)           | the same: its client lost the old one    |
| the gateway stops                                | returns, its count as it was             |

Kafka keeps what an older session of the same member held until its locks run out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.subscriptions.partition import SubscriptionPartition

MAX_EPOCH = 0x7FFFFFFF
FINAL_EPOCH = -1

MAX_PARTITIONS = 250_000
"""Partitions that all sessions remember together, some 400 bytes each, without what serves them."""

LAST_WORDS = 1.0
"""Seconds in which a member that left its group may still acknowledge what it has."""

Key = tuple[bytes, int]
"""Topic id and partition."""


class Parked(Protocol):
    """A fetch that waits for its session to have something to tell."""

    def end(self) -> None: ...


class Shared:
    """One partition of a session, and what serves it once it was found."""

    __slots__ = ("index", "key", "served_by", "topic_id")

    def __init__(self, topic_id: bytes, index: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.key = (topic_id, index)
        # the consumer is attached there; None before it was looked for, or while there is none
        self.served_by: SubscriptionPartition | None = None


class ShareSession:
    """The partitions of one member. Who was served goes behind those that were not."""

    __slots__ = (
        "connection",
        "counted",
        "epoch",
        "forgotten",
        "group",
        "left",
        "member",
        "parked",
        "partitions",
    )

    def __init__(self, group: str, member: str, connection: int) -> None:
        self.group = group
        self.member = member
        # the number of the connection that opened it
        self.connection = connection
        # what the next request must carry
        self.epoch = 1
        self.partitions: dict[Key, Shared] = {}
        # not fetched any more, while the member still holds records of them
        self.forgotten: dict[Key, Shared] = {}
        self.parked: Parked | None = None
        # True when the member has left its group and wants nothing any more
        self.left = False
        # how many partitions of it are in the sessions' total
        self.counted = 0

    def want(self, topic_id: bytes, index: int) -> None:
        key = (topic_id, index)
        self.left = False
        if key not in self.partitions:
            shared = self.forgotten.pop(key) if key in self.forgotten else Shared(topic_id, index)
            self.partitions[key] = shared

    def forget(self, topic_id: bytes, index: int) -> None:
        """Fetch it no more. What the member holds of it can still be acknowledged, as in Kafka."""
        shared = self.partitions.pop((topic_id, index), None)
        if shared is not None and shared.served_by is not None:
            self.forgotten[shared.key] = shared
            self.let_go()

    def let_go(self) -> None:
        """The member is no consumer any more of what it forgot and holds nothing of."""
        for shared in list(self.forgotten.values()):
            partition = shared.served_by
            if partition is None or not partition.holds(self.member):
                del self.forgotten[shared.key]
                _detach(shared, self.member, graceful=True)

    def leave(self) -> None:
        """The member has left its group: it gets nothing more, and may still say what became of what it has."""
        self.left = True
        if self.parked is not None:
            self.parked.end()
        self.forgotten.update(
            (key, each) for key, each in self.partitions.items() if each.served_by is not None
        )
        self.partitions.clear()
        self.let_go()

    def advance(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < MAX_EPOCH else 1


class ShareSessions:
    """The sessions of all connections, at most group.share.max.share.sessions of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[int, list[ShareSession]] = {}
        # partitions over all sessions
        self.total = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group: str, member: str) -> ShareSession | None:
        return self._sessions.get((group, member))

    def open(self, group: str, member: str, connection: int) -> ShareSession | None:
        """A new session in place of the member's old one; None when there are too many."""
        old = self._sessions.get((group, member))
        if old is not None:
            self.close(old, graceful=False)
        if len(self._sessions) >= self._broker.settings.integer("group.share.max.share.sessions"):
            return None
        session = self._sessions[group, member] = ShareSession(group, member, connection)
        self._by_connection.setdefault(connection, []).append(session)
        self._broker.metrics.share_sessions.value += 1
        return session

    def advance(self, group: str, member: str, epoch: int) -> ShareSession | Error:
        """The session that a request of this epoch goes on with, an epoch further."""
        session = self._sessions.get((group, member))
        if session is None:
            return Error.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return Error.INVALID_SHARE_SESSION_EPOCH
            session.advance()
        return session

    def count(self, session: ShareSession) -> bool:
        """Its partitions have become more or fewer. False when all sessions together have too many now."""
        size = len(session.partitions) + len(session.forgotten)
        self.total += size - session.counted
        session.counted = size
        return self.total <= MAX_PARTITIONS

    def close(self, session: ShareSession, *, graceful: bool) -> None:
        """End it: what the member holds returns, and counts one delivery unless `graceful`."""
        del self._sessions[session.group, session.member]
        self.total -= session.counted
        self._broker.metrics.share_sessions.value -= 1
        others = self._by_connection[session.connection]
        others.remove(session)
        if not others:
            del self._by_connection[session.connection]
        if session.parked is not None:
            # It must not be woken by what is given back now.
            session.parked.end()
        for shared in [*session.partitions.values(), *session.forgotten.values()]:
            _detach(shared, session.member, graceful=graceful)
        session.partitions.clear()
        session.forgotten.clear()

    def connection_lost(self, connection: int, *, graceful: bool) -> None:
        """End the sessions that were opened on it."""
        for session in list(self._by_connection.get(connection, ())):
            self.close(session, graceful=graceful or session.left)

    def member_gone(self, group: str, member: str, *, graceful: bool) -> None:
        """The group has the member no more: it left (`graceful`), or was fenced.

        Who left has a second for its last acknowledgements: librdkafka sends them by another connection, and they may
        come after it left.
        """
        session = self._sessions.get((group, member))
        if session is None:
            return
        if graceful:
            session.leave()
            self._broker.loop.call_later(LAST_WORDS, self._end, session)
        else:
            self.close(session, graceful=False)

    def _end(self, session: ShareSession) -> None:
        if session.left and self._sessions.get((session.group, session.member)) is session:
            self.close(session, graceful=True)


def _detach(shared: Shared, member: str, *, graceful: bool) -> None:
    partition, shared.served_by = shared.served_by, None
    if partition is not None:
        partition.detach(member, graceful)
