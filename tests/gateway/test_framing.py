"""Frames out of bytes, however they come; and what is refused by its head."""

from __future__ import annotations

import struct
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import apis
from gateway.apis.registry import SMALL_REQUEST
from gateway.framing import CRUMB, FIRST_REQUEST, PRODUCE, BadFrame, Frame, Framing, Locked, LoginOver
from gateway.wire.api_keys import ApiKey
from tests.examples import examples

MEGABYTE = 1024 * 1024
MAX_REQUEST = 100 * MEGABYTE


def head(size: int, key: int, correlation_id: int = 1) -> bytes:
    return struct.pack(">ihhih", size, key, 9, correlation_id, -1)


def frame(key: int, body: bytes = b"", correlation_id: int = 1) -> bytes:
    return head(10 + len(body), key, correlation_id) + body


def content(found: Frame) -> bytes:
    *_, data, position, stop = found
    return data[position:stop]


def taken(frames: Framing, data: bytes = b"") -> list[bytes]:
    """Every frame there is when this has come."""
    found = []
    each = frames.receive(data)
    while each is not None:
        found.append(content(each))
        each = frames.receive() if frames.more else None
    return found


def known() -> Framing:
    """Of a connection that has asked something."""
    frames = Framing(MAX_REQUEST)
    assert len(taken(frames, frame(ApiKey.API_VERSIONS))) == 1
    return frames


def test_a_read_that_is_a_frame_is_found_where_it_stands() -> None:
    frames = Framing(MAX_REQUEST)
    data = frame(ApiKey.METADATA, b"body", correlation_id=7)
    found = frames.receive(data)
    assert found == (ApiKey.METADATA, 9, 7, -1, data, 0, len(data))
    assert found[4] is data, "it is not copied"
    assert not frames.more
    assert frames.unfinished == 0


def test_several_in_one_read_and_the_beginning_of_one_more() -> None:
    frames = Framing(MAX_REQUEST)
    first, second, third = (frame(ApiKey.METADATA, bytes(size), size) for size in (0, 5, 50))
    assert taken(frames, first + second + third[:20]) == [first, second]
    assert frames.unfinished == 20
    assert taken(frames, third[20:]) == [third]
    assert frames.unfinished == 0


def test_without_new_bytes_there_is_nothing_new() -> None:
    frames = known()
    assert frames.receive() is None
    begun = frame(ApiKey.METADATA, b"body")
    for position in range(len(begun) - 1):
        assert frames.receive(begun[position : position + 1]) is None
        assert frames.receive() is None
        assert frames.unfinished == position + 1
    assert taken(frames, begun[-1:]) == [begun]


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_any_split_of_the_bytes_gives_the_same_frames(data: st.DataObject) -> None:
    """Whoever takes them, at once or after he gave some back; what is left at the end is unfinished."""
    keys = st.sampled_from([PRODUCE, ApiKey.FETCH, ApiKey.METADATA, 999])
    bodies = st.one_of(st.binary(max_size=40), st.builds(bytes, st.integers(0, 3 * CRUMB)))
    whole = [
        frame(key, body, number)
        for number, (key, body) in enumerate(data.draw(st.lists(st.tuples(keys, bodies))))
    ]
    begun = frame(ApiKey.METADATA, bytes(100))[: data.draw(st.integers(0, 109))]
    stream = b"".join(whole) + begun
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    frames = Framing(MAX_REQUEST)
    found: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        each = frames.receive(stream[start:stop])
        while each is not None:
            if not data.draw(st.booleans()):
                frames.keep(each[4], each[5])
                break
            found.append(content(each))
            if data.draw(st.booleans()):
                frames.keep(each[4], each[6])
            each = frames.receive() if frames.more and data.draw(st.booleans()) else None
        if not frames.more:
            assert b"".join(found) == stream[: stop - frames.unfinished]
    found += taken(frames) if frames.more else []
    assert found == whole
    assert frames.unfinished == len(begun)


LIMITS = [
    (PRODUCE, MAX_REQUEST),
    (ApiKey.METADATA, SMALL_REQUEST),
    (ApiKey.SHARE_FETCH, 2 * MEGABYTE),
    (ApiKey.SHARE_ACKNOWLEDGE, 2 * MEGABYTE),
    (999, SMALL_REQUEST),
]


