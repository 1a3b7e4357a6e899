"""One scrape of /metrics: everything as text, made in slices, shared by whoever asks within a second."""

from __future__ import annotations

import asyncio

from gateway.admin import disk, exporters, families, process
from gateway.admin.context import Context
from gateway.admin.slices import turn
from gateway.admin.text import Lines, Piece

FRESH_SECONDS = 1.0
"""How long a scrape's text serves again: several Prometheus servers scrape one gateway at once."""


class Scrape:
    """The newest text, and the one that is being made."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._text: list[Piece] | None = None
        self._making: asyncio.Task[list[Piece]] | None = None

    async def text(self) -> list[Piece]:
        """The metrics in text format 0.0.4, at most FRESH_SECONDS old."""
        if self._text is not None:
            return self._text
        if self._making is None:
            self._making = self._context.broker.loop.create_task(self._make())
            self._making.add_done_callback(self._made)
        # shielded: a scraper that hangs up must not take the text from the others
        return await asyncio.shield(self._making)

    async def _make(self) -> list[Piece]:
        context, broker = self._context, self._context.broker
        text = Lines()
        for count, line in enumerate(broker.metrics.lines(), 1):
            text.add(line)
            if count % families.PAUSE_LINES == 0:
                await turn()
        for line in process.lines(broker.version, broker.started_at, broker.clock.wall_ms()):
            text.add(line)
        for line in disk.lines(broker.settings.text("data")):
            text.add(line)
        return [*text.pieces(), *await exporters.pieces(context)]

    def _made(self, task: asyncio.Task[list[Piece]]) -> None:
        self._making = None
        if FRESH_SECONDS and not task.cancelled() and task.exception() is None:
            self._text = task.result()
            # nobody needs it afterwards, and it may be large
            self._context.broker.loop.call_later(FRESH_SECONDS, self._forget)

    def _forget(self) -> None:
        self._text = None
