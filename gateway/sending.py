"""Large answers are read and sent by threads: two of them do on two cores what the loop would do on one.

A megabyte costs 0.1 ms to copy out of the page cache and 0.16 ms to copy into a socket. Both happen in system calls,
for which Python lets other threads run: meanwhile the loop serves others. Its own share, decoding a request and finding
the bytes, is a fifth of the whole. Kafka has network threads for the same reason.

A thread never waits, neither for a disk nor for a client: what the page cache has let go of is the loop's affair again
(`missed`), and so is what the client does not take at once (`left`), which the transport then bounds as all answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from store.api import Buffer, Piece, Stored

log = logging.getLogger("magnetar.sending")

THREADS = 2
_SCRATCH = 1024 * 1024 + 64 * 1024
"""Bytes that a thread keeps to read into; more is taken from the heap and given back."""
_IOV = min(1024, os.sysconf("SC_IOV_MAX"))


class Sending:
    """One answer on its way. `ended` is set last: what a thread found out may be read then."""

    __slots__ = ("_descriptor", "_finish", "_pieces", "ended", "failed", "left", "missed")

    def __init__(self, descriptor: int, pieces: Sequence[Piece], finish: Callable[[Sending], None]) -> None:
        """`descriptor` is of the socket, and is closed here. `finish` is called once, in the loop."""
        self._descriptor = descriptor
        self._pieces = pieces
        self._finish: Callable[[Sending], None] | None = finish
        self.ended = False
        self.missed = False
        """the page cache has let go of some of it: nothing was sent"""
        self.left: bytes = b""
        """what the socket did not take"""
        self.failed = False
        """the connection is gone, or of no use any more"""

    def run(self, scratch: memoryview) -> None:
        """In a thread."""
        try:
            found = _in_memory(self._pieces, scratch)
            if found is None:
                self.missed = True
            else:
                self.left = _send(self._descriptor, found)
        except OSError:
            # the client went away, which the transport will learn too
            self.failed = True
        except Exception:
            log.exception("an answer failed")
            self.failed = True
        finally:
            release(self._pieces)
            os.close(self._descriptor)
            self.ended = True

    def finish(self) -> None:
        """In the loop, once it has ended; the second time nothing happens."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(self)


class Senders:
    """The threads, which begin with the first large answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: SimpleQueue[Sending | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopped = False

    def send(
        self, descriptor: int, pieces: Sequence[Piece], finish: Callable[[Sending], None]
    ) -> Sending | None:
        """Send these by the socket with this descriptor, on which nothing else may be written until `finish` is called.
        None when that cannot be now, and the caller sends them.
        """
        if self._stopped:
            return None
        if len(self._threads) < THREADS and not self._start() and not self._threads:
            return None
        try:
            own = os.dup(descriptor)  # whoever closes the other meanwhile does not make it another file's
        except OSError:
            return None
        sending = Sending(own, pieces, finish)
        self._queue.put(sending)
        return sending

    def _start(self) -> bool:
        """One thread more, if the system allows it."""
        thread = threading.Thread(target=self._run, name=f"send-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads.append(thread)
        return True

    def _run(self) -> None:
        scratch = memoryview(bytearray(_SCRATCH))
        while (sending := self._queue.get()) is not None:
            sending.run(scratch)
            try:
                self._loop.call_soon_threadsafe(sending.finish)
            except RuntimeError:
                return  # the loop is closed

    def stop(self) -> None:
        """Let what is on its way leave, and end the threads."""
        self._stopped = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()


def in_memory(pieces: Sequence[Piece]) -> list[Buffer] | None:
    """The same bytes, read here; None when the page cache has let go of some."""
    try:
        return _in_memory(pieces, memoryview(b""))
    finally:
        release(pieces)


def release(pieces: Sequence[Piece]) -> None:
    """What was lent is not needed any more."""
    for piece in pieces:
        if isinstance(piece, Stored):
            piece.release()


def _in_memory(pieces: Sequence[Piece], scratch: memoryview) -> list[Buffer] | None:
    """`_read`, and None where a disk failed: who reads again tells."""
    try:
        return _read(pieces, scratch)
    except OSError:
        return None


def _read(pieces: Sequence[Piece], scratch: memoryview) -> list[Buffer] | None:
    """What is stored goes into `scratch` while there is room."""
    found: list[Buffer] = []
    at = 0
    for piece in pieces:
        if not isinstance(piece, Stored):
            found.append(piece)
            continue
        size = len(piece)
        if at + size <= len(scratch):
            into = scratch[at : at + size]
            at += size
        else:
            into = memoryview(bytearray(size))
        if not piece.read_into(into):
            return None
        found.append(into)
    return found


def _send(descriptor: int, found: list[Buffer]) -> bytes:
    """As much as the socket takes; the rest."""
    # of nothing but empty ones the system would take nothing, for ever
    found = [each for each in found if len(each)]
    at = 0
    while at < len(found):
        try:
            sent = os.writev(descriptor, found[at : at + _IOV])
        except BlockingIOError:
            break
        while sent:
            size = len(found[at])
            if sent < size:
                found[at] = memoryview(found[at])[sent:]
                break
            sent -= size
            at += 1
    return b"".join(found[at:])
