"""What happens to a share group (events), and what comes of it (answers, effects).

As in `classic_events`: `token` is whatever the caller wants back when the request is answered, every request
knows how it is refused, times are in ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.coordinators.classic_events import Delete, Note, Plain, Tick, Token
from store.api import Write


class TopicView(NamedTuple):
    """What a group must know of a topic."""

    topic_id: bytes
    partitions: int


Topics = Mapping[str, TopicView]
"""Topics that exist, by name."""

Assignment = tuple[TopicView, ...]
"""Every partition of these topics."""


class Beat(NamedTuple):
    """The answer to a ShareGroupHeartbeat. `assignment` None: as it was."""

    error: int
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval: int = 0
    assignment: Assignment | None = None


class Heartbeat(NamedTuple):
    """ShareGroupHeartbeat with an epoch of 0 (join) or above. Names are None when they are as they were.

    `topics`: of those that members subscribe to, this one included, the topics there are; None when nothing has
    changed since the group saw the catalog, whose `version` this is.
    """

    token: Token
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack: str | None
    names: tuple[str, ...] | None
    topics: Topics | None
    version: int
    session_timeout: int
    heartbeat_interval: int

    def refused(self, error: int, message: str | None = None) -> Beat:
        return Beat(error, message)


class Leave(NamedTuple):
    """ShareGroupHeartbeat with epoch -1."""

    token: Token
    member_id: str

    def refused(self, error: int, message: str | None = None) -> Beat:
        return Beat(error, message)


class Make(NamedTuple):
    """Have the group, empty if it is new: a subscription was made for it."""

    token: Token

    def refused(self, error: int) -> Plain:
        return Plain(error)


Request = Heartbeat | Leave | Make | Delete
Event = Request | Tick


class Answer(NamedTuple):
    """Answer the request that came with this token."""

    token: Token
    value: Beat | Plain


class Gone(NamedTuple):
    """A member is out: what it holds comes back. `graceful`: it left by itself."""

    member_id: str
    graceful: bool


Effect = Answer | Note | Gone


class Step(NamedTuple):
    """Make `writes` durable in one commit, then run `effects` in order."""

    writes: list[Write]
    effects: list[Effect]


class DescribedMember(NamedTuple):
    """One member as ShareGroupDescribe shows it. `assignment`: (topic, view)."""

    member_id: str
    rack: str | None
    epoch: int
    client_id: str
    client_host: str
    names: tuple[str, ...]
    assignment: tuple[tuple[str, TopicView], ...]
