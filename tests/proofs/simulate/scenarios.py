"""What is simulated: how many consumers there are, what they do, and what breaks."""

from __future__ import annotations

from dataclasses import dataclass

from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.config import SubscriptionConfig


@dataclass(frozen=True)
class Scenario:
    """One kind of life. Shares are of 1."""

    name: str
    config: SubscriptionConfig
    mode: str = "auto_split"
    messages: int = 3000
    consumers: int = 60
    """present at a time"""
    life_ms: int = 20_000
    """of a consumer, on average"""
    keys: int = 200
    publish_ms: int = 20_000
    """how long the producers take"""
    crash_every_ms: int = 4000
    """of the gateway, on average; 0 is never"""
    released: float = 0.06
    rejected: float = 0.01
    forgotten: float = 0.01
    renewed: float = 0.05
    poison: float = 0.01
    delayed: float = 0.05
    keyless: float = 0.1
    stalling: float = 0.05
    """of the consumers: they hold what they have for longer than any lock"""
    administer_ms: int = 0
    """between what administrators do, on average: trim, skip, clear, seek, other limits; 0 is never"""


BACKOFF = Backoff(100, 2000)


LIVELY = SubscriptionConfig(
    lock_ms=1500,
    max_locks=500,
    delivery_limit=4,
    nack_backoff=BACKOFF,
    timeout_backoff=BACKOFF,
    lookahead=300,
)


def scenarios() -> list[Scenario]:
    """The lives that a run goes through."""

    def key_shared(**changes: object) -> SubscriptionConfig:
        return SubscriptionConfig(
            **{
                **{name: getattr(LIVELY, name) for name in LIVELY.__dataclass_fields__},
                "type": "key_shared",
                **changes,
            }
        )

    return [
        Scenario("shared", LIVELY),
        Scenario("shared-kafka", SubscriptionConfig(lock_ms=1500, dead_letters=False)),
        Scenario("strict", key_shared()),
        Scenario("strict-ring", key_shared(nack_backoff=None), mode="consistent_hashing", consumers=20),
        Scenario("strict-no-crash", key_shared(), crash_every_ms=0),
        Scenario("sticky", key_shared(), mode="sticky"),
        Scenario("not-strict", key_shared(strict=False)),
        Scenario("out-of-order", key_shared(strict=False, allow_out_of_order=True)),
        Scenario("few-locks", key_shared(max_locks=20, lookahead=50)),
        Scenario("administered", LIVELY, administer_ms=1500),
        Scenario("strict-administered", key_shared(), administer_ms=1500),
    ]
