"""The CRC-32C of a part, compared without a copy of the part."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import crc


def test_the_polynomial_is_castagnolis() -> None:
    """The check value of its definition (RFC 3720, B.4: 32 bytes of zeros), made of two halves."""
    half = google_crc32c.value(bytes(16))
    assert crc.joined(half, half, 16) == 0x8A9136AA


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_the_sums_of_two_pieces_give_that_of_both(first: bytes, second: bytes) -> None:
    found = crc.joined(google_crc32c.value(first), google_crc32c.value(second), len(second))
    assert found == google_crc32c.value(first + second)


@pytest.mark.parametrize("size", [0, 1, crc.WORTH - 1, crc.WORTH, 1_000_003])
@pytest.mark.parametrize("before", [0, 90, 50_000])
@pytest.mark.parametrize("behind", [0, 3])
def test_a_part_holds_by_its_own_bytes_alone(size: int, before: int, behind: int) -> None:
    part = (bytes(range(251)) * (size // 251 + 1))[:size]
    claimed = google_crc32c.value(part)
    data = b"a" * before + part + b"b" * behind
    assert crc.holds(data, before, before + size, claimed)
    assert crc.holds(b"c" * before + part + b"d" * behind, before, before + size, claimed)
    assert not crc.holds(data, before, before + size, claimed ^ 1)
    for at in {before, before + size // 2, before + size - 1} if size else ():
        wrong = bytearray(data)
        wrong[at] ^= 0x80
        assert not crc.holds(bytes(wrong), before, before + size, claimed)


def test_a_size_that_never_was_before_costs_a_few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly two compressed batches have one size, and 30 products take longer than the copy that is spared."""
    for size in range(1024):
        crc.joined(1, 1, size << 10 | size)
    counted = 0
    product = crc._product

    def counting(one: int, other: int) -> int:
        nonlocal counted
        counted += 1
        return product(one, other)

    monkeypatch.setattr(crc, "_product", counting)
    part = bytes(987_654)
    data = b"head" + part + b"end"
    assert crc.holds(data, 4, 4 + len(part), google_crc32c.value(part))
    assert 1 <= counted <= 3
