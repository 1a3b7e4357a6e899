"""What the parts of a subscription need of those above them, as protocols: what they use, and no more.

What only one part needs stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.broker.errors import KafkaError
    from gateway.broker.partition import Partition
    from gateway.config.group_configs import GroupConfig
    from semantics.subscriptions.cursor import Cursor
    from semantics.subscriptions.selectors import Selector
    from semantics.subscriptions.states import Acquired
    from store.api import Corrupt, Store


class Watching(Protocol):
    """Somebody who watches what happens to some keys of a subscription: told at once, by the partition it is of."""

    def delivered(self, at: Any, consumer: str, ranges: Sequence[Acquired], /) -> None:
        """A consumer is given these."""
        ...

    def acknowledged(self, at: Any, consumer: str, acks: Sequence[tuple[int, int, bytes]], /) -> None:
        """A consumer's verdicts were taken, in the form of `SubscriptionPartition.acknowledge`."""
        ...

    def ticked(self, at: Any, /) -> None:
        """Locks may have run out."""
        ...

    def changed(self, at: Any, /) -> None:
        """Something of the cursor is being stored."""
        ...


class Named(Protocol):
    """A subscription: whose it is, and what is in force for it."""

    @property
    def group(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def base(self) -> str | None:
        """The topic whose retries these are, None for any other."""
        ...

    @property
    def config(self) -> GroupConfig: ...


class Subscribed(Named, Protocol):
    """A subscription as its partitions need it, and as those know it who have only a partition of it at hand."""

    @property
    def id(self) -> int: ...

    @property
    def place(self) -> tuple[str, bytes]:
        """Its group, and the id of its topic."""
        ...

    @property
    def gone(self) -> bool:
        """Whether it was deleted."""
        ...

    @property
    def selector(self) -> Selector | None:
        """For Key_Shared, who owns which slots; None for Shared."""
        ...

    @property
    def consumers(self) -> Mapping[str, int]:
        """Consumer -> of how many partitions it has asked for messages."""
        ...

    @property
    def client_ids(self) -> Mapping[str, str]:
        """Consumer -> its client id, where it has one."""
        ...

    @property
    def reserved(self) -> Mapping[str, int]:
        """Members from before a restart, and until when their slots wait for them (monotonic ms)."""
        ...

    def joined(self, consumer: str, client_id: str, /) -> None:
        """A consumer was attached to a partition; "": its client is not known."""
        ...

    def left(self, consumer: str, /) -> None:
        """A consumer was detached from a partition."""
        ...

    def cursor_lost(self) -> None:
        """A cursor was thrown away."""
        ...

    def cursors_moved(self) -> None:
        """Cursors were moved from outside: consumers may not hold any more what they were given."""
        ...

    def came_back(self, partition: int, ranges: Sequence[tuple[int, int]], /) -> None:
        """A transaction that had these records of a partition, by the store's id, in hand was aborted."""
        ...

    def let_go(self, index: int, /) -> None:
        """Let go of a cursor that was loaded for a moment, unless somebody uses it by now."""
        ...


class Place(Protocol):
    """A subscription on a partition, for what reads its records."""

    @property
    def id(self) -> int:
        """The store's id of the partition."""
        ...

    @property
    def index(self) -> int: ...

    @property
    def subscription(self) -> Named: ...

    @property
    def retries(self) -> bool:
        """Whether this is the subscription's RETRY topic."""
        ...

    @property
    def partition(self) -> Partition: ...

    @property
    def store(self) -> Store: ...

    @property
    def cursor(self) -> Cursor | None: ...

    def ready(self) -> Cursor:
        """The cursor, made from the store if need be. Raises KafkaError."""
        ...

    def touch(self) -> None:
        """The cursor has changed: what it wants written joins the open turn."""
        ...

    def corrupt(self, error: Corrupt, /) -> KafkaError | None:
        """A read came to damaged batches: what to answer, or None where the topic's policy is to skip them."""
        ...
