"""What people read of a message's state, and the icon beside it. Pure.

States by what the admin API calls them, in small letters. Of open messages and what becomes of them: one that is
`dying` is still open, and a letter is made of it; `dead` is who has one.
"""

from __future__ import annotations

WORDS = {
    "available": "available", "acquired": "in hand", "delayed": "delayed", "backoff": "in backoff",
    "blocked": "blocked", "dying": "dying", "unread": "not looked at", "dead": "dead",
    "done": "settled",
}  # fmt: skip
ICONS = {
    "available": "available", "acquired": "acquired", "delayed": "delayed", "backoff": "backoff", "blocked": "blocked",
    "dying": "dead", "unread": "unread", "dead": "dead", "done": "acked",
}  # fmt: skip
"""Symbols of base.html."""


def state_of(said: str) -> str:
    """The state of a sentence that begins with it: "ACQUIRED by c1"."""
    return said.partition(" ")[0].lower()
