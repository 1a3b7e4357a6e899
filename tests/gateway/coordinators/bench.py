"""Coordinators on the bench: a clock that stands until the test moves it."""

from __future__ import annotations

from typing import Any

from gateway.coordinators.classic_events import Tick


class Bench:
    """One group. Whoever extends it makes `group` and says what `send` answers."""

    group: Any

    def __init__(self) -> None:
        self.now = 1_000_000

    @property
    def state(self) -> str:
        return str(self.group.state.shown)

    def send(self, event: Any) -> Any:
        raise NotImplementedError

    def pass_time(self, ms: int) -> None:
        """Let the time pass, with a Tick at each instant the group asks for."""
        end = self.now + ms
        while (due := self.group.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.send(Tick())
        self.now = end
