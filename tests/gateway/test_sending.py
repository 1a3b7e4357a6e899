"""Large answers: they leave whole and in order, whoever sends them and whatever comes between."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import uvloop

from gateway import sending
from gateway.pace import Pace, Waits
from gateway.sending import Senders, Sending
from store.api import Stored

BIG = 300_000


class Kept(Stored):
    """Bytes that a page cache has, or not."""

    def __init__(self, data: bytes, *, there: bool = True, known: bool = True) -> None:
        self.data = data
        self.there = there
        self.right = known
        self.released = 0
        self.thread = ""

    def __len__(self) -> int:
        return len(self.data)

    @property
    def below(self) -> int:
        raise AssertionError("who sends it does not ask")

    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        self.thread = threading.current_thread().name
        buffer[:] = self.data
        return self.there

    @property
    def known(self) -> bool:
        return self.right

    def release(self) -> None:
        self.released += 1


async def sent(senders: Senders, number: int, pieces: list[Any], pace: Pace | None = None) -> Sending:
    ended: asyncio.Future[Sending] = asyncio.get_running_loop().create_future()
    assert senders.send(number, pieces, ended.set_result, pace or Pace(senders.waits)) is not None
    async with asyncio.timeout(10):
        return await ended


def alone(test: Callable[[Senders, socket.socket, socket.socket], Coroutine[Any, Any, None]]) -> None:
    """Run a test with threads and both ends of a connection that does not wait."""

    async def main() -> None:
        senders = Senders(asyncio.get_running_loop())
        here, there = socket.socketpair()
        here.setblocking(False)
        with here, there:
            await test(senders, here, there)
            senders.stop()

    uvloop.run(main())


def size(left: list[bytes]) -> int:
    return sum(map(len, left))


def taken(there: socket.socket, size: int) -> bytes:
    there.settimeout(10)
    found = b""
    while len(found) < size:
        found += there.recv(size - len(found))
    return found


def test_pieces_leave_in_their_order_read_in_a_thread() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        first, second = Kept(os.urandom(50_000)), Kept(os.urandom(20_000))
        small = [os.urandom(3) for _ in range(3000)]
        result = await sent(senders, here.fileno(), [b"head", first, b"between", second, *small])
        whole = b"head" + first.data + b"between" + second.data + b"".join(small)
        assert (result.missed, result.failed) == (False, False)
        assert taken(there, len(whole) - size(result.left)) + b"".join(result.left) == whole
        assert first.thread.startswith("send-")
        assert first.released == second.released == 1

    alone(test)


def test_what_the_client_does_not_take_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces: to copy many megabytes at once would hold up everybody."""
    monkeypatch.setattr(sending, "_LEFT", 100_000)

    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        before, kept, after = os.urandom(700_000), Kept(os.urandom(3_000_000)), os.urandom(5)
        result = await sent(senders, here.fileno(), [before, kept, after])
        assert max(map(len, result.left)) == 100_000
        whole = before + kept.data + after
        assert taken(there, len(whole) - size(result.left)) + b"".join(result.left) == whole

    alone(test)


