"""Frames that reach far into a live gateway: they name topics and groups that are there."""

from __future__ import annotations

import random
import struct
from typing import Any

from gateway.wire import codec, schema
from gateway.wire.malformed import Malformed
from gateway.wire.schema import Field
from tests.gateway.wire.values import Values
from tests.proofs.fuzz import batches, corpus

TOPICS = ("fuzz", "fuzz-time", "fuzz-keys", "fuzz-old")
"""Plain; LogAppendTime and compression.type; compacted; with a bound on old timestamps."""
INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Which are views, and always there."""
GROUPS = ("fuzz-group", "fuzz-group-2")
SHARE_GROUPS = ("fuzz-shared", "fuzz-keyed")
"""Shared and Key_Shared; their members."""
SHARE_MEMBERS = ("fuzz-one", "fuzz-two", "fuzz-three")
_WORDS = (
    *TOPICS,
    *INTERNAL,
    *GROUPS,
    *SHARE_GROUPS,
    *SHARE_MEMBERS,
    "",
    "consumer",
    "range",
    "fuzz-new",
    "retention.ms",
    "1000",
    "cleanup.policy",
    "zstd",
)
_BROKER = 4
"""Type of a config resource."""


class Plausible(Values):
    """Random messages of names that exist and numbers that a client might send."""

    def __init__(self, seed: object, topic_ids: list[bytes]) -> None:
        super().__init__(seed)
        self._topic_ids = topic_ids

    def primitive(self, field: Field) -> Any:
        pick = self.random
        if field.type == "string" and pick.random() < 0.9:
            return pick.choice((*TOPICS, *INTERNAL) if "topic" in field.attribute else _WORDS)
        if field.type == "uuid" and pick.random() < 0.8:
            return pick.choice(self._topic_ids)
        if field.type in ("int32", "int64") and pick.random() < 0.8:
            return pick.choice((0, 0, 0, 1, 2, -1, -2, 100, 1_000_000))
        if field.type in ("int8", "int16") and pick.random() < 0.8:
            return pick.choice((0, 0, 1, 2, -1))
        return super().primitive(field)


def plausible(seed: int, topic_ids: list[bytes], each: int = 6) -> list[bytes]:
    """`each` such frames of every (API, version)."""
    found = []
    for key, version in corpus.pairs():
        for number in range(each):
            values = Plausible(f"{seed}/{key}/{version}/{number}", topic_ids)
            message = values.message(schema.api_name(key) + "Request", version)
            pick = values.random
            if 76 <= key <= 92:
                _share(pick, message)
            if key == 0:
                message.transactional_id = None
                message.acks = pick.choice((-1, 1, 0))
                for topic in message.topic_data:
                    for partition in topic.partition_data:
                        partition.index = pick.choice((0, 0, 1))
                        batch = pick.choice(batches.good_batches())
                        partition.records = batches.mutated(pick, batch) if pick.random() < 0.5 else batch
            elif key == 1:
                # what waits for long keeps the frames behind it from being seen
                message.max_wait_ms = pick.choice((0, 0, 10))
            elif key == 19:
                for topic in message.topics:
                    topic.num_partitions = pick.choice((-1, 0, 1, 3))
            header = codec.encode_request_header(key, version, pick.randrange(1 << 31), "fuzz")
            found.append(header + codec.encode_request(key, version, message))
    return found


def _share(pick: random.Random, message: Any) -> None:
    """A share group's requests name groups and members that are there, most of the time, and wait for nothing."""
    for name, words in (("group_id", SHARE_GROUPS), ("member_id", SHARE_MEMBERS)):
        if hasattr(message, name) and pick.random() < 0.8:
            setattr(message, name, pick.choice(words))
    for name in ("share_session_epoch", "member_epoch"):
        if hasattr(message, name) and pick.random() < 0.8:
            setattr(message, name, pick.choice((0, 0, 1, 2, -1)))
    if hasattr(message, "max_wait_ms"):
        message.max_wait_ms = pick.choice((0, 0, 10))


def harmless(frame: bytes) -> bool:
    """Whether a frame leaves the broker's own settings alone: it may take connections away from everybody, rightly."""
    key, version = corpus.header_of(frame)
    if key not in (33, 44):
        return True
    try:
        *_, body = codec.decode_request_header(frame)
        message = codec.decode_request(key, version, frame, body)
    except (Malformed, LookupError):
        return True
    return all(resource.resource_type != _BROKER for resource in message.resources)


def sized(frame: bytes) -> bytes:
    """The frame with its length in front."""
    return struct.pack(">i", len(frame)) + frame


def request(key: int, version: int, body: bytes | Any, correlation: int = 1) -> bytes:
    """A request with its length; `body` is a message or its bytes."""
    encoded = body if isinstance(body, bytes) else codec.encode_request(key, version, body)
    return sized(codec.encode_request_header(key, version, correlation, "fuzz") + encoded)


def produce_to(topic: str, batch: bytes, acks: int = -1, version: int = 9) -> bytes:
    from gateway.wire import messages

    data = messages.ProduceRequest.TopicProduceData
    part = messages.ProduceRequest.PartitionProduceData
    return request(
        0,
        version,
        messages.ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[data(name=topic, partition_data=[part(index=0, records=batch)])],
        ),
    )


def wrong_length(pick: random.Random) -> bytes:
    """The length of a frame as nobody may send it, and some bytes."""
    length = pick.choice((-1, 0, 1, 9, -(2**31), 2**31 - 1, 104_857_601, 2_000_000_000))
    return struct.pack(">i", length) + pick.randbytes(pick.choice((0, 1, 9, 100)))
