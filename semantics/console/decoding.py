"""Bytes that clients wrote, as people read them: JSON, text, or the first bytes in hexadecimal.

They come from anybody. So at most LONGEST bytes are looked at, and what is given is always something that JSON can
carry and a reader can walk: nested at most DEEPEST deep, no number beyond 64 bits, no NaN, no half of a surrogate
pair. What is not so is shown as text, or as bytes.

Confluent's serializers put a zero byte and four bytes with the id of a schema in front (its documentation calls it the
wire format). A value that begins so is told with the id; what follows is shown when it is JSON or text. Avro and
Protobuf take the schema: where that is in reach, `gateway/admin/schemas.py` has them decoded.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

LONGEST = 64 * 1024
"""Bytes that are looked at."""
DEEPEST = 64
"""Objects and arrays inside of each other."""
PREVIEW = 256
"""Bytes that are shown of what is no text."""

JSON, TEXT, HEX = "json", "text", "hex"

PREFIX = 5
"""Bytes of the zero and of the schema's id."""
_INT64 = range(-(2**63), 2**63)
_MOST_DIGITS = 20
# what JSON may begin with; a bare number or word is text
_BEGINS = b'{["'
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Decoded(NamedTuple):
    """What some bytes say. `value` is text, but for JSON, where it is what was parsed."""

    kind: str
    value: Any
    schema_id: int | None = None
    cut: bool = False
    """True when it says less than there is"""


def decoded(data: bytes) -> Decoded:
    """What these bytes say. Never raises."""
    cut = len(data) > LONGEST
    schema_id = schema_of(data)
    if schema_id is not None:
        body = data[PREFIX : LONGEST + 1]
        kind, value = _said(body, cut)
        if kind != HEX:
            return Decoded(kind, value, schema_id, cut)
        return Decoded(HEX, data[:PREVIEW].hex(), schema_id, len(data) > PREVIEW)
    kind, value = _said(data[:LONGEST], cut)
    return Decoded(kind, value, None, cut or (kind == HEX and len(data) > PREVIEW))


def schema_of(data: bytes) -> int | None:
    """The id of the schema that Confluent's serializers put in front; None of anything else."""
    if len(data) <= PREFIX or data[0] != 0:
        return None
    # registries count from 1, with signed numbers
    found = int.from_bytes(data[1:PREFIX], "big")
    return found if 0 < found < 2**31 else None


def _said(data: bytes, cut: bool) -> tuple[str, Any]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # a letter that was cut through
        if not cut or error.start < len(data) - 3:
            return HEX, data[:PREVIEW].hex()
        data = data[: error.start]
        text = data.decode()
    if not cut and data.lstrip()[:1] in _BEGINS and data.strip():
        try:
            return JSON, _parsed(data, text)
        except (ValueError, RecursionError):
            pass
    if _CONTROL.search(text):
        return HEX, data[:PREVIEW].hex()
    return TEXT, text


def _parsed(data: bytes, text: str) -> Any:
    """Raises ValueError, RecursionError for what is no JSON, or none that can be shown."""
    value = json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_no_number)
    if _SURROGATE.search(data):
        # raises UnicodeEncodeError, which is a ValueError, for half a pair
        json.dumps(value, ensure_ascii=False).encode()
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value)
    return value


def _whole(digits: str) -> int | str:
    """What is beyond 64 bits stays the text that it was."""
    if len(digits) > _MOST_DIGITS:
        return digits
    found = int(digits)
    return found if found in _INT64 else digits


def _real(digits: str) -> float | str:
    found = float(digits)
    return found if math.isfinite(found) else digits


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON.")


def _check_depth(value: Any) -> None:
    """Raises ValueError."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError("It is nested too deep.")