@pytest.mark.parametrize(("key", "limit"), LIMITS)
def test_how_large_a_frame_may_be_goes_by_its_api(key: int, limit: int) -> None:
    apis.load_all()
    frames = known()
    assert frames.receive(head(limit, key)) is None
    assert frames.unfinished == 14, "its rest is waited for"
    frames = known()
    with pytest.raises(BadFrame, match=f"a frame of {limit + 1} bytes for API {key}"):
        frames.receive(head(limit + 1, key))


@pytest.mark.parametrize(
    ("began", "refused"),
    [
        (head(FIRST_REQUEST, PRODUCE), False),
        (head(FIRST_REQUEST + 1, PRODUCE), True),
        (head(FIRST_REQUEST + 1, PRODUCE)[:4], True),
        (head(FIRST_REQUEST, PRODUCE)[:4], False),
        (head(100_000_000, PRODUCE)[:4], True),
        (head(9, PRODUCE)[:4], True),
        (head(9, PRODUCE), True),
        (head(-1, PRODUCE)[:4], True),
        (head(-1, PRODUCE)[:3], False),
        (b"GET / HTTP/1.1\r\n", True),
        (b"GET ", True),
    ],
)
def test_a_stranger_is_refused_as_soon_as_its_bytes_tell(began: bytes, refused: bool) -> None:
    """And it may not begin with a frame of 100 MB."""
    frames = Framing(MAX_REQUEST)
    if refused:
        with pytest.raises(BadFrame):
            frames.receive(began)
        return
    assert frames.receive(began) is None
    assert frames.unfinished == len(began)


def test_whoever_has_asked_something_may_send_as_much_as_is_configured() -> None:
    frames = known()
    assert frames.receive(head(100_000_000, PRODUCE)[:4]) is None
    assert frames.receive(head(100_000_000, PRODUCE)[4:]) is None
    assert frames.unfinished == 14
    small = Framing(1000)
    assert small.receive(frame(ApiKey.API_VERSIONS) + head(1001, PRODUCE)) is not None
    with pytest.raises(BadFrame):
        small.receive()


@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 60)))
def test_frames_before_one_that_is_refused_come_whatever_the_reads(cuts: list[int]) -> None:
    good = [frame(ApiKey.METADATA, b"x" * 10, 1), frame(ApiKey.METADATA, b"", 2)]
    stream = b"".join(good) + head(SMALL_REQUEST + 1, ApiKey.METADATA) + b"more of it"
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    frames = Framing(MAX_REQUEST)
    found: list[bytes] = []

    def receive() -> None:
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            each = frames.receive(stream[start:stop])
            while each is not None:
                found.append(content(each))
                each = frames.receive() if frames.more else None

    with pytest.raises(BadFrame, match="for API 3"):
        receive()
    assert found == good


def test_crumbs_take_no_more_than_their_bytes() -> None:
    frames = known()
    frames.receive(head(1_000_000, PRODUCE))
    for _ in range(50_000):
        frames.receive(b"xy")
    assert frames.unfinished == 14 + 100_000
    assert sum(map(sys.getsizeof, frames._pieces)) < 200_000


def test_what_was_taken_is_not_kept() -> None:
    frames = known()
    data = frame(PRODUCE, bytes(1000)) + frame(PRODUCE)
    count = sys.getrefcount(data)
    assert len(taken(frames, data)) == 2
    assert sys.getrefcount(data) == count
    found = frames.receive(data)
    assert found is not None
    frames.keep(data, found[6])
    del found
    assert sys.getrefcount(data) == count, "a small rest does not keep what is large"


def test_what_is_forgotten() -> None:
    for came in (frame(ApiKey.METADATA) * 2, b"\0" * 3):
        frames = known()
        frames.receive(came)
        assert frames.more or frames.unfinished
        frames.clear()
        assert not frames.more
        assert not frames.unfinished
        assert taken(frames, frame(ApiKey.FETCH)) == [frame(ApiKey.FETCH)]


def test_the_frames_of_a_client_whose_login_is_over() -> None:
    """It goes on where the others were, in the middle of a frame too."""
    over = False
    handshake = frame(ApiKey.SASL_HANDSHAKE, b"body")
    frames = known()
    assert taken(frames, handshake[:9]) == []
    locked = Locked(frames, lambda: over)
    assert locked.unfinished == 9
    over = True
    proof = frame(ApiKey.SASL_AUTHENTICATE, b"proof")
    assert taken(locked, handshake[9:] + proof) == [handshake, proof]
    over = False
    assert len(taken(locked, frame(PRODUCE, bytes(FIRST_REQUEST)))) == 1, "it is no stranger"
    over = True
    for key in (PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS):
        with pytest.raises(LoginOver):
            locked.receive(frame(key))
