"""One scrape of /metrics: everything as text, made in slices, shared by whoever asks within a second."""

from __future__ import annotations

import asyncio

from gateway.admin import exporters, process
from gateway.admin.context import Context

FRESH_SECONDS = 1.0
"""How long a scrape's text serves again: several Prometheus servers scrape one gateway at once."""


class Scrape:
    """The newest text, and the one that is being made."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._text = b""
        self._made_at = float("-inf")
        self._making: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The metrics in text format 0.0.4, at most FRESH_SECONDS old."""
        loop = self._context.broker.loop
        if loop.time() - self._made_at < FRESH_SECONDS:
            return self._text
        if self._making is None:
            self._making = loop.create_task(self._make())
            self._making.add_done_callback(self._made)
        # shielded: a scraper that hangs up must not take the text from the others
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        context, broker = self._context, self._context.broker
        lines: list[str] = []
        for line in broker.metrics.lines():
            lines.append(line)
            if len(lines) % exporters.PAUSE_LINES == 0:
                await asyncio.sleep(0)
        lines.extend(process.lines(broker.version, broker.started_at, broker.clock.wall_ms()))
        lines.extend(await exporters.lines(context))
        chunks: list[bytes] = []
        for start in range(0, len(lines), exporters.PAUSE_LINES):
            chunks.append(("\n".join(lines[start : start + exporters.PAUSE_LINES]) + "\n").encode())
            await asyncio.sleep(0)
        return b"".join(chunks)

    def _made(self, task: asyncio.Task[bytes]) -> None:
        self._making = None
        if not task.cancelled() and task.exception() is None:
            self._text = task.result()
            self._made_at = self._context.broker.loop.time()
