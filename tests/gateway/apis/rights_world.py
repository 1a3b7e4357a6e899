"""What requests of the matrix of rights find, how they are made of plain values, and what of an answer is looked at."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from gateway.server import Gateway
from gateway.wire import compiler, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.schema import Field
from tests.gateway.apis.group_client import SUBSCRIPTION
from tests.gateway.apis.rights_double import RightsDouble
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.share_asking import share_fetch_body
from tests.gateway.serving import Client, batch, create, produce_body

TOPIC, NEW, GROUP, TX, METRICS = "orders", "fresh", "readers", "tx", "metrics-of-mine"
QUEUE, OVER = f"{TOPIC}-{GROUP}-QUEUE", f"{GROUP}-QUEUE"
NAMES = (TOPIC, NEW, GROUP, TX, QUEUE, OVER)
"""All that there may be rights to."""
MEMBER = "m"
ACL = {
    "resource_type": 2,
    "resource_name": TOPIC,
    "resource_pattern_type": 3,
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
"""Somebody else's right to the topic, as it is said to be made."""


def build(key: int, said: dict[str, Any], kind: str = "Request") -> Any:
    """A request, or a Response, of plain values: a dictionary for each struct."""
    name = schema.api_name(key) + kind
    classes = compiler.classes(name)

    def struct(kind: str, fields: tuple[Field, ...], values: dict[str, Any]) -> Any:
        known = {each.attribute: each for each in fields}
        return classes[kind](**{given: value(known[given], its) for given, its in values.items()})

    def value(field: Field, its: Any) -> Any:
        if field.fields is None or its is None:
            return its
        if field.array:
            return [struct(field.type, field.fields, each) for each in its]
        return struct(field.type, field.fields, its)

    return struct("", schema.load(name).fields, said)


class World:
    """A gateway with a topic of three records, and what a case has prepared."""

    def __init__(self, gateway: Gateway, admin: Client, client: Client, rights: RightsDouble) -> None:
        self.gateway = gateway
        self.admin = admin
        self.client = client
        self.rights = rights
        self.topic_id = b""
        self.member_id = ""
        self.generation = -1
        self.tx = Tx(admin, TX)
        # what the share session of the client expects next
        self.share_epoch = 0

    async def begin(self) -> None:
        self.topic_id = await create(self.admin, TOPIC)
        for value in (b"a", b"b", b"c"):
            await self.admin.ask(ApiKey.PRODUCE, 9, produce_body(TOPIC, batch(value)))

    def state(self) -> tuple[Any, ...]:
        """All that is stored."""
        store: Any = self.gateway.broker.durable
        logs = {number: (log.start_offset, log.size_from(0)) for number, log in store._logs.items()}
        return copy.deepcopy(store._rows), logs

    # -- what cases prepare -----------------------------------------------------------------------------------------

    async def offsets(self) -> None:
        """The group has committed an offset."""
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topic = {"name": TOPIC, "partitions": [partition]}
        await self.ask(ApiKey.OFFSET_COMMIT, 8, {"group_id": GROUP, "topics": [topic]})

    async def classic(self) -> None:
        """The group has a member of the classic protocol, which leads it."""
        joined = await self.ask(ApiKey.JOIN_GROUP, 3, join())
        self.member_id, self.generation = joined.member_id, joined.generation_id

    async def stable(self) -> None:
        """The same, with its assignment."""
        await self.classic()
        await self.ask(ApiKey.SYNC_GROUP, 3, self.sync())

    def sync(self) -> dict[str, Any]:
        return {
            **self.member(),
            "assignments": [{"member_id": self.member_id, "assignment": b"A"}],
        }

    def member(self) -> dict[str, Any]:
        return {"group_id": GROUP, "member_id": self.member_id, "generation_id": self.generation}

    async def consumer(self) -> None:
        """The group has a member of the new protocol."""
        await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat())

    async def shared(self) -> None:
        """The group shares the topic, from its beginning on, and has a member."""
        await self.gateway.broker.subscriptions.ensure(GROUP, TOPIC, [0])
        await self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, share_beat())

    async def subscription(self) -> None:
        """A share group without members has a subscription to the topic."""
        topic = {"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 1}]}
        said = {"group_id": GROUP, "topics": [topic]}
        await self.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, said)

    async def holding(self) -> None:
        """The client is a member of the share group and has acquired all records."""
        await self.shared()
        body = share_fetch_body(MEMBER, 0, self.topic_id, [0], group=GROUP)
        answer = await self.client.ask(ApiKey.SHARE_FETCH, 2, body)
        assert answer.error_code == 0
        self.share_epoch = 1

    async def producer(self) -> None:
        """The transactional id has a producer."""
        assert await self.tx.init() == 0

    async def transaction(self) -> None:
        """It has a transaction, with the topic and the group."""
        await self.producer()
        assert await self.tx.put(b"x", topic=TOPIC) == 0
        assert await self.tx.offsets(GROUP, {(TOPIC, 0): 1}) == 0

    async def metrics(self) -> None:
        """There is a subscription to client metrics."""
        config = {"name": "interval.ms", "config_operation": 0, "value": "1000"}
        resource = {"resource_type": 16, "resource_name": METRICS, "configs": [config]}
        await self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})

    async def acl(self) -> None:
        """Somebody else has a right to the topic."""
        await self.ask(ApiKey.CREATE_ACLS, 3, {"creations": [ACL]})

    async def ask(self, key: int, version: int, said: dict[str, Any]) -> Any:
        """Of the one who may do everything. It must be no error."""
        answer = await self.admin.ask(key, version, build(key, said))
        assert set(codes(answer)) <= {0}, answer
        return answer


def join() -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


def beat() -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
    }


def share_beat() -> dict[str, Any]:
    return {"group_id": GROUP, "member_id": MEMBER, "member_epoch": 0, "subscribed_topic_names": [TOPIC]}


def codes(answer: Any) -> Iterator[int]:
    """Every error code that an answer tells."""
    for name, value in _attributes(answer):
        if name.endswith("error_code"):
            yield value


def names(answer: Any) -> set[str]:
    """Every text in it."""
    return {value for _, value in _attributes(answer) if isinstance(value, str)}


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for name in getattr(type(value), "__struct_fields__", ()):
        its = getattr(value, name)
        yield name, its
        for each in its if isinstance(its, list) else [its]:
            yield from _attributes(each)
