"""Backlog quotas: when what a topic's subscriptions have not acknowledged is too much or too old, and what then.

A backlog is what lies behind the slowest subscription of a partition. Two quotas bound it, each with an action of its
own: one its bytes (Pulsar's destination_storage), one the age of its oldest message (message_age). A quota is used up
when the backlog has reached it: the message that reaches it is taken, the next is not.

Source: seed 2, "Backlog quotas"; Pulsar's BacklogQuotaManager, PersistentTopic.checkBacklogQuotaExceeded and
AdminResource.checkBacklogQuota.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Action(enum.StrEnum):
    """What happens when a quota is used up, by Pulsar's names."""

    HOLD = "producer_request_hold"
    """who publishes waits, and is told to try again"""
    REFUSE = "producer_exception"
    """who publishes is refused"""
    EVICT = "consumer_backlog_eviction"
    """the oldest messages are settled for the slowest subscriptions"""


ACTIONS = tuple(str(action) for action in Action)

EVICTED_TO = 0.9
"""As much of a quota of bytes is left when messages were evicted, so that not each one that comes evicts one."""


EVICTS_AGAIN_MS = 1000
"""So long after messages were evicted for their age nobody looks for more."""


class Quota(NamedTuple):
    """Of one topic; each partition has it for itself. -1 is no limit."""

    size: int = -1
    """bytes"""
    size_action: Action = Action.HOLD
    age: int = -1
    """ms"""
    age_action: Action = Action.HOLD

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self.size >= 0 or self.age >= 0

    @property
    def keeps_out(self) -> bool:
        """Whether publishers may be kept out: by eviction nobody ever is."""
        return (self.size >= 0 and self.size_action is not Action.EVICT) or (
            self.age >= 0 and self.age_action is not Action.EVICT
        )


class Usage(NamedTuple):
    """What a partition's slowest subscription has not acknowledged."""

    size: int
    """bytes"""
    oldest: int
    """ms since 1970, when the oldest of it was published; -1 where nobody knows, or there is none"""


class Verdict(NamedTuple):
    """What follows of a usage."""

    action: Action | None = None
    """what keeps publishers from publishing, HOLD or REFUSE; None: nothing does"""
    why: str = ""
    """in a sentence"""
    evict_to: int = -1
    """bytes that may be left of the backlog; -1: none is evicted for its size"""
    evict_before: int = -1
    """ms since 1970: what was published earlier is evicted; -1: none is for its age"""
    room: int = -1
    """bytes that may come before somebody has to look again; -1: any number"""
    until: int = -1
    """ms since 1970, when somebody has to look again; -1: only when something was published"""


def judge(quota: Quota, usage: Usage, now: int) -> Verdict:
    """What a quota says to a usage at `now` (ms since 1970). Acknowledgements may only make it milder, so that nobody
    has to look before `room` is used up and `until` has come.
    """
    action: Action | None = None
    why = ""
    evict_to = evict_before = until = room = -1
    over = 0 <= quota.size <= usage.size
    if over and quota.size_action is Action.EVICT:
        evict_to = int(quota.size * EVICTED_TO)
        room = max(quota.size - evict_to, 1)
    elif over:
        action = quota.size_action
        why = f"Its backlog has {usage.size} bytes, and its quota is {quota.size}"
    elif quota.size >= 0:
        room = quota.size - usage.size
    if quota.age >= 0:
        due = usage.oldest + quota.age if usage.oldest >= 0 else now + quota.age
        # the age is that of a message that waits: one that has just come is not too old
        old = usage.oldest >= 0 and due <= now
        if old and quota.age_action is Action.EVICT:
            evict_before, until = now - quota.age, now + EVICTS_AGAIN_MS
        elif old and action is None:
            action = quota.age_action
            why = f"The oldest message of its backlog is {now - usage.oldest} ms old, and its quota is {quota.age}"
        elif not old:
            until = due
    return Verdict(action, why, evict_to, evict_before, room, until)


def against_retention(size: int, age: int, kept_size: int, kept_ms: int) -> str | None:
    """What is wrong with a quota of `size` bytes and `age` ms where acknowledged messages are kept up to `kept_size`
    bytes and `kept_ms`, or None. A limit of 0 or less is none.
    """
    if 0 < kept_size <= size:
        return f"A backlog quota of {size} bytes is to be below the retention, which is {kept_size} bytes."
    if 0 < kept_ms <= age:
        return f"A backlog quota of {age} ms is to be below the retention, which is {kept_ms} ms."
    return None
