"""InitProducerId, and what sequences do to Produce."""

from __future__ import annotations

from compat.compare.scripts.common import batch, create, produce
from compat.compare.server import Server, wait_until

PLAIN = {"transactional_id": None, "transaction_timeout_ms": 60_000}


def script(server: Server) -> None:
    create(server, "i")
    # Kafka's coordinator needs a moment after the start.
    wait_until(lambda: server.quietly("InitProducerId", 4, PLAIN)["error_code"] == 0)
    ids = [
        server.ask("an id", "InitProducerId", version, PLAIN)["producer_id"]
        for version in server.versions("InitProducerId")
    ]
    for version in (v for v in server.versions("InitProducerId") if v >= 3):
        for label, producer, epoch in (
            ("an id again", ids[0], 0),
            ("an id with a later epoch", ids[0], 5),
            ("an id without an epoch", ids[0], -1),
            ("an epoch without an id", -1, 3),
            ("an id that nobody has", 1 << 50, 0),
            ("the last epoch", ids[0], 32767),
        ):
            server.names.start_again()
            server.ask(
                label, "InitProducerId", version, {**PLAIN, "producer_id": producer, "producer_epoch": epoch}
            )
    for version in server.versions("InitProducerId"):
        server.ask("an empty transactional id", "InitProducerId", version, {**PLAIN, "transactional_id": ""})
        for timeout in (0, -1, 2**31 - 1):
            server.names.start_again()
            server.ask(
                f"timeout {timeout}", "InitProducerId", version, {**PLAIN, "transaction_timeout_ms": timeout}
            )
    sequences(server, ids)
    for version in server.versions("DescribeProducers"):
        server.ask(
            "producers",
            "DescribeProducers",
            version,
            {
                "topics": [
                    {"name": "i", "partition_indexes": [0, 1]},
                    {"name": "missing", "partition_indexes": [0]},
                    {"name": "no/slash", "partition_indexes": [0]},
                    {"name": "", "partition_indexes": []},
                ]
            },
        )


def sequences(server: Server, ids: list[int]) -> None:
    server.names.start_again()
    one = ids[0]
    for label, epoch, sequence, count in [
        ("the first", 0, 0, 2),
        ("the next", 0, 2, 1),
        ("a duplicate", 0, 0, 2),
        ("a gap", 0, 10, 1),
        ("a part of a batch", 0, 1, 1),
        ("a batch with a known beginning", 0, 0, 1),
        ("a new epoch that does not begin at 0", 1, 3, 1),
        ("a new epoch", 1, 0, 1),
        ("an old epoch", 0, 3, 1),
        ("the next again", 1, 1, 1),
        ("negative epoch", -1, 2, 1),
        ("negative sequence", 1, -1, 1),
        ("the last epoch", 32767, 0, 1),
    ]:
        produce(server, label, "i", batch(*[b"v"] * count, producer=(one, epoch, sequence)))
    produce(server, "an unknown producer in the middle", "i", batch(b"v", producer=(ids[1], 0, 50)))
    produce(server, "and on from there", "i", batch(b"v", producer=(ids[1], 0, 51)))
    produce(server, "and back at 0", "i", batch(b"v", producer=(ids[1], 0, 0)))
    two = ids[2]
    for sequence in range(7):
        produce(server, "seven", "i", batch(b"v", producer=(two, 0, sequence)))
    for label, sequence in (("five ago", 2), ("six ago", 1), ("seven ago", 0)):
        for version in server.versions("Produce"):
            if version >= 3:
                produce(server, label, "i", batch(b"v", producer=(two, 0, sequence)), version=version)
    three = ids[3]
    produce(server, "near the end", "i", batch(b"v", b"w", producer=(three, 0, 2**31 - 2)))
    produce(server, "over the end", "i", batch(b"v", b"w", producer=(three, 0, 0)))
    produce(server, "a duplicate over the end", "i", batch(b"v", b"w", producer=(three, 0, 2**31 - 2)))
    produce(server, "one batch over the end", "i", batch(b"v", b"w", b"x", producer=(ids[4], 0, 2**31 - 2)))
    produce(server, "behind it", "i", batch(b"v", producer=(ids[4], 0, 1)))
    produce(server, "acks 1 of an idempotent producer", "i", batch(b"v", producer=(ids[5], 0, 0)), acks=1)
