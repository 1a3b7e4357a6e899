"""How many handshakes of TLS may begin, in all and from one address, and how many one address has under way.

Each costs the loop up to a millisecond before anybody knows who asks for it. Pure: time is handed in, in seconds of a
clock that does not go back.
"""

from __future__ import annotations

from collections import Counter

FORGET = 1.0
"""Seconds between two looks for addresses that have nothing to be remembered for."""


BURST = 5
"""Of what one address may begin in a second, a fifth at once: others' requests wait behind all that begin at once."""


class _Bucket:
    """So many at once, and so many a second."""

    __slots__ = ("at", "burst", "level")

    def __init__(self, burst: float, at: float) -> None:
        self.level = self.burst = burst
        self.at = at

    def fill(self, rate: int, now: float) -> float:
        self.level = min(self.level + (now - self.at) * rate, self.burst)
        self.at = now
        return self.level


class Handshakes:
    """Of all listeners. An address that does not wait for its turn takes no turn from others."""

    def __init__(self, per_second: int, per_address: int, now: float) -> None:
        self._per_second = per_second
        self._per_address = per_address
        self._burst = max(per_address // BURST, 1)
        self._all = _Bucket(per_second, now)
        self._addresses: dict[str, _Bucket] = {}
        self._forgot_at = now
        self.under_way: Counter[str] = Counter()
        """by address"""

    def wait(self, now: float) -> float:
        """Seconds until another one may begin; 0: now."""
        level = self._all.fill(self._per_second, now)
        return 0.0 if level >= 1 else (1 - level) / self._per_second

    def begin(self, address: str, now: float) -> float | None:
        """One is to begin in so many seconds, 0 for now; None where as many of this address came at once as it may
        begin in two seconds. `end` follows unless it is None.
        """
        self._forget(now)
        bucket = self._addresses.get(address)
        if bucket is None:
            bucket = self._addresses[address] = _Bucket(self._burst, now)
        if bucket.fill(self._per_address, now) < 1 + self._burst - 2 * self._per_address:
            return None
        # what is below nothing is owed: whoever comes waits until it is there
        bucket.level -= 1
        self._all.fill(self._per_second, now)
        self._all.level -= 1
        self.under_way[address] += 1
        return max(0.0, -bucket.level / self._per_address)

    def end(self, address: str) -> None:
        """One is over, whatever came of it."""
        self.under_way[address] -= 1
        if not self.under_way[address]:
            del self.under_way[address]

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._addresses)

    def _forget(self, now: float) -> None:
        if now - self._forgot_at < FORGET:
            return
        self._forgot_at = now
        self._addresses = {
            address: bucket
            for address, bucket in self._addresses.items()
            if bucket.fill(self._per_address, now) < self._burst
        }
