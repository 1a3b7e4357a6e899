"""Whether an edit broke a value: it was JSON and is none any more, and where it breaks. Pure."""

from __future__ import annotations

import json

LONGEST = 16 * 1024
"""Bytes of a value that is read for it: a millisecond or two at most."""


def where_broken(was: bytes | None, now: bytes | None) -> str:
    """Where the edited value breaks, for a person; "" where it does not, or was no JSON before."""
    if was is None or now is None or max(len(was), len(now)) > LONGEST or _fault(was):
        return ""
    return _fault(now)


def _fault(value: bytes) -> str:
    """Why and where it is no JSON; "" for what is."""
    try:
        # numbers may have any length there
        json.loads(value.decode(), parse_int=float)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1}: no UTF-8"
    except (RecursionError, ValueError):
        return "it is nested too deep"
    return ""
