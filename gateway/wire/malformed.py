"""The one error for bytes that are not what they claim to be."""

from __future__ import annotations


class Malformed(ValueError):
    """A request or response that does not follow its schema. The text says where, for the log."""
