"""What the load asked for and was told: the facts that an image is held against.

Each request is known by the port of its connection and its correlation id, which the recorder saw in the answer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

Key = tuple[int, int]
"""(port of the client's end, correlation id): the name of a request and its answer."""


@dataclass(slots=True)
class Batch:
    """A batch that was sent. `offset` is what its answer said."""

    data: bytes
    count: int
    key: Key
    producer_id: int = -1
    sequence: int = -1
    offset: int = -1
    # place of its answer among the events
    acked: int = -1
    # its messages say who sent them and which they are
    named: bool = False

    @property
    def next_offset(self) -> int:
        return self.offset + self.count


class Commit(NamedTuple):
    """A committed offset. `stamp` is its metadata: a name that no other commit of the row has."""

    offset: int
    stamp: str
    key: Key


class Verdict(NamedTuple):
    """A delivery of a share group, and what was said of it by the request `key`; None: nothing yet."""

    offset: int
    count: int  # type: ignore[assignment]
    kind: int = 0
    key: Key | None = None


class Given(NamedTuple):
    """What a lane had at an offset: (partition, offset) of a record. `key`: the fetch."""

    lane: int
    at: int
    place: tuple[int, int]
    key: Key


class Said(NamedTuple):
    """A commit of a lane, and what it says of records."""

    lane: int
    offset: int
    acked: tuple[tuple[int, int], ...]
    nacked: tuple[tuple[int, int], ...]
    key: Key


class Saying(NamedTuple):
    """What was said of the policies of a topic or a namespace: the how manyth thing, from 1 on."""

    of: str
    number: int
    key: Key


class Ended(NamedTuple):
    """Where a topic has ended, and when that was told."""

    end: int
    key: Key


class Part(NamedTuple):
    """A batch of a transaction."""

    topic: str
    index: int  # type: ignore[assignment]
    data: bytes
    offset: int = -1


@dataclass(slots=True)
class Transaction:
    """One of the transactional producer, the how manyth it was. `key`: of its end, once that was asked for."""

    number: int
    committed: bool
    # whether it has committed its number as an offset
    with_offset: bool
    parts: list[Part] = field(default_factory=list)
    key: Key | None = None

    def markers(self) -> dict[tuple[str, int], int]:
        """Where its markers are, or would be."""
        found: dict[tuple[str, int], int] = {}
        for part in self.parts:
            found[part.topic, part.index] = part.offset + 1
        return found


class Trim(NamedTuple):
    offset: int
    key: Key


@dataclass(slots=True)
class Topic:
    """One life of a topic: a name may have several, one after the other."""

    name: str
    partitions: int
    # acknowledged batches survive a power cut
    synced: bool
    created: Key
    topic_id: bytes = b""
    deleted: Key | None = None
    batches: list[list[Batch]] = field(default_factory=list)
    trims: list[list[Trim]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batches = [[] for _ in range(self.partitions)]
        self.trims = [[] for _ in range(self.partitions)]


def _by_partition() -> defaultdict[int, dict[int, list[Verdict]]]:
    return defaultdict(dict)


@dataclass(slots=True)
class World:
    # everything that is no batch survives a power cut once it is acknowledged: the policy of the instance
    synced: bool
    # some topics are synced though the instance is not
    mixed: bool = False
    topics: list[Topic] = field(default_factory=list)
    # (group, topic, partition) -> commits, in order
    commits: dict[tuple[str, str, int], list[Commit]] = field(default_factory=dict)
    # rows that one connection committed one after the other, each when the one before it was answered
    chain: list[tuple[tuple[str, str, int], Commit]] = field(default_factory=list)
    # what a share group reads, and when it was told that it does
    shared: Topic | None = None
    subscribed: Key | None = None
    # partition -> offset -> deliveries, in order
    verdicts: defaultdict[int, dict[int, list[Verdict]]] = field(default_factory=_by_partition)
    # what the lanes of a queue topic read, when that was told to be there, and what its consumer was told
    laned: Topic | None = None
    queued: Key | None = None
    given: list[Given] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    # what was said of policies, in order; where topics have ended, by name
    sayings: list[Saying] = field(default_factory=list)
    ended: dict[str, Ended] = field(default_factory=dict)
    # where a producer says its name; where messages live too long, and where they are too many
    named: Topic | None = None
    old: Topic | None = None
    heap: Topic | None = None
    # what is compacted; it is not among the others
    compacted: Topic | None = None
    # of the transactional producer, in order
    transactions: list[Transaction] = field(default_factory=list)
    # place of each answer among the events
    answered: dict[Key, int] = field(default_factory=dict)

    def acked(self, key: Key, cut: int) -> bool:
        """Whether the answer had begun to leave before event `cut`."""
        return self.answered[key] < cut

    def settle(self, answered: dict[Key, int]) -> None:
        """Take over when answers left. Raises KeyError for one that the recorder did not see."""
        self.answered = answered
        for topic in [*self.topics, *([self.compacted] if self.compacted is not None else [])]:
            for batches in topic.batches:
                for batch in batches:
                    batch.acked = answered[batch.key]
                batches.sort(key=lambda batch: batch.offset)
