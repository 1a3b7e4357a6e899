"""Requests that are known by their bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.admin import repeated
from gateway.admin.exchange import Call, RefusedError, Reply, json, text
from gateway.admin.repeated import Read, Repeated
from gateway.admin.text import Piece

CALL = Call("GET", ("clusters",))
BYTES = b"GET /clusters HTTP/1.1\r\nHost: x\r\n\r\n"


async def _verb(context: Any, call: Call) -> Reply:
    return json(["a"])


async def _waits(context: Any, call: Call) -> Reply:
    await asyncio.sleep(0)
    return json(["late"])


async def _fails(context: Any, call: Call) -> Reply:
    raise RefusedError(404, "It is gone.")


class Served:
    """`Repeated` over verbs of ours; which of them were begun."""

    def __init__(self) -> None:
        self.begun: list[Read] = []
        self.now = 0
        self.known = Repeated(self._serve, lambda: self.now)

    async def _serve(self, read: Read) -> Reply:
        self.begun.append(read)
        return await read.verb(None, read.call)  # type: ignore[arg-type]

    def learn(self, request: bytes = BYTES, verb: Any = _verb, reply: Reply | None = None) -> None:
        self.known.learn(request, Read(verb, CALL), reply or json(["a"]))


def test_what_is_known_is_served_anew_each_time() -> None:
    served = Served()
    served.learn()
    answers = [served.known.answer(BYTES) for _ in range(2)]
    assert answers[0] is not None
    assert answers[0].endswith(b'Content-Length: 5\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n["a"]')
    assert answers[1] == answers[0]
    assert len(served.begun) == 2


def test_other_bytes_are_not_known() -> None:
    served = Served()
    served.learn()
    assert served.known.answer(BYTES[:-1]) is None
    assert served.known.answer(BYTES + b" ") is None
    assert not served.begun


def test_the_date_goes_on() -> None:
    served = Served()
    served.learn()
    served.now = 999
    first = served.known.answer(BYTES)
    served.now = 1000
    second = served.known.answer(BYTES)
    assert first is not None
    assert second is not None
    assert b"00:00:00 GMT" in first
    assert b"00:00:01 GMT" in second


def test_one_that_has_to_wait_is_tried_once() -> None:
    served = Served()
    served.learn(verb=_waits)
    assert [served.known.answer(BYTES) for _ in range(3)] == [None] * 3
    assert len(served.begun) == 1
    # nor is it learnt again
    served.learn(verb=_waits)
    assert served.known.answer(BYTES) is None
    assert len(served.begun) == 1


def test_one_that_fails_is_left_to_who_can_tell_it_and_is_still_known() -> None:
    served = Served()
    served.learn(verb=_fails)
    assert [served.known.answer(BYTES) for _ in range(2)] == [None] * 2
    assert len(served.begun) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(204),
        Reply(404, b"{}", "application/json"),
        Reply(200, b"x", "text/plain", {"X-More": "1"}),
        Reply(200, b"x" * (repeated.SHORT + 1), "text/plain"),
        Reply(200, b"", "text/plain", {}, (Piece.of(["x"]),)),
        Reply(200, b"x"),
    ],
)
def test_only_short_answers_with_the_usual_head_are_told_so(reply: Reply) -> None:
    served = Served()
    served.learn(reply=reply)
    assert served.known.answer(BYTES) is None
    assert not served.begun

    async def verb(context: Any, call: Call) -> Reply:
        return reply

    served.learn(verb=verb)
    assert served.known.answer(BYTES) is None
    assert len(served.begun) == 1


def test_text_is_told_as_text() -> None:
    async def verb(context: Any, call: Call) -> Reply:
        return text("ok")

    served = Served()
    served.learn(verb=verb)
    answer = served.known.answer(BYTES)
    assert answer is not None
    assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in answer
    assert answer.endswith(b"\r\n\r\nok")


def test_no_more_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "MOST", 2)
    served = Served()
    for name in (b"1", b"2", b"3"):
        served.learn(name)
    assert [served.known.answer(name) is not None for name in (b"1", b"2", b"3")] == [False, False, True]


def test_long_requests_are_not_kept() -> None:
    served = Served()
    long = b"x" * (repeated.LONGEST + 1)
    served.learn(long)
    served.learn(long[1:])
    assert served.known.answer(long) is None
    assert served.known.answer(long[1:]) is not None
