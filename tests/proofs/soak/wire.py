"""The few requests that the proof makes by itself, written by hand: what is asked and answered is known exactly.

A connection is good for one gateway: when it dies, whatever was asked and not answered may have happened or not.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Self

PATIENCE = 120.0
"""Seconds that an answer may take. What a connection was asked that is given up may be done later, behind what another
one is answered; so none is, also while a busy machine lets the gateway stand still. That of a killed one is over."""


class Answer:
    """Reads an answer from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        shape = struct.Struct(">" + form)
        (value,) = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return int(value)

    def text(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        value = self._data[self._at : self._at + size].decode()
        self._at += size
        return value

    def many(self) -> range:
        return range(self.number("i"))


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def many(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return struct.pack(">i", len(found)) + b"".join(found)


class Refused(Exception):
    """The gateway answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Wire:
    """One connection, one request at a time. OSError when it is over."""

    def __init__(self, port: int, timeout: float = PATIENCE, client: str = "soak") -> None:
        self._client = client
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask(self, key: int, version: int, body: bytes) -> Answer:
        self._correlation += 1
        head = struct.pack(">hhi", key, version, self._correlation) + text(self._client)
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        size = int.from_bytes(self._exactly(4), "big")
        answer = Answer(self._exactly(size))
        assert answer.number("i") == self._correlation
        return answer

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError("the gateway closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def api_versions(self) -> None:
        code = self._ask(18, 0, b"").number("h")
        if code:
            raise Refused(code)

    def metadata(self) -> tuple[dict[str, int], int]:
        """All topics with their number of partitions, and the highest leader epoch (-1 without topics)."""
        answer = self._ask(3, 7, struct.pack(">i?", -1, False))
        answer.number("i")
        for _ in answer.many():
            answer.number("i"), answer.text(), answer.number("i"), answer.text()
        answer.text(), answer.number("i")
        topics: dict[str, int] = {}
        highest = -1
        for _ in answer.many():
            code, name, _ = answer.number("h"), answer.text(), answer.number("b")
            count = 0
            for _ in answer.many():
                answer.number("h"), answer.number("i"), answer.number("i")
                highest = max(highest, answer.number("i"))
                for _ in range(3):
                    for _ in answer.many():
                        answer.number("i")
                count += 1
            if name is not None and not code:
                topics[name] = count
        return topics, highest

    def offsets(
        self, places: list[tuple[str, int]], timestamp: int, *, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """ListOffsets: -1 for the ends, -2 for the starts. Places that are unknown are left out. `committed`: what
        readers of committed records are told.
        """
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        body = struct.pack(">i?", -1, committed) + many(
            text(topic) + many(struct.pack(">iiq", each, -1, timestamp) for each in partitions)
            for topic, partitions in topics.items()
        )
        answer = self._ask(2, 4, body)
        answer.number("i")
        found = {}
        for _ in answer.many():
            topic = answer.text() or ""
            for _ in answer.many():
                partition, code = answer.number("i"), answer.number("h")
                _, offset, _ = answer.number("q"), answer.number("q"), answer.number("i")
                if not code:
                    found[topic, partition] = offset
        return found

    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """OffsetCommit of nobody in particular. Raises Refused."""
        topics: dict[str, list[bytes]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(struct.pack(">iqi", partition, offset, -1) + text("m"))
        body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">h", -1)
        answer = self._ask(8, 7, body + many(text(topic) + many(each) for topic, each in topics.items()))
        answer.number("i")
        for _ in answer.many():
            answer.text()
            for _ in answer.many():
                _, code = answer.number("i"), answer.number("h")
                if code:
                    raise Refused(code)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """OffsetFetch of everything. Raises Refused."""
        answer = self._ask(9, 5, text(group) + struct.pack(">i", -1))
        answer.number("i")
        found = {}
        for _ in answer.many():
            topic = answer.text() or ""
            for _ in answer.many():
                partition, offset = answer.number("i"), answer.number("q")
                answer.number("i"), answer.text()
                code = answer.number("h")
                if code:
                    raise Refused(code)
                found[topic, partition] = offset
        code = answer.number("h")
        if code:
            raise Refused(code)
        return found

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Raises Refused."""
        settings = many(text(name) + text(value) for name, value in configs.items())
        one = text(topic) + struct.pack(">ihi", partitions, 1, 0) + settings
        answer = self._ask(19, 4, many([one]) + struct.pack(">i?", 20_000, False))
        answer.number("i"), answer.number("i"), answer.text()
        code = answer.number("h")
        if code:
            raise Refused(code)

    def delete(self, topic: str) -> None:
        """Raises Refused."""
        answer = self._ask(20, 3, many([text(topic)]) + struct.pack(">i", 20_000))
        answer.number("i"), answer.number("i"), answer.text()
        code = answer.number("h")
        if code:
            raise Refused(code)

    def delete_records(self, place: tuple[str, int], offset: int) -> int:
        """The log's start afterwards. Raises Refused."""
        one = text(place[0]) + many([struct.pack(">iq", place[1], offset)])
        answer = self._ask(21, 1, many([one]) + struct.pack(">i", 20_000))
        answer.number("i"), answer.number("i"), answer.text(), answer.number("i"), answer.number("i")
        low, code = answer.number("q"), answer.number("h")
        if code:
            raise Refused(code)
        return low

    def produce(self, place: tuple[str, int], batch: bytes) -> int:
        """One batch with acks=all; its base offset. Raises Refused."""
        one = struct.pack(">ii", place[1], len(batch)) + batch
        body = struct.pack(">hhi", -1, -1, 20_000) + many([text(place[0]) + many([one])])
        answer = self._ask(0, 7, body)
        answer.number("i"), answer.text(), answer.number("i"), answer.number("i")
        code, offset = answer.number("h"), answer.number("q")
        if code:
            raise Refused(code)
        return offset
