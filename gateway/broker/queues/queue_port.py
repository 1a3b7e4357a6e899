"""What a lane asks of the queue topic that it is of."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.queues.building import Builder
    from gateway.broker.queues.news import News
    from gateway.broker.queues.source import Source
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.lanes.lanes import Lanes
    from semantics.lanes.marks import Verb
    from semantics.lanes.runs import Run


class Says(Protocol):
    """What a commit says inside of a transaction goes there."""

    def say(
        self,
        at: SubscriptionPartition,
        consumer: str,
        ranges: Sequence[tuple[int, int]],
        verb: Verb,
        delay_ms: int | None = None,
    ) -> None:
        """Of what the consumer holds of these. Raises KafkaError."""
        ...

    def say_again(
        self, at: SubscriptionPartition, ranges: Sequence[tuple[int, int]], verb: Verb, delay_ms: int | None
    ) -> None:
        """Of what was settled before. Raises KafkaError: INVALID_RECORD_STATE unless the transaction has said the same
        of all of it.
        """
        ...


class Dealing(Protocol):
    """The queue topic, all of its lanes and the cursors behind them."""

    @property
    def node(self) -> Delivering: ...

    @property
    def name(self) -> str: ...

    @property
    def gone(self) -> bool:
        """Whether another object stands for it by now, or none."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it says what is not stored, and never will be."""
        ...

    @property
    def news(self) -> News | None:
        """While consumers are to hear that there are more lanes."""
        ...

    @property
    def fsync(self) -> bool:
        """Whether what it stores must outlive a power cut."""
        ...

    @property
    def lanes(self) -> Lanes: ...

    @property
    def builder(self) -> Builder: ...

    @property
    def sources(self) -> Mapping[int, Source]:
        """By the store's id of the partition."""
        ...

    def says(self, run: Run, source: Source, /) -> bool:
        """Whether deliveries of a run bear headers that say what they are."""
        ...

    def in_turn(self) -> Iterator[Source]:
        """The sources, whoever has waited longest first."""
        ...

    def had_its_turn(self, source: Source, /) -> None:
        """It was the turn of this one."""
        ...

    def run(self, work: Awaitable[None], /) -> None:
        """Go on with work that waits for a disk."""
        ...

    def give_all(self) -> None:
        """There may be room on any lane."""
        ...

    def throw_away(self, why: str, /) -> None:
        """What is in memory is not what is stored: it is read again by whoever asks next."""
        ...
