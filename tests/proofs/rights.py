"""What Apache Kafka asks for: the requests of the matrix of rights, sent to Kafka with its own authorizer.

`python -m tests.proofs.rights` starts one node with StandardAuthorizer. A client that logs in is allowed everything,
then denied what the table of rights says that a request needs, one right after the other; then allowed only that. Each
answer must have the error that the table has, or leave out the same. Where Magnetar means to differ stands in `MEANT`,
and a difference that is not there, or that is there and was not seen, makes it fail.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

from compat.peers.kafka import KafkaPeer
from gateway import apis
from gateway.apis.rights_table import How, Kind, Need, Right
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from tests.gateway.apis.rights_cases import CASES, OURS, Case
from tests.gateway.apis.rights_double import RightsDouble
from tests.gateway.apis.rights_world import NAMES, World, build, codes, join, names
from tests.gateway.serving import Client

USER, PASSWORD = "ada", "secret"

MEANT = {
    (
        "METADATA-by_id",
        Kind.TOPIC,
        Operation.DESCRIBE,
    ): "an id that may not be described is told as one that nobody has",
    (
        "SHARE_GROUP_HEARTBEAT",
        Kind.TOPIC,
        Operation.READ,
    ): "a subscription comes of it; Kafka asks for DESCRIBE",
    ("SHARE_GROUP_DESCRIBE", Kind.TOPIC, Operation.DESCRIBE): "also before a topic is assigned, as here",
}
"""Where Magnetar refuses otherwise, and why."""
GRANTED_OTHERWISE = {
    "ALTER_CONFIGS-broker": "Kafka does not let the configs of all brokers be replaced while ELR is on",
    "PUSH_TELEMETRY": "Kafka wants a subscription to be asked for first",
}
"""Requests that Kafka answers with another error when nothing is forbidden, or with one where Magnetar has none."""

_AGAIN = {Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR}
_AGAIN |= {Error.CONCURRENT_TRANSACTIONS, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE}
_SETTLE = 0.1
"""Seconds until a broker goes by ACLs that its controller has taken."""

_TYPES = {
    Kind.TOPIC: ResourceType.TOPIC,
    Kind.ANY_TOPIC: ResourceType.TOPIC,
    Kind.GROUP: ResourceType.GROUP,
    Kind.CLUSTER: ResourceType.CLUSTER,
    Kind.GATEWAY: ResourceType.CLUSTER,
    Kind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
Row = tuple[ResourceType, str, Operation, Permission]
_ALL: list[Row] = [
    (kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*", Operation.ALL, Permission.ALLOW)
    for kind in dict.fromkeys(_TYPES.values())
]


class _Renaming(Client):
    """A client whose names are others for each case: one Kafka is asked all of them."""

    pairs: Mapping[str, str] = {}

    async def ask(self, key: int, version: int, body: bytes | object) -> Any:
        self.send(key, version, body if isinstance(body, bytes) else _swapped(body, self.pairs))
        _, answer = await self.receive()
        return _swapped(answer, {new: old for old, new in self.pairs.items()})


def _swapped(value: Any, pairs: Mapping[str, str]) -> Any:
    """The same message with other names."""
    if isinstance(value, str):
        return pairs.get(value, value)
    if isinstance(value, list):
        return [_swapped(each, pairs) for each in value]
    for name in getattr(type(value), "__struct_fields__", ()):
        setattr(value, name, _swapped(getattr(value, name), pairs))
    return value


class _KafkasWorld(World):
    """What cases prepare, of a broker that takes its time."""

    async def ask(self, key: int, version: int, said: dict[str, Any]) -> Any:
        answer = await _patiently(self.admin, key, version, said)
        assert set(codes(answer)) <= {0}, answer
        return answer

    async def classic(self) -> None:
        joined = await self.ask(ApiKey.JOIN_GROUP, 3, join())
        self.member_id, self.generation = joined.member_id, joined.generation_id

    async def producer(self) -> None:
        while await self.tx.init():
            await asyncio.sleep(_SETTLE)


async def _patiently(client: Client, key: int, version: int, said: Any) -> Any:
    """The answer once it is none of those after which clients ask again."""
    for _ in range(50):
        answer = await client.ask(key, version, build(key, said) if isinstance(said, dict) else said)
        if not set(codes(answer)) & _AGAIN:
            break
        await asyncio.sleep(_SETTLE)
    return answer


async def _connect(port: int, *, login: bool = False) -> _Renaming:
    client = _Renaming(*await asyncio.open_connection("127.0.0.1", port))
    if login:
        said = messages.SaslHandshakeRequest(mechanism="PLAIN")
        assert not (await client.ask(ApiKey.SASL_HANDSHAKE, 1, said)).error_code
        proof = messages.SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode())
        assert not (await client.ask(ApiKey.SASL_AUTHENTICATE, 1, proof)).error_code
    return client


async def _allow(admin: Client, rows: list[Row]) -> None:
    """Have these ACLs and no others."""
    anything: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    await admin.ask(ApiKey.DELETE_ACLS, 2, build(ApiKey.DELETE_ACLS, {"filters": [anything]}))
    said = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": f"User:{USER}",
            "host": "*",
            "operation": operation,
            "permission_type": permission,
        }
        for kind, name, operation, permission in dict.fromkeys(rows)
    ]
    made = await admin.ask(ApiKey.CREATE_ACLS, 2, build(ApiKey.CREATE_ACLS, {"creations": said}))
    assert set(codes(made)) <= {0}, made
    await asyncio.sleep(_SETTLE)


class _Comparison:
    """One case, of a Kafka that has not heard of its names. `rights`: what is enough, one for each need."""

    def __init__(
        self, world: _KafkasWorld, case: Case, rights: Sequence[Right], pairs: Mapping[str, str], acls: Client
    ) -> None:
        self._world = world
        self._case = case
        self._rights = rights
        self._pairs = pairs
        self._acls = acls

    async def differences(self) -> list[tuple[Any, str]]:
        """(what a difference is known by, what it is)"""
        case, found = self._case, list[tuple[Any, str]]()
        await _allow(self._acls, _ALL)
        await self._world.begin()
        if case.begin is not None:
            await case.begin(self._world)
        for need in case.needs:
            if need.how is How.LESS:
                continue
            denied = [self._row(need, right, Permission.DENY) for right in need.any_of]
            await _allow(self._acls, _ALL + denied)
            told = await self._ask()
            if not self._as_wanted(need, told):
                right = need.any_of[-1]
                found.append(
                    ((str(case), right.kind, right.operation), f"{need}: {sorted(set(codes(told)))}")
                )
        rows = zip(case.needs, self._rights, strict=True)
        await _allow(self._acls, [self._row(need, right, Permission.ALLOW) for need, right in rows])
        told = await self._ask()
        if not set(codes(told)) <= case.fine:
            found.append((str(case), f"allowed {list(map(str, self._rights))}: {sorted(set(codes(told)))}"))
        return found

    def _row(self, need: Need, right: Right, permission: Permission) -> Row:
        name = self._case.name(need, right.kind)
        if right.kind is Kind.ANY_TOPIC and permission is Permission.DENY:
            name = "*"
        return _TYPES[right.kind], self._pairs.get(name, name) or CLUSTER_NAME, right.operation, permission

    async def _ask(self) -> Any:
        world, case = self._world, self._case
        answer = await _patiently(world.client, case.key, case.version, case.said(world))
        if not getattr(answer, "error_code", 0):
            world.share_epoch += 1
        return answer

    def _as_wanted(self, need: Need, answer: Any) -> bool:
        if need.how is How.LEFT_OUT:
            return (self._case.shown or self._case.name(need, need.any_of[-1].kind)) not in names(answer)
        return need.error in set(codes(answer))


class _Guarded(KafkaPeer):
    """Kafka with ACLs: who comes by PLAINTEXT may do everything, others log in at the port beside it."""

    def prepare(self) -> None:
        controller, login = self.more_ports
        plain = f"PLAINTEXT://{self.host}:{self.port},SASL_PLAINTEXT://{self.host}:{login}"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self._settings |= {
            "listeners": f"{plain},CONTROLLER://{self.host}:{controller}",
            "advertised.listeners": plain,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
        }
        super().prepare()


def _as_a_gateway(peer: KafkaPeer) -> Any:
    """As much of Magnetar as cases ask."""

    async def ensure(*_: object) -> None:
        """Its members' fetches make what is there."""

    subscriptions = SimpleNamespace(ensure=ensure)
    folder = str(peer.directory / "data")
    broker = SimpleNamespace(disk=lambda: (folder, 0, 0), node_id=1, subscriptions=subscriptions)
    return SimpleNamespace(broker=broker)


