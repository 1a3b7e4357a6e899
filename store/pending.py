"""Values that are there at once, or to be awaited, and the one driver of work that waits for some of them."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Pending: TypeAlias = T | Awaitable[T]
"""A value, or an awaitable that gives it: the return type of all that may have to wait for a disk, a commit or a
client.

What is there at once costs no turn of the loop. The value itself is never awaitable.
"""

Asking: TypeAlias = Generator[Awaitable[Any], Any, T]
"""Work that yields whatever it must wait for, and is sent what came of that, or thrown what went wrong."""


def drive(work: Asking[T]) -> Pending[T]:
    """Run it as far as it need not wait; the rest is the awaitable's. Raises what it raises."""
    try:
        waits = next(work)
    except StopIteration as end:
        found: T = end.value
        return found
    return _go_on(work, waits)


async def _go_on(work: Asking[T], waits: Awaitable[Any]) -> T:
    try:
        while True:
            try:
                data = await waits
            except BaseException as error:
                waits = work.throw(error)
            else:
                waits = work.send(data)
    except StopIteration as end:
        found: T = end.value
        return found
