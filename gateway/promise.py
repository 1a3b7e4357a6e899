"""A value that somebody else brings: a commit, whoever appends, a timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar, cast

from store.pending import Pending

T = TypeVar("T")


class Promise(Generic[T]):
    """A value that somebody else brings. One waits for it.

    Who waits is called in the very call that brings the value, and not in a later turn of the loop as with a future:
    the answers that one commit allows leave together. Who would rather `await` may.
    """

    __slots__ = ("_then", "_told", "_value")

    def __init__(self) -> None:
        self._then: Callable[[Pending[T]], None] | None = None
        self._told = False
        self._value: Pending[T] | None = None

    def tell(self, value: Pending[T]) -> None:
        """Here it is, or what it is to be awaited from. Told once."""
        assert not self._told, "told twice"
        self._told = True
        then, self._then = self._then, None
        self._value = value
        if then is not None:
            then(value)

    def then(self, call: Callable[[Pending[T]], None]) -> None:
        """Have it called with what is told; at once if it was told before."""
        assert self._then is None, "one waits"
        if self._told:
            call(cast("Pending[T]", self._value))
        else:
            self._then = call

    def now(self) -> Pending[T]:
        """The value if it was told, and else this promise."""
        return cast("Pending[T]", self._value) if self._told else self

    def __await__(self) -> Generator[Any, Any, T]:
        future: asyncio.Future[Pending[T]] = asyncio.get_running_loop().create_future()

        def told(value: Pending[T]) -> None:
            # who waited may have been cancelled
            if not future.done():
                future.set_result(value)

        self.then(told)
        found = yield from future
        if isinstance(found, Awaitable):
            found = yield from found.__await__()
        return found
