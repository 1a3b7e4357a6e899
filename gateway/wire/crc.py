"""CRC-32C of a part of some bytes, without a copy of that part.

The library takes whole `bytes` only, so a part has to be cut out for it; of a megabyte that takes longer than the sum.
A sum over more than the part says the same: sums of two pieces give that of both (the sum of the first, carried past as
many bytes as the second has, xor the sum of the second). So all of the bytes are summed once, and compared with what
that would be if the part had the sum that is claimed.

Carrying past n bytes is a multiplication by x to the 8 n, in polynomials over GF(2) modulo Castagnoli's. Bits stand in
reverse, as everywhere with this sum: the highest is x to the 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import google_crc32c

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, without its highest term, in reverse."""
WORTH = 512 * 1024
"""Bytes of a part from which on a copy takes longer than the arithmetic."""
_ONE = 1 << 31
_DIGIT = 1024
"""Of how many digits each place of a size has one."""

_sum: Callable[[bytes], int] = google_crc32c.value
_go_on: Callable[[int, bytes], int] = google_crc32c.extend


def holds(data: bytes, start: int, end: int, claimed: int) -> bool:
    """Whether the CRC-32C of `data[start:end]` is the one that is claimed."""
    size = end - start
    if size < WORTH or len(data) - size > size >> 3:
        return _sum(data[start:end]) == claimed
    before = joined(_sum(data[:start]), claimed, size)
    return _sum(data) == _go_on(before, data[end:])


def joined(first: int, second: int, size: int) -> int:
    """The sum of two pieces one behind the other, by the sums of both; the second has `size` bytes."""
    return _product(_past(size), first) ^ second


def _past(size: int) -> int:
    """x to the 8 `size`, by its digits: hardly two batches have one size, and digits are few."""
    found, place = _ONE, 0
    while size:
        if digit := size & _DIGIT - 1:
            power = _past_digit(digit, place)
            found = power if found == _ONE else _product(found, power)
        size //= _DIGIT
        place += 1
    return found


# at most three of its places are ever full, which is some 300 KB
@cache
def _past_digit(digit: int, place: int) -> int:
    """x to the 8 `digit`, which stands at this place of a size."""
    found, power = _ONE, _ONE >> 8
    for _ in range(place * (_DIGIT.bit_length() - 1)):
        power = _product(power, power)
    while digit:
        if digit & 1:
            found = _product(found, power)
        power = _product(power, power)
        digit >>= 1
    return found


def _product(one: int, other: int) -> int:
    """Of two polynomials, modulo the one of the sum."""
    found = 0
    while one:
        if one & _ONE:
            found ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ POLYNOMIAL if other & 1 else other >> 1
    return found
