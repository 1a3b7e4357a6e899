"""How fast something may go: messages and bytes in a time, as Pulsar's rates of publishing and dispatching say it.

Two buckets of tokens, one of messages and one of bytes. Each is filled evenly and holds what one period brings. What is
done is taken out afterwards, also where that is more than there is: then nothing more may go until the debt is paid.
Pure: whoever asks says what time it is.
"""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """What may go in a time. 0 and less is no limit."""

    messages: int = 0
    bytes: int = 0
    period_ms: int = 1000
    relative: bool = False
    """to what is published: that much may go besides"""

    @property
    def limits(self) -> bool:
        """Whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0


class _Bucket:
    """Tokens of one kind, in 1/period of a token: whole numbers, so that nothing is lost by rounding."""

    __slots__ = ("_at", "_besides", "_besides_since", "_least", "_level", "_period", "_rate")

    def __init__(self, rate: int, period_ms: int, now: int, most_debt_ms: int) -> None:
        self._rate = rate
        self._least = -rate * most_debt_ms
        # what was added besides, and since when
        self._besides = 0
        self._besides_since = now
        self._period = period_ms
        self._level = rate * period_ms
        self._at = now

    def _fill(self, now: int) -> None:
        passed, self._at = max(now - self._at, 0), now
        if now - self._besides_since >= self._period:
            self._besides = 0
        most = self._rate * self._period + self._besides
        self._level = min(self._level + passed * self._rate, most)

    def room(self, now: int) -> int:
        """Whole tokens that are there; 0 where there is debt."""
        self._fill(now)
        return max(self._level // self._period, 0)

    def change(self, tokens: int, now: int) -> None:
        """More of them, for as long as a period, or fewer."""
        self._fill(now)
        if tokens > 0:
            if not self._besides:
                self._besides_since = now
            self._besides += tokens * self._period
        self._level = max(self._level + tokens * self._period, self._least)

    def wait(self, now: int) -> int:
        """ms until there is one."""
        self._fill(now)
        missing = self._period - self._level
        return -(-missing // self._rate) if missing > 0 else 0


NO_LIMIT = 1 << 62
FOR_EVER = 1 << 62
"""ms"""


class Throttle:
    """One rate at work. Times in ms, of a clock that does not go back."""

    __slots__ = ("_bytes", "_messages", "rate")

    def __init__(self, rate: Rate, now: int, most_debt_ms: int = FOR_EVER) -> None:
        """`most_debt_ms`: what is more than can be paid in that time is forgiven."""
        self.rate = rate
        kinds = rate.messages, rate.bytes
        self._messages, self._bytes = (
            _Bucket(each, rate.period_ms, now, most_debt_ms) if each > 0 else None for each in kinds
        )

    def room(self, now: int) -> tuple[int, int]:
        """(messages, bytes) that may go now, NO_LIMIT where nothing is said of them. Nothing may where one is 0."""
        messages = self._messages.room(now) if self._messages is not None else NO_LIMIT
        size = self._bytes.room(now) if self._bytes is not None else NO_LIMIT
        return messages, size

    def spend(self, messages: int, size: int, now: int) -> None:
        """So much went."""
        self._change(-messages, -size, now)

    def published(self, messages: int, size: int, now: int) -> None:
        """So much was published: where the rate is relative to that, as much may go besides."""
        if self.rate.relative:
            self._change(messages, size, now)

    def _change(self, messages: int, size: int, now: int) -> None:
        if self._messages is not None:
            self._messages.change(messages, now)
        if self._bytes is not None:
            self._bytes.change(size, now)

    def wait(self, now: int) -> int:
        """ms until something may go; 0: it may now."""
        waits = [each.wait(now) for each in (self._messages, self._bytes) if each is not None]
        return max(waits, default=0)
