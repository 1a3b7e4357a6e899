"""Records of Kafka's internal topics: the bytes that Apache Kafka 4.3 has written of the same facts."""

from __future__ import annotations

import pytest

from gateway.wire import internal_records as wire

WHEN = 0x1A21F6341B0
TOPIC_ID = bytes.fromhex("10314d7c9933b344b3aa73298796dd06")


def test_an_offset_as_kafka_writes_it() -> None:
    assert wire.offset_key("g", "t", 1).hex() == "000100016700017400000001"
    assert wire.offset_value(5, 0, "meta", WHEN, -1, TOPIC_ID).hex() == (
        "0004000000000000000500000000056d657461000001a21f6341b00100" + "10" + TOPIC_ID.hex()
    )
    # without an id there is no tag
    assert wire.offset_value(1, -1, "", WHEN, -1, bytes(16)).hex() == (
        "00040000000000000001ffffffff01000001a21f6341b000"
    )


def test_an_offset_that_expires_at_a_time_is_of_version_1() -> None:
    assert wire.offset_value(5, 3, "m", WHEN, WHEN + 1, TOPIC_ID).hex() == (
        "0001000000000000000500016d000001a21f6341b0000001a21f6341b1"
    )


def test_a_group_as_kafka_writes_it() -> None:
    assert wire.group_key("gm").hex() == "00020002676d"
    empty = wire.group_value("consumer", 2, None, None, WHEN, [])
    assert empty.hex() == "00030008636f6e73756d657200000002ffffffff000001a21f6341b000000000"
    member = wire.Member("m-1", None, "compare", "/127.0.0.1", 20_000, 10_000, b"\0\1MD", b"ASSIGN")
    stable = wire.group_value("consumer", 1, "range", "m-1", WHEN, [member])
    assert stable.hex() == (
        "00030008636f6e73756d657200000001000572616e676500036d2d31000001a21f6341b000000001"
        "00036d2d31ffff0007636f6d70617265000a2f3132372e302e302e3100004e2000002710"
        "0000000400014d440000000641535349474e"
    )


def test_a_transactional_id_by_the_schema() -> None:
    assert wire.transaction_key("tx").hex() == "000000027478"
    empty = wire.transaction_value(7, 2, 60_000, 0, None, WHEN, -1)
    assert empty.hex() == "0001000000000000000700020000ea600000000001a21f6341b0ffffffffffffffff00"
    open_one = wire.transaction_value(7, 2, 60_000, 1, {"t": [0, 3]}, WHEN, WHEN)
    assert open_one.hex() == (
        "00010000000000000007" "0002" "0000ea60" "01" "02" "0274" "03" "00000000" "00000003" "00"
        "000001a21f6341b0" "000001a21f6341b0" "00"
    )  # fmt: skip


def test_what_is_long_and_compact_has_a_length_of_two_bytes() -> None:
    value = wire.offset_value(0, 0, "x" * 127, WHEN, -1, bytes(16))
    assert value[14:16] == b"\x80\x01"
    assert value[16:143] == b"x" * 127


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        # as Java's String.hashCode says
        ("", 0),
        ("g", 103),
        ("hello", 99_162_322),
        ("console-consumer-1", 35_782_224),
        ("é", 233),
        ("𝄞", 1_772_394),
        ("billing", -109_829_509),
    ],
)
def test_the_partition_goes_by_javas_hash(name: str, hashed: int) -> None:
    for count in (1, 7, 50, 1 << 31):
        assert wire.partition_of(name, count) == abs(hashed) % count


def test_the_least_hash_that_there_is_goes_to_the_first_partition() -> None:
    assert wire.partition_of("polygenelubricants", 50) == 0
