"""The one error for bytes that are not what they claim to be."""

from __future__ import annotations

import struct


class Malformed(ValueError):
    """A request or response that does not follow its schema. The text says where, for the log."""


_READERS = ("gateway.wire.", "gateway.apis.", "gateway.connection", "gateway.framing")
"""Modules that read what clients send, some of them by position and without a look at the end"""


def malformed(error: Exception) -> bool:
    """Whether bytes that a client has sent are the reason: an error of reading them, raised where that is done. The
    same error from behind there is a fault of ours.
    """
    if isinstance(error, Malformed):
        return True
    if not isinstance(error, IndexError | struct.error):
        return False
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__", "")).startswith(_READERS)
