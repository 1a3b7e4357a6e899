"""A line of `magnetar-admin` as a shell takes it: what names have in them does nothing but name. Pure."""

from __future__ import annotations

import re
import shlex


def line(*words: str) -> str:
    """A command line, each word as a shell takes it, in characters that can be seen."""
    return " ".join(["magnetar-admin", *[word(each) for each in words]])


def word(text: str) -> str:
    """One word of it."""
    if text.isprintable():
        return shlex.quote(text)
    # as bash, ksh and zsh read it
    return "$'" + "".join(_letter(each) for each in _ODD.sub(r"\\\g<0>", text)) + "'"


_ODD = re.compile(r"[\\']")


def _letter(letter: str) -> str:
    number = ord(letter)
    if letter.isprintable():
        return letter
    if 0xDC80 <= number <= 0xDCFF:
        # a byte that is no text
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
