"""A plane of states that refuses what the table of cursor.py does not have."""

from __future__ import annotations

from typing import Any

from semantics.subscriptions.states import legal


class Checked(bytearray):
    """What is written through numpy is not seen."""

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self[key] if isinstance(key, slice) else (self[key],)
        after = value if isinstance(key, slice) else (value,)
        for was, to in set(zip(before, after, strict=True)):
            assert was == to or legal(was, to), f"{was} to {to}: the table of cursor.py has no such line"
        super().__setitem__(key, value)
