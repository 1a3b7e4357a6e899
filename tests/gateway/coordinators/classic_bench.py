"""A classic group on the bench, with members that are named by their tokens."""

from __future__ import annotations

from typing import Any

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import (
    Answer,
    Assigned,
    Gone,
    Heartbeat,
    Join,
    JoinAnswer,
    Sync,
    SyncAnswer,
)
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.group_rows import State
from gateway.coordinators.group_state import Limits
from store.api import Family, Put, Write
from tests.gateway.coordinators.bench import Bench

SESSION = 10_000
REBALANCE = 60_000
DELAY = 300


class ClassicBench(Bench):
    """A classic group on the bench, and every answer by its token."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self.group = ClassicGroup("g", limits or Limits(DELAY), 0)
        self.answers: dict[Any, Any] = {}
        self.writes: list[Write] = []
        # what followers of assignments are told
        self.told: list[Gone | Assigned] = []
        self._ids = 0

    def send(self, event: Any) -> Any:
        """The answer to this event, None if it is parked."""
        step = self.group.step(event, self.now, self.now)
        self.writes = step.writes
        for effect in step.effects:
            if isinstance(effect, Answer):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.value
            elif isinstance(effect, Gone | Assigned):
                self.told.append(effect)
        return self.answers.get(getattr(event, "token", None))

    def join(
        self,
        token: str,
        member_id: str = "",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"), ("sticky", b"s")),
        protocol_type: str = "consumer",
        id_required: bool = False,
        may_skip: bool = True,
        session: int = SESSION,
        rebalance: int = REBALANCE,
    ) -> JoinAnswer | None:
        self._ids += 1
        answer: JoinAnswer | None = self.send(
            Join(
                token,
                member_id,
                f"id-{token}",
                instance_id,
                "client",
                "/127.0.0.1",
                session,
                rebalance,
                protocol_type,
                protocols,
                id_required,
                may_skip,
            )
        )
        return answer

    def sync(
        self, token: str, member_id: str, generation: int | None = None, **more: Any
    ) -> SyncAnswer | None:
        generation = self.group.generation if generation is None else generation
        answer: SyncAnswer | None = self.send(Sync(token, member_id, generation, **more))
        return answer

    def beat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> int:
        self._ids += 1
        generation = self.group.generation if generation is None else generation
        answer = self.send(Heartbeat(f"hb{self._ids}", member_id, generation, instance_id))
        return int(answer.error)

    def stable(self, *tokens: str, **more: Any) -> None:
        """Members named by tokens join and sync; the first leads and gives each its own name."""
        for token in tokens:
            self.join(token, **more)
        self.pass_time(DELAY)
        ids = [f"id-{token}" for token in tokens]
        for token in tokens[1:]:
            self.sync(f"sync-{token}", f"id-{token}")
        self.sync(f"sync-{tokens[0]}", ids[0], assignments={one: one.encode() for one in ids})
        assert self.group.state is State.STABLE


def row_of(writes: list[Write]) -> group_rows.ClassicRow:
    (put,) = writes
    assert isinstance(put, Put)
    assert (put.family, put.key) == (Family.GROUP, b"g")
    return group_rows.classic(put.value)
