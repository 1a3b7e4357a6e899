"""Who owns which slot of a Key_Shared subscription: see README.md."""

from __future__ import annotations

from semantics.subscriptions.selectors.auto_split import AutoSplit
from semantics.subscriptions.selectors.consistent_hashing import ConsistentHashing
from semantics.subscriptions.selectors.selector import Range, Selector, SelectorError, unpack
from semantics.subscriptions.selectors.sticky import Sticky

__all__ = [
    "MODES",
    "AutoSplit",
    "ConsistentHashing",
    "Range",
    "Selector",
    "SelectorError",
    "Sticky",
    "load",
    "make",
]

MODES = ("auto_split", "consistent_hashing", "sticky")


def make(mode: str, naming: str = "documented") -> Selector:
    """A selector without consumers. `naming`: of the ring's points, see consistent_hashing. Raises ValueError."""
    if mode == "auto_split":
        return AutoSplit()
    if mode == "consistent_hashing":
        return ConsistentHashing(naming)
    if mode == "sticky":
        return Sticky()
    raise ValueError(f"The mode of a Key_Shared subscription is one of {', '.join(MODES)}; not {mode!r}.")


def load(data: bytes) -> Selector:
    """A selector as it was when `dump` was called. Raises ValueError for anything else."""
    return unpack(
        data,
        {
            "auto_split": AutoSplit.load,
            "consistent_hashing": ConsistentHashing.load,
            "sticky": Sticky.load,
        },
    )
