"""Work that waits now and then: driven at once as far as it goes, and to its end by whoever awaits the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from store.pending import Asking, drive


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def broken() -> int:
    await asyncio.sleep(0)
    raise OSError("gone")


def total(*parts: int | Awaitable[int]) -> Asking[int]:
    found = 0
    for part in parts:
        found += part if isinstance(part, int) else (yield part)
    return found


def test_what_never_waits_is_there_at_once() -> None:
    assert drive(total(1, 2)) == 3


def test_the_rest_is_awaited_from_the_first_wait_on() -> None:
    begun: list[str] = []

    def work() -> Asking[int]:
        begun.append("at once")
        found: int = yield later(2)
        begun.append("later")
        return (yield from total(found, later(3), 4))

    async def main() -> None:
        found = drive(work())
        assert isinstance(found, Awaitable)
        assert begun == ["at once"]
        assert await found == 9
        assert begun == ["at once", "later"]

    asyncio.run(main())


def test_what_goes_wrong_is_thrown_where_it_was_waited_for() -> None:
    def careful() -> Asking[int]:
        try:
            found: int = yield broken()
        except OSError:
            found = yield later(7)
        return found

    async def main() -> None:
        found = drive(careful())
        assert isinstance(found, Awaitable)
        assert await found == 7
        careless = drive(total(broken()))
        assert isinstance(careless, Awaitable)
        with pytest.raises(OSError, match="gone"):
            await careless

    asyncio.run(main())


def test_who_is_cancelled_gives_back_what_it_has() -> None:
    given_back: list[bool] = []

    def holding() -> Asking[int]:
        try:
            return (yield from total(asyncio.get_running_loop().create_future()))
        except BaseException:
            given_back.append(True)
            raise

    async def main() -> None:
        found = drive(holding())
        assert isinstance(found, Awaitable)
        task = asyncio.ensure_future(found)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert given_back == [True]

    asyncio.run(main())


def test_what_it_raises_before_it_waits_is_raised_at_once() -> None:
    def wrong() -> Asking[int]:
        if given:
            raise ValueError("wrong")
        return (yield from total(later(1)))

    given = True
    with pytest.raises(ValueError, match="wrong"):
        drive(wrong())
