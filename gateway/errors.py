"""Errors of the gateway as a process. Errors of the Kafka protocol are in `gateway.wire.errors`."""

from __future__ import annotations


class StartError(Exception):
    """The gateway cannot start. The text is one plain sentence: what is wrong, and what to do about it."""
