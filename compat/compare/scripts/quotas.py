"""48 DescribeClientQuotas and 49 AlterClientQuotas: filters, entities and values, kept and not; and that they bind."""

from __future__ import annotations

import time
from typing import Any

from compat.compare.scripts.common import batch, create, produce_body
from compat.compare.server import Connection, Server

Parts = list[tuple[str, "str | None"]]
Filter = list[tuple[str, int, "str | None"]]

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
BOUND = b"bound"
"""The client id that quotas are about."""


def script(server: Server) -> None:
    nothing_kept(server)
    values(server)
    kept(server)
    binding(server)


def nothing_kept(server: Server) -> None:
    """Filters, and what could be altered, while there are none."""
    for strict in (False, True):
        filters: list[list[tuple[str, int, str | None]]] = [
            [],
            [("user", 0, "a")],
            [("user", 1, None)],
            [("client-id", 2, None), ("user", 0, "u")],
            [("ip", 0, "1.2.3.4")],
            [("bogus", 0, "a")],
            [("", 0, "a")],
            [("user", 7, "a")],
            [("user", 0, None)],
            [("user", 1, "x")],
            [("user", 2, "x")],
            [("user", 2, None), ("user", 2, None)],
            [("ip", 2, None), ("user", 2, None)],
        ]
        for components in filters:
            parts = [
                {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
            ]
            body = {"components": parts, "strict": strict}
            server.ask_all(f"quotas {components}, {strict}", "DescribeClientQuotas", body)
    entities: list[list[tuple[str, str | None]]] = [
        [("user", "a")],
        [("user", None), ("client-id", "c")],
        [("ip", "10.0.0.1")],
        [("ip", "10.0.0.")],
        [("ip", "1.2.3.4"), ("user", "a")],
        [("user", "a"), ("user", "b")],
        [("user", "")],
        [("bogus", "a")],
        [],
    ]
    for entity in entities:
        byte_rate = "connection_creation_rate" if entity and entity[0][0] == "ip" else "producer_byte_rate"
        for label, operations in (
            ("removed", [(byte_rate, 0.0, True)]),
            ("not touched", []),
            ("set", [(byte_rate, 1e6, False)]),
        ):
            entry = {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "ops": [{"key": key, "value": value, "remove": remove} for key, value, remove in operations],
            }
            asked: dict[str, Any] = {"entries": [entry], "validate_only": True}
            server.ask_all(f"a quota of {entity}, {label}", "AlterClientQuotas", asked)


def alter(server: Server, label: str, *entries: tuple[Parts, dict[str, float | None]]) -> None:
    """One after the other: Kafka answers several in the order of a hash map. What is altered is in force when this is
    over: Kafka's broker has to read it first.
    """
    for parts, changes in entries:
        entry = {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
            "ops": [
                {"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes.items()
            ],
        }
        asked = {"entries": [entry], "validate_only": False}
        server.ask(f"{label} {parts}", "AlterClientQuotas", None, asked)
    if server.name == "kafka":
        time.sleep(0.3)


def describe(
    server: Server, label: str, *components: tuple[str, int, str | None], strict: bool = True
) -> None:
    parts = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    server.ask_all(f"{label} {components}", "DescribeClientQuotas", {"components": parts, "strict": strict})


def values(server: Server) -> None:
    """What a row may say."""
    rows: list[tuple[Parts, str, float]] = [
        ([("user", "v")], "producer_byte_rate", 0.5),
        ([("user", "v")], "producer_byte_rate", 0.0),
        ([("user", "v")], "consumer_byte_rate", -1.0),
        ([("user", "v")], "request_percentage", 0.0),
        ([("user", "v")], "controller_mutation_rate", -0.5),
        ([("user", "v")], "connection_creation_rate", 5.0),
        ([("user", "v")], "bogus", 5.0),
        ([("client-id", "v")], "connection_creation_rate", 5.0),
        ([("ip", "10.0.0.2")], "producer_byte_rate", 5.0),
        ([("ip", "10.0.0.2")], "connection_creation_rate", 0.5),
        ([("ip", "10.0.0.2")], "connection_creation_rate", -5.0),
    ]
    for parts, key, value in rows:
        alter(server, f"a quota with a value {parts} {key}={value}", (parts, {key: value}))
    describe(server, "quotas after values", strict=False)


def kept(server: Server) -> None:
    alter(
        server,
        "quotas altered together",
        ([("user", "a")], {"producer_byte_rate": 1e6, "request_percentage": 12.5}),
        ([("user", None), ("client-id", "c")], {"consumer_byte_rate": 5.0}),
        ([("client-id", None)], {"controller_mutation_rate": 1.5}),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": 3.0}),
        ([("ip", None)], {"connection_creation_rate": 7.0}),
        ([("user", "b")], {"bogus": 1.0}),
    )

    def look(label: str) -> None:
        describe(server, label, ("user", EXACT, "a"))
        describe(server, label, ("user", SPECIFIED, None))
        describe(server, label, ("client-id", DEFAULT, None))
        describe(server, label, ("client-id", EXACT, "c"), strict=False)
        describe(server, label, ("user", DEFAULT, None), ("client-id", SPECIFIED, None))
        describe(server, label, ("user", DEFAULT, None), strict=False)
        describe(server, label, ("ip", EXACT, "10.0.0.1"))
        describe(server, label, ("ip", DEFAULT, None))
        describe(server, label, ("user", EXACT, "c"), strict=False)

    look("quotas that are there")
    alter(
        server,
        "quotas altered again",
        ([("user", "a")], {"producer_byte_rate": 2e6, "request_percentage": None}),
        ([("client-id", None)], {"controller_mutation_rate": None, "producer_byte_rate": None}),
        ([("client-id", "never")], {"producer_byte_rate": None}),
    )
    look("quotas that were altered")
    alter(
        server,
        "quotas taken back",
        ([("user", "a")], {"producer_byte_rate": None}),
        ([("user", None), ("client-id", "c")], {"consumer_byte_rate": None}),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": None}),
        ([("ip", None)], {"connection_creation_rate": None}),
    )
    describe(server, "quotas that are gone", strict=False)


def binding(server: Server) -> None:
    """Whether a client has to wait, and is refused; for how long is each server's own."""
    create(server, "bound", 1)
    mine: Parts = [("client-id", BOUND.decode())]
    alter(server, "a quota that binds", (mine, {"producer_byte_rate": 1.0}))
    connection = server.connect()
    answer = told(server, connection, "Produce", 9, produce_body(server, "bound", batch(b"x" * 100)))
    server.keep("a produce beyond its quota", "waits", str(answer["throttle_time_ms"] > 0))
    connection.close()
    alter(
        server,
        "another quota that binds",
        (mine, {"producer_byte_rate": None, "controller_mutation_rate": 0.1}),
    )
    for name, version in (("first", 7), ("second", 7), ("third", 5)):
        connection = server.connect()
        topic = {
            "name": name, "num_partitions": 50, "replication_factor": 1, "assignments": [], "configs": [],
        }  # fmt: skip
        body = {"topics": [topic], "timeout_ms": 5000, "validate_only": False}
        answer = told(server, connection, "CreateTopics", version, body)
        error = answer["topics"][0]["error_code"]
        found = f"{error}, waits: {answer['throttle_time_ms'] > 0}"
        server.keep(f"topics made beyond the quota: the {name}", "error", found)
        connection.close()
    alter(server, "the last quota taken back", (mine, {"controller_mutation_rate": None}))


def told(server: Server, connection: Connection, api: str, version: int, body: dict[str, Any]) -> Any:
    """The answer to the client that is bound."""
    return server.quietly(api, version, body, on=connection, client_id=BOUND)
