"""Batches as they lie in a log, at an offset of their own, and what Hypothesis puts into them."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from gateway.wire import records
from gateway.wire.compression import NONE
from gateway.wire.records import Record
from tests.gateway.wire.batches import NOW

BASE = 5000
HASHED: list[tuple[bytes | None, bytes | None, int]] = []


def plain_hash(key: bytes | None, ordering: bytes | None, offset: int) -> int:
    """Tells all three apart, and says when it was asked."""
    HASHED.append((key, ordering, offset))
    if ordering is not None:
        return sum(ordering) * 7 % 65_536
    return offset % 65_536 if key is None else (sum(key) + len(key) * 1000) % 65_536


def stored(contents: list[Any], codec: int = NONE, **more: Any) -> bytes:
    """A batch at offset BASE; contents are (timestamp, key, value, headers)."""
    return records.build_batch([Record(n, *row) for n, row in enumerate(contents)], BASE, codec, **more)


def rows(count: int, headers: records.Headers | None = None) -> list[Any]:
    return [(NOW + n, b"key-%d" % (n % 5), b"value-%d" % n, headers or []) for n in range(count)]


maybe_bytes = st.none() | st.binary(max_size=150)
names = st.sampled_from(
    [
        "pulsar-ordering-key",
        "pulsar-deliver-at",
        "pulsar-deliver-after",
        "DELAY_TIME",
        "RECONSUMETIMES",
        "h",
        "é",
    ]
)
numbers = st.integers(0, 10**13).map(lambda n: b"%d" % n)
header_lists = st.lists(st.tuples(names, numbers | maybe_bytes), max_size=4)
contents = st.lists(
    st.tuples(st.integers(-(2**40), 2**41), maybe_bytes, maybe_bytes, header_lists), min_size=1, max_size=40
)


def due_of(timestamp: int, headers: records.Headers) -> int | None:
    """The rule in its plainest form."""
    due = None
    for name, value in headers:
        if value is None:
            continue
        if name == "pulsar-deliver-at":
            if value.isdigit() and len(value) < 20:
                due = int(value)
            elif len(value) == 8 and value[:2] == b"\0\0":
                due = struct.unpack(">q", value)[0]
        elif name == "pulsar-deliver-after" and value.isdigit() and len(value) < 20:
            due = timestamp + int(value)
    return due if due is not None and due > 0 else None
