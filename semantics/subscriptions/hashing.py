"""From a record's key to its slot, and the hash functions by which producers of Pulsar and Kafka choose partitions.

A slot is what Key_Shared keeps in order and hands from consumer to consumer: one of 65,536, taken by the murmur3 of
the key. Two keys of one slot wait for each other; nothing is lost by that but a little concurrency.

Source: Pulsar's concepts, "Auto-split Hash Range" and "Hashing scheme".
"""

from __future__ import annotations

import struct

from mmh3 import mmh3_32_uintdigest

SLOTS = 65_536
"""How many slots there are: 0 to 65,535."""

# Odd, so that 65,536 records that follow each other get all slots; next to 65,536 divided by the golden ratio, so that
# any few of them lie far apart and every range of slots gets its share of them.
_STRIDE = 40_503


def murmur3_32(key: bytes | bytearray | memoryview) -> int:
    """MurmurHash3_x86_32 with seed 0, unsigned. Pulsar's Murmur3_32Hash is this without its highest bit."""
    return mmh3_32_uintdigest(key)


def java_string_hash(key: str) -> int:
    """Java's String.hashCode, over UTF-16 code units, without the sign: Pulsar's JavaStringHash, 0 to 2^31 - 1."""
    hashed = 0
    for (unit,) in struct.iter_unpack("<H", key.encode("utf-16-le", "surrogatepass")):
        hashed = (hashed * 31 + unit) & 0xFFFF_FFFF
    return hashed & 0x7FFF_FFFF


def murmur2(key: bytes) -> int:
    """Kafka's MurmurHash2 with its own seed, unsigned; its producers drop the highest bit."""
    size, mixed = len(key), 0x9747_B28C ^ len(key)
    for (word,) in struct.iter_unpack("<I", key[: size & ~3]):
        word = word * 0x5BD1_E995 & 0xFFFF_FFFF
        word = (word ^ word >> 24) * 0x5BD1_E995 & 0xFFFF_FFFF
        mixed = mixed * 0x5BD1_E995 & 0xFFFF_FFFF ^ word
    if size & 3:
        mixed = (mixed ^ int.from_bytes(key[size & ~3 :], "little")) * 0x5BD1_E995 & 0xFFFF_FFFF
    mixed = (mixed ^ mixed >> 13) * 0x5BD1_E995 & 0xFFFF_FFFF
    return mixed ^ mixed >> 15


def partition_by_murmur2(key: bytes, partitions: int) -> int:
    """The partition a Kafka producer sends a key to, by the partitioner that the Java client has built in."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def partition_by_murmur3(key: bytes, partitions: int) -> int:
    """The partition a Pulsar producer with Murmur3_32Hash sends a key to."""
    return (murmur3_32(key) & 0x7FFF_FFFF) % partitions


def partition_by_java_string_hash(key: str, partitions: int) -> int:
    """The partition a Pulsar producer with JavaStringHash, the default, sends a key to."""
    return java_string_hash(key) % partitions


def slot_of(key: bytes | memoryview | None, ordering_key: bytes | memoryview | None, offset: int) -> int:
    """The slot of a record, 0 to 65,535.

    The ordering key wins over the key. An empty key is a key: all records with it share slot 0. A record with neither
    has no order to keep, and its offset spreads it over the slots. Pulsar spreads them too, since 4.0: by the
    producer's name and the sequence id, so that a batch goes to one consumer. (Before, all of them hashed alike.)
    """
    if ordering_key is not None:
        return mmh3_32_uintdigest(ordering_key) & 65_535
    if key is not None:
        return mmh3_32_uintdigest(key) & 65_535
    return offset * _STRIDE & 65_535
