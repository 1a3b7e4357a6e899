"""What a page shows as a line of `magnetar-admin`. Pure."""

from __future__ import annotations

import re
import shlex

from semantics.names import DEFAULT, Namespace


def line(*words: str) -> str:
    """A command line, each word as a shell takes it, in characters that can be seen."""
    return " ".join(["magnetar-admin", *[_word(each) for each in words]])


_ODD = re.compile(r"[\\']")


def _word(text: str) -> str:
    if text.isprintable():
        return shlex.quote(text)
    # as bash, ksh and zsh read it
    return "$'" + "".join(_letter(each) for each in _ODD.sub(r"\\\g<0>", text)) + "'"


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


def topic_word(domain: str, tenant: str, namespace: str, local: str) -> str:
    """A topic as one would type it."""
    if domain == "persistent" and Namespace.of(tenant, namespace) == DEFAULT:
        return local
    return f"{domain}://{tenant}/{namespace}/{local}"
