"""What is stored of a transactional id: keys and values of the family `txn`.

| what                    | key                                                          | value                       |
|-------------------------|--------------------------------------------------------------|-----------------------------|
| the id itself (head)    | 0 u8, length u32, id                                         | `Head`, in format 1         |
| a partition of its open | 1 u8, length u32, id, 0 u8, topic id of 16 bytes, number u32 | 1 u8                        |
| transaction             |                                                              |                             |
| a group with offsets in | 1 u8, length u32, id, 1 u8, group id                         | 1 u8                        |
| it                      |                                                              |                             |

Ids are UTF-8, integers big-endian and of fixed width. The id stands at the same place in every key, behind its
length, so that none is the beginning of another. All heads together are a range of their own: a list of
transactional ids, and a start, read no partitions. One more range has the partitions and groups of an id.

Partitions are rows of their own since a list that is written again for every partition costs n² of them. They are
there while the transaction is open, and go one by one in the commit that ends it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from semantics.transactions.states import LAST_EPOCH, Partition, Producer, State

NO_TIME = -1
"""As `start`: no transaction was begun yet."""

_VERSION = 1
# version, state, producer id, epoch, timeout, start, updated, how the last one ended, its producer id and epoch
_HEAD = struct.Struct(">BBqhiqqBqh")
_PART_VALUE = bytes([_VERSION])
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">I")
_HEAD_KEY, _PART_KEY = b"\x00", b"\x01"
_PARTITION, _GROUP = b"\x00", b"\x01"
_TOPIC_ID = 16
_STORED = frozenset(State) - {State.DEAD}
_NEVER, _RENEWED, _ABORTED, _COMMITTED = range(4)


class RowError(ValueError):
    """A row that cannot be read: damaged, or written by a newer version. The text is for a person."""


class Last(NamedTuple):
    """The producer that ended a transaction last, or asked for a new epoch; what became of its transaction."""

    producer: Producer
    committed: bool | None
    """None: it called InitProducerId with its id and epoch"""


class Head(NamedTuple):
    """A transactional id without its partitions and groups. Times in ms since 1970."""

    producer: Producer
    """the current one"""
    timeout_ms: int
    state: State
    start: int
    """of the open transaction, or of the last one; NO_TIME in Empty"""
    updated: int
    """when this row was written"""
    last: Last | None
    """None in Ongoing, and where a producer began that showed no id and epoch"""


class Row(NamedTuple):
    """A row to put, or to delete (no value)."""

    key: bytes
    value: bytes | None


def head_key(transactional_id: str) -> bytes:
    return _HEAD_KEY + _counted(transactional_id)


def heads_prefix() -> bytes:
    """What the keys of all heads begin with."""
    return _HEAD_KEY


def parts_prefix(transactional_id: str) -> bytes:
    """What the keys of an id's partitions and groups begin with."""
    return _PART_KEY + _counted(transactional_id)


def partition_key(transactional_id: str, partition: Partition) -> bytes:
    topic_id, number = partition
    assert len(topic_id) == _TOPIC_ID
    return parts_prefix(transactional_id) + _PARTITION + topic_id + _NUMBER.pack(number)


def group_key(transactional_id: str, group_id: str) -> bytes:
    return parts_prefix(transactional_id) + _GROUP + group_id.encode()


def put_head(transactional_id: str, head: Head) -> Row:
    return Row(head_key(transactional_id), encode_head(head))


def put_partition(transactional_id: str, partition: Partition) -> Row:
    return Row(partition_key(transactional_id, partition), _PART_VALUE)


def put_group(transactional_id: str, group_id: str) -> Row:
    return Row(group_key(transactional_id, group_id), _PART_VALUE)


def encode_head(head: Head) -> bytes:
    last = head.last
    if last is None:
        how, before = _NEVER, Producer(0, 0)
    else:
        how = _RENEWED if last.committed is None else _COMMITTED if last.committed else _ABORTED
        before = last.producer
    return _HEAD.pack(
        _VERSION, head.state, *head.producer, head.timeout_ms, head.start, head.updated, how, *before
    )


def read_head(value: bytes) -> Head:
    """Raises RowError."""
    if value and value[0] > _VERSION:
        raise RowError(
            f"the row of a transactional id is of version {value[0]}; this program reads up to {_VERSION}"
        )
    if len(value) != _HEAD.size or value[0] != _VERSION:
        raise RowError(
            f"the row of a transactional id has {len(value)} bytes and begins with {value[:1].hex()}"
        )
    _, state, producer_id, epoch, timeout, start, updated, how, last_id, last_epoch = _HEAD.unpack(value)
    if state not in _STORED or how > _COMMITTED:
        raise RowError(f"the row of a transactional id has state {state} and says {how} of its last end")
    last = None
    if how != _NEVER:
        last = Last(Producer(last_id, last_epoch), None if how == _RENEWED else how == _COMMITTED)
    head = Head(Producer(producer_id, epoch), timeout, State(state), start, updated, last)
    if not 0 <= epoch <= LAST_EPOCH or not _agree(head.state, last):
        raise RowError(f"the row of a transactional id cannot be true: {head}")
    return head


def _agree(state: State, last: Last | None) -> bool:
    """Whether a state may stand beside what is said of the last end."""
    if state is State.ONGOING:
        return last is None
    if state is State.EMPTY:
        return last is None or last.committed is None
    return last is not None and last.committed is (state is State.COMPLETE_COMMIT)


def read_head_key(key: bytes) -> str:
    """The transactional id. Raises RowError."""
    name, rest = _named(key, _HEAD_KEY)
    if rest:
        raise RowError(f"the key {key.hex()} goes on behind its transactional id")
    return name


def read_part(key: bytes, value: bytes) -> tuple[str, Partition | str]:
    """A transactional id, and the partition or group id in it. Raises RowError."""
    if value != _PART_VALUE:
        raise RowError(f"the row of a part of a transaction says {value[:8].hex()}, of {len(value)} bytes")
    name, rest = _named(key, _PART_KEY)
    kind, part = rest[:1], rest[1:]
    if kind == _PARTITION and len(part) == _TOPIC_ID + _NUMBER.size:
        return name, Partition(part[:_TOPIC_ID], _NUMBER.unpack(part[_TOPIC_ID:])[0])
    if kind == _GROUP:
        return name, _text(part, key)
    raise RowError(f"the key {key.hex()} names neither a partition nor a group")


def name_of(key: bytes) -> str:
    """Whose row it is, whichever of the three it is. Raises RowError, also for other rows of the family."""
    if key[:1] not in (_HEAD_KEY, _PART_KEY):
        raise RowError(f"the key {key.hex()} is not of this kind of row")
    return _named(key, key[:1])[0]


def _counted(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _LENGTH.pack(len(name)) + name


def _named(key: bytes, kind: bytes) -> tuple[str, bytes]:
    """The transactional id of a key, and what stands behind it."""
    begin = 1 + _LENGTH.size
    if key[:1] != kind or len(key) < begin:
        raise RowError(f"the key {key.hex()} is not of this kind of row")
    end = begin + _LENGTH.unpack_from(key, 1)[0]
    if len(key) < end:
        raise RowError(f"the key {key.hex()} ends within its transactional id")
    return _text(key[begin:end], key), key[end:]


def _text(data: bytes, key: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RowError(f"the key {key.hex()} has an id that is not UTF-8") from None
