"""Slots, and the hashes of Pulsar's producers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.hashing import (
    java_string_hash,
    murmur2,
    murmur3_32,
    partition_by_java_string_hash,
    partition_by_murmur2,
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


@pytest.mark.parametrize(
    ("key", "kafka", "guava", "java"),
    # Each by Java 17, with the partition of 7: Utils.murmur2 and Utils.toPositive of kafka-clients 4.3.0,
    # murmur3_32_fixed of Guava 33.4.8 (& Integer.MAX_VALUE for the partition), String.hashCode() & Integer.MAX_VALUE.
    [
        ("", (275646681, 2), (0, 0), (0, 0)),
        ("a", (2731586172, 5), (1009084850, 4), (97, 6)),
        ("ab", (316155434, 0), (2613040991, 6), (3105, 4)),
        ("abc", (479470107, 4), (3017643002, 1), (96354, 6)),
        ("abcd", (2971317748, 5), (1139631978, 2), (2987074, 6)),
        ("customer-17", (1584006640, 6), (495891780, 6), (375372405, 2)),
        ("orders/2026/11", (3129044280, 3), (752148211, 3), (77985059, 5)),
        ("äöü", (2224052740, 5), (769542228, 0), (226986, 4)),
        ("日本語", (1431860170, 6), (2779017879, 6), (25921943, 5)),
        ("\U0001f34e", (1281558743, 3), (1738680271, 6), (1773202, 4)),
        ("polygenelubricants", (342343466, 3), (3249086048, 3), (0, 0)),
        ("The quick brown fox jumps over the lazy dog", (495243318, 3), (776992547, 2), (1538055507, 2)),
    ],
)
def test_all_three_are_as_java_has_them(
    key: str, kafka: tuple[int, int], guava: tuple[int, int], java: tuple[int, int]
) -> None:
    raw = key.encode()
    assert (murmur2(raw), partition_by_murmur2(raw, 7)) == kafka
    assert (murmur3_32(raw), partition_by_murmur3(raw, 7)) == guava
    assert (java_string_hash(key), partition_by_java_string_hash(key, 7)) == java
