"""The Key_Shared dispatcher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Owners(Protocol):
    """Who owns which slots: what a selector says of itself."""

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        """(start, end, consumer), half-open, of 65,536 slots; what is not covered is nobody's."""
        ...
