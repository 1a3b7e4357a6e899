"""A plane of states that refuses what the table of cursor.py does not have, whether or not who writes it asks."""

from __future__ import annotations

from typing import Any

from semantics.subscriptions.states import BEFORE, DONE, no_line


class Checked(bytearray):
    """What is written through numpy is not seen: `Chunk.become_many` asserts it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        whole = isinstance(key, slice)
        for was, to in set(zip(self[key], value, strict=True) if whole else ((self[key], value),)):
            # what is trimmed may be DONE before
            assert was in BEFORE[to] or (whole and was == to == DONE), no_line(was, to)
        super().__setitem__(key, value)
