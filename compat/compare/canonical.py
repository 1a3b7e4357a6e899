"""Answers made comparable: what a server chose for itself gets a name, what has no order is put into one.

Nothing else is touched: every other field is compared by the bytes it came in. The names are given in the order in
which things turn up in a conversation: the first fetch session is "<session 1>" on both sides.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from compat.compare.schema import Node

_NO_ID = uuid.UUID(int=0)
_MADE_UP = re.compile(r".*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMES = {
    "log_append_time_ms",
    "last_timestamp",
    "timestamp",
    "transaction_start_time_ms",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}
_HOUR = 3_600_000
_KEYS = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "partition_index",
    "index",
    "partition",
    "group_id",
    "group",
)
_MORE_KEYS = (
    "api_key",
    "key",
    "member_id",
    "resource_type",
    "resource_name",
    "config_name",
    "node_id",
    "broker_id",
    "entity_type",
    "user",
    "mechanism",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
    "transactional_id",
)
_NAMES = ("name", "topic", "topic_name")
"""Of a topic: where it has one, its id is a field as any other."""


_ORDERED = {"synonyms", "aborted_transactions"}
"""Arrays whose order says something."""


class Line(NamedTuple):
    """One field of an answer; `path` leads to it, through arrays by what names their items: topics.t.partitions.0."""

    path: str
    raw: bytes
    shown: str


class Names:
    """What one server chose, by kind, and the names for it."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.port = 0
        self.epoch = -1
        self.topics: dict[uuid.UUID, str] = {}
        self._given: dict[tuple[str, object], str] = {}
        self._counts: dict[str, int] = {}
        self.reordered = 0

    def lines(self, answer: Node) -> list[Line]:
        """The answer as comparable lines."""
        return list(self._lines(answer, ""))

    def _lines(self, node: Node, path: str) -> Iterator[Line]:
        if node.children is None:
            name = self._name(node)
            if name is None:
                shown = "0x" + node.value.hex() if isinstance(node.value, bytes) else repr(node.value)
                yield Line(path, node.raw, shown)
            else:
                yield Line(path, name.encode(), name)
        elif node.array:
            yield Line(path, node.raw, f"{len(node.children)} items")
            for step, each in self._in_order(node.children):
                yield from self._lines(each, f"{path}.{step}")
        else:
            if node.raw not in (b"", b"\0"):
                yield Line(f"{path}.<tags>" if path else "<tags>", node.raw, node.raw.hex())
            for each in node.children:
                yield from self._lines(each, f"{path}.{each.field.name}" if path else each.field.name)

    def _in_order(self, items: tuple[Node, ...]) -> list[tuple[str, Node]]:
        """Kafka answers in the order of its hash maps: structs are put in the order of what names them."""
        if any(item.children is None or item.field.name in _ORDERED or not _named(item) for item in items):
            return [(str(index), item) for index, item in enumerate(items)]
        named = [(self._key(item), item) for item in items]
        ordered = sorted(named, key=lambda each: each[0])
        if ordered != named:
            self.reordered += 1
        counts: dict[str, int] = {}
        steps = []
        for key, item in ordered:
            counts[key] = counts.get(key, 0) + 1
            steps.append((key if counts[key] == 1 else f"{key}#{counts[key]}", item))
        return steps

    def _key(self, item: Node) -> str:
        assert item.children is not None
        parts = []
        named = any(each.field.name in _NAMES and each.value for each in item.children)
        for child in item.children:
            if named and child.field.name == "topic_id":
                continue
            if child.children is None and (child.field.name in _KEYS or child.field.name in _MORE_KEYS):
                name = self._name(child)
                if name is None and isinstance(child.value, int):
                    name = f"{child.value:04}"
                parts.append(str(child.value) if name is None else name)
        return "/".join(parts)

    def _name(self, node: Node) -> str | None:
        """What stands for a value that the server chose; None when it did not choose it."""
        field, value = node.field.name, node.value
        if field == "throttle_time_ms":
            return "<throttle>"
        if field == "error_message" or field.endswith("_error_message"):
            return "<text>" if value else None
        if isinstance(value, uuid.UUID):
            known = self.topics.get(value)
            return "<no id>" if value == _NO_ID else f"<id of {known}>" if known else "<an id>"
        if isinstance(value, str):
            return self._name_text(field, value)
        if isinstance(value, bytes) and node.field.type == "records":
            return None if not value else "<records> " + without_choices(value).hex()
        if isinstance(value, int) and not isinstance(value, bool):
            return self._name_number(field, value)
        return None

    def _name_text(self, field: str, value: str) -> str | None:
        if field == "cluster_id" and value == self.cluster_id:
            return "<cluster>"
        if field in ("member_id", "leader", "member") and _MADE_UP.fullmatch(value):
            return self.numbered("member", value)
        return "<folder>" if field == "log_dir" and value else None

    def _name_number(self, field: str, value: int) -> str | None:
        if field == "port" and value == self.port:
            return "<port>"
        if field == "session_id" and value > 0:
            return self.numbered("session", value)
        if field == "producer_id" and 0 <= value < 1 << 40:
            return self.numbered("producer", value)
        if field.endswith("leader_epoch") and value == self.epoch:
            return "<epoch>"
        if field in ("total_bytes", "usable_bytes") and value > 0:
            return "<bytes>"
        if field in _TIMES and abs(value - time.time() * 1000) < _HOUR:
            return "<now>"
        return None

    def start_again(self) -> None:
        """A new conversation: what a server makes up is numbered from 1, so that one difference brings no other."""
        self._given.clear()
        self._counts.clear()

    def numbered(self, kind: str, value: object) -> str:
        """The name of a value; the next number of its kind when it is new."""
        key = (kind, value)
        if key not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[key] = f"<{kind} {self._counts[kind]}>"
        return self._given[key]


def _named(item: Node) -> bool:
    """Whether there is something in a struct that names it."""
    return any(each.field.name in _KEYS + _MORE_KEYS for each in item.children or ())


def without_choices(data: bytes) -> bytes:
    """Record batches with their leader epoch blanked, and what a broker's clock put in with the CRC over it."""
    out, position = bytearray(data), 0
    while position + 61 <= len(out):
        size = int.from_bytes(out[position + 8 : position + 12], "big") + 12
        out[position + 12 : position + 16] = bytes(4)
        if out[position + 22] & 8:  # LogAppendTime
            out[position + 17 : position + 21] = bytes(4)
            out[position + 35 : position + 43] = bytes(8)
        position += size
    return bytes(out)
