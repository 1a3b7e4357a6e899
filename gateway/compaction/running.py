"""The gateway's end of the process that compacts: it is begun for a pass, asked, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Protocol

from gateway.compaction import messages
from gateway.compaction.messages import LENGTH, Emptied, Failed, Finished, Given, Need, Work, Written
from store.rewriting import Place, Rewritten

_ROOT = Path(__file__).resolve().parents[2]
_MOST = 1 << 30


class PassFailed(Exception):
    """The process could not do it, or is gone. The text is for a person."""


class Receiver(Protocol):
    """Who has the log."""

    async def reserve(self, base_offset: int) -> Place:
        """A file for a segment that begins there."""

    async def swap(self, old: tuple[tuple[int, int], ...], new: Rewritten | None) -> None:
        """It is written, or nothing is left: put that into the place of the old ones. Raises to end the pass."""

    def unreserve(self, place: Place) -> None:
        """The file is not needed."""


async def run(work: Work, receiver: Receiver) -> Finished:
    """One pass in a process of its own. Raises PassFailed, and what the receiver raises. The process has ended then."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_paths())}
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.compaction.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            # a signal for the gateway's terminal is not for it
            start_new_session=True,
        )
    except OSError as error:
        raise PassFailed(f"The process for compaction could not be begun: {error.strerror}.") from error
    place: Place | None = None
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(messages.framed(work))
        while True:
            message = messages.from_child.decode(await _next(process.stdout))
            match message:
                case Need(base):
                    place = await receiver.reserve(base)
                    process.stdin.write(messages.framed(Given(*place)))
                case Written():
                    assert place is not None
                    written, place = place, None
                    if message.same:
                        receiver.unreserve(written)
                    else:
                        await receiver.swap(tuple(message.old), message.rewritten(written))
                case Emptied(old):
                    await receiver.swap(tuple(old), None)
                case Finished():
                    return message
                case Failed(text):
                    raise PassFailed(text)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise PassFailed(f"The process for compaction has ended ({await _last_words(process)}).") from error
    finally:
        if place is not None:
            receiver.unreserve(place)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # nobody is to read or write segments for a pass that is over
        await asyncio.shield(process.wait())


def _paths() -> list[str]:
    """Where it finds what this process has."""
    known = os.environ.get("PYTHONPATH", "")
    return [str(_ROOT), *known.split(os.pathsep)] if known else [str(_ROOT)]


async def _next(stream: asyncio.StreamReader) -> bytes:
    size = LENGTH.unpack(await stream.readexactly(LENGTH.size))[0]
    if size > _MOST:
        raise PassFailed("The process for compaction says what makes no sense.")
    return await stream.readexactly(size)


async def _last_words(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    code = await process.wait()
    if said:
        return said[-1]
    return f"signal {-code}" if code < 0 else f"code {code}"
