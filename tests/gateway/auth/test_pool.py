"""Logins that take long are done in threads, and only so many wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.auth.errors import BusyError
from gateway.auth.pool import Pool


async def busy(pool: Pool) -> bool:
    """Whether one more is put off, and does not wait."""
    login = asyncio.ensure_future(pool.run(lambda: 1))
    await asyncio.sleep(0)
    return login.done() and isinstance(login.exception(), BusyError)


def test_beyond_so_many_a_login_is_put_off_at_once() -> None:
    async def main() -> None:
        pool, go = Pool(threads=1, waiting=2), threading.Event()
        try:
            waiting = [asyncio.ensure_future(pool.run(go.wait)) for _ in range(2)]
            await asyncio.sleep(0)
            assert await busy(pool)
            # who has gone away has left its work behind
            waiting[0].cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert await busy(pool)
            go.set()
            assert await waiting[1]
            assert await pool.run(lambda: 7) == 7
        finally:
            go.set()
            pool.close()

    asyncio.run(main())


def test_what_the_work_raises_is_raised_and_makes_room() -> None:
    async def main() -> None:
        pool = Pool(threads=1, waiting=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run(lambda: 1 // 0)
        pool.close()

    asyncio.run(main())
