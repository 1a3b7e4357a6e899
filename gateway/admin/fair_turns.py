"""A lock whose turns go round by owner: one that asks for much at once keeps nobody else waiting for all of that."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from gateway.audit import owner_of
from semantics.turns import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

    from gateway.admin.exchange import Call


class FairLock:
    """Held by one at a time."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: Turns[asyncio.Future[None]] = Turns()

    @contextlib.asynccontextmanager
    async def of(self, call: Call) -> AsyncIterator[None]:
        """Hold it for a call, whose owner is the tenant of who asks, or who asks."""
        await self._acquire(owner_of(call.asker.principal))
        try:
            yield
        finally:
            self._pass_on()

    async def _acquire(self, owner: Hashable) -> None:
        if not self._held:
            # nobody waits for what nobody holds
            self._held = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(owner, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # it was just told that it holds it
                self._pass_on()
            else:
                self._waiting.remove(owner, turn)
            raise

    def _pass_on(self) -> None:
        while (turn := self._waiting.next()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False
