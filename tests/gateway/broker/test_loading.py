"""Whoever meets something that is not loaded waits for it, and asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.loading import (
    TRIES,
    Loading,
    after,
    all_loaded,
    check_loaded,
    load,
    promised,
    until_loaded,
    when_loaded,
)
from gateway.wire.errors import Error
from store import memory
from store.api import Scope, StoreError, of_group, of_partition


class LateStore(memory.MemoryStore):
    """Loads what the test lets it."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, 1)
        self.loads: dict[Scope, asyncio.Future[None]] = {}

    def load(self, scope: Scope) -> Awaitable[None] | None:
        found = self.loads.setdefault(scope, asyncio.get_running_loop().create_future())
        return None if found.done() and found.exception() is None else found


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_each_kind_of_scope_is_told_apart() -> None:
    async def main() -> None:
        store = LateStore()
        for scope, code in (
            (of_partition(7), Error.NOT_LEADER_OR_FOLLOWER),
            (of_group("g"), Error.COORDINATOR_LOAD_IN_PROGRESS),
        ):
            with pytest.raises(Loading) as loading:
                check_loaded(store, scope)
            assert loading.value.code == code
            store.loads[scope].set_result(None)
            check_loaded(store, scope)

    asyncio.run(main())


def test_one_that_cannot_be_loaded_is_refused_to_who_waits_and_hinders_no_other() -> None:
    async def main() -> None:
        store = LateStore()
        waits = load(store, [of_partition(1), of_partition(2)])
        assert waits is not None
        bad, good = store.loads[of_partition(1)], store.loads[of_partition(2)]
        with pytest.raises(Loading) as loading:
            check_loaded(store, of_partition(1))
        both = asyncio.ensure_future(waits)
        bad.set_exception(StoreError("the disk is away"))
        good.set_result(None)
        await both
        with pytest.raises(KafkaError, match="the disk is away"):
            await loading.value.wait()
        await all_loaded([loading.value])
        assert load(store, [of_partition(2)]) is None

    asyncio.run(main())


def test_what_is_asked_again_is_asked_from_the_start_and_not_for_ever() -> None:
    async def main() -> None:
        store = LateStore()
        asked = 0

        def ask() -> str:
            nonlocal asked
            asked += 1
            check_loaded(store, of_partition(1))
            return "found"

        waits = when_loaded(ask)
        assert isinstance(waits, Awaitable)
        answer = asyncio.ensure_future(waits)
        await settled()
        store.loads[of_partition(1)].set_result(None)
        assert (await answer, asked) == ("found", 2)
        assert when_loaded(ask) == "found"

        def lost() -> str:
            nonlocal asked
            asked += 1
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            raise Loading(of_partition(1), done)

        asked = 0
        with pytest.raises(Loading):
            await until_loaded(lost)
        assert asked == TRIES + 1

    asyncio.run(main())


def test_a_promised_answer_is_told_whatever_becomes_of_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[None] = loop.create_future()

        def breaks() -> str:
            raise RuntimeError("a bug")

        good, _ = promised(loop, loaded, lambda: "found")
        bad, _ = promised(loop, loaded, breaks)
        told: list[object] = []
        good.then(told.append)
        await settled()
        assert told == []
        loaded.set_result(None)
        await settled()
        assert told == ["found"]
        with pytest.raises(RuntimeError, match="a bug"):
            await bad

    asyncio.run(main())


def test_after_nothing_there_is_no_wait() -> None:
    assert after(None, lambda: 7) == 7
