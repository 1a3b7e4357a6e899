"""What one user has around it: topics, groups and transactional ids that it has rights on, has none on, and that are
not there; and the questions in its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from compat.compare.scripts.common import UNKNOWN_ID, batch, create, gone, store
from compat.compare.server import Answer, Connection, Server, wait_until

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
DENY, ALLOW = 2, 3

_COMING = (3, 5)
"""UNKNOWN_TOPIC_OR_PARTITION and LEADER_NOT_AVAILABLE."""

OPS = "ops"
"""The super-user, who prepares."""
SECRET = "-secret"
"""A user's password is its name and this."""


class Right(NamedTuple):
    """A row of ACLs. A prefix is of the user's own open names, unless `name` says another."""

    kind: int
    operation: int
    permission: int = ALLOW
    name: str | None = None


def _on_all(*operations: int) -> list[Right]:
    return [Right(kind, each) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID) for each in operations]


RIGHTS: dict[str, list[Right]] = {
    "nobody": [],
    "describer": _on_all(DESCRIBE),
    "reader": [Right(TOPIC, READ), Right(GROUP, READ)],
    "writer": [Right(TOPIC, WRITE), Right(TRANSACTIONAL_ID, WRITE)],
    "creator": [Right(TOPIC, CREATE), Right(TOPIC, DESCRIBE_CONFIGS)],
    "deleter": [Right(TOPIC, DELETE), Right(GROUP, DELETE), Right(TOPIC, READ)],
    "alterer": [Right(TOPIC, ALTER), Right(TOPIC, ALTER_CONFIGS), Right(GROUP, ALTER_CONFIGS)],
    "owner": _on_all(ALL),
    "clerk": [Right(CLUSTER, ALL)],
    "looker": [Right(CLUSTER, DESCRIBE), Right(CLUSTER, DESCRIBE_CONFIGS)],
    "maker": [Right(CLUSTER, CREATE)],
    "idempotent": [Right(CLUSTER, IDEMPOTENT_WRITE)],
    "denied": [*_on_all(ALL), Right(TOPIC, READ, DENY), Right(GROUP, DESCRIBE, DENY)],
}
"""By user."""


class World:
    """`open`, `shut` and `none` are topics, groups and transactional ids alike: of `none` nothing is there."""

    def __init__(self, server: Server, user: str) -> None:
        self.server, self.user = server, user
        self.open, self.shut, self.none = (f"{user}-{each}" for each in ("open", "shut", "none"))
        for name in (self.open, self.shut, f"{self.open}-2"):
            # the records are old, and Kafka looks for those when half a minute has gone
            create(server, name, retention__ms="-1")
            store(server, name, batch(b"1", b"2"))
        self.allow()
        self.connection: Connection = server.connect(user)
        for kind in (0, 1):
            # Kafka makes a coordinator's topic when somebody looks for one
            self._prepared(
                "FindCoordinator",
                4,
                {"key_type": kind, "coordinator_keys": [self.open]},
                lambda answer: answer["coordinators"][0]["error_code"] == 0,
            )
        # the same for the one that keeps what share groups have read
        self._prepared(
            "DescribeShareGroupOffsets",
            1,
            {
                "groups": [
                    {
                        "group_id": f"{self.open}-s",
                        "topics": [{"topic_name": self.open, "partitions": [0]}],
                    }
                ]
            },
            lambda answer: answer["groups"][0]["error_code"] == 0,
        )
        offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        for group in (self.open, self.shut):
            self._prepared(
                "OffsetCommit",
                8,
                {
                    "group_id": group,
                    "generation_id_or_member_epoch": -1,
                    "member_id": "",
                    "topics": [{"name": name, "partitions": [offset]} for name in (self.open, self.shut)],
                },
                lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == 0,
            )
        for name in (self.open, self.shut):
            self._prepared(
                "InitProducerId",
                4,
                {
                    "transactional_id": name,
                    "transaction_timeout_ms": 60_000,
                    "producer_id": -1,
                    "producer_epoch": -1,
                },
                lambda answer: answer["error_code"] == 0,
            )

    def _prepared(self, api: str, version: int, body: Mapping[str, Any], done: Any) -> None:
        """By the super-user, until it worked: Kafka makes its internal topics when they are asked for."""

        def worked() -> bool:
            try:
                return bool(done(self.server.quietly(api, version, body)))
            except TimeoutError:
                # else its answer would be taken for that of the next question
                self.server.close()
                return False

        wait_until(worked)

    def allow(self) -> None:
        """Make the rows, and wait until they count."""
        rows = [
            {
                "resource_type": right.kind,
                "resource_name": "kafka-cluster" if right.kind == CLUSTER else right.name or self.open,
                "resource_pattern_type": LITERAL if right.kind == CLUSTER else PREFIXED,
                "principal": f"User:{self.user}",
                "host": "*",
                "operation": right.operation,
                "permission_type": right.permission,
            }
            for right in RIGHTS[self.user]
        ]
        made = self.server.quietly("CreateAcls", 3, {"creations": rows})
        assert all(each["error_code"] == 0 for each in made["results"]), made
        every = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": f"User:{self.user}",
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }

        def counted() -> bool:
            told = self.server.quietly("DescribeAcls", 3, every)
            return sum(len(each["acls"]) for each in told["resources"]) == len(rows)

        wait_until(counted)

    def ask(self, label: str, api: str, body: Mapping[str, Any], version: int | None = None) -> Answer:
        """In the user's name; an API that only one of them has is left out."""
        if not self.server.versions(api):
            return {}
        answer = self.server.ask(f"{self.user}: {label}", api, version, body, on=self.connection)
        if "<connection>" in answer:
            self.connection = self.server.connect(self.user)
        return answer

    def ask_settled(self, label: str, api: str, body: Mapping[str, Any], version: int) -> None:
        """Once no topic is unknown any more: Kafka says that it is of one that is being made."""

        def known() -> bool:
            told = self.server.quietly(api, version, body, on=self.connection)
            return all(each["error_code"] not in _COMING for each in told["topics"])

        wait_until(known)
        self.ask(label, api, body, version)

    def ask_all(self, label: str, api: str, body: Mapping[str, Any]) -> None:
        """In every version that both serve."""
        for version in self.server.versions(api):
            self.ask(label, api, body, version)

    def id_of(self, name: str) -> Any:
        """The id of a topic."""
        return self.server.topic_ids.get(name, UNKNOWN_ID)

    def close(self) -> None:
        """Its connection ends; its topics go, so that lists of the next user are not long."""
        self.connection.close()
        names = [self.open, self.shut, f"{self.open}-2"]
        self.server.quietly("DeleteTopics", 5, {"topic_names": names, "timeout_ms": 30_000})
        for name in names:
            gone(self.server, name)
