"""Segments looked through for delays: in slices, as far as is needed, past damage, and on from where it stopped."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.delays_ahead import DelaysAhead
from gateway.broker.undelayed import NEVER
from gateway.wire import records
from semantics.retention import Latest, Look
from store.api import Buffer, Corrupt, SegmentInfo
from tests.gateway.broker.held import Clock

NOW = 1_700_000_000_000
LONGEST = 10**9
SEGMENT = SegmentInfo(10, 40, 1_000, NOW, 10, NOW, True)


def batch(base: int, *delays: int | None, codec: int = 0) -> bytes:
    """A record each, delayed by so many ms."""
    listed = [
        records.Record(n, NOW, None, b"v", [] if delay is None else [("pulsar-deliver-after", b"%d" % delay)])
        for n, delay in enumerate(delays)
    ]
    return records.build_batch(listed, base, codec=codec)


class Log:
    """Batches by the offset that is read; an exception is raised."""

    def __init__(self, *found: tuple[int, bytes | Corrupt]) -> None:
        self.found = dict(found)
        self.read_at: list[int] = []

    def look(self, offset: int, max_bytes: int) -> list[Buffer]:
        self.read_at.append(offset)
        one = self.found.get(offset, b"")
        if isinstance(one, Corrupt):
            raise one
        return [one] if one else []


def ahead(log: Log, undelayed: int = NEVER) -> DelaysAhead:
    return DelaysAhead(lambda partition: log, Clock(NOW), 1 << 20, lambda partition: undelayed)


def look(delays: DelaysAhead, enough: int, begin: int = 0, longest: int = LONGEST) -> Latest | None:
    asyncio.run(delays.look(1, Look(SEGMENT, enough), begin, longest, False))
    return delays.latest(1, SEGMENT, begin, longest, False)


@pytest.mark.parametrize("codec", [0, 2, 3])
def test_the_last_delay_of_a_segment(codec: int) -> None:
    log = Log(
        (10, batch(10, None, 500, 20, codec=codec)),
        (13, batch(13, *[None] * 17, codec=codec)),
        (30, batch(30, *[None] * 5, 700, 30, None, None, None, codec=codec)),
    )
    delays = ahead(log)
    assert delays.latest(1, SEGMENT, 0, LONGEST, False) is None
    assert look(delays, NOW + 10_000) == Latest(NOW + 700, True)
    assert log.read_at == [10, 13, 30]
    assert look(delays, NOW + 10_000) == Latest(NOW + 700, True)
    assert log.read_at == [10, 13, 30], "it is known"


@pytest.mark.parametrize("codec", [0, 1])
def test_one_batch_with_a_delay_among_others_of_one_read(codec: int) -> None:
    """Folded by gzip its header does not show, and nothing else in the buffer says that there is one."""
    delayed = batch(12, None, *[500] * 17, codec=codec)
    assert (b"pulsar-deliver-" in delayed) is (codec == 0)
    log = Log((10, batch(10, None, None) + delayed + batch(30, *[None] * 10)))
    assert look(ahead(log), NOW + 10_000) == Latest(NOW + 500, True)


def test_it_stops_where_enough_is_known_and_goes_on_from_there() -> None:
    log = Log((10, batch(10, 500)), (11, batch(11, 900)), (12, batch(12, 10)))
    delays = ahead(log)
    assert look(delays, NOW + 1) == Latest(NOW + 500, False)
    assert look(delays, NOW + 500) == Latest(NOW + 500, False)
    assert log.read_at == [10]
    assert look(delays, NOW + 501) == Latest(NOW + 900, False)
    # what is not there any more at 13 is the end
    assert look(delays, NOW + 901) == Latest(NOW + 900, True)
    assert log.read_at == [10, 11, 12, 13]


def test_it_begins_where_the_first_subscription_stands() -> None:
    log = Log((10, batch(10, 900)), (11, batch(11, 500)))
    delays = ahead(log)
    assert look(delays, NOW + 10_000, begin=11) == Latest(NOW + 500, True)
    assert delays.latest(1, SEGMENT, 12, LONGEST, False) == Latest(NOW + 500, True), "that is part of it"
    assert delays.latest(1, SEGMENT, 10, LONGEST, False) is None, "a reset went back"
    assert look(delays, NOW + 10_000, begin=10) == Latest(NOW + 900, True)


def test_no_delay_is_longer_than_its_subscriptions_allow() -> None:
    delays = ahead(Log((10, batch(10, 900))))
    assert look(delays, NOW + 10_000, longest=300) == Latest(NOW + 300, True)
    assert delays.latest(1, SEGMENT, 0, 400, False) is None
    assert look(delays, NOW + 10_000, longest=400) == Latest(NOW + 400, True)


def test_what_is_damaged_is_passed_over() -> None:
    unfolds_to_nothing = bytearray(batch(14, 900, codec=4))
    unfolds_to_nothing[-3:] = b"\xff\xff\xff"
    log = Log(
        (10, batch(10, 500)),
        (11, Corrupt("damaged", 11, 14, "a file")),
        (14, bytes(unfolds_to_nothing)),
        (15, batch(15, 700)),
    )
    assert look(ahead(log), NOW + 10_000) == Latest(NOW + 700, True)


def test_control_batches_and_batches_of_the_next_segment_say_nothing() -> None:
    control = bytearray(batch(11, 900))
    control[22] |= 0x20
    log = Log((10, batch(10, 500)), (11, bytes(control)), (12, batch(40, 800)))
    assert look(ahead(log), NOW + 10_000) == Latest(NOW + 500, True)


def test_it_is_forgotten_with_the_segment_and_with_the_partition() -> None:
    delays = ahead(Log((10, batch(10, 500))))
    look(delays, NOW + 10_000)
    delays.forget(1, 10)
    assert delays.latest(1, SEGMENT, 10, LONGEST, False) is not None
    delays.forget(1, 11)
    delays.forget(2, 11)
    assert delays.latest(1, SEGMENT, 10, LONGEST, False) is None
    look(delays, NOW + 10_000)
    delays.keep({2})
    assert delays.latest(1, SEGMENT, 10, LONGEST, False) is None


def test_what_is_known_to_be_undelayed_is_not_read() -> None:
    log = Log((10, batch(10, None, 500, 20)), (13, batch(13, *[None] * 17)), (30, batch(30, *[None] * 10)))
    delays = ahead(log, undelayed=30)
    assert delays.latest(1, SEGMENT, 10, LONGEST, False) is None
    assert delays.latest(1, SEGMENT, 30, LONGEST, False) == Latest(0, True)
    assert look(delays, NOW + 10_000) == Latest(NOW + 500, True)
    assert log.read_at == [10, 13]
    # of retry letters it says nothing
    assert delays.latest(1, SEGMENT, 30, LONGEST, True) is None
    asyncio.run(delays.look(1, Look(SEGMENT, NOW + 10_000), 0, LONGEST, True))
    assert log.read_at[2:] == [10, 13, 30]
