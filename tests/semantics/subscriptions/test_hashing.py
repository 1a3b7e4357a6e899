"""Slots, and the hashes of Pulsar's producers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.hashing import (
    java_string_hash,
    murmur3_32,
    partition_by_java_string_hash,
    partition_by_murmur3,
    slot_of,
)


def test_the_documented_key() -> None:
    """1-pulsar-messaging-concepts, "Auto-split Hash Range": murmur32 and the index in the range."""
    assert murmur3_32(b"Order-3459134") == 3_112_179_635
    assert slot_of(b"Order-3459134", None, 7) == 6067


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # verification values of MurmurHash3_x86_32 with seed 0 as published with the algorithm's ports
        (b"", 0),
        (b"\xff\xff\xff\xff", 0x7629_3B50),
        (b"!Ce\x87", 0xF55B_516B),
        (b"!Ce", 0x7E4A_8634),
        (b"!C", 0xA0F7_B07A),
        (b"!", 0x7266_1CF4),
        (b"\0\0\0\0", 0x2362_F9DE),
        (b"\0", 0x514E_28B7),
    ],
)
def test_murmur3_is_the_32_bit_one_with_seed_0(key: bytes, hashed: int) -> None:
    assert murmur3_32(key) == hashed


def test_no_key_an_empty_key_and_the_text_pulsar_uses_for_none_differ() -> None:
    assert slot_of(b"", None, 12_345) == 0
    assert slot_of(b"NONE_KEY", None, 12_345) == murmur3_32(b"NONE_KEY") % 65_536
    assert slot_of(None, None, 12_345) not in (0, murmur3_32(b"NONE_KEY") % 65_536)


@pytest.mark.parametrize("ordering_key", [b"", b"a", b"Order-3459134"])
@pytest.mark.parametrize("key", [None, b"", b"b"])
def test_the_ordering_key_wins(key: bytes | None, ordering_key: bytes) -> None:
    assert slot_of(key, ordering_key, 5) == slot_of(ordering_key, None, 99)


@given(st.binary(max_size=40), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_keys_slot_is_the_same_wherever_it_stands(key: bytes, one: int, other: int) -> None:
    assert slot_of(key, None, one) == slot_of(memoryview(key), None, other) == murmur3_32(key) % 65_536


@given(st.integers(0, 2**63 - 70_000), st.sampled_from([2, 4, 16, 64]))
def test_records_without_a_key_spread_evenly_and_wait_for_no_neighbour(offset: int, consumers: int) -> None:
    slots = [slot_of(None, None, offset + i) for i in range(1024)]
    assert len(set(slots)) == 1024
    shares = Counter(slot * consumers // 65_536 for slot in slots)
    assert len(shares) == consumers
    assert max(shares.values()) - min(shares.values()) <= 1024 // consumers // 2


def test_records_without_a_key_use_every_slot() -> None:
    assert {slot_of(None, None, 10**12 + i) for i in range(65_536)} == set(range(65_536))


@pytest.mark.parametrize(
    ("key", "hashed"),
    # Java: "…".hashCode() & Integer.MAX_VALUE
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", 0),  # hashCode is Integer.MIN_VALUE
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        ("\U0001d11e", 1_772_394),  # two UTF-16 code units: 0xD834 x 31 + 0xDD1E
    ],
)
def test_java_string_hash(key: str, hashed: int) -> None:
    """1-pulsar-messaging-concepts, "Hashing scheme"."""
    assert java_string_hash(key) == hashed


def test_partitions_of_pulsars_producers() -> None:
    """1-pulsar-messaging-concepts, "Ordering guarantee": the key's hash modulo the partitions, without its sign."""
    assert partition_by_java_string_hash("hello", 7) == 99_162_322 % 7
    assert partition_by_murmur3(b"Order-3459134", 7) == (3_112_179_635 - 2**31) % 7
