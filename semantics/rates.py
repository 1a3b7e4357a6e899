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

    __slots__ = ("_at", "_level", "_period", "_rate")

    def __init__(self, rate: int, period_ms: int, now: int) -> None:
        self._rate = rate
        self._period = period_ms
        self._level = rate * period_ms
        self._at = now

    def _fill(self, now: int) -> None:
        passed, self._at = max(now - self._at, 0), now
        self._level = max(min(self._level + passed * self._rate, self._rate * self._period), self._level)

    def room(self, now: int) -> int:
        """Whole tokens that are there; 0 where there is debt."""
        self._fill(now)
        return max(self._level // self._period, 0)

    def change(self, tokens: int, now: int) -> None:
        """More of them, or fewer."""
        self._fill(now)
        self._level += tokens * self._period

    def wait(self, now: int) -> int:
        """ms until there is one."""
        self._fill(now)
        missing = self._period - self._level
        return -(-missing // self._rate) if missing > 0 else 0


NO_LIMIT = 1 << 62


class Throttle:
    """One rate at work. Times in ms, of a clock that does not go back."""

    __slots__ = ("_bytes", "_messages", "rate")

    def __init__(self, rate: Rate, now: int) -> None:
        self.rate = rate
        self._messages = _Bucket(rate.messages, rate.period_ms, now) if rate.messages > 0 else None
        self._bytes = _Bucket(rate.bytes, rate.period_ms, now) if rate.bytes > 0 else None

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
