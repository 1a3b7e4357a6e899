"""Which records of a subscription's window are asked for: by state, and by slot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DELAYED,
    DYING,
    REASONS,
    Piece,
)

if TYPE_CHECKING:
    from semantics.console.blocking import Heads

CODES = {
    "available": frozenset((AVAILABLE,)),
    "blocked": frozenset((AVAILABLE,)),
    "acquired": frozenset((ACQUIRED,)),
    "delayed": frozenset((DELAYED,)),
    "backoff": frozenset((BACKOFF,)),
    "dying": frozenset(code + number for code in (DYING, BURYING) for number in range(len(REASONS))),
}
"""State, as people say it, -> its codes."""
STATES = (*CODES, "unread")


class Wanted(NamedTuple):
    """What is asked for; None: any."""

    states: frozenset[str] | None = None
    slot: int | None = None

    @property
    def unread(self) -> bool:
        """Whether what was not read yet is. Its slot is not known."""
        return self.slot is None and (self.states is None or "unread" in self.states)

    @property
    def codes(self) -> frozenset[int]:
        """Codes of states, of which some may have to be looked at more closely."""
        states = CODES if self.states is None else self.states & CODES.keys()
        return frozenset().union(*(CODES[state] for state in states))


def found(
    piece: Piece, wanted: Wanted, codes: frozenset[int], heads: Heads | None
) -> Iterator[tuple[int, int]]:
    """(first, last) of a piece that are wanted, ascending. `codes` may leave out some of `wanted.codes`."""
    if not codes:
        return
    picky = wanted.states is not None and len(wanted.states & {"available", "blocked"}) == 1
    blocked: set[int] = set()
    if picky and heads is not None:
        blocked = set(heads.blocked(piece).tolist())
    elif picky:
        # without keys nothing is blocked
        picky = False
        if wanted.states is not None and "blocked" in wanted.states:
            codes -= {AVAILABLE}
            if not codes:
                return
    only_blocked = picky and wanted.states is not None and "blocked" in wanted.states
    slots, states = piece.slots, piece.states
    pattern = re.compile(b"[" + b"".join(re.escape(bytes([code])) for code in sorted(codes)) + b"]+")
    for run in pattern.finditer(states):
        first, end = run.span()
        if not picky and wanted.slot is None:
            yield piece.first + first, piece.first + end - 1
            continue
        for at in range(first, end):
            if wanted.slot is not None and (slots is None or at >= len(slots) or slots[at] != wanted.slot):
                continue
            if picky and states[at] == AVAILABLE and (at in blocked) is not only_blocked:
                continue
            yield piece.first + at, piece.first + at
