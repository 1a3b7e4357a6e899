"""What is printed to a terminal has no character in it that a terminal obeys.

Names of topics, groups and clients, keys, headers and values are texts of others. Among them may be escape sequences,
which would clear the screen or set its title, and marks that turn the direction of text round, so that a line reads
otherwise than what it says. Tables and JSON have them escaped wherever they go (in JSON that says the same); all other
text when it goes to a terminal, so that programs get what there is.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast


def visible(text: str, kept: str = "") -> str:
    """Text with all its characters to be seen, but for those that are `kept`: others as Python writes them."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON whose characters can all be seen."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    # outside of texts there are newlines only, so all others may be written as JSON escapes them
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)


def _escaped(letter: str) -> str:
    # of ASCII, which that leaves as it is, DEL is one as well
    return json.dumps(letter)[1:-1] if ord(letter) > 0x7F else f"\\u{ord(letter):04x}"


class _Terminal:
    """A stream to a terminal. Whoever writes bytes to its `buffer` has looked after that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        # lines, columns, and figures that are written over
        return self._stream.write(visible(text, "\n\t\r"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While in there, what is printed to a terminal is visible."""
    before = sys.stdout, sys.stderr
    mine = [
        cast("TextIO", _Terminal(each)) if each is not None and each.isatty() else each for each in before
    ]
    sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        # who has taken one away had a reason
        if sys.stdout is mine[0]:
            sys.stdout = before[0]
        if sys.stderr is mine[1]:
            sys.stderr = before[1]
