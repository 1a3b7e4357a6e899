"""A client that says byte for byte what it sends, and when."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple


class Raw(NamedTuple):
    """An answer as it came, but for its date."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head[9:12])


class RawClient:
    """One connection. `await RawClient.to(server)` opens it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: str) -> RawClient:
        host, port = address.split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def send(self, *pieces: bytes) -> None:
        """Each piece is read by the server before the next one leaves."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            # both ends are on this loop: a few turns of it, and what was sent has been read
            for _ in range(20):
                await asyncio.sleep(0)

    async def answer(self, *, body: bool = True) -> Raw:
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"Content-Length: (\d+)", head)
        found = await self._reader.readexactly(int(size[1])) if size is not None and body else b""
        return Raw(re.sub(rb"Date: [A-Za-z0-9:, ]+ GMT", b"Date: -", head), found)

    async def ask(self, *pieces: bytes) -> Raw:
        await self.send(*pieces)
        return await self.answer()

    async def ended(self) -> bool:
        """Whether the server has closed the connection, and said no more."""
        return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    """Bytes of a request of HTTP/1.1."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
