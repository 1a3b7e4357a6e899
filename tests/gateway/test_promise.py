"""A promise: told once, in the call that brings it, to the one who waits, before or after."""

from __future__ import annotations

import asyncio

import pytest

from gateway.promise import Promise


async def five() -> int:
    await asyncio.sleep(0)
    return 5


def test_who_waits_is_called_by_who_tells() -> None:
    told: list[object] = []
    promise: Promise[int] = Promise()
    promise.then(told.append)
    assert told == []
    promise.tell(5)
    assert told == [5], "before tell returns"


def test_who_comes_late_is_called_at_once() -> None:
    told: list[object] = []
    promise: Promise[int] = Promise()
    promise.tell(5)
    promise.then(told.append)
    assert told == [5]


def test_who_hands_it_on_gives_the_value_once_it_is_there() -> None:
    promise: Promise[int] = Promise()
    assert promise.now() is promise
    promise.tell(5)
    assert [promise.now(), promise.now()] == [5, 5]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_it_can_be_awaited_and_so_can_what_it_was_told(early: bool, at_once: bool) -> None:
    async def main() -> None:
        promise: Promise[int] = Promise()

        def tell() -> None:
            promise.tell(5 if at_once else five())

        if early:
            tell()
        else:
            asyncio.get_running_loop().call_soon(tell)
        assert await promise == 5

    asyncio.run(main())


def test_who_was_cancelled_harms_nobody_who_tells() -> None:
    async def main() -> None:
        promise: Promise[int] = Promise()

        async def wait() -> int:
            return await promise

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        promise.tell(5)

    asyncio.run(main())


def test_it_is_told_once() -> None:
    promise: Promise[int] = Promise()
    promise.tell(5)
    with pytest.raises(AssertionError, match="twice"):
        promise.tell(6)
