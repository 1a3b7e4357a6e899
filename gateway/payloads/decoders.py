"""The gateway's side of the process that decodes: it is started when somebody asks, and ends when nobody does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import struct
import sys

import msgspec

from gateway.payloads.frames import ANSWER_S, LARGEST, Answer, Question

log = logging.getLogger("magnetar.payloads")

WAIT_S = 30.0
"""Until it is up, and until it answers. It ends itself when it works for too long, but may wait for a processor."""
IDLE_S = 60.0
"""Without a question, until it is ended."""
_KINDS = frozenset(("AVRO", "PROTOBUF"))


class Decoders:
    """Of one gateway: one process, and one question at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Answer).decode

    async def decode(self, question: Question) -> Answer:
        """What these bytes say. Never longer than it may take; whatever goes wrong is in the answer."""
        said = self._encode(question)
        if question.kind not in _KINDS or len(said) > LARGEST:
            return Answer(why_not="it is not decoded here")
        async with self._lock:
            try:
                process = await self._started()
                async with asyncio.timeout(WAIT_S):
                    return await self._ask(process, said)
            except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError, TimeoutError) as error:
                return await self._failed(error)
            except BaseException:
                # the answer to this must not be taken for that to the next question
                self.close()
                raise

    async def _failed(self, error: Exception) -> Answer:
        """It has ended, or is ended."""
        ended = self._process if isinstance(error, asyncio.IncompleteReadError | ConnectionError) else None
        code = await ended.wait() if ended is not None else 0
        self.close()
        if code == -signal.SIGPROF or isinstance(error, TimeoutError):
            return Answer(why_not="it takes too long", spent=ANSWER_S)
        return Answer(why_not="its decoder failed: these bytes or the schema make no sense", spent=ANSWER_S)

    async def _ask(self, process: asyncio.subprocess.Process, said: bytes) -> Answer:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(struct.pack(">I", len(said)) + said)
        await process.stdin.drain()
        (size,) = struct.unpack(">I", await process.stdout.readexactly(4))
        if size > LARGEST:
            raise OSError("it says too much")
        return self._decode(await process.stdout.readexactly(size))

    async def _started(self) -> asyncio.subprocess.Process:
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(IDLE_S, self.close)
        if self._process is not None and self._process.returncode is None:
            return self._process
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway.payloads.worker",
            stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            await process.stdout.readexactly(1)
        return process

    def close(self) -> None:
        """End the process, if there is one."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
