"""What a cursor writes down: four kinds of rows, keys and values.

| kind   | key                       | value                                                                    |
|--------|---------------------------|--------------------------------------------------------------------------|
| CURSOR | empty                     | start u64, read u64, how many DUE rows there are u64, totals             |
| ACK    | start u64                 | end u64: [start, end) is DONE, whole chunks only                         |
| COUNT  | number of a chunk u64     | what is known of its offsets: bit maps by state, counts                  |
| DUE    | due u64, first offset u64 | the offsets that are due then, as runs                                   |

All integers in keys are big-endian and of fixed width, so that due rows scan in due order. A row with an empty key and
no value, of another kind than CURSOR, says: delete every row of this kind.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class RowKind(enum.StrEnum):
    CURSOR = "cursor"
    ACK = "ack"
    COUNT = "count"
    DUE = "due"


class Row(NamedTuple):
    """A row to put, or to delete (no value). Keys are relative to (subscription, partition)."""

    kind: RowKind
    key: bytes
    value: bytes | None
