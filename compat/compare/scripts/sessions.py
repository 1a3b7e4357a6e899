"""Fetch sessions (KIP-227), by name and by id."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import (
    UNKNOWN_ID,
    batch,
    create,
    fetch,
    gone,
    produce,
    ready,
    store,
    wanted,
)
from compat.compare.server import Server


def script(server: Server) -> None:
    for version in server.versions("Fetch"):
        if version >= 7:
            session(server, version)


def session(server: Server, version: int) -> None:
    server.names.start_again()
    name, lost = f"s{version}", f"lost{version}"
    create(server, name, 2)
    create(server, lost)
    store(server, name, batch(b"0", b"1", b"2"))
    ids = {each: server.topic_ids[each] for each in (name, lost)}

    def want(partition: int = 0, offset: int = 0, topic: str = name, **options: Any) -> dict[str, Any]:
        return wanted(topic, partition, offset, topic_id=ids.get(topic, UNKNOWN_ID), **options)

    def forget(*partitions: int, topic: str = name) -> list[dict[str, Any]]:
        return [{"topic": topic, "topic_id": ids.get(topic, UNKNOWN_ID), "partitions": list(partitions)}]

    opened = fetch(server, "open a session", version, [want(), want(1)], session_epoch=0)
    number, epoch = opened.get("session_id", 0), 0

    def ask(
        label: str, topics: list[dict[str, Any]], *, on: int | None = None, at: int | None = None, **more: Any
    ) -> None:
        nonlocal epoch
        if at is None:
            epoch += 1
        fetch(
            server,
            label,
            version,
            topics,
            session_id=number if on is None else on,
            session_epoch=epoch if at is None else at,
            **more,
        )

    ask("not moved on", [])
    ask("moved on", [want(0, 3)])
    ask("nothing new", [])
    produce(server, f"into the session of v{version}", name, batch(b"5"), partition=1)
    ask("something new", [])
    ask("again, since it did not move on", [])
    ask("a wrong epoch", [], at=epoch + 5)
    ask("an old epoch", [], at=epoch - 1)
    ask("an unknown session", [], on=number + 1, at=5)
    ask("a negative session", [], on=-7, at=5)
    ask("session 0 in the middle", [], on=0, at=5)
    ask("a missing partition", [want(9)])
    ask("an error is told again", [])
    ask("forget it", [], forgotten_topics_data=forget(9))
    ask("a missing topic", [want(topic="missing")])
    ask("it is still missing", [])
    ask("forget a missing topic", [], forgotten_topics_data=forget(0, topic="missing"))
    ask("out of range", [want(0, 100)])
    ask("out of range is told again", [])
    ask("back in range", [want(0, 0)])
    ask("forget and ask the same", [want(0, 0)], forgotten_topics_data=forget(0))
    ask("forget what is not there", [], forgotten_topics_data=forget(5, 6))
    ask("add a topic", [want(topic=lost)])
    server.quietly("DeleteTopics", 5, {"topic_names": [lost], "timeout_ms": 30_000})
    gone(server, lost)
    ask("a topic of it is deleted", [])
    create(server, lost)
    ready(server, lost)
    ask("and made again", [])
    ids[lost] = server.topic_ids[lost]
    ask("asked by its new id", [want(topic=lost)])
    ask("all forgotten", [], forgotten_topics_data=forget(0, 1) + forget(0, topic=lost))
    ask("after that", [])
    fetch(server, "an empty session", version, [], session_epoch=0)
    # another kind of request in a session
    again = fetch(server, "a second session", version, [want()], session_epoch=0).get("session_id", 0)
    other = 13 if version < 13 else 12
    if other in server.versions("Fetch"):
        fetch(
            server, f"a session of v{version} asked in v{other}", other, [], session_id=again, session_epoch=1
        )
    fetch(server, "close and open", version, [want()], session_id=again, session_epoch=0)
    fetch(server, "close", version, [want()], session_id=number, session_epoch=-1)
    fetch(server, "it is closed", version, [], session_id=number, session_epoch=epoch + 1)
    fetch(server, "close a session that is none", version, [], session_id=12345, session_epoch=-1)
    fetch(server, "negative epoch", version, [], session_id=12345, session_epoch=-2)