async def _compare(peer: KafkaPeer, wanted: str) -> tuple[int, list[str]]:
    """(cases that were asked, what is not as it should be)"""
    admin, acls = await _connect(peer.port), await _connect(peer.port)
    client = await _connect(peer.more_ports[1], login=True)
    for kind in (0, 1):
        # the topics of its coordinators are made when somebody asks for them
        await _patiently(admin, ApiKey.FIND_COORDINATOR, 3, {"key": "any", "key_type": kind})
    wrong: list[str] = []
    unseen: set[Any] = {each for each in MEANT if wanted in each[0]}
    unseen |= {each for each in GRANTED_OTHERWISE if wanted in each}
    every = [
        (case, rights)
        for case in CASES
        if case.label not in OURS and wanted in str(case)
        for rights in product(*(need.any_of for need in case.needs))
    ]
    for number, (case, rights) in enumerate(every):
        pairs = {name: f"{name}-{number}" for name in NAMES}
        admin.pairs = client.pairs = pairs
        world = _KafkasWorld(_as_a_gateway(peer), admin, client, RightsDouble())
        for known, what in await _Comparison(world, case, rights, pairs, acls).differences():
            if known in MEANT or known in GRANTED_OTHERWISE:
                unseen.discard(known)
            else:
                wrong.append(f"{case}: {what}")
    for each in (admin, acls, client):
        each.close()
    return len(every), [*wrong, *(f"no difference any more: {each}" for each in unseen)]


def main(arguments: list[str] | None = None) -> int:
    """0 when Kafka asks for what the table says."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.rights", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    options = parser.parse_args(arguments)
    apis.load_all()
    with _Guarded() as peer:
        asked, wrong = asyncio.run(_compare(peer, options.only))
    for each in wrong:
        print(each)
    print(
        f"{asked} requests with and without each of their rights: {len(wrong)} not as Kafka, or not as meant"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
