"""What a connection is doing, and why it is not read: two tables that `connection.py` goes by.

A connection is in one `State`. Whether it is read does not follow from that: reasons not to come from the client, from
the memory of the whole gateway and from its stop, whatever is being served. So these are a sum of their own.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    OPEN = auto()
    """Requests are served as they come. Produce requests may be on their way to the store."""
    WORKING = auto()
    """A request that holds back what comes behind it waits for a handler, a disk, or batches prepared in a thread."""
    JOINING = auto()
    """The same, but it may wait for long and has no effect yet (JoinGroup, SyncGroup): a stop does not wait for it."""
    PARKED = auto()
    """A fetch waits for records. The next request ends its wait, and so does a stop."""
    SENDING = auto()
    """A large answer is on its way, by a thread or after it was read again."""
    CLOSING = auto()
    """It ends when that large answer has left, or cannot any more."""
    CLOSED = auto()
    """Nothing is served any more. What was written leaves, unless the client is gone."""


LEGAL: dict[State, frozenset[State]] = {
    State.OPEN: frozenset({State.WORKING, State.JOINING, State.PARKED, State.SENDING, State.CLOSED}),
    State.WORKING: frozenset({State.OPEN, State.SENDING, State.CLOSED}),
    State.JOINING: frozenset({State.OPEN, State.CLOSED}),
    State.PARKED: frozenset({State.OPEN, State.WORKING, State.SENDING, State.CLOSED}),
    State.SENDING: frozenset({State.OPEN, State.CLOSING}),
    State.CLOSING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}
"""Which states may follow which."""

# Why a connection is not read. Any of these is enough, and it is read again when none is left.
BUSY = 1
"""What came cannot be served yet, or as much as may be is in flight."""
UNREAD = 2
"""The client does not read its answers."""
MEMORY = 4
"""Memory is short over all connections."""
THROTTLED = 32
"""The client has published faster than it may (KIP-219)."""
STOPPING = 8
"""The gateway stops: it ends as soon as what is in flight is answered."""
ENDED = 16
"""It is closing or closed. The transport reads no more by itself once it is told to close."""
