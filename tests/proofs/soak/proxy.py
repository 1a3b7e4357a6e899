"""A proxy that holds an EndTxn or a Produce back until its client has gone on over another connection (KAFKA-17754).

It stands before a listener of the gateway that advertises it, and cuts what clients send into frames. Now and then it
keeps one: the client hears nothing until it gives the connection up, or loses it at once. Some frames later, which it
sends on newer connections, the gateway is given the late one, on the connection that it was sent on. Nobody reads the
answer. Connections keep their order: each has one to the gateway, made when it was accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections import Counter
from typing import NamedTuple, Self

HELD = {0: "Produce", 26: "EndTxn"}
"""What is held back, by the keys of the APIs."""
PATIENCE = 20.0
"""Seconds after which a held frame is passed on all the same: its client may be gone."""
LISTENING = 2.0
"""Seconds that the answer to a late frame may take."""


class Frame(NamedTuple):
    """A request as it came, with the four bytes of its size."""

    data: bytes
    key: int
    client: bytes


def parse(data: bytes) -> Frame:
    """`data`: size, key (int16), version (int16), correlation id (int32), client id (a string of int16 size), ..."""
    key, _, _, size = struct.unpack_from(">hhih", data, 4)
    return Frame(data, key, data[14 : 14 + max(size, 0)])


class _Held:
    """A frame that is kept: until so many others came on newer connections."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.due = asyncio.Event()


class Proxy:
    """A thread with a loop of its own. `with Proxy(port): ...`; it listens on `port` of 127.0.0.1."""

    def __init__(self, upstream: int, seed: str, often: float = 0.03, cut: float = 0.8) -> None:
        """`upstream`: the gateway's port. `often`: of the frames that may be held, so many are. `cut`: of these, so
        many cost their client the connection at once.
        """
        self.port = 0
        self.often, self.cut = often, cut
        self.held: Counter[str] = Counter()
        """How many were held back and given to the gateway late, by API."""
        self._upstream = upstream
        self._chance = random.Random(seed)
        # client -> the number of its connection that has a frame held, with that frame
        self._waiting: dict[bytes, tuple[int, _Held]] = {}
        self._passages = 0
        self._up = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="soak-proxy", daemon=True
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Listen; `port` is known then."""
        self._thread.start()
        self._up.wait()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def holds(self, client: bytes) -> bool:
        """Whether a request of this client is held back now."""
        return client in self._waiting

    def close(self) -> None:
        """Connections end, what is held is gone."""
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        passages: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._passages += 1
            task = asyncio.ensure_future(self._passage(self._passages, reader, writer))
            passages.add(task)
            task.add_done_callback(passages.discard)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        await self._over.wait()
        server.close()
        for task in passages:
            task.cancel()
        await asyncio.gather(*passages, return_exceptions=True)

    async def _passage(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, to its end."""
        try:
            its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        answers = asyncio.ensure_future(_pump(its_reader, writer))
        requests = asyncio.ensure_future(self._requests(number, reader, writer, its_writer))
        try:
            await asyncio.wait((answers, requests), return_when=asyncio.FIRST_COMPLETED)
            if requests.done() and not requests.cancelled() and requests.exception() is None:
                # a late one was given: let the gateway answer it
                await asyncio.wait((answers,), timeout=LISTENING if requests.result() else 0)
        finally:
            answers.cancel()
            requests.cancel()
            await asyncio.gather(answers, requests, return_exceptions=True)
            for each in (writer, its_writer):
                each.transport.abort()

    async def _requests(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        its_writer: asyncio.StreamWriter,
    ) -> bool:
        """Frame by frame to the gateway, until the client ends; True if the last one was late."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readexactly(4)
                frame = parse(head + await reader.readexactly(int.from_bytes(head, "big")))
                waiting = self._waiting.get(frame.client)
                if waiting is not None and waiting[0] < number:
                    waiting[1].left -= 1
                    if waiting[1].left <= 0:
                        waiting[1].due.set()
                if frame.key in HELD and waiting is None and self._chance.random() < self.often:
                    await self._hold(number, frame, writer)
                    its_writer.write(frame.data)
                    await its_writer.drain()
                    self.held[HELD[frame.key]] += 1
                    return True
                its_writer.write(frame.data)
                await its_writer.drain()
        return False

    async def _hold(self, number: int, frame: Frame, writer: asyncio.StreamWriter) -> None:
        """Until it is late. Nothing that is sent behind it on its connection is read."""
        held = _Held(self._chance.randint(1, 8))
        self._waiting[frame.client] = number, held
        if self._chance.random() < self.cut:
            # else the client finds out by itself that nothing comes
            writer.transport.abort()
        try:
            await asyncio.wait_for(held.due.wait(), PATIENCE)
        except TimeoutError:
            pass
        finally:
            del self._waiting[frame.client]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers, as they come; those for a client that is gone are dropped."""
    while data := await reader.read(1 << 16):
        if not writer.transport.is_closing():
            writer.write(data)
            with contextlib.suppress(OSError):
                await writer.drain()