class Asked(Pace):
    """Tells what it was asked; waits as it is told to."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(Waits())
        self.seconds = seconds
        self.told: list[str] = []
        self.most = 0
        self.begun, self.again = threading.Event(), threading.Event()

    def begin(self, now: float) -> bool:
        self.told.append("begin")
        self.begun.set()
        return self.seconds is not None

    def left(self, now: float, taken: int) -> float:
        assert self.seconds is not None
        self.most = max(taken, self.most)
        if taken:
            self.again.set()
        return self.seconds

    def took(self) -> None:
        self.told.append("took")

    def kept(self, now: float) -> None:
        self.told.append("kept")


def test_a_client_that_takes_its_answer_is_waited_for() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        pieces = [Kept(os.urandom(200_003)) for _ in range(20)]
        whole = b"".join(each.data for each in pieces)
        pace = Asked(10)
        task = asyncio.ensure_future(sent(senders, here.fileno(), list(pieces), pace))
        # it takes some, and has the thread wait for it once more
        assert await asyncio.to_thread(pace.begun.wait, 10)
        found = await asyncio.to_thread(taken, there, 500_000)
        assert await asyncio.to_thread(pace.again.wait, 10)
        assert found + await asyncio.to_thread(taken, there, len(whole) - len(found)) == whole
        assert (await task).left == []
        assert pace.told == ["begin", "took"]
        assert 0 < pace.most < len(whole)

    alone(test)


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, ["begin"]), (0.0, ["begin", "kept"]), (0.001, ["begin", "kept"])]
)
def test_a_client_that_takes_nothing_is_given_up(seconds: float | None, told: list[str]) -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        pace = Asked(seconds)
        assert (await sent(senders, here.fileno(), [b"x" * 3_000_000], pace)).left
        assert pace.told == told
        # what it can take at once says nothing of how quick it is
        mine, other = socket.socketpair()
        with mine, other:
            mine.setblocking(False)
            assert not (await sent(senders, mine.fileno(), [b"x"], pace)).left
        assert pace.told == told

    alone(test)


def test_a_client_that_leaves_while_it_is_waited_for_is_told() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        task = asyncio.ensure_future(sent(senders, here.fileno(), [b"x" * 3_000_000], Asked(1000)))
        await asyncio.to_thread(taken, there, 1)
        there.close()
        assert (await task).failed

    alone(test)


def test_of_an_answer_that_cannot_be_read_whole_nothing_leaves() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        lost = Kept(b"lost", there=False)
        result = await sent(senders, here.fileno(), [b"head", Kept(b"here"), lost])
        assert result.missed
        assert lost.released == 1
        there.setblocking(False)
        with pytest.raises(BlockingIOError):
            there.recv(1)

    alone(test)


class Slow(Kept):
    """Bytes that only a disk has, which answers when it may."""

    def __init__(self, data: bytes, may: threading.Event) -> None:
        super().__init__(data)
        self.may = may
        self.waits = False

    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        if not wait:
            return False
        self.waits = True
        assert self.may.wait(10)
        return super().read_into(buffer)


async def ends(senders: Senders, pieces: Sequence[Kept], many: list[socket.socket]) -> list[Sending]:
    """Each sent by a socket of its own, and what became of them."""
    found: list[Sending] = []
    for piece in pieces:
        here, there = socket.socketpair()
        here.setblocking(False)
        many += [here, there]
        assert senders.send(here.fileno(), [piece], found.append, Pace(senders.waits)) is not None
    return found


def test_a_slow_disk_holds_up_nobody_who_needs_none() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        may = threading.Event()
        slow = [Slow(os.urandom(1000), may) for _ in range(sending.WAITING + 3)]
        many: list[socket.socket] = []
        found = await ends(senders, slow, many)
        result = await sent(senders, here.fileno(), [Kept(b"quick")])
        assert not result.left
        assert not found
        may.set()
        async with asyncio.timeout(10):
            while len(found) < len(slow):
                await asyncio.sleep(0)
        assert {each.thread for each in slow} <= {f"send-disk-{nth}" for nth in range(sending.WAITING)}
        for piece, other in zip(slow, many[1::2], strict=True):
            assert taken(other, 1000) == piece.data
        for each in many:
            each.close()

    alone(test)


def test_who_stops_does_not_wait_for_what_waits_for_the_disk() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        may = threading.Event()
        slow = [Slow(os.urandom(1000), may) for _ in range(sending.WAITING + 3)]
        many: list[socket.socket] = []
        found = await ends(senders, slow, many)
        async with asyncio.timeout(10):
            while sum(each.waits for each in slow) < sending.WAITING:
                await asyncio.sleep(0)
            stopping = asyncio.get_running_loop().run_in_executor(None, senders.stop)
            while senders.send(here.fileno(), [b""], lambda _: None, Pace(senders.waits)) is not None:
                await asyncio.sleep(0)
            may.set()
            await stopping
            while len(found) < len(slow):
                await asyncio.sleep(0)
        assert sum(each.failed for each in found) == 3
        assert sum(bool(each.thread) for each in slow) == sending.WAITING
        assert all(each.released == 1 for each in slow)
        for each in many:
            each.close()

    alone(test)


def test_without_threads_for_the_disk_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if "disk" in self.name:
            raise RuntimeError("can't start new thread")
        plain(self)

    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        may = threading.Event()
        may.set()
        piece = Slow(b"abc", may)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            assert not (await sent(senders, here.fileno(), [piece])).missed
        assert piece.thread in ("send-0", "send-1")
        assert taken(there, 3) == b"abc"

    alone(test)


def test_the_loop_checks_nothing() -> None:
    piece = Kept(b"abc", known=False)
    assert sending.in_memory([piece, Kept(b"")]) is None
    assert (piece.thread, piece.released) == ("", 1)


def test_a_client_that_is_gone_is_told() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        there.close()
        result = await sent(senders, here.fileno(), [b"x" * BIG])
        assert result.failed
        # and the thread serves the next
        mine, other = socket.socketpair()
        with mine, other:
            mine.setblocking(False)
            assert (await sent(senders, mine.fileno(), [b"abc"])).left == []
            assert taken(other, 3) == b"abc"

    alone(test)


def test_a_stopped_gateway_sends_by_itself() -> None:
    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        await sent(senders, here.fileno(), [b"abc"])
        senders.stop()
        assert senders.send(here.fileno(), [b"def"], lambda _: None, Pace(senders.waits)) is None
        assert sending.in_memory([b"d", Kept(b"ef")]) == [b"d", b"ef"]
        assert sending.in_memory([b"d", Kept(b"ef", there=False)]) is None

    alone(test)


def test_without_threads_the_caller_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none)
            assert senders.send(here.fileno(), [b"abc"], lambda _: None, Pace(senders.waits)) is None
        assert (await sent(senders, here.fileno(), [b"def"])).left == []
        assert taken(there, 3) == b"def"

    alone(test)


class Halved(Kept):
    """Of its bytes a first half is in memory; the rest has to be waited for."""

    def __init__(self, data: bytes, go_on: threading.Event) -> None:
        super().__init__(data)
        self.go_on = go_on
        self.begun: memoryview | None = None
        self.kept = False

    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        half = len(self) // 2
        if not wait:
            buffer[:half] = self.data[:half]
            self.begun = buffer
            return False
        assert self.go_on.wait(10)
        self.kept = buffer is self.begun
        assert not self.kept or buffer[:half] == self.data[:half]
        buffer[:] = self.data
        return True


def test_what_was_read_before_a_disk_is_asked_is_kept_for_some() -> None:
    """Others are sent meanwhile, by the same threads."""

    async def test(senders: Senders, here: socket.socket, there: socket.socket) -> None:
        go_on = threading.Event()
        pairs = [socket.socketpair() for _ in range(sending.WAITING + 6)]
        halves = [Halved(os.urandom(200_000), go_on) for _ in pairs]
        tasks = []
        for (mine, theirs), half in zip(pairs, halves, strict=True):
            mine.setblocking(False)
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            tasks.append(asyncio.ensure_future(sent(senders, mine.fileno(), [b"head", half, b"tail"])))
            theirs.settimeout(10)
        for _ in range(20):
            quick = os.urandom(50_000)
            assert (await sent(senders, here.fileno(), [Kept(quick)])).left == []
            assert taken(there, len(quick)) == quick
        go_on.set()
        for task, half, (mine, theirs) in zip(tasks, halves, pairs, strict=True):
            result = await task
            whole = b"head" + half.data + b"tail"
            assert taken(theirs, len(whole) - size(result.left)) + b"".join(result.left) == whole
            assert half.released == 1
            mine.close()
            theirs.close()
        assert sum(half.kept for half in halves) == sending.WAITING, "memory is bounded"
        # and again: what it took was given back
        half = Halved(os.urandom(200_000), go_on)
        await sent(senders, here.fileno(), [half])
        assert half.kept

    alone(test)
