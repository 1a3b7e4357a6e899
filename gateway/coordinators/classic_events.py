"""What happens to a classic group (events), and what comes of it (answers, effects).

`token` is whatever the caller wants back when the request is answered; the group only stores it. All times
are in ms. Every event that is a request knows how it is refused, so that a request to a group that does not
exist, or to one whose state could not be saved, is answered in the same shape as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from store.api import Write

Token = Any
Protocols = tuple[tuple[str, bytes], ...]
"""Names and opaque metadata in the member's order of preference."""


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """`members` is filled for the leader only. `skip_assignment`: KIP-814."""

    error: int
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncAnswer(NamedTuple):
    error: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Left(NamedTuple):
    """The outcome for one of the members that a LeaveGroup names."""

    member_id: str
    instance_id: str | None
    error: int


class LeaveAnswer(NamedTuple):
    error: int
    members: tuple[Left, ...] = ()


class Plain(NamedTuple):
    """The answer to Heartbeat and DeleteGroups: an error code."""

    error: int


Answered = JoinAnswer | SyncAnswer | LeaveAnswer | Plain


class Join(NamedTuple):
    """JoinGroup. `new_member_id` is a fresh unique id, used if the member has none and is let in.

    `id_required`: a dynamic member without an id must come again with the one it is given (KIP-394, v4+).
    `may_skip`: the client understands skip_assignment (v9+).
    """

    token: Token
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: int
    rebalance_timeout: int
    protocol_type: str
    protocols: Protocols
    id_required: bool = True
    may_skip: bool = True
    reason: str | None = None

    def refused(self, error: int) -> JoinAnswer:
        return JoinAnswer(error, self.member_id)


class Sync(NamedTuple):
    """SyncGroup. `assignments` by member id; only the leader's count. Protocol type and name: v5+."""

    token: Token
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}

    def refused(self, error: int) -> SyncAnswer:
        return SyncAnswer(error)


class Heartbeat(NamedTuple):
    token: Token
    member_id: str
    generation: int
    instance_id: str | None = None

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Leaver(NamedTuple):
    """Who leaves: by member id, or a static member by its instance id alone (an administrator does)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Leave(NamedTuple):
    token: Token
    members: tuple[Leaver, ...]

    def refused(self, error: int) -> LeaveAnswer:
        return LeaveAnswer(error)


class Delete(NamedTuple):
    """DeleteGroups: the group's row and all its offsets go, if nobody is a member."""

    token: Token

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Expel(NamedTuple):
    """A member is as good as lost, whatever it says of itself: it is out."""

    member_id: str
    reason: str


class Rebalance(NamedTuple):
    """The members are to share out the partitions anew: there are others."""

    reason: str


class HandOver(NamedTuple):
    """The group becomes one of another type: whoever waits is sent to join that."""


class Tick(NamedTuple):
    """Time has passed: whatever is due by now happens."""


Request = Join | Sync | Heartbeat | Leave | Delete
Event = Request | Expel | Rebalance | HandOver | Tick


class Answer(NamedTuple):
    """Answer the request that came with this token."""

    token: Token
    value: Answered


class Gone(NamedTuple):
    """A member is gone: it was lost, or it has said so, or, being static, is here again under another id."""

    member_id: str
    crashed: bool


class Assigned(NamedTuple):
    """Members have other assignments, or other ids, than before."""

    generation: int


class Note(NamedTuple):
    """Something an operator may want to read in the log."""

    text: str


Effect = Answer | Assigned | Gone | Note


class Step(NamedTuple):
    """Make `writes` durable in one commit, then run `effects` in order."""

    writes: list[Write]
    effects: list[Effect]


class Described(NamedTuple):
    """One member as DescribeGroups shows it. Metadata is that of the protocol in use (Stable groups only)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes
