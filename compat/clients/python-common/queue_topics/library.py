"""What a program's `adapter.py` has to offer as `LIBRARY`, so that the cases are written once.

Everything here blocks. An adapter of an asyncio client has a loop in a thread of its own, as its users have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from common import Record


class Delivery(NamedTuple):
    """A record as it came; `lane` is its partition, `offset` this one delivery of it."""

    topic: str
    lane: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int
    """Milliseconds since 1970."""

    @property
    def number(self) -> int:
        """Of the records that `QueueTopic.feed` makes."""
        return int(self.value or b"-1")


NO_ANSWER = -1
"""Code of a refusal that did not come from the server: the client refused by itself, or the connection was lost."""


class RefusedError(Exception):
    """The server's answer was an error; `code` is the number that the protocol gives it, or NO_ANSWER."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


@dataclass(frozen=True)
class Member:
    """How a consumer joins. All times in ms."""

    bootstrap: str
    group: str
    topic: str
    """A name, or with a ^ in front a pattern."""
    auto_commit: int | None = None
    """Between two automatic commits; None: the program commits."""
    session: int = 10_000
    settings: Mapping[str, object] = field(default_factory=dict)
    """Further ones, under the client's own names."""


class Consumer(Protocol):
    """One member. Used by one thread at a time."""

    def poll(self, seconds: float, most: int = 500) -> list[Delivery]:
        """What there is; when there is nothing, so long at least before it gives up."""
        ...

    def commit(self, places: Mapping[int, tuple[int, str]]) -> None:
        """Lane -> (offset, metadata), and wait for the answer. Raises RefusedError."""
        ...

    def seek(self, lane: int, offset: int) -> None:
        """Go back: what was fetched from there on is thrown away, and fetched again."""
        ...

    def lanes(self) -> set[int]:
        """Those that are assigned."""
        ...

    def close(self) -> None:
        """Leave the group. Once only."""
        ...


class Counted(NamedTuple):
    """What auto-commit counts as done of records that come one by one and take longer than its interval: how many are
    acknowledged while the first is in work, when the second was handed out, and behind close()."""

    in_work: int
    second: int
    closed: int


class Library(Protocol):
    """A client library."""

    name: str
    """As docs/QUEUE-CLIENTS.md calls it."""
    counted: Counted
    """What its auto-commit is expected to do."""
    pattern_finds_queues: bool
    """Whether a pattern subscribes to topics that the server calls internal."""
    seeks_where_it_stands: bool
    """Whether a seek to the very next offset throws away what was fetched from there on."""
    works_on: bool
    """Whether a lane can be given to another member while this one works on what it polled of it."""

    def create(self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """CreateTopics. Raises RefusedError."""
        ...

    def grow(self, bootstrap: str, topic: str, partitions: int) -> None:
        """CreatePartitions, up to so many. Raises RefusedError."""
        ...

    def delete(self, bootstrap: str, topic: str) -> None:
        """DeleteTopics. Raises RefusedError."""
        ...

    def topics(self, bootstrap: str) -> Mapping[str, int]:
        """Topic -> its partitions."""
        ...

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], partition: int | None = None
    ) -> None:
        """Until all are acknowledged. Raises RefusedError."""
        ...

    def committed(self, bootstrap: str, group: str, topic: str, lane: int) -> tuple[int, str]:
        """(offset, metadata) of a group that need not have members."""
        ...

    def consumer(self, member: Member) -> Consumer:
        """One that has subscribed; it joins when it is polled, or by itself."""
        ...
