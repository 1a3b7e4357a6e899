"""Records as `topics produce` reads them and `topics consume` writes them: lines, JSON, templates. No I/O."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO

from gateway.cli import terminal
from gateway.cli.admin_client import AdminError, Misused, pair

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class Record:
    """One record, to be sent or received. -1 and None stand for what is not known."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    topic: str = ""
    partition: int = -1
    offset: int = -1
    # ms since 1970
    timestamp: int = -1
    # of a share group: how often it was delivered, this time included
    deliveries: int | None = None


# -- read


def from_lines(
    lines: Iterable[bytes], separator: bytes = b"", null_when_empty: bool = False, keyless: bool = False
) -> Iterator[Record]:
    """A record a line, without the newline. With a separator the key stands in front of its first occurrence; a line
    without one is refused by its number, unless lines may be `keyless`. Raises AdminError.
    """
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b"\r\n") if line.endswith(b"\r\n") else line.removesuffix(b"\n")
        key: bytes | None = None
        if separator and separator in text:
            key, _, text = text.partition(separator)
        elif separator and not keyless:
            raise AdminError(
                f"Line {number} has no key: there is no '{_shown(separator)}' in it."
                " With --key its key is the one that is written there."
            )
        yield Record(None if null_when_empty and not text else text, key)


_TAKEN = {"key", "keyBase64", "value", "valueBase64", "headers"}
_PASSED_OVER = {"topic", "partition", "offset", "timestamp", "time", "deliveryCount"}


