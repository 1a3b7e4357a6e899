"""Where a log's bytes are, and what a read asks for: values, and no more."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

REWRITTEN = 1 << 31
"""Segments from this number on were written anew: offsets and entries are missing between their batches. No two of
a store have one number, also when one of them is gone.
"""


class Segment(NamedTuple):
    """A segment as far as it is committed."""

    base: int
    next_offset: int
    number: int
    size: int
    max_timestamp: int
    max_from: int
    created_at: int

    @property
    def sparse(self) -> bool:
        """Whether gaps between its batches are nothing to wonder at."""
        return self.number >= REWRITTEN


class Request(NamedTuple):
    """Bytes that a read needs: `size` at `position` of a segment, all of them committed.

    Fewer come when the file ends before, or cannot be read further; who needs those asks for them.
    """

    partition: int
    segment: Segment
    size: int
    position: int


class Work(NamedTuple):
    """Something that would hold up the loop: `run` may be called in any thread."""

    run: Callable[[], Any]


Reading = Generator[Request | Work, Any, T]
"""A read, written once: it asks for bytes and work. `Reader.run` drives it on the loop, and in a thread from the first
miss; `Reader.now` runs the same read to its end without a loop, for answers that the contract of the store has at once
(`Log.position_of`, `Log.segments`). So it yields requests, and no awaitables as an `Asking` does (`store/pending.py`).
An `Asking` around it would cost 0.7 us of the 17 of a small read from the page cache.
"""
