"""The requests of a share consumer (KIP-932), written by hand: which answers came is known exactly."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from tests.proofs.soak.wire import PATIENCE, Answer, Refused, Wire, many, text

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Place = tuple[str, int]
"""Topic and partition."""
Acks = dict[Place, list[tuple[int, int, bytes]]]
"""By place, ascending: first and last offset, one type for all or one for each."""
Sendable = tuple[int, bytes | None, bytes, list[tuple[str, bytes]]]
"""A record to be: timestamp, key, value, headers."""


class Given(NamedTuple):
    """A record that was acquired."""

    place: Place
    offset: int
    count: int  # type: ignore[assignment]
    """DeliveryCount: 1 the first time."""
    timestamp: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


class Stored(NamedTuple):
    """A record as a reader finds it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


def batch(records: Sequence[Sendable], codec: int = 0) -> bytes:
    """One batch of them."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for timestamp, key, value, headers in records:
        builder.append(timestamp=timestamp, key=key, value=value, headers=headers)
    builder.close()
    return bytes(builder.buffer())


def unpacked(data: bytes) -> list[Stored]:
    """The records of whole batches. Raises AssertionError for a wrong CRC."""
    found = []
    for each in MemoryRecords(data):
        assert each.validate_crc(), "a batch has a wrong CRC"
        found += [Stored(r.offset, r.timestamp, r.key, r.value or b"", list(r.headers)) for r in each]
    return found


def compact_number(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def compact_text(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    raw = value.encode()
    return compact_number(len(raw) + 1) + raw


def compact_many(items: Iterable[bytes] | None) -> bytes:
    if items is None:
        return b"\0"
    found = list(items)
    return compact_number(len(found) + 1) + b"".join(found)


class Flexible(Answer):
    """An answer with compact lengths and tags."""

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def blob(self) -> bytes:
        size = max(self.varint() - 1, 0)
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str | None:
        size = self.varint() - 1
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def uuid(self) -> bytes:
        self._at += 16
        return self._data[self._at - 16 : self._at]

    def many(self) -> range:
        return range(self.varint() - 1)

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            size = self.varint()
            self._at += size


class ShareWire(Wire):
    """One connection of a share consumer. Raises OSError when it is over."""

    def __init__(self, port: int, timeout: float = PATIENCE, client: str = "soak") -> None:
        super().__init__(port, timeout, client)
        self.ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}

    def _flexibly(self, key: int, version: int, body: bytes) -> Flexible:
        self._correlation += 1
        head = struct.pack(">hhi", key, version, self._correlation) + text(self._client) + b"\0"
        self._socket.sendall(struct.pack(">i", len(head) + len(body) + 1) + head + body + b"\0")
        size = int.from_bytes(self._exactly(4), "big")
        answer = Flexible(self._exactly(size))
        assert answer.number("i") == self._correlation
        answer.tags()
        return answer

    # groups

    def configure(self, group: str, configs: dict[str, object]) -> None:
        """IncrementalAlterConfigs of a group. Raises Refused."""
        self._alter(b"\x20", group, configs)

    def alter(self, topic: str, configs: dict[str, object]) -> None:
        """The same of a topic. Raises Refused."""
        self._alter(b"\x02", topic, configs)

    def _alter(self, kind: bytes, name: str, configs: dict[str, object]) -> None:
        settings = many(text(each) + b"\0" + text(str(value)) for each, value in configs.items())
        answer = self._ask(44, 0, many([kind + text(name) + settings]) + b"\0")
        answer.number("i"), answer.number("i")
        _refuse(answer.number("h"))

    def beat(self, group: str, member: str, epoch: int, topics: Sequence[str] | None) -> int:
        """ShareGroupHeartbeat: the member's epoch. 0 joins, -1 leaves. Raises Refused."""
        names = None if topics is None else [compact_text(each) for each in topics]
        body = (
            compact_text(group)
            + compact_text(member)
            + struct.pack(">i", epoch)
            + compact_text(None)
            + compact_many(names)
        )
        answer = self._flexibly(76, 1, body)
        answer.number("i")
        code = answer.number("h")
        _refuse(code)
        answer.text(), answer.text()
        return answer.number("i")

    def positions(self, group: str) -> dict[Place, tuple[int, int]]:
        """DescribeShareGroupOffsets: (first open offset, records that are not settled) by place. Raises Refused."""
        answer = self._flexibly(90, 1, compact_many([compact_text(group) + compact_many(None) + b"\0"]))
        answer.number("i")
        found: dict[Place, tuple[int, int]] = {}
        for _ in answer.many():
            answer.text()
            for _ in answer.many():
                name, topic_id = answer.text() or "", answer.uuid()
                self.ids[name] = topic_id
                self.names[topic_id] = name
                for _ in answer.many():
                    index, start = answer.number("i"), answer.number("q")
                    answer.number("i")
                    lag, code = answer.number("q"), answer.number("h")
                    answer.text()
                    answer.tags()
                    _refuse(code)
                    found[name, index] = start, lag
                answer.tags()
            code = answer.number("h")
            answer.text()
            answer.tags()
            _refuse(code)
        return found

    def delete_group(self, group: str) -> None:
        """DeleteGroups. Raises Refused."""
        answer = self._ask(42, 1, many([text(group)]))
        answer.number("i"), answer.number("i"), answer.text()
        _refuse(answer.number("h"))

    # records

    def fetch_shared(
        self,
        group: str,
        member: str,
        epoch: int,
        places: Sequence[Place] = (),
        acks: Acks | None = None,
        *,
        max_wait: int = 100,
        max_records: int = 100,
        strict: bool = False,
    ) -> tuple[list[Given], dict[Place, int]]:
        """ShareFetch: what was acquired, and the error of each place's acknowledgements. Raises Refused."""
        acks = acks or {}
        by_topic: dict[str, list[bytes]] = {}
        for place in dict.fromkeys([*places, *acks]):
            by_topic.setdefault(place[0], []).append(
                struct.pack(">i", place[1]) + _acks(acks.get(place, ())) + b"\0"
            )
        body = compact_text(group) + compact_text(member)
        body += struct.pack(
            ">iiiiiib?", epoch, max_wait, 1, 1 << 20, max_records, max_records, int(strict), False
        )
        body += self._topics(by_topic) + compact_many(())
        answer = self._flexibly(78, 2, body)
        answer.number("i")
        code = answer.number("h")
        answer.text(), answer.number("i")
        _refuse(code)
        given: list[Given] = []
        errors: dict[Place, int] = {}
        for _ in answer.many():
            name = self.names[answer.uuid()]
            for _ in answer.many():
                place = name, answer.number("i")
                code = answer.number("h")
                answer.text()
                errors[place] = answer.number("h")
                answer.text()
                answer.number("i"), answer.number("i")
                answer.tags()
                data = answer.blob()
                counts: dict[int, int] = {}
                for _ in answer.many():
                    first, last, count = answer.number("q"), answer.number("q"), answer.number("h")
                    answer.tags()
                    counts |= dict.fromkeys(range(first, last + 1), count)
                answer.tags()
                _refuse(code)
                if counts:
                    given += _given(place, data, counts)
            answer.tags()
        return given, errors

    def acknowledge(
        self, group: str, member: str, epoch: int, acks: Acks, *, renew: bool = False
    ) -> dict[Place, int]:
        """ShareAcknowledge: the error of each place. Raises Refused."""
        by_topic: dict[str, list[bytes]] = {}
        for (topic, partition), each in acks.items():
            by_topic.setdefault(topic, []).append(struct.pack(">i", partition) + _acks(each) + b"\0")
        body = (
            compact_text(group)
            + compact_text(member)
            + struct.pack(">i?", epoch, renew)
            + self._topics(by_topic)
        )
        answer = self._flexibly(79, 2, body)
        answer.number("i")
        code = answer.number("h")
        answer.text(), answer.number("i")
        _refuse(code)
        errors: dict[Place, int] = {}
        for _ in answer.many():
            name = self.names[answer.uuid()]
            for _ in answer.many():
                place = name, answer.number("i")
                errors[place] = answer.number("h")
                answer.text(), answer.number("i"), answer.number("i")
                answer.tags()
                answer.tags()
            answer.tags()
        return errors

    def _topics(self, by_topic: dict[str, list[bytes]]) -> bytes:
        return compact_many(self.ids[topic] + compact_many(each) + b"\0" for topic, each in by_topic.items())

    def fetch(self, place: Place, offset: int) -> list[Stored]:
        """A plain Fetch: what is there from an offset on. Raises Refused."""
        one = struct.pack(">iqi", place[1], offset, 1 << 20)
        body = struct.pack(">iiiib", -1, 0, 1, 1 << 20, 0) + many([text(place[0]) + many([one])])
        answer = self._ask(1, 4, body)
        answer.number("i")
        found: list[Stored] = []
        for _ in answer.many():
            answer.text()
            for _ in answer.many():
                answer.number("i")
                _refuse(answer.number("h"))
                answer.number("q"), answer.number("q")
                for _ in answer.many():
                    answer.number("q"), answer.number("q")
                size = max(answer.number("i"), 0)
                answer._at += size
                found += unpacked(answer._data[answer._at - size : answer._at])
        return [each for each in found if each.offset >= offset]


def _acks(batches: Sequence[tuple[int, int, bytes]]) -> bytes:
    return compact_many(
        struct.pack(">qq", first, last) + compact_number(len(types) + 1) + types + b"\0"
        for first, last, types in batches
    )


def _given(place: Place, data: bytes, counts: dict[int, int]) -> list[Given]:
    """Raises AssertionError when something was acquired that was not sent."""
    found = [
        Given(place, each.offset, counts.pop(each.offset), *each[1:])
        for each in unpacked(data)
        if each.offset in counts
    ]
    assert not counts, f"{place}: acquired and not sent: {sorted(counts)[:5]}"
    return found


def _refuse(code: int) -> None:
    if code:
        raise Refused(code)