def from_json(lines: Iterable[bytes]) -> Iterator[Record]:
    """A JSON object a line, as `consume --format json` writes them. Raises AdminError that names the line.

    Taken are key, value (or keyBase64, valueBase64) and headers; a value that is no text is sent as its JSON.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("it is no object")
            unknown = found.keys() - _TAKEN - _PASSED_OVER
            if unknown:
                raise ValueError(f"there is no field {sorted(unknown)[0]!r}")
            if not found.keys() & {"value", "valueBase64"}:
                raise ValueError("it has no value")
            yield Record(_bytes(found, "value"), _bytes(found, "key"), _headers(found.get("headers")))
        except (ValueError, RecursionError) as error:
            raise AdminError(
                f"Line {number} is no record: {error}."
                ' Write {"key": "ada", "value": "3 apples", "headers": {"colour": "red"}}.'
            ) from None


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    coded = found.get(name + "Base64")
    if coded is not None:
        if not isinstance(coded, str):
            raise ValueError(f"{name}Base64 is no text")
        return base64.b64decode(coded, validate=True)
    value = found.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _headers(found: Any) -> Headers:
    if found is None:
        return []
    if isinstance(found, dict):
        return [(name, _bytes({"value": value}, "value")) for name, value in found.items()]
    if isinstance(found, list) and all(isinstance(each, dict) and "key" in each for each in found):
        return [(str(each["key"]), _bytes(each, "value")) for each in found]
    raise ValueError('headers are {"name": "value"}, or [{"key": "name", "value": "value"}]')


def header(text: str) -> tuple[str, bytes | None]:
    """`name=value`. Raises AdminError."""
    name, value = pair(text, "header")
    return name, value.encode("utf-8", "surrogateescape")


# -- written


def as_json(record: Record) -> str:
    """One line. Bytes that are no text stand in `keyBase64`, `valueBase64`."""
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _put(found, "key", record.key)
    _put(found, "value", record.value)
    found["headers"] = []
    for name, value in record.headers:
        each: dict[str, Any] = {"key": name}
        _put(each, "value", value)
        found["headers"].append(each)
    if record.deliveries is not None:
        found["deliveryCount"] = record.deliveries
    return terminal.as_json(found)


def _put(found: dict[str, Any], name: str, value: bytes | None) -> None:
    try:
        found[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        found[name + "Base64"] = base64.b64encode(value).decode()


def human(record: Record) -> str:
    """One line for a person: `[0:17 2026-01-01T12:00:00.000Z] ada: 3 apples {colour=red} (delivery 2)`."""
    parts = [f"[{record.partition}:{record.offset}{_when(record.timestamp)}]"]
    parts.append(
        f"{_shown(record.key)}: {_shown(record.value)}" if record.key is not None else _shown(record.value)
    )
    if record.headers:
        parts.append(
            "{"
            + ", ".join(f"{terminal.visible(name)}={_shown(value)}" for name, value in record.headers)
            + "}"
        )
    if record.deliveries is not None and record.deliveries > 1:
        parts.append(f"(delivery {record.deliveries})")
    return " ".join(parts)


def iso(ms: int) -> str:
    """`2026-01-01T12:00:00.000Z`; the number where it is no date that there can be."""
    try:
        return (
            datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return str(ms)


def _when(ms: int) -> str:
    return f" {iso(ms)}" if ms >= 0 else ""


def _shown(value: bytes | None) -> str:
    """Text on one line: what a terminal must not see is escaped."""
    if value is None:
        return "(null)"
    return terminal.visible(value.decode("utf-8", "backslashreplace"))


def quoted(text: str) -> str:
    """In quotes, on one line, and otherwise as it was written."""
    return f"'{terminal.visible(text)}'"


_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "e": b"\x1b"}


def unescaped(text: str, where: str = "--format") -> bytes:
    r"""`\t`, `\n`, `\x1f` and their like as the bytes that they mean. Raises AdminError for what has no meaning."""
    out = b""
    for part in re.split(r"(\\(?:x[0-9a-fA-F]{2}|.)?)", text, flags=re.DOTALL):
        if not part.startswith("\\"):
            out += part.encode("utf-8", "surrogateescape")
        elif part[1:] in _ESCAPES:
            out += _ESCAPES[part[1:]]
        elif len(part) == 4:
            out += bytes([int(part[2:], 16)])
        else:
            raise Misused(
                f"{quoted(part)} means nothing in {where}."
                r" There are \n \t \r \0 \e, \x and two hexadecimal digits, and \\ for the backslash itself."
            )
    return out


class Template:
    """kcat's: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its length, %h headers, %T
    timestamp in ms, %d deliveries, %% a percent sign; escapes as in `unescaped`. Nothing is added behind a record.
    """

    def __init__(self, text: str) -> None:
        """Raises AdminError for what has no meaning."""
        self._parts: list[bytes | str] = []
        for part in re.split(r"(%.?)", text, flags=re.DOTALL):
            if part == "%%":
                self._parts.append(b"%")
            elif part.startswith("%"):
                if part[1:] not in _FIELDS:
                    raise Misused(
                        f"{quoted(part)} means nothing in --format. There are %t %p %o %k %K %s %S %h %T %d and %%."
                    )
                self._parts.append(part[1:])
            elif part:
                self._parts.append(unescaped(part))

    def render(self, record: Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else _FIELDS[part](record) for part in self._parts)


def _length(value: bytes | None) -> bytes:
    """-1 for null, as kcat has it."""
    return b"-1" if value is None else str(len(value)).encode()


_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "s": lambda record: record.value or b"",
    "S": lambda record: _length(record.value),
    "h": lambda record: b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
    ),
    "T": lambda record: str(record.timestamp).encode(),
    "d": lambda record: str(record.deliveries or 0).encode(),
}


def binary(name: str) -> BinaryIO:
    """stdin or stdout as bytes."""
    stream: BinaryIO = getattr(sys, name).buffer
    return stream


# -- times

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def span_ms(text: str) -> int:
    """`500ms`, `5s`, `1.5m`, `2h`, `3d`, `1w`; a bare number is seconds. Raises AdminError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])?", text)
    if match is None:
        raise Misused(f"{text!r} is no time span: write 500ms, 5s, 10m, 2h, 3d or 1w.")
    return int(float(match[1]) * _UNITS[match[2] or "s"])


def moment_ms(text: str) -> int:
    """ms since 1970, or a date as in ISO 8601 (UTC unless it says otherwise). Raises AdminError."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(
            f"{text!r} is no point in time: write 2026-01-31T12:00:00Z, or milliseconds since 1970."
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
