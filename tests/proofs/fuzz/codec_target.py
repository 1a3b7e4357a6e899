"""The codec as a target: bytes in, and only a value or `Malformed` (`BatchError` for records) may come out.

`check(frame)` does with a frame what the gateway does: header, body, for Produce admission of each batch, then what
slow topics and share groups ask (records, another codec, keys and delays, dead letters). What decoded is encoded,
decoded again and compared; Produce, Fetch, ShareFetch and ShareAcknowledge, whose decoders are written by hand, are
compared with the decoders that the schemas give.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from compat.stopping import deaf
from gateway.apis.registry import APIS
from gateway.coordinators import subscription
from gateway.wire import codec, compression, delivery, letters, produce_one, records
from gateway.wire import fetch as fetch_wire
from gateway.wire import produce as produce_wire
from gateway.wire import share as share_wire
from gateway.wire.malformed import Malformed
from gateway.wire.varint import skip_tags
from tests.proofs.fuzz import corpus, mutate

INFLATION = 1 << 20
"""What records may unfold to here: bombs are `bombs.py`'s, this goes for numbers."""
HANG_SECONDS = 10
"""CPU seconds after which a frame counts as one that hangs. They take microseconds."""
GROWTH = 400 << 20
"""Bytes by which a worker may grow over all its frames."""
BLOCK = 2000
"""Frames of one random stream: a block is made again from (seed, number)."""


class Wrong(Exception):
    """What came out is not what went in, or two decoders disagree."""


class Hang(BaseException):
    """A frame took HANG_SECONDS of CPU. Not an Exception, so that nothing on the way takes it for its own."""


def check(frame: bytes) -> str:
    """What became of a frame: the word is counted. Raises Wrong, Hang, or whatever escapes from the codec."""
    if len(frame) < 10:
        return "short"
    try:
        key, version, _, _, body = codec.decode_request_header(frame)
    except Malformed:
        return "bad header"
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        return "not served"
    if key == 0:
        return _produce(version, frame) if version >= produce_wire.MIN_SERVED else "not served"
    if key == 1:
        return _fetch(version, frame)
    if key in (78, 79):
        return _share(key, version, frame, body)
    try:
        message = codec.decode_request(key, version, frame, body)
    except Malformed:
        return "malformed"
    _round_trip(key, version, message)
    if key == 11:
        for protocol in message.protocols:
            subscription.topics(protocol.metadata)
    return "decoded"


def _round_trip(key: int, version: int, message: Any) -> None:
    once = codec.encode_request(key, version, message)
    again = codec.encode_request(key, version, codec.decode_request(key, version, once))
    if once != again:
        raise Wrong(f"API {key} version {version}: decoded, encoded, decoded and encoded it is another")


def _body(frame: bytes, flexible: bool) -> int:
    """Where the body begins, found as connection.py does it for Produce and Fetch."""
    length = struct.unpack_from(">h", frame, 8)[0]
    body = 10 + (length if length > 0 else 0)
    if flexible:
        body = body + 1 if not frame[body] else skip_tags(frame, body)
    return int(body)


def _produce(version: int, frame: bytes) -> str:
    # these three are what connection.py takes for malformed
    wrong = (Malformed, IndexError, struct.error)
    try:
        body = _body(frame, version >= 9)
    except wrong:
        return "malformed"
    short = version >= produce_one.FIRST_VERSION
    one = produce_one.decode_one(version, frame, body, len(frame)) if short else None
    try:
        request = produce_wire.decode(version, frame, body, len(frame))
    except wrong:
        if one is not None:
            raise Wrong(f"Produce {version}: the short way takes what is malformed") from None
        return "malformed"
    if one is not None and request.topics != [(one[0], [(one[1], frame[one[2] : one[3]])])]:
        raise Wrong(f"Produce {version}: the short way finds another batch than the long one")
    try:
        expected = codec.decode_request(0, version, frame, body)
    except Malformed:
        expected = None
    if expected is not None:
        batches = [p.records for topic in expected.topic_data for p in topic.partition_data]
        if [batch for _, parts in request.topics for _, batch in parts] != batches:
            raise Wrong(f"Produce {version}: by hand and by schema the batches differ")
    outcome = "decoded"
    for _, partitions in request.topics:
        for _, batch in partitions:
            if batch is not None and take(batch):
                outcome = "admitted"
    return outcome


