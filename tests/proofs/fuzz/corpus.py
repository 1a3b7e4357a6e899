"""The frames that everything begins with: what real clients sent, and what the schemas allow.

A frame is a request as it is on the wire without the four bytes of its length: key, version, correlation id, client
id, body. `captured()` reads `corpus.bin`, which `python -m tests.proofs.fuzz capture` makes anew; `generated()` makes
frames of every API and version that the gateway serves, with edge values in every field.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from gateway import apis
from gateway.apis.registry import APIS
from gateway.wire import codec, compiler, schema
from gateway.wire import produce as produce_wire
from tests.gateway.wire.values import Values
from tests.proofs.fuzz.batches import good_batches

FILE = Path(__file__).with_name("corpus.bin")
MAX_BYTES = 300 * 1024
"""How large the file in the repository may be."""
_LENGTH = struct.Struct(">I")


def pairs() -> list[tuple[int, int]]:
    """(API key, version) of all that is served."""
    apis.load_all()
    found = []
    for api in APIS.values():
        first = produce_wire.MIN_SERVED if api.key == 0 else api.min_version
        found += [(api.key, version) for version in range(first, api.max_version + 1)]
    return sorted(found)


def captured(path: Path = FILE) -> list[bytes]:
    """The frames of real clients; empty when there is no such file."""
    if not path.exists():
        return []
    data = zlib.decompress(path.read_bytes())
    frames, position = [], 0
    while position < len(data):
        (size,) = _LENGTH.unpack_from(data, position)
        frames.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return frames


def save(frames: Iterable[bytes], path: Path = FILE) -> int:
    """Write a corpus; the answer is the file's size."""
    data = zlib.compress(b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames), 9)
    path.write_bytes(data)
    return len(data)


def generated(seed: object = 0, each: int = 3) -> list[bytes]:
    """`each` frames of every (API, version), their fields set to edge values."""
    frames = []
    for key, version in pairs():
        for number in range(each):
            frames.append(generate(key, version, f"{seed}/{key}/{version}/{number}"))
    return frames


def generate(key: int, version: int, seed: object) -> bytes:
    """One frame with random and edge values in all fields; Produce gets batches that are right."""
    values = Values(seed)
    message = values.message(schema.api_name(key) + "Request", version)
    pick = values.random
    if key == 0:
        batches = good_batches()
        for topic in message.topic_data:
            for partition in topic.partition_data:
                partition.records = pick.choice(batches) if pick.random() < 0.9 else None
    client = pick.choice((None, "", "fuzz", "é" * 20))
    return codec.encode_request_header(key, version, pick.randint(-(2**31), 2**31 - 1), client) + (
        codec.encode_request(key, version, message)
    )


def header_of(frame: bytes) -> tuple[int, int]:
    """(API key, version) that a frame begins with; (-1, -1) when it is too short."""
    return struct.unpack_from(">hh", frame) if len(frame) >= 4 else (-1, -1)


def distinct(frames: Iterable[bytes], each: int = 6, largest: int = 4096) -> list[bytes]:
    """Few frames of each (API, version, client): the first, then those whose length is new."""
    kept: dict[tuple[bytes, bytes], dict[int, bytes]] = {}
    for frame in frames:
        if len(frame) > largest or len(frame) < 10:
            continue
        length = struct.unpack_from(">h", frame, 8)[0]
        kind = kept.setdefault((frame[:4], frame[10 : 10 + max(0, length)][:6]), {})
        # lengths in steps of a third: 100 and 101 bytes tell the same, 100 and 140 hardly
        step = len(frame).bit_length() * 4 + (len(frame) >> max(0, len(frame).bit_length() - 3) & 3)
        if len(kind) < each:
            kind.setdefault(step, frame)
    return [frame for kind in kept.values() for frame in kind.values()]


def everything(seed: object = 0) -> list[bytes]:
    """Captured and generated frames, shuffled."""
    frames = captured() + generated(seed)
    random.Random(str(seed)).shuffle(frames)
    return frames


def warm_up() -> None:
    """Compile all decoders, so that the first frame of a kind is not the slow one."""
    for key, version in pairs():
        name = schema.api_name(key) + "Request"
        compiler.compile_decoder(name, version)
