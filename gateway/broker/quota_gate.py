"""What a partition's backlog quota lets in: a look at two numbers for each batch, and a measurement now and then.

A measurement says how many bytes may come, and until when, before somebody has to measure again: acknowledgements only
ever make a backlog smaller and younger. What keeps publishers out is measured again all the time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.backlog_quota import Action

if TYPE_CHECKING:
    from gateway.wire.batch import Header
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


class OutOfTurnError(HeldError):
    """One that the same producer sent before was refused: this one may not come in before that has come again."""


class Refusals:
    """Batches of idempotent producers that were told to come again. What their producers sent behind them may not come
    in before they do: of a producer that has written nothing yet any sequence number is good, and the one that comes
    again would be taken for a duplicate then.
    """

    MOST = 10_000
    """Producers that are remembered."""

    def __init__(self) -> None:
        # (topic id, partition, producer id, epoch) -> the lowest sequence number that has not come again
        self._lowest: OrderedDict[tuple[bytes, int, int, int], int] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lowest)

    def note(self, topic_id: bytes, index: int, header: Header) -> None:
        """This one is told so."""
        if header.producer_id >= 0:
            self.note_sequence(
                topic_id, index, header.producer_id, header.producer_epoch, header.base_sequence
            )

    def note_sequence(self, topic_id: bytes, index: int, producer_id: int, epoch: int, sequence: int) -> None:
        """The same of a batch that begins with this sequence number."""
        key = topic_id, index, producer_id, epoch
        lowest = self._lowest.get(key)
        if lowest is None or sequence < lowest:
            if lowest is None and len(self._lowest) >= self.MOST:
                self._lowest.popitem(last=False)
            self._lowest[key] = sequence

    def check(self, topic_id: bytes, index: int, header: Header) -> None:
        """Raises OutOfTurnError."""
        lowest = self._lowest.get((topic_id, index, header.producer_id, header.producer_epoch))
        if lowest is not None and header.base_sequence > lowest:
            raise OutOfTurnError("A batch that was sent before this one has to come again first.")

    def came(self, topic_id: bytes, index: int, header: Header) -> None:
        """One of this producer was let in: the table of producers says from now on what is out of turn."""
        self._lowest.pop((topic_id, index, header.producer_id, header.producer_epoch), None)


class Gate:
    """Of one partition that has a quota."""

    __slots__ = (
        "_measure",
        "_place",
        "_refusals",
        "_waited_for",
        "measuring",
        "quota",
        "room",
        "since",
        "until",
        "verdict",
        "version",
    )

    def __init__(
        self,
        quota: Quota,
        place: tuple[bytes, int],
        refusals: Refusals,
        measure: Callable[[], asyncio.Future[None]],
        waited_for: Callable[[], bool],
    ) -> None:
        """`place`: the topic's id and the partition. `measure` begins a measurement, or joins one; `waited_for` says
        whether batches wait for this partition, behind which others have to wait.
        """
        self.quota = quota
        self._place = place
        self._refusals = refusals
        self._measure = measure
        self._waited_for = waited_for
        self.measuring: asyncio.Future[None] | None = None
        self.verdict: Verdict | None = None
        # bytes that may come; from when until when the verdict counts, ms since 1970
        self.room = self.since = self.until = 0
        # counts what makes a measurement that is under way worthless
        self.version = 0

    def measured(self, verdict: Verdict, now: int) -> None:
        """What a measurement at `now` (ms since 1970) says."""
        self.verdict = verdict
        self.since = now
        self.room = verdict.room if verdict.room >= 0 else 1 << 62
        self.until = verdict.until if verdict.until >= 0 else 1 << 62
        if verdict.action is not None:
            self.until = now + REFUSED_MS

    def forget(self) -> None:
        """The quota is another one, or a backlog has grown by itself: the next that comes measures."""
        self.verdict = None
        self.version += 1

    def known(self, now: int) -> bool:
        """Whether what was measured counts at `now` (ms since 1970)."""
        verdict = self.verdict
        return (
            verdict is not None
            and self.since <= now < self.until
            and (self.room > 0 or verdict.action is not None)
        )

    def look(self, now: int) -> Unmeasured | None:
        """What has to be waited for before a batch can be let in or kept out, if anything. Who is never kept out need
        not wait for a measurement.
        """
        if self.known(now):
            return None
        measured = self._measure()
        return Unmeasured(measured) if self.quota.keeps_out else None

    def queue_up(self, header: Header, *, first: bool) -> None:
        """Whether it is a batch's turn: it goes behind those that wait, unless it is the first of them. Raises
        HeldError, OutOfTurnError.
        """
        if self._refusals:
            self._refusals.check(*self._place, header)
        if not first and self._waited_for():
            raise HeldError("Other batches wait for its backlog to become smaller.")

    def check(self, now: int) -> None:
        """Whether a batch may come in. Raises Unmeasured, HeldError; KafkaError POLICY_VIOLATION."""
        unmeasured = self.look(now)
        if unmeasured is not None:
            raise unmeasured
        verdict = self.verdict
        if verdict is None or not self.quota.keeps_out:
            return
        if verdict.action is Action.HOLD:
            raise HeldError(f"{verdict.why}. Publishers wait until consumers have acknowledged more.")
        if verdict.action is Action.REFUSE:
            raise KafkaError(
                Error.POLICY_VIOLATION, f"{verdict.why}. Publish again when consumers have acknowledged more."
            )

    def take(self, size: int, header: Header) -> None:
        """A batch of so many bytes was let in."""
        self.room -= size
        self.came(header)

    def came(self, header: Header) -> None:
        """One that was told to come again has come."""
        if self._refusals:
            self._refusals.came(*self._place, header)