def take(batch: bytes) -> bool:
    """Admission and everything that a topic may ask of a batch afterwards; True when it was admitted."""
    try:
        header = records.admit(batch)
    except records.BatchError:
        return False
    try:
        found = records.records(batch, INFLATION)
    except records.BatchError:
        found = None
    if found is not None and len(found) > header.count:
        raise Wrong("more records than the header says")
    for target in (compression.NONE, compression.LZ4):
        try:
            records.check(records.reencode(batch, target, INFLATION))
        except records.BatchError:
            continue
    stored = records.patch(batch, 2**62, 7)
    if records.check(stored).base_offset != 2**62:
        raise Wrong("a patched batch has another offset")
    records.check(records.patch_log_append_time(batch, 5, 7, 1_700_000_000_000))
    for timestamp in (-1, 0, 2**63 - 1):
        try:
            records.first_from(stored, timestamp, INFLATION)
        except records.BatchError:
            continue
    _dispatch(stored)
    try:
        completed = letters.complete(batch, "t", "t-g-RETRY", "g", INFLATION)
    except records.BatchError:
        return True
    if records.admit(completed).count != header.count:
        raise Wrong("a completed batch has another number of records")
    return True


_SLOTS = delivery.Slots(lambda key, ordering, offset: hash((key, ordering, offset)) & 0xFFFF)
_SOURCE = letters.Source("t", 0, "g", "persistent://public/default/t")


def _dispatch(stored: bytes) -> None:
    """What a share group asks of a stored batch: keys, delays, some of its records, its dead letters."""
    base = records.header(stored).base_offset
    ranges = [(base, base), (base + 2, base + 40)]
    try:
        opened = delivery.Opened(stored, INFLATION)
        found = delivery.scan(opened, slots=_SLOTS, retry=True)
        part = opened.subset(ranges)
        read = opened.records_at(ranges)
    except delivery.Unreadable:
        made = [letters.unreadable_letter(_SOURCE, stored, 1, letters.CORRUPT, None)]
    else:
        if found.slots is None or len(found.slots) != opened.header.last_offset_delta + 1:
            raise Wrong("a scan gave another number of slots than the batch has offsets")
        if part:
            records.check(bytes(part))
        made = [letters.letter(_SOURCE, each, 1, letters.REJECTED, None) for each in read]
    for retry in (False, True):
        try:
            delivery.scan(stored, delays=not retry, retry=retry, limit=INFLATION)
        except delivery.Unreadable:
            continue
    if made and records.check(letters.build(made, 1_700_000_000_000)[0]).count != len(made):
        raise Wrong("a batch of dead letters has another number of records")


def _fetch(version: int, frame: bytes) -> str:
    try:
        body = _body(frame, version >= 12)
        request = fetch_wire.decode(version, frame, body, len(frame))
    except (Malformed, IndexError, struct.error):
        return "malformed"
    try:
        expected = codec.decode_request(1, version, frame, body)
    except Malformed:
        return "decoded"
    asked = [
        (p.partition, p.current_leader_epoch, p.fetch_offset, p.partition_max_bytes)
        for topic in expected.topics
        for p in topic.partitions
    ]
    if [ask for _, partitions in request.topics for ask in partitions] != asked:
        raise Wrong(f"Fetch {version}: by hand and by schema the partitions differ")
    return "decoded"


