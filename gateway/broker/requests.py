"""What consumers ask for and are told, in values that know no version of a protocol.

The decoders of `gateway.wire` give objects that are such requests, and nothing is copied between. Whoever else delivers
to consumers makes objects of its own, and gives a function that makes its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from store.api import Piece

Answer: TypeAlias = Sequence[Piece]
"""One frame in pieces. Bytes that lie in a file may be lent: to be read by whoever sends them, and released."""

# -- fetches ---------------------------------------------------------------------------------------------------------

PartitionWanted: TypeAlias = tuple[int, int, int, int]
"""partition, leader epoch that the client knows or -1, offset, bytes at most"""


class FetchRequest(Protocol):
    """A fetch; times in ms, sizes in bytes. Topics by name in UTF-8 or by id, as who asks says beside it."""

    @property
    def max_wait_ms(self) -> int: ...

    @property
    def min_bytes(self) -> int:
        """Fewer are waited for."""
        ...

    @property
    def max_bytes(self) -> int: ...

    @property
    def isolation(self) -> int:
        """1: records of transactions that are committed, and those of none; 0: all of them."""
        ...

    @property
    def session_id(self) -> int: ...

    @property
    def session_epoch(self) -> int:
        """0 opens a session, -1 is a fetch without one (KIP-227)."""
        ...

    @property
    def topics(self) -> Sequence[tuple[bytes, Sequence[PartitionWanted]]]: ...

    @property
    def forgotten(self) -> Sequence[tuple[bytes, Sequence[int]]]:
        """Partitions that the session fetches no more."""
        ...


PartitionTold: TypeAlias = tuple[int, int, int, int, int, Sequence[Piece], int, Sequence[tuple[int, int]]]
"""partition, error code, high watermark, last stable offset, log start, records, how many bytes these are, and of which
aborted transactions some are: (producer id, first offset)
"""
TopicTold: TypeAlias = tuple[bytes, list[PartitionTold]]

# -- share groups ----------------------------------------------------------------------------------------------------

Acknowledgement: TypeAlias = tuple[int, int, bytes]
"""first offset, last offset, and one type for all of them or one for each, in a byte each"""
TopicAcks: TypeAlias = tuple[bytes, Sequence[tuple[int, Sequence[Acknowledgement]]]]
"""topic id, and (partition, acknowledgements); a partition to be fetched from may come with none"""


class AcknowledgeRequest(Protocol):
    """What both requests of share groups have (KIP-932)."""

    @property
    def group_id(self) -> str | None: ...

    @property
    def member_id(self) -> str | None: ...

    @property
    def session_epoch(self) -> int:
        """0 opens a session, -1 ends it."""
        ...

    @property
    def is_renew_ack(self) -> bool:
        """Some acknowledgements renew locks (KIP-1222)."""
        ...

    @property
    def topics(self) -> Sequence[TopicAcks]: ...


class ShareFetchRequest(AcknowledgeRequest, Protocol):
    """A fetch of a share group; times in ms, sizes in bytes."""

    @property
    def max_wait_ms(self) -> int: ...

    @property
    def min_bytes(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...

    @property
    def max_records(self) -> int: ...

    @property
    def exact(self) -> bool:
        """Never more than `max_records`, not even to the end of a batch (KIP-1206)."""
        ...

    @property
    def forgotten(self) -> Sequence[tuple[bytes, Sequence[int]]]:
        """Partitions that the session fetches no more."""
        ...


class ShareTold(NamedTuple):
    """What a share fetch tells of a partition: errors of the fetch and of the acknowledgements, records, and which of
    them were acquired, in ascending order: first and last offset, delivery count (1 for the first delivery).
    """

    partition: int
    error: int = 0
    error_message: str | None = None
    ack_error: int = 0
    ack_error_message: str | None = None
    records: Sequence[bytes | memoryview] = ()
    acquired: Sequence[tuple[int, int, int]] = ()


AckTold: TypeAlias = tuple[int, int, str | None]
"""partition, error code, sentence"""
