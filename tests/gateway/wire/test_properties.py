"""What headers say of a message: when it is due, what it is ordered by, how often it was on its retry letter topic."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import properties
from gateway.wire.records import Headers
from tests.gateway.wire.batches import NOW
from tests.gateway.wire.stored import due_of, header_lists

FOR_EVER = 2**63 - 1


@given(st.integers(-(2**40), 2**41), header_lists)
def test_a_record_is_due_by_its_last_header_that_makes_sense(timestamp: int, headers: Headers) -> None:
    assert properties.deliver_at(headers, timestamp) == due_of(timestamp, headers)


@given(st.integers(-(2**40), 2**41), header_lists)
def test_a_retry_letter_is_due_by_its_delay_time_where_that_makes_sense(
    timestamp: int, headers: Headers
) -> None:
    delays = [value for name, value in headers if name == "DELAY_TIME" and value is not None]
    said = [timestamp + int(value) for value in delays if value.isdigit() and len(value) < 20]
    expected = (said[-1] if said[-1] > 0 else None) if said else due_of(timestamp, headers)
    assert properties.deliver_at(headers, timestamp, retry=True) == expected


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b"0", 0),
        (b"007", 7),
        (b"9223372036854775807", FOR_EVER),
        (b"9223372036854775808", FOR_EVER),
        (b"9" * 19, FOR_EVER),
        (b"0" * 20, None),
        (b"9" * 5_000_000, None),
        (b"", None),
        (None, None),
        (b"-1", None),
        (b"+1", None),
        (b"1_0", None),
        (b" 1", None),
        (b"1.0", None),
        ("٣".encode(), None),
    ],
)
def test_numbers_are_plain_decimals_and_others_are_passed_over(
    value: bytes | None, number: int | None
) -> None:
    assert properties.number(value) == number


def test_a_time_of_eight_bytes_is_one_up_to_the_year_10889_and_text_is_never_taken_for_one() -> None:
    for due, expected in ((1, 1), (2**48 - 1, 2**48 - 1), (2**48, None), (0, None)):
        assert properties.deliver_at([("pulsar-deliver-at", struct.pack(">q", due))], NOW) == expected
    assert properties.deliver_at([("pulsar-deliver-at", b"17000000")], NOW) == 17_000_000
    assert properties.deliver_at([("pulsar-deliver-after", struct.pack(">q", 250))], NOW) is None


def test_no_time_is_later_than_the_latest_and_none_before_1970_delays() -> None:
    after = [("pulsar-deliver-after", b"9" * 19)]
    assert properties.deliver_at(after, NOW) == FOR_EVER
    assert properties.deliver_at([("pulsar-deliver-after", b"5")], -5) is None
    assert properties.deliver_at([("pulsar-deliver-after", b"6")], -5) == 1


@pytest.mark.parametrize(
    ("headers", "times"),
    [
        ([], (None, None)),
        ([("RECONSUMETIMES", b"4")], (None, 4)),
        ([("pulsar-reconsume-times", b"2"), ("RECONSUMETIMES", b"9")], (2, 9)),
        ([("RECONSUMETIMES", b"4"), ("RECONSUMETIMES", b"5"), ("RECONSUMETIMES", b"x")], (None, 5)),
        ([("pulsar-reconsume-times", None), ("RECONSUMETIMES", b"-3")], (None, None)),
        # clients hold it in 32 bits
        ([("pulsar-reconsume-times", b"2147483648"), ("RECONSUMETIMES", b"9" * 19)], (2**31 - 1, 2**31 - 1)),
    ],
)
def test_how_often_a_message_was_on_its_retry_letter_topic(
    headers: Headers, times: tuple[int | None, int | None]
) -> None:
    assert properties.reconsume_times(headers) == times


def test_the_last_ordering_key_that_is_one_counts() -> None:
    key = "pulsar-ordering-key"
    assert properties.ordering_key([("h", b"x")]) is None
    assert properties.ordering_key([(key, b"a"), ("h", b"x"), (key, b""), (key, None)]) == b""