def _share(key: int, version: int, frame: bytes, body: int) -> str:
    by_hand: Any = share_wire.decode_fetch if key == 78 else share_wire.decode_acknowledge
    try:
        expected = codec.decode_request(key, version, frame, body)
    except Malformed:
        expected = None
    try:
        request = by_hand(version, frame, body, len(frame))
    except Malformed:
        if expected is not None:
            raise Wrong(f"API {key} version {version}: only the decoder by hand refuses it") from None
        return "malformed"
    if expected is None:
        return "decoded"
    asked = [
        (
            topic.topic_id,
            p.partition_index,
            [
                (a.first_offset, a.last_offset, [t & 0xFF for t in a.acknowledge_types])
                for a in p.acknowledgement_batches
            ],
        )
        for topic in expected.topics
        for p in topic.partitions
    ]
    if asked != [
        (topic, index, [(first, last, list(types)) for first, last, types in acks])
        for topic, partitions in request.topics
        for index, acks in partitions
    ]:
        raise Wrong(f"API {key} version {version}: by hand and by schema the acknowledgements differ")
    return "decoded"


# -- many of them --------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """What a run of the codec target saw."""

    frames: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    seen: set[tuple[int, int]] = field(default_factory=set)
    slowest_ms: float = 0.0
    slowest_bytes: int = 0
    grown: int = 0
    # (what went wrong, the frame)
    failures: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        self.frames += other.frames
        self.outcomes += other.outcomes
        self.seen |= other.seen
        if other.slowest_ms > self.slowest_ms:
            self.slowest_ms, self.slowest_bytes = other.slowest_ms, other.slowest_bytes
        self.grown = max(self.grown, other.grown)
        self.failures += other.failures


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def block(seed: object, number: int, frames: list[bytes]) -> Figures:
    """Mutate and check one block; the same (seed, number, frames) gives the same frames."""
    pick = random.Random(f"{seed}/{number}")
    figures = Figures()
    outcomes = figures.outcomes
    clock = time.process_time
    for _ in range(BLOCK):
        frame = mutate.mutate(pick, pick.choice(frames), frames)
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
        began = clock()
        try:
            outcome = check(frame)
        except Hang:
            outcome = "hang"
            figures.failures.append((f"no end after {HANG_SECONDS} s of CPU", frame))
        except Exception as error:
            outcome = "failed"
            figures.failures.append((f"{type(error).__name__}: {error}", frame))
        took = (clock() - began) * 1000
        outcomes[outcome] += 1
        if took > figures.slowest_ms:
            figures.slowest_ms, figures.slowest_bytes = took, len(frame)
        if outcome in ("decoded", "admitted"):
            figures.seen.add(corpus.header_of(frame))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    figures.frames = BLOCK
    return figures


_started_with = 0
_frames: list[bytes] = []


def prepare(seed: object) -> None:
    """Make a process ready for `work`."""
    global _started_with, _frames
    signal.signal(signal.SIGVTALRM, _hang)
    _frames = corpus.everything(seed)
    corpus.warm_up()
    block(seed, -1, _frames)
    _started_with = peak()


def work(task: tuple[object, int]) -> Figures:
    seed, number = task
    figures = block(seed, number, _frames)
    figures.grown = max(0, peak() - _started_with)
    if figures.grown > GROWTH:
        figures.failures.append(
            (f"the process grew by {figures.grown >> 20} MiB in or before block {number}", b"")
        )
    return figures


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        # of some systems with what the process had that started this one
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def run(seed: object, count: int, jobs: int, progress: Any) -> Figures:
    """`count` frames over `jobs` processes; `progress(frames)` is called as they are done."""
    total = Figures()
    tasks = [(seed, number) for number in range(max(1, count // BLOCK))]
    context = multiprocessing.get_context("spawn")
    with deaf():
        workers = context.Pool(jobs, prepare, (seed,))
    with workers as pool:
        for figures in pool.imap_unordered(work, tasks, chunksize=4):
            total.add(figures)
            progress(figures.frames)
            if len(total.failures) > 200:
                pool.terminate()
                break
    return total
