"""Requests of the classic protocol, and which kind of groups takes them: the one that has the group. A group without
members is taken over by who joins it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.broker.loading import after

if TYPE_CHECKING:
    from gateway.broker.committing import Committing
    from gateway.broker.consumer_groups import ConsumerGroups
    from gateway.broker.groups import Groups
    from gateway.coordinators.classic_events import Request


class ClassicRequests:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup of all groups."""

    def __init__(self, committing: Committing, classic: Groups, consumer: ConsumerGroups) -> None:
        self._committing = committing
        self._classic = classic
        self._consumer = consumer

    def run(self, group_id: str, event: Request) -> Any:
        """Take a request to its group. `event.token` is its Caller; returns the response, or a promise of it."""
        return after(self._committing.loaded(group_id), lambda: self._run(group_id, event))

    def _run(self, group_id: str, event: Request) -> Any:
        if self._committing.of(group_id) is self._consumer and self._consumer.members(group_id):
            return self._consumer.run_classic(group_id, event)
        return self._classic.run(group_id, event)
