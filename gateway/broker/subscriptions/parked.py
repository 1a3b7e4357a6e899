"""Requests that are parked at a cursor until there is something for their consumers: who is woken, and when."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gateway.broker.errors import KafkaError

if TYPE_CHECKING:
    from gateway.broker.subscriptions.ports import Named
    from semantics.subscriptions.cursor import Cursor

log = logging.getLogger("magnetar.subscriptions")


class Serving(Protocol):
    """Where requests are parked."""

    @property
    def subscription(self) -> Named: ...

    @property
    def cursor(self) -> Cursor | None: ...

    def ready(self) -> Cursor:
        """The cursor, made from the store if need be. Raises KafkaError."""
        ...

    def may_serve(self, consumer: str, /) -> bool:
        """Whether there may be something for a consumer, as far as the cursor knows that is there."""
        ...

    @property
    def asks_disk(self) -> bool:
        """Whether a fetch waits for a disk; when it is over it has those served that wait."""
        ...


At = TypeVar("At", bound=Serving)
AtWoken = TypeVar("AtWoken", contravariant=True)


class Waiter(Protocol[AtWoken]):
    """A consumer's parked request."""

    consumer: str

    def wake(self, at: AtWoken, /) -> None:
        """There may be something for this consumer, or an error: fetch, before this returns. It is not parked here
        any more.
        """


class Parked(Generic[At]):
    """The requests that are parked at one cursor."""

    __slots__ = ("_at", "_loop", "_soon", "_waiters")

    def __init__(self, at: At, loop: asyncio.AbstractEventLoop) -> None:
        self._at = at
        self._loop = loop
        # those that wait longest first
        self._waiters: dict[Waiter[At], None] = {}
        self._soon = False

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: Waiter[At]) -> None:
        """Have `waiter.wake` called when there is something for its consumer."""
        self._waiters[waiter] = None

    def discard(self, waiter: Waiter[At]) -> None:
        self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """The cursor is gone, or cannot be had: each finds that out, or what has taken its place."""
        for waiter in list(self._waiters):
            self._wake(waiter)

    def serve(self) -> None:
        """Wake who waits, first come first served, as long as there is something for them."""
        if not self._waiters:
            return
        at = self._at
        try:
            cursor = at.ready()
        except KafkaError:
            self.wake_all()
            return
        for waiter in list(self._waiters):
            if waiter in self._waiters and at.may_serve(waiter.consumer):
                self._wake(waiter)
                if at.cursor is not cursor or at.asks_disk:
                    # It is being read for one of them; when that is over, there is another look.
                    return

    def serve_soon(self) -> None:
        """`serve` when the loop comes round."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._serve_now)

    def _serve_now(self) -> None:
        self._soon = False
        self.serve()

    def _wake(self, waiter: Waiter[At]) -> None:
        self._waiters.pop(waiter, None)
        try:
            waiter.wake(self._at)
        except Exception:
            # one that breaks must not keep the others waiting
            log.exception("a waiter failed", extra={"group": self._at.subscription.group})
