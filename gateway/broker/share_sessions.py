"""Share sessions (KIP-932): what a member of a share group fetches, remembered between its requests.

While a session is open its member is a consumer of each of its partitions; when it ends, what the member still holds
returns:

| how it ends                                       | what was in hand                                   |
|---------------------------------------------------|----------------------------------------------------|
| epoch -1                                          | counts one delivery (pulsar.leave.counts), returns |
| the member left its group                         | the same, a second after that                      |
| its last connection is lost, or the group fences it | counts one delivery, returns at once             |
| it may not read in the group any more             | as with epoch -1                                   |
| the gateway stops, or has no room for it          | returns, its count as it was                       |

What was acquired and never sent returns, its count as it was, however the session ends. A member that may not read a
topic any more is no consumer of its partitions from then on, and what it holds of them returns as with epoch -1: Kafka
lets the locks run out, and meanwhile nobody else would have these records.

A session is known by its group and member id, and belongs to a client: principal, address and client id of who opened
it. Each connection of that client which named the member (ShareGroupHeartbeat, ShareFetch, ShareAcknowledge) keeps it.
Any of them may go on with it, at its epoch, or open it anew (epoch 0): it finds what the member holds, as in Kafka.
Clients close connections that idle, and a member may work on one record for longer than that. Member ids are UUIDs that
a client makes, but no secrets, since groups are described to whoever asks: another client that names the member neither
goes on with its session, nor replaces, ends or keeps it. Where it was quicker to open one, the client that joined the
group as that member takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gateway.broker.stood_still import call_when_heard
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.subscriptions.states import Ending

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.coordinators.share_group import ShareGroup
    from gateway.peer import Peer

MAX_EPOCH = 0x7FFFFFFF
FINAL_EPOCH = -1

MAX_PARTITIONS = 250_000
"""Partitions that all sessions remember together, some 400 bytes each, without what serves them."""

SHARE = 4
"""A tenant, or a user of none, has at most one part in so many of all sessions, and of their partitions."""

LAST_WORDS = 1.0
"""Seconds in which a member that left its group may still acknowledge what it has."""

BACK_AGAIN = 5.0
"""Seconds in which a member whose fetch connection was closed as idle may name itself again, when no other one is left:
librdkafka drops its coordinator's connection with the broker's, and makes both anew within milliseconds."""

Key = tuple[bytes, int]
"""Topic id and partition."""

MemberKey = tuple[str, str]
"""Group and member id."""

Client = tuple[str, str]
"""Address and client id of whoever is at the other end of a connection."""


class Parked(Protocol):
    """A fetch that waits for its session to have something to tell."""

    def end(self) -> None: ...

    def leave(self, partition: SubscriptionPartition) -> None:
        """It waits for this one no longer."""
        ...

    def look_again(self) -> None:
        """Something of its session has changed."""
        ...

    def refuse(self, error: Error) -> None:
        """Its member may not ask for this any more."""
        ...


class Shared:
    """One partition of a session, and what serves it once it was found."""

    __slots__ = ("index", "key", "served_by", "topic_id")

    def __init__(self, topic_id: bytes, index: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.key = (topic_id, index)
        # the consumer is attached there; None before it was looked for, or while there is none
        self.served_by: SubscriptionPartition | None = None


class Unsent(Protocol):
    """A fetch that acquired records and was not answered yet."""

    connection: int

    def put_back(self) -> None:
        """It will not be answered with them."""


class ShareSession:
    """The partitions of one member. Who was served goes behind those that were not."""

    __slots__ = (
        "asked_at",
        "client",
        "connection",
        "counted",
        "epoch",
        "forgotten",
        "group",
        "idled",
        "left",
        "member",
        "owner",
        "parked",
        "partitions",
        "peer",
        "unconfirmed",
        "unsent",
    )

    def __init__(self, group: str, member: str, peer: Peer, client: Client) -> None:
        self.group = group
        self.member = member
        # who asked last: of several connections of a client, all of one principal
        self.peer = peer
        # the number of the connection that opened it, or went on with it when that was lost; None: lost
        self.connection: int | None = peer.connection
        self.client = client
        # when records were asked for last, monotonic ms
        self.asked_at = 0
        # what the next request must carry
        self.epoch = 1
        self.partitions: dict[Key, Shared] = {}
        # not fetched any more, while the member still holds records of them
        self.forgotten: dict[Key, Shared] = {}
        self.parked: Parked | None = None
        # fetches that wait for a disk, or for what their answer rests on
        self.unsent: set[Unsent] = set()
        # the last answer had records, and no request has come since: it may be lost with its connection
        self.unconfirmed = False
        # True when the gateway closed its connection because it idled
        self.idled = False
        # True when the member has left its group and wants nothing any more
        self.left = False
        # how many partitions of it are in the sessions' total
        self.counted = 0
        # whose share of all sessions it is in
        self.owner = owner_of(peer)

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
                _detach(shared, self.member, Ending.LEFT)

    def leave(self) -> None:
        """The member has left its group: it gets nothing more, and may still say what became of what it has."""
        self.left = True
        self.forget_all()
        self.let_go()

    def forget_all(self) -> None:
        """Nothing is fetched any more, and nothing that was acquired is sent any more."""
        if self.parked is not None:
            self.parked.end()
        self.put_back()
        self.forgotten.update(
            (key, each) for key, each in self.partitions.items() if each.served_by is not None
        )
        self.partitions.clear()

    def put_back(self, connection: int | None = None) -> None:
        """What was acquired and not sent goes back uncounted; only that of one connection, if it is given."""
        for each in list(self.unsent):
            if connection in (None, each.connection):
                self.unsent.discard(each)
                each.put_back()

    def in_doubt(self) -> None:
        """Its connection is lost. Whether the last answer came is not known: see `SubscriptionPartition.in_doubt`."""
        if self.unconfirmed:
            self.unconfirmed = False
            for shared in (*self.partitions.values(), *self.forgotten.values()):
                if shared.served_by is not None:
                    shared.served_by.in_doubt(self.member)

    def advance(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < MAX_EPOCH else 1


def owner_of(peer: Peer) -> str:
    """Whose share of all sessions those of a client are in: its tenant's, or its own where it is at home in
    public/default. "" where nobody is asked for rights: all may be one's then.
    """
    if not peer.rights.checked:
        return ""
    return peer.namespace.partition("/")[0] + "/" if peer.prefix else peer.principal


class _Named:
    """A connection that named a member."""

    __slots__ = ("beats", "client")

    def __init__(self, client: Client) -> None:
        self.client = client
        # it sent a heartbeat that was taken, so the group knows the member
        self.beats = False


class ShareSessions:
    """The sessions of all members, at most group.share.max.share.sessions of them."""

    def __init__(self, node: Node, group_in_memory: Callable[[str], ShareGroup | None]) -> None:
        self._node = node
        self._group_in_memory = group_in_memory
        self._sessions: dict[MemberKey, ShareSession] = {}
        # the connections of each member that has a session or is in its group
        self._named: dict[MemberKey, dict[int, _Named]] = {}
        self._by_connection: dict[int, set[MemberKey]] = {}
        # partitions over all sessions
        self.total = 0
        # sessions, and their partitions, by owner
        self._owned: Counter[str] = Counter()
        self._of_owner: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group: str, member: str) -> ShareSession | None:
        return self._sessions.get((group, member))

    # -- who is there -------------------------------------------------------------------------------------------------

    def beat(self, group: str, member: str, connection: int, client: Client) -> None:
        """A heartbeat of the member was taken on this connection."""
        self._name((group, member), connection, client).beats = True

    def has_connection(self, group: str, member: str, client: Client) -> bool:
        """Whether a connection of that client which named the member is there."""
        return any(each.client == client for each in self._named.get((group, member), {}).values())

    def _name(self, key: MemberKey, connection: int, client: Client) -> _Named:
        named = self._named.setdefault(key, {})
        found = named.get(connection)
        if found is None:
            found = named[connection] = _Named(client)
            self._by_connection.setdefault(connection, set()).add(key)
        return found

    def _unname(self, key: MemberKey, connection: int) -> None:
        named = self._named[key]
        del named[connection]
        if not named:
            del self._named[key]
        others = self._by_connection[connection]
        others.remove(key)
        if not others:
            del self._by_connection[connection]

    def wants(self, group: str, member: str, since: int) -> bool:
        """Whether a member waits for records, or has asked for some since then."""
        session = self._sessions.get((group, member))
        return session is not None and (session.parked is not None or session.asked_at >= since)

    def peer_of(self, group: str, member: str) -> Peer | None:
        """Who asked last as a member; None where nobody has."""
        session = self._sessions.get((group, member))
        return session.peer if session is not None else None

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open(self, group: str, member: str, peer: Peer, client: Client) -> ShareSession | Error:
        """A new session; in place of the member's old one it finds what the member holds.

        SHARE_SESSION_LIMIT_REACHED when there are too many, SHARE_SESSION_NOT_FOUND when another client has it, unless
        this one has joined the group as that member. Of two principals the group does not know which has joined, so the
        session stays with the first.
        """
        key, connection = (group, member), peer.connection
        old = self._sessions.get(key)
        if old is not None and old.peer.principal != peer.principal:
            return Error.SHARE_SESSION_NOT_FOUND
        if old is not None and old.client != client:
            if self._joined_by(group, member) != client:
                return Error.SHARE_SESSION_NOT_FOUND
            # whoever opened it was quicker than the member itself
            self.close(old, Ending.CRASHED)
            old = None
        if old is None:
            most, owner = self._node.settings.integer("group.share.max.share.sessions"), owner_of(peer)
            if len(self._sessions) >= most or (owner and self._owned[owner] >= max(1, most // SHARE)):
                return Error.SHARE_SESSION_LIMIT_REACHED
            self._owned[owner] += 1
            self._node.metrics.share_sessions.value += 1
        session = self._sessions[key] = ShareSession(group, member, peer, client)
        self._name(key, connection, client)
        if old is not None:
            if old.connection != connection:
                old.in_doubt()
            old.forget_all()
            session.forgotten = old.forgotten
            session.counted = old.counted
            session.owner = old.owner
            old.forgotten = {}
        return session

    def _joined_by(self, group: str, member: str) -> Client | None:
        """Who joined the group as that member, as far as that is known in memory."""
        known = self._group_in_memory(group)
        found = known.members.get(member) if known is not None else None
        return (found.client_host, found.client_id) if found is not None else None

    def advance(
        self, group: str, member: str, epoch: int, peer: Peer, client: Client
    ) -> ShareSession | Error:
        """The session that a request of this epoch goes on with, an epoch further."""
        session = self._sessions.get((group, member))
        if session is None:
            return Error.SHARE_SESSION_NOT_FOUND
        connection = peer.connection
        if session.connection != connection:
            if session.client != client or session.peer.principal != peer.principal:
                return Error.SHARE_SESSION_NOT_FOUND
            self._name((group, member), connection, client)
            if session.connection is None:
                session.connection = connection
        session.peer = peer
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return Error.INVALID_SHARE_SESSION_EPOCH
            session.advance()
        session.unconfirmed = session.idled = False
        return session

    def count(self, session: ShareSession) -> bool:
        """Its partitions have become more or fewer. False when all sessions together have too many now, or those of
        its owner.
        """
        size = len(session.partitions) + len(session.forgotten)
        self.total += size - session.counted
        self._of_owner[session.owner] += size - session.counted
        session.counted = size
        if self.total > MAX_PARTITIONS:
            return False
        return not session.owner or self._of_owner[session.owner] <= MAX_PARTITIONS // SHARE

    def close(self, session: ShareSession, ending: Ending) -> None:
        """End it: what the member holds returns. See Ending for whether that counts as a delivery."""
        key = (session.group, session.member)
        del self._sessions[key]
        self.total -= session.counted
        self._of_owner[session.owner] -= session.counted
        self._owned[session.owner] -= 1
        if not self._owned[session.owner]:
            del self._owned[session.owner], self._of_owner[session.owner]
        self._node.metrics.share_sessions.value -= 1
        for connection, named in list(self._named.get(key, {}).items()):
            if not named.beats:
                self._unname(key, connection)
        if session.parked is not None:
            # It must not be woken by what is given back now.
            session.parked.end()
        session.put_back()
        for shared in [*session.partitions.values(), *session.forgotten.values()]:
            _detach(shared, session.member, ending)
        session.partitions.clear()
        session.forgotten.clear()

    def rights_changed(self) -> None:
        """Somebody may read what they might not before, or the other way round; `Peer.rights` says so already. Members
        are no consumers any more where they may not read, and their fetches that wait say so.
        """
        for session in list(self._sessions.values()):
            rights = session.peer.rights
            if not rights.checked:
                continue
            parked = session.parked
            if not rights.group(Operation.READ, session.group):
                if parked is not None:
                    parked.refuse(Error.GROUP_AUTHORIZATION_FAILED)
                self.close(session, Ending.LEFT)
                continue
            lost = False
            for shared in (*session.partitions.values(), *session.forgotten.values()):
                at = shared.served_by
                if at is not None and not rights.topic(Operation.READ, at.partition.topic.name):
                    lost = True
                    if parked is not None:
                        parked.leave(at)
                    _detach(shared, session.member, Ending.LEFT)
            if lost and parked is not None:
                parked.look_again()

    def connection_lost(self, connection: int, *, stopping: bool, idled: bool = False) -> None:
        """Members whose last connection it was are gone. The gateway closed it because it stops (`stopping`), or
        because nothing was asked on it (`idled`): then they have BACK_AGAIN.
        """
        for key in list(self._by_connection.get(connection, ())):
            self._unname(key, connection)
            session = self._sessions.get(key)
            if session is None:
                continue
            session.put_back(connection)
            if session.connection == connection:
                session.connection = None
                session.idled = idled
                if stopping or session.left:
                    self.close(session, Ending.STOPPED if stopping else Ending.LEFT)
                    continue
                session.in_doubt()
            if self.has_connection(*key, session.client):
                continue
            if session.idled and not session.left:
                self._later(BACK_AGAIN, partial(self._abandon, session))
            else:
                self.close(session, Ending.LEFT if session.left else Ending.CRASHED)

    def member_gone(self, group: str, member: str, *, graceful: bool) -> None:
        """The group has the member no more: it left (`graceful`), or was fenced.

        Who left has a second for its last acknowledgements: librdkafka sends them by another connection, and they may
        come after it left.
        """
        key = (group, member)
        for named in self._named.get(key, {}).values():
            named.beats = False
        session = self._sessions.get(key)
        if session is None:
            for connection in list(self._named.get(key, ())):
                self._unname(key, connection)
        elif graceful:
            session.leave()
            self._later(LAST_WORDS, partial(self._end, session))
        else:
            self.close(session, Ending.CRASHED)

    def _later(self, seconds: float, end: Callable[[], None]) -> None:
        call_when_heard(self._node, self._node.clock.monotonic_ms() + round(seconds * 1000), end)

    def _abandon(self, session: ShareSession) -> None:
        key = (session.group, session.member)
        if self._sessions.get(key) is session and not self.has_connection(*key, session.client):
            self.close(session, Ending.CRASHED)

    def _end(self, session: ShareSession) -> None:
        if session.left and self._sessions.get((session.group, session.member)) is session:
            self.close(session, Ending.LEFT)


def _detach(shared: Shared, member: str, ending: Ending) -> None:
    partition, shared.served_by = shared.served_by, None
    if partition is not None:
        partition.detach(member, ending)
