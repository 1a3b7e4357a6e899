"""How long a message waits before it is delivered again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """A wait that grows with every delivery that failed: `min(min_ms x multiplier^(k - 1), max_ms)`.

    With 1 s, 60 s and 2 the k-th redelivery comes after 1, 2, 4, 8, 16, 32, 60, 60 s: after a nack counted from
    the nack, after an acknowledgement timeout counted from its end (10 + 1, 10 + 2, 10 + 4 s …).

    Source: Pulsar's MultiplierRedeliveryBackoff; concepts, "Negative acknowledgment" and "Acknowledgment timeout".
    """

    min_ms: int
    max_ms: int
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        """Raises ValueError, with a sentence for a person."""
        if self.min_ms < 0:
            raise ValueError(f"The shortest backoff is 0 ms or more; not {self.min_ms}.")
        if self.max_ms < self.min_ms:
            raise ValueError(
                f"The longest backoff ({self.max_ms} ms) is shorter than the shortest ({self.min_ms} ms)."
            )
        if not 1 < self.multiplier < float("inf"):
            raise ValueError(f"The multiplier of a backoff is a number above 1; not {self.multiplier}.")

    def delay_ms(self, redelivery: int) -> int:
        """The wait before the given redelivery, the first being 1."""
        try:
            grown = self.min_ms * self.multiplier ** max(redelivery - 1, 0)
        except OverflowError:
            return self.max_ms if self.min_ms else 0
        return int(grown) if grown < self.max_ms else self.max_ms
