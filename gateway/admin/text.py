"""A long text that is made line by line and sent piece by piece, without ever lying in memory whole.

A scrape with all of a million topics has 300 MB, made of the same few names over and over: as pieces that are
compressed when they are full it takes a thirtieth of that, and what each piece was made of is free again at once.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

PIECE_LINES = 1_000
"""Lines in a piece: some 100 KB."""

_WORTH_IT = 16 * 1024
"""Bytes below which a piece stays as it is."""


class Piece(NamedTuple):
    """Some lines; `size` is their bytes."""

    size: int
    kept: bytes
    packed: bool

    @staticmethod
    def of(lines: list[str]) -> Piece:
        """Lines, each to end in a newline."""
        data = ("\n".join(lines) + "\n").encode()
        if len(data) < _WORTH_IT:
            return Piece(len(data), data, False)
        return Piece(len(data), zlib.compress(data, 1), True)

    def data(self) -> bytes:
        """The text again."""
        return zlib.decompress(self.kept) if self.packed else self.kept


class Lines:
    """Lines to which others are added. `empty` while there is none."""

    __slots__ = ("_open", "_pieces")

    def __init__(self) -> None:
        self._open: list[str] = []
        self._pieces: list[Piece] = []

    def add(self, line: str) -> None:
        lines = self._open
        lines.append(line)
        if len(lines) >= PIECE_LINES:
            self._pieces.append(Piece.of(lines))
            lines.clear()

    @property
    def empty(self) -> bool:
        return not self._open and not self._pieces

    def pieces(self) -> list[Piece]:
        """What was added so far."""
        if self._open:
            self._pieces.append(Piece.of(self._open))
            self._open.clear()
        return self._pieces
