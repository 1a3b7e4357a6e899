"""Transactions, of producers of the old protocol and of KIP-890, and what tools and readers see of them."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import batch, create, produce_body
from compat.compare.server import Answer, Server, wait_until

GROUP = "tg"


class Producer:
    """A transactional producer; what it asks is compared."""

    def __init__(self, server: Server, name: str, *, new: bool = False) -> None:
        self.server, self.name, self.new = server, name, new
        self.id = self.epoch = -1

    @property
    def who(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def init(self, label: str, version: int = 4, **more: Any) -> Answer:
        body = {"transactional_id": self.name, "transaction_timeout_ms": 60_000, "producer_id": -1}
        answer = self.server.ask(label, "InitProducerId", version, {**body, "producer_epoch": -1, **more})
        if not answer["error_code"]:
            self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return answer

    def add(
        self, label: str, *indexes: int, topic: str = "t", version: int | None = None, **who: Any
    ) -> Answer:
        """One topic; from version 4 on in the form of brokers."""
        said = {**self.who, **who}
        topics = [{"name": topic, "partitions": list(indexes)}]
        version = 3 if version is None else version
        old = {f"v3_and_below_{name}": value for name, value in said.items()}
        body = {
            "transactions": [{**said, "verify_only": False, "topics": topics}],
            **old,
            "v3_and_below_topics": topics,
        }
        return self.server.ask(label, "AddPartitionsToTxn", version, body)

    def put(
        self, label: str, sequence: int, index: int = 0, version: int | None = None, **who: int
    ) -> Answer:
        producer = who.get("producer_id", self.id), who.get("producer_epoch", self.epoch), sequence
        data = batch(b"v", producer=producer, transactional=True)
        body = produce_body(self.server, "t", data, partition=index, transactional_id=self.name)
        return self.server.ask(label, "Produce", version or (12 if self.new else 10), body)

    def end(self, label: str, committed: bool, version: int | None = None, **who: Any) -> Answer:
        version = version if version is not None else 5 if self.new else 4
        answer = self.server.ask(label, "EndTxn", version, {**self.who, "committed": committed, **who})
        self.settled()
        if version >= 5 and not answer["error_code"]:
            self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return answer

    def offsets(self, label: str, offset: int, version: int | None = None, **more: Any) -> Answer:
        place = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "m",
        }
        body = {
            **self.who,
            "group_id": GROUP,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": [place]}],
            **more,
        }
        version = version if version is not None else 5 if self.new else 3
        return self.server.ask(label, "TxnOffsetCommit", version, body)

    def settled(self) -> None:
        """Until its last transaction is over: Kafka answers before its markers are written."""

        def over() -> bool:
            told = self.server.quietly("DescribeTransactions", 0, {"transactional_ids": [self.name]})
            return not told["transaction_states"][0]["transaction_state"].startswith("Prepare")

        wait_until(over)


def script(server: Server) -> None:
    create(server, "t", 2)
    body = {
        "transactional_id": "first",
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    # Kafka makes the coordinator's topic when somebody looks for one
    for kind, key in ((0, GROUP), (1, "first")):
        find = {"key_type": kind, "coordinator_keys": [key]}
        wait_until(lambda: server.quietly("FindCoordinator", 4, find)["coordinators"][0]["error_code"] == 0)  # noqa: B023
    asked = {"groups": [{"group_id": GROUP, "topics": None}], "require_stable": False}
    wait_until(lambda: server.quietly("OffsetFetch", 9, asked)["groups"][0]["error_code"] == 0)
    wait_until(lambda: server.quietly("InitProducerId", 4, body)["error_code"] == 0)
    beginnings(server)
    for new in (False, True):
        server.names.start_again()
        protocol(server, "new" if new else "old", new=new)
    server.names.start_again()
    refusals(server)
    tools(server)


def beginnings(server: Server) -> None:
    for version in server.versions("InitProducerId"):
        server.names.start_again()
        one = Producer(server, f"b{version}")
        one.init("a transactional id", version)
        one.init("a transactional id again", version)
        for timeout in (0, -1, 900_001, 2**31 - 1):
            one.init(f"a transactional id, timeout {timeout}", version, transaction_timeout_ms=timeout)
        if version >= 3:
            one.init("as who it is", version, producer_id=one.id, producer_epoch=one.epoch)
            one.init("as who it was", version, producer_id=one.id, producer_epoch=one.epoch - 1)
            one.init("as one from before", version, producer_id=one.id, producer_epoch=0)
            one.init("as one to come", version, producer_id=one.id, producer_epoch=one.epoch + 5)
            one.init("as somebody else", version, producer_id=one.id + 500_000, producer_epoch=0)
    for version in server.versions("FindCoordinator"):
        if version >= 4:
            body: dict[str, Any] = {"key_type": 1, "coordinator_keys": ["first"]}
            server.ask("of a transaction", "FindCoordinator", version, body)
        elif version >= 1:
            server.ask("of a transaction", "FindCoordinator", version, {"key": "first", "key_type": 1})


def protocol(server: Server, name: str, *, new: bool) -> None:
    """From the beginning to several ends, as such a producer does it."""
    one = Producer(server, f"{name}-one", new=new)
    one.init(f"{name}: begins")
    if new:
        one.put(f"{name}: a batch that brings its partition", 0)
    else:
        one.put(f"{name}: a batch before its partition", 0)
        one.add(f"{name}: partitions", 0, 1)
        one.add(f"{name}: a partition again", 1)
        one.put(f"{name}: a batch", 0)
    one.put(f"{name}: a batch of another partition", 0, 1)
    reader(server, f"{name}: open")
    one.end(f"{name}: commit", True)
    reader(server, f"{name}: committed")
    sequence = 0 if new else 1
    if not new:
        one.end(f"{name}: commit again", True)
        one.end(f"{name}: abort what is committed", False)
        one.add(f"{name}: the next", 0)
    one.put(f"{name}: a batch of the next", sequence)
    if not new:
        server.ask(f"{name}: offsets join", "AddOffsetsToTxn", 3, {**one.who, "group_id": GROUP})
    one.offsets(f"{name}: offsets", 5)
    committed(server, f"{name}: staged")
    one.end(f"{name}: abort", False)
    reader(server, f"{name}: aborted")
    committed(server, f"{name}: aborted")
    if new:
        one.end(f"{name}: abort of nothing", False)
        one.end(f"{name}: commit of nothing", True)
        one.put(f"{name}: a batch that does not begin at 0", 3)
    else:
        one.end(f"{name}: abort again", False)
        server.ask(f"{name}: offsets join again", "AddOffsetsToTxn", 3, {**one.who, "group_id": GROUP})
    one.offsets(f"{name}: offsets that stay", 7)
    one.end(f"{name}: commit of offsets", True)
    committed(server, f"{name}: committed")
    zombie = Producer(server, one.name, new=new)
    zombie.id, zombie.epoch = one.id, one.epoch
    one.init(f"{name}: begins anew")
    zombie.put(f"{name}: a zombie's batch", 0)
    zombie.add(f"{name}: a zombie's partition", 0)
    zombie.end(f"{name}: a zombie's end", True)
    zombie.offsets(f"{name}: a zombie's offsets", 9)


def reader(server: Server, label: str) -> None:
    """Where the log ends for readers of both kinds."""
    for isolation in (0, 1):
        for timestamp in (-1, -2):
            place = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
            server.ask(
                f"{label}, offset {timestamp}, isolation {isolation}",
                "ListOffsets",
                7,
                {
                    "replica_id": -1,
                    "isolation_level": isolation,
                    "topics": [{"name": "t", "partitions": [place]}],
                },
            )


def committed(server: Server, label: str) -> None:
    for stable in (False, True):
        body = {
            "groups": [{"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0, 1]}]}],
            "require_stable": stable,
        }
        server.ask(f"{label}, stable {stable}", "OffsetFetch", 9, body)


def refusals(server: Server) -> None:
    one = Producer(server, "refused")
    one.init("the refused begins")
    for version in server.versions("AddPartitionsToTxn"):
        one.add("a topic that is not there", 0, topic="missing", version=version)
        one.add("a partition that is not there", 0, 9, version=version)
        one.add("a later epoch", 0, version=version, producer_epoch=one.epoch + 1)
        one.add("another id", 0, version=version, producer_id=one.id + 500_000)
        one.add("an id that nobody has", 0, version=version, transactional_id="nobody")
    for version in server.versions("AddOffsetsToTxn"):
        for label, change in (
            ("a later epoch", {"producer_epoch": one.epoch + 1}),
            ("another id", {"producer_id": one.id + 500_000}),
            ("an id that nobody has", {"transactional_id": "nobody"}),
        ):
            server.ask(
                f"offsets join: {label}", "AddOffsetsToTxn", version, {**one.who, "group_id": GROUP, **change}
            )
    for version in server.versions("EndTxn"):
        for label, change in (
            ("nothing is open", {}),
            ("a later epoch", {"producer_epoch": one.epoch + 1}),
            ("another id", {"producer_id": one.id + 500_000}),
            ("an id that nobody has", {"transactional_id": "nobody"}),
        ):
            server.ask(f"end: {label}", "EndTxn", version, {**one.who, "committed": True, **change})
    for version in server.versions("TxnOffsetCommit"):
        one.offsets("offsets: a later epoch", 1, version, producer_epoch=one.epoch + 1)
        one.offsets("offsets: another id", 1, version, producer_id=one.id + 500_000)
        one.offsets("offsets: an id that nobody has", 1, version, transactional_id="nobody")
        if version >= 3:
            one.offsets("offsets: of a generation", 1, version, generation_id=3, member_id="m")
    for version in (9, 10, 11, 12):
        one.put("a later epoch", 0, version=version, producer_epoch=one.epoch + 1)
        one.put("another id", 0, version=version, producer_id=one.id + 500_000)


def tools(server: Server) -> None:
    one = Producer(server, "shown")
    one.init("the shown begins")
    one.add("shown: partitions", 0)
    names = ["shown", "nobody", "", "first"]
    server.ask("described", "DescribeTransactions", 0, {"transactional_ids": names})
    for version in server.versions("ListTransactions"):
        for label, change in (
            ("ongoing", {"state_filters": ["Ongoing"]}),
            ("unknown states", {"state_filters": ["Sleepy", "Ongoing"]}),
            ("one producer", {"producer_id_filters": [one.id]}),
            ("long", {"state_filters": ["Ongoing"], "duration_filter": 3_600_000}),
        ):
            body: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
            server.ask(f"listed: {label}", "ListTransactions", version, {**body, **change})
    listed: dict[str, Any] = {"state_filters": [], "producer_id_filters": [one.id], "duration_filter": -1}
    for pattern in (
        None,
        "",
        "sho.*",
        "shown",
        "show",
        "^shown$",
        "[a-z]+",
        "nobody|sh(o)wn",
        "(",
        "[",
        "*",
        "a{2,1}",
    ):
        body = {**listed, "transactional_id_pattern": pattern}
        server.ask(f"listed by {pattern!r}", "ListTransactions", 2, body)
    one.end("shown: abort", False)
