"""Makes `corpus.bin` anew: a proxy between the client programs and a gateway writes down what they send.

The programs of compat/clients run all their cases through it, on a gateway of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
import threading
from pathlib import Path

from compat.harness import catalogue
from compat.harness.run import run
from compat.peers.magnetar import MagnetarPeer
from tests.proofs.fuzz import corpus


class Tap:
    """A TCP proxy in a thread of its own: what goes to the gateway is cut into frames and kept."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self.frames: list[bytes] = []
        self.seen = 0
        self._known: set[bytes] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def open_port() -> None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()

        self._loop.create_task(open_port())
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._pump(reader, up_writer, bytearray()),
            self._pump(up_reader, writer, None),
            return_exceptions=True,
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None
    ) -> None:
        try:
            while data := await reader.read(1 << 18):
                writer.write(data)
                if kept is not None:
                    kept += data
                    self._cut(kept)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _cut(self, kept: bytearray) -> None:
        position = 0
        while len(kept) - position >= 4:
            (size,) = struct.unpack_from(">i", kept, position)
            if len(kept) - position < 4 + size:
                break
            self.seen += 1
            # large Produce requests tell nothing that small ones do not
            if size <= 4096:
                frame = bytes(kept[position + 4 : position + 4 + size])
                if frame[:4] + frame[8:] not in self._known:
                    self._known.add(frame[:4] + frame[8:])
                    self.frames.append(frame)
            position += 4 + size
        del kept[:position]


def main() -> int:
    programs = catalogue.chosen([])
    with tempfile.TemporaryDirectory() as folder:
        # clients must come back to the tap, whose port is known only when the gateway listens
        gateway = MagnetarPeer(directory=Path(folder))
        gateway.start()
        tap = Tap(gateway.bootstrap)
        gateway.flags += ["--set", f"advertised.listeners=PLAINTEXT://127.0.0.1:{tap.port}"]
        gateway.restart()

        def restart() -> None:
            gateway.restart()

        with contextlib.ExitStack() as stack:
            stack.callback(gateway.close)
            results = run(f"127.0.0.1:{tap.port}", programs, restart=restart)
    failed = [outcome for outcome in results.outcomes.values() if not outcome.ok and not outcome.refused]
    frames = corpus.distinct(tap.frames)
    size = corpus.save(frames)
    while size > corpus.MAX_BYTES:
        frames = [frame for number, frame in enumerate(frames) if number % 5]
        size = corpus.save(frames)
    print(f"{len(results.versions)} clients ran {len(results.outcomes)} cases ({len(failed)} failed)")
    print(
        f"{tap.seen:,} requests seen, {len(tap.frames):,} kept apart, {len(frames):,} in {corpus.FILE.name}"
    )
    print(f"{size:,} bytes")
    return 0
