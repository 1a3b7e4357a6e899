"""Numbers, sizes, ages and bytes as people read them. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from markupsafe import Markup, escape

LARGEST_JSON = 64 * 1024
"""Bytes of a value that are put in order as JSON."""
LARGEST_COLOURED = 16 * 1024
"""Characters of it that get colours."""
LARGEST_TEXT = 64 * 1024
"""Characters that are shown."""
HEX_BYTES = 512
"""Bytes that are shown in hex."""
DEEPEST = 32
"""Objects and lists inside of each other that are put in order: a line has two spaces for each of them."""


def number(value: float) -> str:
    """With commas; below 10 with one digit behind the point, where it has any."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:.1f}" if abs(value) < 10 else f"{value:,.0f}"


def size(count: float) -> str:
    """Bytes."""
    if count < 0:
        return "no limit"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def age(ms: float) -> str:
    """How long, in the two largest units that say something."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def plural(word: str, count: float) -> str:
    """A word of so many."""
    return word if count == 1 else f"{word}s"


def short(text: str, most: int = 200) -> Kept:
    """A name that somebody else gave, cut where a key is."""
    return visible(text if len(text) <= most else f"{text[:most]}…", lines=False)


_JOINTS = re.compile(r"[:./,=]+(?=.)")


def jointed(value: object) -> object:
    """A text that is broken between its parts, and within one of them only where it does not fit."""
    if not isinstance(value, str):
        return value
    text, parts, end = visible(value, lines=False), [], 0
    for found in _JOINTS.finditer(text):
        parts += [escape(text[end : found.end()]), Markup("<wbr>")]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def one_line(data: bytes | None, most: int = 200) -> str:
    """Bytes as text on one line: what is not UTF-8 as hex, what cannot be seen escaped."""
    if data is None:
        return ""
    cut = data[: most * 4]
    try:
        text = cut.decode()
    except UnicodeDecodeError as error:
        # it may only have been cut within a character
        text = cut[: error.start].decode() if error.start > len(cut) - 4 and len(data) > len(cut) else ""
        if not text:
            return cut[: most // 2].hex() + ("…" if len(data) > most // 2 else "")
    text = visible(text, lines=False)
    return text if len(text) <= most and len(cut) == len(data) else text[:most] + "…"


class Kept(str):
    """A text that templates show as it is: `visible` has looked at it, or it is what a form sends back."""

    __slots__ = ()


def visible(text: str, *, lines: bool = True) -> Kept:
    """Text whose characters can all be seen: those that turn its direction round, or ring the bell, are escaped."""
    if text.isprintable():
        return Kept(text)
    kept = "\n\t" if lines else ""
    odd = [each for each in set(text) if not each.isprintable() and each not in kept]
    return Kept(text.translate({ord(each): f"\\u{ord(each):04x}" for each in odd}) if odd else text)


def any_value(value: object) -> object:
    """What a template is given, on its way into the page: names, keys and sentences are on one line, and visible."""
    if not isinstance(value, str) or isinstance(value, Kept | Markup) or value.isprintable():
        return value
    return visible(value, lines=False)


class Value(NamedTuple):
    """A value to be shown."""

    # JSON, text or hex
    kind: str
    text: Markup
    # whether there is more of it
    cut: bool


def value(data: bytes, wanted: str = "") -> Value:
    """`wanted`: json, text or hex; otherwise what it looks like."""
    if wanted != "hex":
        text: str | None = None
        try:
            if (
                wanted != "text"
                and 0 < len(data) <= LARGEST_JSON
                and data.lstrip()[:1] in b'{["-0123456789tfn'
            ):
                return _json("JSON", data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace") if wanted == "text" else None
        if text is not None:
            return Value("text", escape(visible(text[:LARGEST_TEXT])), len(text) > LARGEST_TEXT)
    return Value("hex", escape(in_hex(data[:HEX_BYTES])), len(data) > HEX_BYTES)


def by_schema(kind: str, data: bytes) -> Value:
    """JSON that was made of a value by its schema; `kind` as registries say it."""
    return _json(kind.capitalize(), data)


def _json(kind: str, data: bytes) -> Value:
    """JSON, in lines unless that makes a great many of them. Raises msgspec.DecodeError, UnicodeDecodeError,
    RecursionError.
    """
    orderly = len(data) <= LARGEST_JSON and not _is_deep(data)
    text = (msgspec.json.format(data, indent=2) if orderly else msgspec.json.format(data, indent=-1)).decode()
    return Value(kind, _coloured(visible(text[:LARGEST_TEXT])), len(text) > LARGEST_TEXT)


def _is_deep(data: bytes) -> bool:
    """Whether JSON is nested more than DEEPEST deep: a few bytes would make lines of a megabyte together."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    level = [msgspec.json.decode(data)]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def in_hex(data: bytes) -> str:
    """Sixteen bytes a line: where, the bytes, and those that are ASCII."""
    lines = []
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        seen = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {seen}")
    return "\n".join(lines)


_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)')


def _coloured(text: str) -> Markup:
    """JSON with names, texts and numbers told apart."""
    if len(text) > LARGEST_COLOURED:
        return escape(text)
    out: list[str] = []
    at = 0
    for found in _TOKEN.finditer(text):
        out.append(str(escape(text[at : found.start()])))
        word, colon, plain = found.groups()
        kind = "j-n" if plain else "j-k" if colon else "j-s"
        out.append(f'<span class="{kind}">{escape(word or plain)}</span>{colon or ""}')
        at = found.end()
    out.append(str(escape(text[at:])))
    return Markup("".join(out))
