"""Who is in a classic group: the members, the static ones by instance id, those who were promised a place.

Bookkeeping only. What a change of it means for the group is decided in `classic_group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.coordinators.classic_events import Protocols, Token


class Member:
    """One member of a classic group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout",
        "session_timeout",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout: int,
        rebalance_timeout: int,
        protocols: Protocols,
        assignment: bytes = b"",
        deadline: int = 0,
    ) -> None:
        self.member_id = member_id
        # None for a dynamic member (KIP-345)
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.protocols = protocols
        self.assignment = assignment
        # The parked JoinGroup and SyncGroup; None when there is none.
        self.join: Token | None = None
        self.sync: Token | None = None
        # Before its first answered join it has no id to heartbeat with, so even a parked request does not
        # keep it.
        self.is_new = False
        # When the session runs out, monotonic ms; see `due`.
        self.deadline = deadline

    def due(self) -> int | None:
        """When it must be removed; None while a parked request speaks for it."""
        if not self.is_new and (self.join is not None or self.sync is not None):
            return None
        return self.deadline

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; empty if it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class Roster:
    """The members in order of arrival."""

    __slots__ = ("_supported", "members", "pending", "static")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        # instance id -> member id: at most one member for an instance
        self.static: dict[str, str] = {}
        # Ids given out with MEMBER_ID_REQUIRED and not yet used -> when the promise ends, monotonic ms.
        self.pending: dict[str, int] = {}
        # protocol -> how many members speak it
        self._supported: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.members

    def get(self, member_id: str) -> Member | None:
        return self.members.get(member_id)

    def add(self, member: Member) -> None:
        """Let a member in. Its ids must be free."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static
            self.static[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        self._count(member.protocols, 1)

    def remove(self, member: Member) -> None:
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static[member.instance_id]
        self._count(member.protocols, -1)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of its new incarnation."""
        assert member.instance_id is not None
        # Kept in its place, so that the order of arrival stays.
        self.members = {
            member_id if known == member.member_id else known: other for known, other in self.members.items()
        }
        member.member_id = member_id
        self.static[member.instance_id] = member_id

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def all_joined(self) -> bool:
        """Every member has a parked JoinGroup and nobody is still expected."""
        return not self.pending and all(member.join is not None for member in self)

    def waiting(self) -> int:
        """Members with a parked JoinGroup."""
        return sum(member.join is not None for member in self)

    def rebalance_timeout(self) -> int:
        """The longest of all members', in ms."""
        return max((member.rebalance_timeout for member in self), default=0)

    def supports_any(self, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether one of the protocols is spoken by every member."""
        size = len(self.members)
        return any(self._supported.get(name, 0) == size for name, _ in protocols)

    def vote(self) -> str:
        """The protocol that all members speak and most prefer; among equals the one the first member ranks
        higher.

        Each member votes for the first of its list that all speak. There must be members.
        """
        size = len(self.members)
        votes: dict[str, int] = {}
        ranking: Protocols = next(iter(self)).protocols
        for member in self:
            choice = next(name for name, _ in member.protocols if self._supported[name] == size)
            votes[choice] = votes.get(choice, 0) + 1
        return max((name for name, _ in ranking if name in votes), key=votes.__getitem__)

    def _count(self, protocols: Protocols, by: int) -> None:
        # A name counts once however often a member lists it.
        for name in {name for name, _ in protocols}:
            count = self._supported.get(name, 0) + by
            if count:
                self._supported[name] = count
            else:
                del self._supported[name]
