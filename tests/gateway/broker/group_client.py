"""A client of one group of the broker, below the wire."""

from __future__ import annotations

from typing import Any

from gateway.broker.machines import Caller
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.classic_events import Heartbeat, Join, Leave, Leaver, Sync
from gateway.promise import Promise
from store.api import Family, Put, Write
from tests.gateway.broker.fake_broker import FakeBroker

SESSION = 10_000
WEEK = 7 * 24 * 3_600_000


class Client:
    """Sends requests to one group and keeps what came back."""

    def __init__(self, broker: FakeBroker, group_id: str = "g") -> None:
        self.broker = broker
        self.group_id = group_id

    def run(self, event: Any) -> Any:
        return self.broker.groups.run(self.group_id, event)

    def join(self, member_id: str = "", new: str = "m1", instance_id: str | None = None) -> Any:
        return self.run(
            Join(
                caller(),
                member_id,
                new,
                instance_id,
                "c",
                "/h",
                SESSION,
                60_000,
                "consumer",
                (("range", b""),),
                False,
            )
        )

    def sync(self, member_id: str, generation: int, **assignments: bytes) -> Any:
        return self.run(Sync(caller(), member_id, generation, assignments=assignments))

    def beat(self, member_id: str, generation: int) -> Any:
        answer = value(self.run(Heartbeat(caller(), member_id, generation)))
        return None if answer is None else answer.error

    def leave(self, member_id: str) -> Any:
        return self.run(Leave(caller(), (Leaver(member_id),)))

    def stable(self) -> None:
        """One member, m1, of generation 1."""
        joined = self.join()
        self.broker.advance(300)
        assert value(joined).generation == 1
        assert value(self.sync("m1", 1, m1=b"A")).assignment == b"A"

    def commit(
        self, topic: str, offset: int, member_id: str = "", generation: int = -1, expires: int = -1
    ) -> Any:
        found = self.broker.catalog.get(topic)
        assert found is not None
        row = offsets.encode(offset, 3, self.broker.clock.wall_ms(), expires, found.topic_id, "note")
        rows: list[Write] = [Put(Family.OFFSET, offsets.key(self.group_id, topic, 0), row)]
        return self.broker.groups.commit_offsets(self.group_id, member_id, None, generation, rows, caller())

    def offset(self, topic: str) -> int | None:
        found = self.broker.catalog.get(topic)
        assert found is not None
        (row,) = self.broker.groups.committed(self.group_id, found, [0])
        return None if row is None else row.offset

    def row(self) -> group_rows.ClassicRow | None:
        raw = self.broker.store.get(Family.GROUP, self.group_id.encode())
        return None if raw is None else group_rows.classic(raw)


def caller() -> Caller:
    return Caller(lambda answer: answer)


def value(answer: Any) -> Any:
    """The answer, None while it is awaited."""
    if isinstance(answer, Promise):
        answer = answer.now()
        return None if isinstance(answer, Promise) else answer
    return answer
