"""The short way of a fetch of one partition whose records are in the tail cache, or follow those that were sent in a
large answer: no request, no state is made.

It declines (None, and nothing has happened) whatever is not as plain: `fetching.py` then answers, with the same bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.fetch_sessions import MAX_EPOCH
from gateway.broker.fetching import LARGE
from gateway.broker.found import committed_of, read_in_memory
from gateway.broker.open_transactions import NEVER
from gateway.rights import UNCHECKED
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import Piece, Stored, StoreError

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.ports import Reading
    from gateway.peer import Peer


class Found(NamedTuple):
    """What is told of the partition."""

    high: int
    stable: int
    start: int
    buffers: Sequence[Piece]
    """Some may be lent: to be released, if they are not sent."""
    size: int


def fetch_one(
    node: Reading,
    peer: Peer,
    min_bytes: int,
    max_bytes: int,
    isolation: int,
    session_id: int,
    session_epoch: int,
    topic: bytes,
    index: int,
    leader_epoch: int,
    offset: int,
    limit: int,
) -> Found | None:
    """`min_bytes` of records at least; the session goes on (epoch above 0), or there is none (-1)."""
    runtime = node.in_use.topic_by_id(topic)
    if runtime is None or not 0 <= index < len(runtime.partitions):
        return None
    rights = peer.rights
    if rights is not UNCHECKED and (peer.reads != topic or peer.reads_by != rights.rules.version):
        if not rights.topic(Operation.READ, runtime.name):
            return None
        peer.reads, peer.reads_by = topic, rights.rules.version
    partition = runtime.partitions[index]
    if partition is None or partition.stale or 0 <= leader_epoch != partition.leader_epoch:
        return None
    if partition.dispatching is not None:
        return None
    log = partition.log
    high, start = partition.high_watermark, log.start_offset
    if not start <= offset < high or node.unsent_bytes > node.memory_limit:
        return None
    stable = high
    if partition.open.first != NEVER:
        if isolation:
            return None
        stable = partition.last_stable_offset
    if isolation and offset < partition.transacting.aborted.clean_from and _aborted_from(partition, offset):
        return None
    state = wanted = None
    if session_epoch > 0:
        state = node.fetch_sessions.get(peer.connection, session_id, node.clock.monotonic_ms())
        if state is None or state.epoch != session_epoch or state.parked is not None or not state.by_id:
            return None
        wanted = state.wanted.get((topic, index))
        # others of the session may have something too
        if wanted is None or wanted.partition is not partition or len(state.ready) != (wanted in state.ready):
            return None
    buffers = log.read_at_once(offset, max(min(limit, max_bytes, node.fetch_max_bytes), 0), least=LARGE)
    if buffers is None:
        return None
    size = sum(map(len, buffers))
    if size < min_bytes:
        for each in buffers:
            if isinstance(each, Stored):
                each.release()
        return None
    if state is not None and wanted is not None:
        state.epoch = session_epoch + 1 if session_epoch < MAX_EPOCH else 1
        wanted.leader_epoch, wanted.offset, wanted.max_bytes = leader_epoch, offset, limit
        wanted.told_high, wanted.told_start = high, start
        state.ready[wanted] = None
    partition.bytes_out += size
    node.metrics.fetch_bytes.value += size
    return Found(high, stable, start, buffers, size)


def _aborted_from(partition: Partition, offset: int) -> bool:
    try:
        return partition.aborted_from(offset)
    except StoreError:
        # the long way tells of it
        return True


async def fetch_again(
    node: Reading, max_bytes: int, isolation: int, topic: bytes, index: int, offset: int, limit: int
) -> tuple[int, Found, Sequence[tuple[int, int]]]:
    """(error code, what is told, aborted transactions that it has records of), with the bytes in memory: what was lent
    for `fetch_one` cannot be read.
    """
    runtime = node.in_use.topic_by_id(topic)
    if runtime is None:
        return Error.UNKNOWN_TOPIC_ID, _NOTHING, ()
    try:
        found = node.in_use.open(runtime.topic, index)
        partition = await found if isinstance(found, Awaitable) else found
    except KafkaError as error:
        return error.code, _NOTHING, ()
    most = max(min(limit, max_bytes, node.fetch_max_bytes), 0)
    buffers, failed = await read_in_memory(partition, offset, most, whole_first=True)
    if failed:
        return failed, _NOTHING, ()
    high, stable, start = (
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.start_offset,
    )
    aborted: Sequence[tuple[int, int]] = ()
    if isolation:
        try:
            told = committed_of(partition, offset, stable, buffers)
            assert told is not None, "nothing of it was lent"
            buffers, aborted = told
        except StoreError:
            return Error.KAFKA_STORAGE_ERROR, _NOTHING, ()
    return Error.NONE, Found(high, stable, start, buffers, sum(map(len, buffers))), aborted


_NOTHING = Found(-1, -1, -1, (), 0)
