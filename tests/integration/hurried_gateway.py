"""`magnetar serve`, but what nobody uses is looked for ten times a second, and unused subscriptions have seconds.

Pulsar counts in minutes how long subscriptions may be unused, and the gateway looks twice a minute. A test that waits
so long would wait for nothing else; all that it tests is as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker import housekeeping, policies
from gateway.cli.main import main

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node

MINUTE_MS = 200
"""What a minute of subscription expiration is here."""


def hurry() -> None:
    """Before a gateway is made."""
    housekeeping.UNUSED_MS = 100
    plain = policies.unused_subscription

    def sooner(node: Node, catalog: Catalog, topic: Topic) -> int:
        return plain(node, catalog, topic) * MINUTE_MS // 60_000

    policies.unused_subscription = sooner


if __name__ == "__main__":
    hurry()
    main(prog_name="magnetar")
