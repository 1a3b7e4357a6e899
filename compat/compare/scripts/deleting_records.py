"""DeleteRecords."""

from __future__ import annotations

from compat.compare.scripts.common import batch, create, fetch, store, wanted
from compat.compare.server import Server


def script(server: Server) -> None:
    for version in server.versions("DeleteRecords"):
        deleted, compacted, both = f"d{version}", f"keep{version}", f"both{version}"
        create(server, deleted)
        create(server, compacted, cleanup__policy="compact")
        create(server, both, cleanup__policy="compact,delete")
        for topic in (deleted, compacted, both):
            store(server, topic, batch(*[b"v"] * 5, key=b"k"))

        def ask(label: str, topic: str, *asked: tuple[int, int], version: int = version) -> None:
            parts = [{"partition_index": index, "offset": offset} for index, offset in asked]
            body = {"topics": [{"name": topic, "partitions": parts}], "timeout_ms": 30_000}
            server.ask(label, "DeleteRecords", version, body)

        ask("below 2", deleted, (0, 2))
        ask("below 1 after that", deleted, (0, 1))
        ask("beyond the end", deleted, (0, 6))
        ask("a negative offset", deleted, (0, -2))
        ask("a missing partition", deleted, (7, 0))
        ask("a negative partition", deleted, (-1, 0))
        ask("a missing topic", "missing", (0, 0))
        ask("of a compacted topic", compacted, (0, 2))
        ask("of a compacted topic that is trimmed too", both, (0, 2))
        ask("a partition twice", deleted, (0, 3), (0, 3))
        ask("no partitions", deleted)
        ask("all", deleted, (0, -1))
        ask("all again", deleted, (0, -1))
        server.ask("nothing", "DeleteRecords", version, {"topics": [], "timeout_ms": 30_000})
        fetch(server, f"after it, from 0, v{version}", 11, [wanted(deleted)])
        fetch(server, f"after it, from the end, v{version}", 11, [wanted(deleted, 0, 5)])
