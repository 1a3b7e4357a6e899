"""What a partition's backlog quota lets in: a look at two numbers for each batch, and a measurement now and then.

A measurement says how many bytes may come, and until when, before somebody has to measure again: acknowledgements only
ever make a backlog smaller and younger. What keeps publishers out is measured again all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.backlog_quota import Action

if TYPE_CHECKING:
    from semantics.backlog_quota import Quota, Verdict

REFUSED_MS = 20
"""So long a measurement counts that keeps publishers out."""


class Unmeasured(KafkaError):
    """Nobody knows whether there is room."""

    def __init__(self, measured: asyncio.Future[None]) -> None:
        super().__init__(Error.NOT_LEADER_OR_FOLLOWER, "The backlog is being measured; try again.")
        self._measured = measured

    async def wait(self) -> None:
        """Until it is measured."""
        # others wait for the same
        await asyncio.shield(self._measured)


class HeldError(KafkaError):
    """The quota is used up, and its policy is that publishers wait."""

    def __init__(self, why: str) -> None:
        # clients of every kind try that again, and it says that nothing was stored
        super().__init__(Error.NOT_ENOUGH_REPLICAS, why)


class Gate:
    """Of one partition that has a quota."""

    __slots__ = ("_measure", "_waited_for", "measuring", "quota", "room", "since", "until", "verdict")

    def __init__(
        self, quota: Quota, measure: Callable[[], asyncio.Future[None]], waited_for: Callable[[], bool]
    ) -> None:
        """`measure` begins a measurement, or joins one; `waited_for` says whether batches wait for this partition,
        behind which others have to wait.
        """
        self.quota = quota
        self._measure = measure
        self._waited_for = waited_for
        self.measuring: asyncio.Future[None] | None = None
        self.verdict: Verdict | None = None
        # bytes that may come; from when until when the verdict counts, ms since 1970
        self.room = self.since = self.until = 0

    def measured(self, verdict: Verdict, now: int) -> None:
        """What a measurement at `now` (ms since 1970) says."""
        self.verdict = verdict
        self.since = now
        self.room = verdict.room if verdict.room >= 0 else 1 << 62
        self.until = verdict.until if verdict.until >= 0 else 1 << 62
        if verdict.action is not None:
            self.until = now + REFUSED_MS

    def forget(self) -> None:
        """The next that comes measures."""
        self.verdict = None

    def known(self, now: int) -> bool:
        """Whether what was measured counts at `now` (ms since 1970)."""
        verdict = self.verdict
        return (
            verdict is not None
            and self.since <= now < self.until
            and (self.room > 0 or verdict.action is not None)
        )

    def look(self, now: int) -> Unmeasured | None:
        """What has to be waited for before a batch can be let in or kept out, if anything."""
        return None if self.known(now) else Unmeasured(self._measure())

    def queue_up(self) -> None:
        """A batch that has not waited goes behind those that do. Raises HeldError."""
        if self._waited_for():
            raise HeldError("Other batches wait for its backlog to become smaller.")

    def check(self, now: int) -> None:
        """Whether a batch may come in. Raises Unmeasured, HeldError; KafkaError POLICY_VIOLATION."""
        unmeasured = self.look(now)
        if unmeasured is not None:
            raise unmeasured
        verdict = self.verdict
        assert verdict is not None
        if verdict.action is Action.HOLD:
            raise HeldError(f"{verdict.why}. Publishers wait until consumers have acknowledged more.")
        if verdict.action is Action.REFUSE:
            raise KafkaError(
                Error.POLICY_VIOLATION, f"{verdict.why}. Publish again when consumers have acknowledged more."
            )

    def take(self, size: int) -> None:
        """A batch of so many bytes was let in."""
        self.room -= size
