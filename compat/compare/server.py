"""One connection to a server: requests from plain dicts by kafka-python's schemas, answers as plain dicts.

What a server chose for itself (ids, ports, times) is given a name, so that the answers of two servers compare:
its node id becomes "<node>", the id of topic t "<id of t>", the first fetch session "<session 1>".
"""

from __future__ import annotations

import importlib
import socket
import struct
import uuid
from collections.abc import Mapping
from typing import Any

Answer = dict[str, Any]

PATIENCE = 4.0
"""Seconds after which there is no answer."""

_MODULES = ("admin", "consumer", "metadata", "producer")
_VOLATILE = {"throttle_time_ms"}
_NO_ID = uuid.UUID(int=0)


class Closed(Exception):
    """The server closed the connection in place of an answer."""


class Server:
    """`name` is "kafka" or "magnetar"; `answers` collects (label, answer) in the order of the script."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._correlation = 0
        self._names: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        self.answers: list[tuple[str, Answer]] = []
        self.topic_ids: dict[str, uuid.UUID] = {}
        described = self.quietly("DescribeCluster", 0, {})
        self.node = described["brokers"][0]["broker_id"]
        self._fixed: dict[str, Any] = {
            "cluster_id": described["cluster_id"],
            "host": described["brokers"][0]["host"],
            "port": described["brokers"][0]["port"],
        }

    def ask(self, label: str, api: str, version: int, body: Mapping[str, Any]) -> Answer:
        """Send a request and keep its answer for the comparison. The raw answer is returned."""
        try:
            answer = self.quietly(api, version, body)
        except Closed:
            answer = {"<connection>": "closed"}
        except TimeoutError:
            answer = {"<connection>": "no answer"}
            self.close()
        self.answers.append((f"{label} ({api} v{version})", self._named(answer)))
        return answer

    def quietly(self, api: str, version: int, body: Mapping[str, Any]) -> Answer:
        """Send a request whose answer is not compared. Raises Closed."""
        request = _class(api + "Request")
        payload = bytes(_message(request, body).encode(version=version))
        flexible = request.flexible_version_q(version)
        frame = self.raw(request.API_KEY, version, payload, flexible=flexible)
        response = _class(api + "Response")
        skip = 5 if flexible and api != "ApiVersions" else 4
        answer: Answer = _plain(response.decode(frame[skip:], version=version))
        for topic in answer.get("topics") or ():
            if isinstance(topic, dict) and topic.get("topic_id") not in (None, _NO_ID) and topic.get("name"):
                self.topic_ids[topic["name"]] = topic["topic_id"]
        return answer

    def raw(self, key: int, version: int, payload: bytes, *, flexible: bool = False) -> bytes:
        """Send the bytes of a body; the answer's frame, correlation id first. Raises Closed."""
        self._correlation += 1
        head = (
            struct.pack(">hhih", key, version, self._correlation, 7)
            + b"compare"
            + (b"\0" if flexible else b"")
        )
        if self._socket is None:
            self._socket = socket.create_connection(self._address, PATIENCE)
        try:
            self._socket.sendall(struct.pack(">i", len(head) + len(payload)) + head + payload)
            (size,) = struct.unpack(">i", self._read(4))
            return self._read(size)
        except (Closed, ConnectionError):
            self.close()
            raise Closed from None

    def keep(self, label: str, value: Answer) -> None:
        """Something that was worked out from answers, to be compared as well."""
        self.answers.append((label, self._named(value)))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise Closed
            data += more
        return data

    # -- names for what a server chose ------------------------------------------------------------------------------

    def _named(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self._named(each, key) for key, each in value.items() if key not in _VOLATILE}
        if isinstance(value, list):
            named = [self._named(each, field) for each in value]
            if field == "configs":
                return {each["name"]: each for each in named}
            # Kafka answers in the order of its hash maps.
            return sorted(named, key=_order) if all(isinstance(each, dict) for each in named) else named
        if field in self._fixed and value == self._fixed[field]:
            return f"<{field}>"
        if field in ("broker_id", "node_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes"):
            return "<node>" if value == self.node else value
        if isinstance(value, uuid.UUID):
            known = {each: name for name, each in self.topic_ids.items()}
            return (
                "<no id>" if value == _NO_ID else f"<id of {known[value]}>" if value in known else "<an id>"
            )
        if field == "session_id" and value > 0:
            return self._numbered("session", value)
        if field == "producer_id" and 0 <= value < 1 << 40:
            return self._numbered("producer", value)
        if field == "error_message":
            return "<text>" if value else None
        if field == "leader_epoch" and value >= 0:
            return "<epoch>"
        if field == "log_dir" or (field in ("total_bytes", "usable_bytes") and value > 0):
            return f"<{field}>"
        if field in ("log_append_time_ms", "last_timestamp") and value > 0:
            return "<time>"
        if isinstance(value, bytes):
            return _without_epochs(value).hex()
        return value

    def _numbered(self, kind: str, value: Any) -> str:
        key = (kind, value)
        if key not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[key] = f"<{kind} {self._counts[kind]}>"
        return self._names[key]


def _class(name: str) -> Any:
    for module in _MODULES:
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    raise KeyError(name)


def _message(kind: Any, body: Mapping[str, Any]) -> Any:
    """A message of nested dicts; a list of dicts is an array of structs."""
    fields = kind._struct.fields
    values = {}
    for name, value in body.items():
        field = fields[name]
        if isinstance(value, list) and field.is_struct_array():
            value = [_message(field.data_class, each) for each in value]
        elif isinstance(value, Mapping):
            value = _message(field.data_class, value)
        values[name] = value
    return kind(**values)


def _plain(value: Any) -> Any:
    if hasattr(value, "_struct"):
        plain = {}
        for name in value._struct.fields:
            try:
                plain[name] = _plain(getattr(value, name))
            except AttributeError:
                continue
        return plain
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value


def _order(answer: Answer) -> tuple[str, ...]:
    keys = (
        "name",
        "topic",
        "topic_name",
        "topic_id",
        "partition_index",
        "index",
        "partition",
        "resource_type",
    )
    return tuple(f"{answer[key]:>40}" if isinstance(answer.get(key), str | int) else "" for key in keys)


def _without_epochs(data: bytes) -> bytes:
    """Record batches with their leader epochs blanked: each server counts its own."""
    out, position = bytearray(data), 0
    while position + 61 <= len(out):
        out[position + 12 : position + 16] = bytes(4)
        position += int.from_bytes(out[position + 8 : position + 12], "big") + 12
    return bytes(out)
