"""Properties that somebody keeps with a topic or a namespace: texts by name, as they come in a body; and how much may
be kept.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gateway.admin.exchange import RefusedError

MOST = 65_536
"""Bytes of all properties of a topic or a namespace, and of all its permissions: its row is read whole."""

_T = TypeVar("_T")


def fits(kept: _T, what: str) -> _T:
    """`kept`. Refuses with 412 what is more than MOST bytes."""
    size = len(msgspec.msgpack.encode(kept))
    if size > MOST:
        raise RefusedError(412, f"{what} have at most {MOST} bytes together; that would be {size}.")
    return kept


def read(value: object) -> dict[str, str]:
    """Those of a body; None is none. Refuses with 400 what is no object of texts, with 412 one without a name."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise RefusedError(400, 'Properties are an object with texts, such as {"team": "billing"}.')
    if "" in value:
        raise RefusedError(412, "A property has a name: write it as KEY=VALUE.")
    return fits(value, "Properties")
