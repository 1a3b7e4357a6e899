"""What happens to a consumer group of KIP-848 (events), and what comes of it (answers, effects).

As in `classic_events`: `token` is whatever the caller wants back when the request is answered, every request
knows how it is refused, times are in ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.coordinators.classic_events import (
    Answered,
    Delete,
    Expel,
    Gone,
    Join,
    JoinAnswer,
    Note,
    Plain,
    Sync,
    Tick,
    Token,
)
from gateway.coordinators.classic_events import Heartbeat as ClassicHeartbeat
from gateway.coordinators.classic_events import Leave as ClassicLeave
from store.api import Write

Partition = tuple[bytes, int]
"""A topic's id, and the index."""


class TopicView(NamedTuple):
    """What a group must know of a topic."""

    topic_id: bytes
    partitions: int


Topics = Mapping[str, TopicView]
"""Topics that exist, by name."""


class Beat(NamedTuple):
    """The answer to a ConsumerGroupHeartbeat. `assignment` None: as it was."""

    error: int
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval: int = 0
    assignment: frozenset[Partition] | None = None


class Heartbeat(NamedTuple):
    """ConsumerGroupHeartbeat with an epoch of 0 (join) or above. What is None, or -1 for the timeout, is as it was.
    `pattern` is a regular expression beside the names; "" is none.

    `owned`: the partitions that the member has, revoked ones that it still has among them. `topics`: of those that
    members subscribe to, this one included, the topics there are; None when nothing has changed since the group saw
    the catalog, whose `version` this is. `matches`: with them, the topics of each pattern.
    """

    token: Token
    member_id: str
    epoch: int
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None
    rebalance_timeout: int
    names: tuple[str, ...] | None
    pattern: str | None
    assignor: str | None
    owned: frozenset[Partition] | None
    topics: Topics | None
    matches: Mapping[str, frozenset[str]]
    version: int
    session_timeout: int
    heartbeat_interval: int

    def refused(self, error: int, message: str | None = None) -> Beat:
        return Beat(error, message)


class Leave(NamedTuple):
    """ConsumerGroupHeartbeat with epoch -1, or -2 of a static member that means to come back."""

    token: Token
    member_id: str
    instance_id: str | None
    epoch: int

    def refused(self, error: int, message: str | None = None) -> Beat:
        return Beat(error, message)


class ClassicJoin(NamedTuple):
    """JoinGroup of a member that speaks the classic protocol: what it comes to as a heartbeat is `beat`. Its `owned` is
    what the member says that it still has.
    """

    join: Join
    beat: Heartbeat

    @property
    def token(self) -> Token:
        return self.join.token

    def refused(self, error: int) -> JoinAnswer:
        return self.join.refused(error)


class ClassicBeat(NamedTuple):
    """Heartbeat of a member that speaks the classic protocol. `topics`, `matches`, `version`: as in a heartbeat of the
    new one.
    """

    beat: ClassicHeartbeat
    topics: Topics | None
    matches: Mapping[str, frozenset[str]]
    version: int

    @property
    def token(self) -> Token:
        return self.beat.token

    def refused(self, error: int) -> Plain:
        return Plain(error)


Request = Heartbeat | Leave | Delete | ClassicJoin | ClassicBeat | Sync | ClassicLeave
Event = Request | Expel | Tick


class Answer(NamedTuple):
    """Answer the request that came with this token."""

    token: Token
    value: Beat | Answered


class Moved(NamedTuple):
    """Partitions have other owners than before, or (None) none. `whole`: and those that are not named have none."""

    owners: Mapping[Partition, str | None]
    whole: bool


Effect = Answer | Gone | Moved | Note


class Step(NamedTuple):
    """Make `writes` durable in one commit, then run `effects` in order."""

    writes: list[Write]
    effects: list[Effect]


class DescribedMember(NamedTuple):
    """One member as ConsumerGroupDescribe shows it."""

    member_id: str
    instance_id: str | None
    rack: str | None
    epoch: int
    client_id: str
    client_host: str
    names: tuple[str, ...]
    pattern: str
    assigned: frozenset[Partition]
    target: frozenset[Partition]
    classic: bool = False
