"""Files that a .proto may import without bringing them along: those that come with Protobuf itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

PREFIX = "google/protobuf/"
NAMES = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


def needed(imports: Sequence[str]) -> list[bytes]:
    """Their descriptors, each once. What is not one of them is left to whoever misses it."""
    found: dict[str, bytes] = {}
    for each in imports:
        name = each.removeprefix(PREFIX).removesuffix(".proto")
        if each == f"{PREFIX}{name}.proto" and name in NAMES:
            found[each] = import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb
    return list(found.values())
