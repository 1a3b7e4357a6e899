"""The requests of a transactional producer, written by hand, in the words of both protocols.

The old one (V1) adds partitions and groups before it uses them, and keeps its epoch. KIP-890's (V2) adds nothing, and
gets a new epoch with each end.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kafka.record.memory_records import MemoryRecordsBuilder

from tests.proofs.soak.share_wire import Place, ShareWire, batch, compact_many, compact_number, compact_text
from tests.proofs.soak.wire import PATIENCE, Refused, many, text

Offsets = Mapping[Place, tuple[int, str]]
"""By place: an offset and what is said with it."""


Entry = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
"""A record to be: key, value, headers."""


def transactional_batch(entries: Sequence[Entry], producer: tuple[int, int], sequence: int) -> bytes:
    """One batch of a transaction. `producer`: id and epoch; `sequence`: that of the first record."""
    builder = MemoryRecordsBuilder(
        magic=2,
        compression_type=0,
        batch_size=1 << 20,
        transactional=True,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    for key, value, headers in entries:
        builder.append(timestamp=1_700_000_000_000, key=key, value=value, headers=headers)
    builder.close()
    return bytes(builder.buffer())


def plain_batch(values: Sequence[bytes]) -> bytes:
    """One batch of no transaction."""
    return batch([(1_700_000_000_000, None, value, []) for value in values])


class TransactionWire(ShareWire):
    """One connection of the producer of one transactional id. Raises OSError when it is over."""

    def __init__(self, port: int, name: str, *, second: bool, timeout: float = PATIENCE) -> None:
        """`second`: in KIP-890's words."""
        super().__init__(port, timeout, name)
        self.name = name
        self.second = second

    def init(self, timeout_ms: int, producer: tuple[int, int] = (-1, -1)) -> tuple[int, int]:
        """InitProducerId: id and epoch. With `producer` its epoch is raised. Raises Refused."""
        body = compact_text(self.name) + struct.pack(">iqh", timeout_ms, *producer)
        answer = self._flexibly(22, 4, body)
        answer.number("i")
        _refuse(answer.number("h"))
        return answer.number("q"), answer.number("h")

    def add(self, producer: tuple[int, int], places: Sequence[Place]) -> None:
        """AddPartitionsToTxn, which V2 does without. Raises Refused."""
        if self.second:
            return
        topics = sorted({topic for topic, _ in places})
        answer = self._ask(
            24,
            1,
            text(self.name)
            + struct.pack(">qh", *producer)
            + many(
                text(topic) + many(struct.pack(">i", index) for its, index in places if its == topic)
                for topic in topics
            ),
        )
        answer.number("i")
        for _ in answer.many():
            answer.text()
            for _ in answer.many():
                answer.number("i")
                _refuse(answer.number("h"))

    def produce_in(self, place: Place, batch: bytes) -> int:
        """One batch of the transaction; its base offset. Raises Refused."""
        if not self.second:
            one = struct.pack(">ii", place[1], len(batch)) + batch
            body = text(self.name) + struct.pack(">hi", -1, 20_000) + many([text(place[0]) + many([one])])
            answer = self._ask(0, 7, body)
            answer.number("i"), answer.text(), answer.number("i"), answer.number("i")
        else:
            one = struct.pack(">i", place[1]) + compact_number(len(batch) + 1) + batch + b"\0"
            body = compact_text(self.name) + struct.pack(">hi", -1, 20_000)
            body += compact_many([compact_text(place[0]) + compact_many([one]) + b"\0"])
            answer = self._flexibly(0, 12, body)
            answer.many(), answer.text(), answer.many(), answer.number("i")
        _refuse(answer.number("h"))
        return answer.number("q")

    def send_offsets(
        self,
        producer: tuple[int, int],
        group: str,
        offsets: Offsets,
        member: tuple[str, int] = ("", -1),
    ) -> None:
        """AddOffsetsToTxn (V1) and TxnOffsetCommit. `member`: its id and generation. Raises Refused."""
        if not self.second:
            body = text(self.name) + struct.pack(">qh", *producer) + text(group)
            answer = self._ask(25, 1, body)
            answer.number("i")
            _refuse(answer.number("h"))
        topics = sorted({topic for topic, _ in offsets})
        answer = self._flexibly(
            28,
            5 if self.second else 3,
            compact_text(self.name)
            + compact_text(group)
            + struct.pack(">qhi", *producer, member[1])
            + compact_text(member[0])
            + compact_text(None)
            + compact_many(
                compact_text(topic)
                + compact_many(
                    struct.pack(">iqi", index, offset, -1) + compact_text(said) + b"\0"
                    for (its, index), (offset, said) in offsets.items()
                    if its == topic
                )
                + b"\0"
                for topic in topics
            ),
        )
        answer.number("i")
        for _ in answer.many():
            answer.text()
            for _ in answer.many():
                answer.number("i")
                _refuse(answer.number("h"))
                answer.tags()
            answer.tags()

    def end(self, producer: tuple[int, int], *, committed: bool) -> tuple[int, int]:
        """EndTxn: id and epoch from now on. Raises Refused."""
        if not self.second:
            answer = self._ask(26, 1, text(self.name) + struct.pack(">qh?", *producer, committed))
            answer.number("i")
            _refuse(answer.number("h"))
            return producer
        answer = self._flexibly(26, 5, compact_text(self.name) + struct.pack(">qh?", *producer, committed))
        answer.number("i")
        _refuse(answer.number("h"))
        return answer.number("q"), answer.number("h")


def _refuse(code: int) -> None:
    if code:
        raise Refused(code)
