"""What an image may hold of memory that is mapped: each sector as it was at some moment."""

from __future__ import annotations

import random
import struct

import pytest

from tests.proofs.powercut.disk import Content, File
from tests.proofs.powercut.image import STYLES

AT = 64
NUMBERS = (0x18FE, 0x19C1, 0x1A5E, 0x1B5E)


@pytest.mark.parametrize("style", STYLES)
def test_half_of_a_number_is_never_there(style: str) -> None:
    """As the mark's: bytes that carry over are what the recorder sees of it."""
    file = File(1)
    file.durable = Content(bytes(4096))
    file.live = file.durable.copy()
    before = bytes(8)
    for when, number in enumerate(NUMBERS):
        after = struct.pack("<Q", number)
        changed = [at for at in range(8) if before[at] != after[at]]
        first, last = changed[0], changed[-1] + 1
        file.mapped(when, AT + first, after[first:last])
        before = after
    found = set()
    for seed in range(500):
        made = STYLES[style](file.pending, file.durable.copy(), random.Random(seed))
        found |= {struct.unpack_from("<Q", bytes(made.data).ljust(4096, b"\0"), AT)[0]}
    assert found <= {0, *NUMBERS}
    assert len(found) > 1 or style in ("none", "everything", "short")
