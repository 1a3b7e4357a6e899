"""What is done to frames: every mutation is a function of (random, frame, other frames), and all of them are listed.

They know little of what they change. A frame of a request is some hundred bytes, so a huge number put anywhere is a
length, a count or a varint often enough; what a CRC guards is mutated by `batches`, which seals it anew.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from tests.proofs.fuzz import batches
from tests.proofs.fuzz.corpus import generate, header_of, pairs

Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]

NUMBERS = (
    *(struct.pack(">i", n) for n in (-1, 0, 1, 2, -2, 2**31 - 1, -(2**31), 100_000_000, 0x00FFFFFF, 65536)),
    *(struct.pack(">h", n) for n in (-1, 0, 1, -2, 2**15 - 1, -(2**15))),
    *(struct.pack(">q", n) for n in (-1, 2**63 - 1, -(2**63))),
)
"""Fixed-width lengths, counts, offsets and times at their edges."""

VARINTS = (
    b"\0",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff" * 4,
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x1f",
    b"\xff" * 5,
    b"\xff" * 9 + b"\x01",
    b"\xff" * 10,
    b"\x80" * 6 + b"\x01",
    b"\x80" * 200,
)
"""Varints: small ones, 32 bits, longer than 5 and than 10 bytes, without an end."""


def flip(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    data = bytearray(frame)
    for _ in range(pick.choice((1, 1, 1, 2, 4, 16))):
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    return bytes(data)


def cut(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    return frame[: pick.randrange(len(frame))]


def grow(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    place = pick.randrange(len(frame) + 1)
    more = pick.choice((b"\0", b"\xff", pick.randbytes(3))) * pick.choice((1, 3, 40, 2000))
    return frame[:place] + more + frame[place:]


def drop(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    place = pick.randrange(len(frame))
    return frame[:place] + frame[place + pick.choice((1, 2, 4, 8, 30)) :]


def splice(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    other = pick.choice(others)
    return frame[: pick.randrange(len(frame) + 1)] + other[pick.randrange(len(other)) :]


def body_of_another(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """The header of one request, the body of another."""
    return frame[:10] + pick.choice(others)[10:]


def number(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    value = pick.choice(NUMBERS)
    place = pick.randrange(4, max(5, len(frame)))
    return frame[:place] + value + frame[place + len(value) :]


def varint(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    place = pick.randrange(8, max(9, len(frame)))
    return frame[:place] + pick.choice(VARINTS) + frame[place + pick.choice((0, 1, 1)) :]


def tags(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """A section of tagged fields in place of a byte, which is one zero in most flexible requests (KIP-482)."""
    zeros = [place for place in range(8, len(frame)) if not frame[place]]
    place = pick.choice(zeros) if zeros else len(frame) - 1
    section = pick.choice(
        (
            b"\x01\x00\x00",  # known or not: tag 0, empty
            b"\x01\x63\x02ab",  # unknown
            b"\x02\x63\x00\x63\x00",  # twice
            b"\x02\x63\x00\x62\x00",  # out of order
            b"\x01\x63\xff\xff\xff\xff\x07",  # 2 GB
            b"\xff\xff\xff\xff\x0f",  # 2^32 of them
            b"\x01\xff\xff\xff\xff\x0f\x01a",  # the largest tag
            b"\xf4\x03" + b"".join(_uvarint(tag) + b"\x00" for tag in range(500)),
        )
    )
    return frame[:place] + section + frame[place + 1 :]


def other_api(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    return struct.pack(">h", pick.choice((*range(-2, 95), 32767, -32768))) + frame[2:]


def other_version(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    return frame[:2] + struct.pack(">h", pick.choice((*range(-1, 20), 32767, -32768))) + frame[4:]


def other_header(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    correlation = pick.choice((-1, 0, 2**31 - 1, -(2**31)))
    client = pick.choice((-1, 0, -2, 32767, -32768, len(frame), 3))
    return frame[:4] + struct.pack(">ih", correlation, client) + frame[10:]


def repeat(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """A piece of the frame many times over: arrays whose count is not right for them."""
    start = pick.randrange(len(frame))
    stop = min(len(frame), start + pick.choice((1, 4, 16, 60)))
    return frame[:start] + frame[start:stop] * pick.choice((2, 10, 200)) + frame[stop:]


def anew(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """Another frame from the schemas, with other values."""
    key, version = pick.choice(pairs_served)
    return generate(key, version, pick.random())


def sealed_batch(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """A Produce whose batch is wrong inside, and right to the CRC."""
    batch = pick.choice(batches.good_batches())
    change = batches.mutated if pick.random() < 0.85 else batches.unsealed
    return produce(pick, change(pick, batch), name=_topic_of(frame))


MUTATORS: tuple[Mutator, ...] = (
    flip, cut, grow, drop, splice, body_of_another, number, number, number, varint, varint, tags, other_api,
    other_version, other_header, repeat, anew, sealed_batch, sealed_batch,
)  # fmt: skip

pairs_served = pairs()


def mutate(pick: random.Random, frame: bytes, others: Sequence[bytes]) -> bytes:
    """One to three mutations of a frame."""
    for _ in range(pick.choice((1, 1, 1, 2, 3))):
        if not frame:
            return frame
        frame = pick.choice(MUTATORS)(pick, frame, others)
        if len(frame) > 1 << 20:
            frame = frame[: 1 << 20]
    return frame


def produce(
    pick: random.Random, batch: bytes, name: str = "fuzz", acks: int = -1, partition: int = 0
) -> bytes:
    """A Produce of one batch, of a version picked."""
    from gateway.wire import codec, messages

    version = pick.choice((3, 7, 8, 9, 11, 12))
    data = messages.ProduceRequest.TopicProduceData
    part = messages.ProduceRequest.PartitionProduceData
    message = messages.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[data(name=name, partition_data=[part(index=partition, records=batch)])],
    )
    return codec.encode_request_header(0, version, pick.randrange(2**31), "fuzz") + codec.encode_request(
        0, version, message
    )


def _topic_of(frame: bytes) -> str:
    return "fuzz" if header_of(frame)[0] % 2 else "fuzz-slow"


def _uvarint(value: int) -> bytes:
    return bytes((value,)) if value < 128 else bytes((value & 0x7F | 0x80, value >> 7))
