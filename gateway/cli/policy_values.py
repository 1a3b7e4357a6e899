"""Times, sizes and other values of policies as people type them, and as bodies of the admin API have them."""

from __future__ import annotations

import re
from typing import Any

from gateway.cli.admin_client import Misused
from semantics.policies import MOST_INT
from semantics.policy_form import Field, Form, Reads

_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_AMOUNT = re.compile(r"(-?\d{1,18})\s*([a-zA-Z]?)\Z")


_ENDLESS = "-1 for no limit"
"""What is said beside an amount."""


def seconds(text: str, beside: str = _ENDLESS) -> int:
    """`90m` in seconds; a bare number is seconds, and -1 is no limit where that is `beside`. Raises AdminError."""
    return _amount(text, _TIMES, "time", "100 (seconds), 30m, 12h, 7d, 2w, 1y", beside)


def size(text: str, beside: str = _ENDLESS) -> int:
    """`16m` in bytes; a bare number is bytes, and -1 is no limit, likewise. Raises AdminError."""
    return _amount(text, _SIZES, "size", "1000000 (bytes), 64k, 16m, 10g, 1t", beside)


def _amount(text: str, units: dict[str, int], what: str, forms: str, beside: str) -> int:
    match = _AMOUNT.match(text.strip())
    number = int(match[1]) if match else 0
    least = -1 if beside == _ENDLESS else 0
    if match is None or match[2].lower() not in units or number < least:
        raise Misused(f"{text!r} is no {what}: write {forms}{', or ' if beside else ''}{beside}.")
    return number * units[match[2].lower()] if number > 0 else number


def _beside(field: Field) -> str:
    """What the flag takes besides an amount."""
    if field.policy.least < 0:
        return _ENDLESS
    return f"0 ({field.none})" if field.none else ""


def read(form: Form, field: Field, given: Any) -> Any:
    """What a flag says, as the body has it. What is beyond a whole unit is left away."""
    if field.reads in (Reads.NUMBER, Reads.NAME, Reads.FLAG):
        return given
    if field.reads is Reads.NAMES:
        return [each.strip() for each in given.split(",") if each.strip()]
    # a policy in ms, of which one is 1000 of a second
    beside = _beside(field)
    amount = seconds(given, beside) * 1000 if field.reads is Reads.TIME else size(given, beside)
    if amount < 0:
        return -1
    whole = amount // field.unit
    if amount and not whole:
        units = " and ".join(each.unit_name for each in form.fields)
        raise Misused(
            f"{form.title.capitalize()} is counted in whole {units}: say one or more of each, 0, or -1."
        )
    if whole > MOST_INT and field.unit > 1:
        raise Misused(f"{given!r} is more than can be said: say {MOST_INT} {field.unit_name} at most.")
    return whole
