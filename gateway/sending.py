"""Large answers are read and sent by threads: two of them do on two cores what the loop would do on one.

A megabyte costs 0.1 ms to copy out of the page cache and 0.16 ms to copy into a socket. Both happen in system calls,
for which Python lets other threads run: meanwhile the loop serves others. Its own share, decoding a request and finding
the bytes, is a fifth of the whole. Kafka has network threads for the same reason.

The loop is not woken for an answer that left whole: its client's next request does that, or a look at all of them some
milliseconds later.

These threads never wait for a disk. What the page cache has let go of is read by others, which may; they go on with
what the first had read, if there is memory to keep it. Both check what came from the disk, so that a consumer far
behind costs the loop no more than one at the end. What cannot be vouched for is the loop's affair again (`missed`).

Sockets hold less than a large answer (`socket.send.buffer.bytes`): what lies in them then stays in the processor's
caches until the client copies it out, which saves a fifth of the CPU or more. So a thread waits for a client that is
quick (`pace.py`). What is left by others (`left`) is the transport's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter

from gateway.pace import Pace, Waits
from store.api import Buffer, Piece, Stored

log = logging.getLogger("magnetar.sending")

THREADS = 2
WAITING = 4
"""Threads that may wait for a disk."""
_SCRATCH = 1024 * 1024 + 64 * 1024
"""Bytes that a thread keeps to read into; more is taken from the heap and given back."""
_UNHEARD = 0.02
"""Seconds that an answer may have left before the loop learns of it, if nobody asks."""
_LEFT = 1024 * 1024
"""Bytes that are copied in one piece, while no other thread runs."""
_IOV = min(1024, os.sysconf("SC_IOV_MAX"))


class Sending:
    """One answer on its way. `ended` is set last: what a thread found out may be read then."""

    __slots__ = (
        "_descriptor",
        "_finish",
        "_into",
        "_pace",
        "_pieces",
        "ended",
        "failed",
        "left",
        "missed",
        "scratch",
        "wanted",
    )

    def __init__(
        self,
        descriptor: int,
        pieces: Sequence[Piece],
        finish: Callable[[Sending], None],
        pace: Pace,
    ) -> None:
        """`descriptor` is of the socket, and is closed here. `finish` is called once, in the loop."""
        self._descriptor = descriptor
        self._pieces = pieces
        self._finish: Callable[[Sending], None] | None = finish
        self._pace = pace
        # what was read into when it had to be run again, as long as it is there; whose memory that is
        self._into: list[memoryview] = []
        self.scratch: memoryview | None = None
        self.ended = 0.0
        """when it did (`perf_counter`), 0 before"""
        self.wanted = False
        """somebody in the loop waits for its end; set before `ended` is looked at"""
        self.missed = False
        """some of it could not be read, or is not right: nothing was sent"""
        self.left: list[bytes] = []
        """what the socket did not take, in pieces"""
        self.failed = False
        """the connection is gone, or of no use any more"""

    def run(self, scratch: memoryview, wait: bool) -> bool:
        """In a thread. False when it would have to wait for a disk, and may not: it is to be run again."""
        try:
            found = _in_memory(self._pieces, scratch, wait, self._into)
            if found is not None:
                self.left = _send(self._descriptor, found, self._pace)
            elif not wait:
                return False
            else:
                self.missed = True
        except OSError:
            # the client went away, which the transport will learn too
            self.failed = True
        except Exception:
            log.exception("an answer failed")
            self.failed = True
        self._end()
        return True

    def keep(self, scratch: memoryview) -> None:
        """What it has read so far stays in there until it is run again."""
        self.scratch = scratch

    def forget(self) -> None:
        """What it has read so far is overwritten."""
        self._into.clear()

    def give_up(self) -> None:
        """It is not sent any more. In a thread, in place of `run`."""
        self.failed = True
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            release(self._pieces)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self.ended = perf_counter()

    @property
    def urgent(self) -> bool:
        """Once it has ended: whether the loop must learn of it at once."""
        return self.wanted or self.missed or self.failed or bool(self.left)

    def finish(self) -> None:
        """In the loop, once it has ended; the second time nothing happens."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(self)


