"""What the gateway and the process that decodes say to each other: msgpack behind four bytes with its size."""

from __future__ import annotations

import msgspec

ANSWER_S = 0.25
"""Seconds of a processor that one question may take."""
LARGEST = 4 * 1024 * 1024
"""Bytes of a question."""


class Question(msgspec.Struct):
    """Bytes, and how they are to be read."""

    kind: str
    """AVRO or PROTOBUF, as registries say it"""
    schema: str
    others: list[tuple[str, str]]
    """(name, text) of schemas that it refers to, each behind those that it refers to"""
    data: bytes


class Answer(msgspec.Struct, omit_defaults=True):
    """What they say as JSON, or why nothing can be said."""

    json: bytes = b""
    why_not: str = ""
    spent: float = 0.0
    """seconds of a processor"""
