"""What is refused until transactions and security are served: how it is said."""

from __future__ import annotations

from compat.compare.scripts.common import batch, create, produce_body
from compat.compare.server import Server


def script(server: Server) -> None:
    create(server, "t")
    for version in server.versions("InitProducerId"):
        body = {"transactional_id": "t1", "transaction_timeout_ms": 60_000}
        server.ask("a transactional id", "InitProducerId", version, body)
        server.ask(
            "a transactional id, a timeout too long",
            "InitProducerId",
            version,
            {**body, "transaction_timeout_ms": 2**31 - 1},
        )
    for version in server.versions("FindCoordinator"):
        if version >= 4:
            server.ask(
                "of a transaction", "FindCoordinator", version, {"key_type": 1, "coordinator_keys": ["t1"]}
            )
        elif version >= 1:
            server.ask("of a transaction", "FindCoordinator", version, {"key": "t1", "key_type": 1})
    server.ask(
        "produce in a transaction",
        "Produce",
        9,
        produce_body(server, "t", batch(b"a", producer=(9, 0, 0), transactional=True), transactional_id="t1"),
    )