class Senders:
    """The threads, which begin with the first large answer that needs them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = _Threads("send", THREADS, self._send)
        self._waiting = _Threads("send-disk", WAITING, self._wait_and_send)
        self._stopped = False
        # memory for what was read before a disk had to be asked; None: not made yet
        self._spare: list[memoryview | None] = [None] * WAITING
        self.waits = Waits()
        # what the loop has not heard of yet, and when it looks which of these have ended
        self._unheard: dict[Sending, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def send(
        self,
        descriptor: int,
        pieces: Sequence[Piece],
        finish: Callable[[Sending], None],
        pace: Pace,
    ) -> Sending | None:
        """Send these by the socket with this descriptor, on which nothing else may be written until `finish` is called.
        `pace`: how their client took those before. None when that cannot be now, and the caller sends them.
        """
        if self._stopped or not self._ready.start():
            return None
        try:
            own = os.dup(descriptor)  # whoever closes the other meanwhile does not make it another file's
        except OSError:
            return None
        sending = Sending(own, pieces, finish, pace)
        self._unheard[sending] = None
        if self._timer is None:
            self._timer = self._loop.call_later(_UNHEARD, self._look)
        self._ready.queue.put(sending)
        return sending

    def want(self, sending: Sending) -> None:
        """Hear of it soon after it has ended."""
        sending.wanted = True
        if sending.ended:
            self._loop.call_soon(self.heard, sending)

    def heard(self, sending: Sending) -> None:
        """Tell who began it that it has ended, unless that was told."""
        self._unheard.pop(sending, None)
        sending.finish()

    def _look(self) -> None:
        """Hear of all that have ended, one after the other: what follows from one may take long."""
        self._timer = None
        for sending in self._unheard:
            if sending.ended:
                self._loop.call_soon(self.heard, sending)
        if self._unheard:
            self._timer = self._loop.call_later(_UNHEARD, self._look)

    def _send(self, sending: Sending, scratch: memoryview) -> memoryview:
        if sending.run(scratch, wait=False):
            self._finish(sending)
        elif not self._waiting.start():
            return self._wait_and_send(sending, scratch)
        else:
            try:
                spare = self._spare.pop() or memoryview(bytearray(_SCRATCH))
            except (IndexError, MemoryError):
                sending.forget()
            else:
                sending.keep(scratch)
                scratch = spare
            self._waiting.queue.put(sending)
        return scratch

    def _wait_and_send(self, sending: Sending, scratch: memoryview) -> memoryview:
        kept, sending.scratch = sending.scratch, None
        if self._stopped:
            # whoever stops waits for this thread
            sending.give_up()
        else:
            sending.run(scratch if kept is None else kept, wait=True)
        sending.forget()
        if kept is not None:
            self._spare.append(kept)
        self._finish(sending)
        return scratch

    def _finish(self, sending: Sending) -> None:
        if sending.urgent:
            # RuntimeError: the loop is closed
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.heard, sending)

    def stop(self) -> None:
        """Let what is on its way leave, but for what waits for a disk, and end the threads."""
        self._stopped = True
        # these first: they give work to the others
        self._ready.stop()
        self._waiting.stop()
        self._look()
        if self._timer is not None:
            self._timer.cancel()


class _Threads:
    """Some threads that take from one queue."""

    def __init__(self, name: str, most: int, run: Callable[[Sending, memoryview], memoryview]) -> None:
        """`run` is given memory to read into, and gives back what is to be read into next."""
        self.queue: SimpleQueue[Sending | None] = SimpleQueue()
        self._name = name
        self._most = most
        self._run = run
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> bool:
        """One thread more unless there are enough; whether there is any. In any thread."""
        if len(self._threads) < self._most:
            with self._lock:
                if len(self._threads) < self._most:
                    name = f"{self._name}-{len(self._threads)}"
                    # the system allows no more threads, or has no memory
                    with contextlib.suppress(RuntimeError, MemoryError):
                        scratch = memoryview(bytearray(_SCRATCH))
                        thread = threading.Thread(target=self._take, args=(scratch,), name=name, daemon=True)
                        thread.start()
                        self._threads.append(thread)
        return bool(self._threads)

    def _take(self, scratch: memoryview) -> None:
        while (sending := self.queue.get()) is not None:
            scratch = self._run(sending, scratch)

    def stop(self) -> None:
        for _ in self._threads:
            self.queue.put(None)
        for thread in self._threads:
            thread.join()


def in_memory(pieces: Sequence[Piece]) -> list[Buffer] | None:
    """The same bytes, read here without waiting; None when the page cache has let go of some, or they are to be
    checked.
    """
    try:
        if not all(piece.known for piece in pieces if isinstance(piece, Stored)):
            return None
        return _in_memory(pieces, memoryview(b""), False, [])
    finally:
        release(pieces)


def release(pieces: Sequence[Piece]) -> None:
    """What was lent is not needed any more."""
    for piece in pieces:
        if isinstance(piece, Stored):
            piece.release()


def _in_memory(
    pieces: Sequence[Piece], scratch: memoryview, wait: bool, into: list[memoryview]
) -> list[Buffer] | None:
    """`_read`, and None where a disk failed: who reads again tells."""
    try:
        return _read(pieces, scratch, wait, into)
    except OSError:
        return None


def _read(
    pieces: Sequence[Piece], scratch: memoryview, wait: bool, into: list[memoryview]
) -> list[Buffer] | None:
    """What is stored goes into `scratch` while there is room. `into`: where each went when they were read before, while
    that is as it was; where they went now.
    """
    found: list[Buffer] = []
    before, at = iter(into[:]), 0
    into.clear()
    for piece in pieces:
        if not isinstance(piece, Stored):
            found.append(piece)
            continue
        size = len(piece)
        buffer = next(before, None)
        if buffer is None:
            if at + size <= len(scratch):
                buffer = scratch[at : at + size]
            else:
                buffer = memoryview(bytearray(size))
        if buffer.obj is scratch.obj:
            at += size
        into.append(buffer)
        if not piece.read_into(buffer, wait=wait):
            return None
        found.append(buffer)
    return found


def _send(descriptor: int, found: list[Buffer], pace: Pace) -> list[bytes]:
    """As much as the client takes, as long as it is to be waited for; the rest."""
    # of nothing but empty ones the system would take nothing, for ever
    found = [each for each in found if len(each)]
    at = taken = 0
    waits = False
    while at < len(found):
        try:
            sent = os.writev(descriptor, found[at : at + _IOV])
        except BlockingIOError:
            now = perf_counter()
            if not waits:
                if not pace.begin(now):
                    break
                waits, taken = True, 0
            if not _writable(descriptor, pace.left(now, taken)):
                pace.kept(perf_counter())
                break
            continue
        taken += sent
        while sent:
            size = len(found[at])
            if sent < size:
                found[at] = memoryview(found[at])[sent:]
                break
            sent -= size
            at += 1
    else:
        if waits:
            pace.took()
    return [bytes(each[start : start + _LEFT]) for each in found[at:] for start in range(0, len(each), _LEFT)]


def _writable(descriptor: int, seconds: float) -> bool:
    """Wait so long until the socket takes more, or its client is gone."""
    if seconds <= 0:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(1000 * seconds))
