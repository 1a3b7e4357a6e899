"""What is done to a cursor from outside: its log is trimmed, records are skipped, it begins anew, has new rules."""

from __future__ import annotations

from semantics.subscriptions.chunks import HELD_RUN, Window
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.due import DueTimes
from semantics.subscriptions.leases import Leases
from semantics.subscriptions.moves import Moves
from semantics.subscriptions.states import ACQUIRED, DONE, NAMES


class Administered(Moves):
    """A cursor as far as administrators see it."""

    __slots__ = ()

    def trimmed(self, log_start: int) -> None:
        """Everything below is gone from the log, or expired: DONE whatever it was."""
        window = self._window
        if log_start <= window.start:
            return
        waiting = self.waiting
        window.trim(log_start)
        if self.waiting < waiting:
            self._idle_due = True
        self._leases.recount(window, log_start)
        self.read = max(self.read, window.start)
        if self._keyed is not None:
            self._keyed.read = self.read
            self._keyed.rebuild()
        self._changed = True

    def expire(self, before: int) -> int:
        """Retention takes what lies below: how many records of it were open. Those not looked at count one each."""
        end = max(before, self._window.known)
        was = self.backlog(end)
        self.trimmed(before)
        taken = was - self.backlog(end)
        self.totals["expired"] += taken
        return taken

    def first_held(self, end: int) -> tuple[int, str] | None:
        """The first offset below `end` that is ACQUIRED, DELAYED, in BACKOFF or DYING, and which; None for none."""
        window = self._window
        if not any(window.n[ACQUIRED:]):
            return None
        for chunk, at, _ in window.runs(window.start, end, HELD_RUN):
            return chunk.base + at, NAMES[chunk.state[at]]
        return None

    def skip(self, count: int, end: int) -> int:
        """Settle the first `count` open records before `end`; those not looked at count one each. How many it were."""
        if count <= 0:
            return 0
        before = self.backlog(end)
        self.trimmed(min(self.nth_open(count) + 1, end))
        return before - self.backlog(end)

    def clear(self, end: int) -> None:
        """Settle everything before `end`."""
        self.trimmed(end)

    def seek(self, offset: int) -> None:
        """Begin anew at this offset: nothing that was known holds any more, and what is in hand is in nobody's."""
        for who in self._consumers.values():
            who.leases.clear()
            who.last = None
            who.in_hand = 0
        self._window = Window(offset)
        self._due = DueTimes()
        self._idle_due = False
        self._leases = Leases()
        self._doomed, self._unburied = [], []
        self._forget = self._changed = True
        keyed = self._keyed
        self._dispatch()
        if keyed is not None and self._keyed is not None:
            self._keyed.reassign(keyed, 0)

    def reconfigure(self, config: SubscriptionConfig) -> None:
        """Other limits from now on; deadlines and due times that were set stay. ValueError: a new type while held."""
        before, self._config = self._config, config
        if before.type != config.type:
            if self._window.n[ACQUIRED]:
                self._config = before
                raise ValueError("The type of a subscription changes only while nobody holds records of it.")
            self._dispatch()
        elif self._keyed is not None and (before.strict, before.allow_out_of_order) != (
            config.strict,
            config.allow_out_of_order,
        ):
            before_keyed, self._keyed = self._keyed, self._keyed_dispatcher()
            self._keyed.adopt(before_keyed, before_keyed.since)

    def nth_open(self, number: int) -> int:
        """The offset of the n-th record that is not settled, from 1; of what was not looked at every offset counts."""
        window, left = self._window, number
        for chunk, at, stop in window.pieces(window.start, window.known):
            there = stop - at - chunk.state.count(DONE, at, stop)
            if there < left:
                left -= there
                continue
            while True:
                left -= chunk.state[at] != DONE
                if not left:
                    return chunk.base + at
                at += 1
        return window.known + left - 1
