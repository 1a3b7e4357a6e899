"""A real broker over the memory store, and the admin server in front of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import uvloop
from yarl import URL

from gateway.admin.pages import MakePages
from gateway.admin.server import AdminServer, start
from gateway.broker.broker import Broker
from gateway.broker.machines import Caller
from gateway.clock import SystemClock
from gateway.config.settings import Settings
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Join
from gateway.metrics_catalog import GatewayMetrics
from gateway.wire import records
from semantics.policy_forms import ALL, QUOTAS
from store import memory
from store.api import Family, Put


@dataclass
class Answer:
    status: int
    body: bytes
    content_type: str | None
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


_OF_POLICIES = {
    "allowed_clusters", "auth_policies", "destination_auth", "namespace_auth", "replication_clusters",
    "subscription_auth_mode", "subscription_auth_roles", "resource_group_name",
    # and the status of a namespace on a broker
    "broker_assignment", "is_active", "is_controlled",
    *(form.key for form in ALL), *(form.type for form in QUOTAS),
}  # fmt: skip
"""What Pulsar's Policies of a namespace write in their own way."""


def _one_style(answer: Any) -> None:
    """Keys are as Pulsar writes its own, wherever they are. Names of topics and configs are what they are."""
    if isinstance(answer, list):
        for each in answer:
            _one_style(each)
    elif isinstance(answer, dict):
        for key, each in answer.items():
            # a range of hashes is a name, not a key of ours
            assert "_" not in key.replace("0x00000000_0xffffffff", "") or key in _OF_POLICIES, (
                f"the key {key} is written otherwise than all others"
            )
            _one_style(each)


@dataclass
class Admin:
    """An admin server under test. `ask` sends one request; a path that begins with `P` is short for a topic's."""

    broker: Broker
    server: AdminServer
    session: aiohttp.ClientSession
    reasons: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        if path.startswith("P"):
            path = "/admin/v2/persistent/public/default" + path[1:]
        url = URL(self.server.url + path, encoded=True)
        async with self.session.request(method, url, data=body, headers=headers) as response:
            kind = response.headers.get("Content-Type")
            answer = Answer(response.status, await response.read(), kind, None, dict(response.headers))
            if answer.content_type == "application/json":
                answer.json = await response.json()
                _one_style(answer.json)
            return answer

    async def produce(self, name: str, index: int, values: list[bytes]) -> None:
        """Store one batch, the way a Produce request does."""
        topic = self.broker.catalog.get(name)
        assert topic is not None
        partition = self.broker.partition(topic, index)
        now = self.broker.clock.wall_ms()
        batch = records.build_batch(
            [records.Record(n, now, b"k", value, []) for n, value in enumerate(values)]
        )
        partition.append(batch, records.header(batch), now)
        # a later write of the same turn is done when the batch is
        await self.broker.write([])

    async def commit(self, group: str, name: str, index: int, offset: int) -> None:
        """Commit an offset, the way an OffsetCommit of a simple consumer does."""
        topic = self.broker.catalog.get(name)
        assert topic is not None
        row = offsets.encode(offset, -1, self.broker.clock.wall_ms(), -1, topic.topic_id, None)
        key = offsets.key(group, name, index)
        answer = self.broker.groups.commit_offsets(
            group, "", None, -1, [Put(Family.OFFSET, key, row)], Caller(lambda plain: plain)
        )
        if isinstance(answer, Awaitable):
            await answer

    async def join(self, group: str, topic: str) -> None:
        """A consumer subscribes to a topic and stays connected."""
        subscription = (
            b"\0\0" + len([topic]).to_bytes(4, "big") + len(topic).to_bytes(2, "big") + topic.encode()
        )
        subscription += (0xFFFFFFFF).to_bytes(4, "big")
        event = Join(
            Caller(lambda answer: answer), "", "member-1", None, "client", "/127.0.0.1", 30_000, 30_000,
            "consumer", (("range", subscription),), id_required=False,
        )  # fmt: skip
        answer = self.broker.groups.run(group, event)
        if isinstance(answer, Awaitable):
            answer = await answer
        assert answer.error == 0, answer

    async def plain(self, name: str) -> None:
        assert (await self.ask("PUT", f"P/{name}", "{}")).status == 204

    async def partitioned(self, name: str, count: int) -> None:
        assert (await self.ask("PUT", f"P/{name}/partitions", str(count))).status == 204


def make_broker(loop: asyncio.AbstractEventLoop, settings: Sequence[str] = ()) -> Broker:
    store = memory.open()
    metrics = GatewayMetrics()
    metrics.watch_store(store.stats)
    return Broker(
        Settings.load(["group.initial.rebalance.delay.ms=0", *settings]),
        store,
        SystemClock(),
        metrics,
        loop,
        cluster_id=bytes(16),
        version="0.1.0",
        transient=memory.open_forgetting(max_bytes=1 << 20),
    )


@asynccontextmanager
async def running(
    settings: Sequence[str] = (),
    prepare: Callable[[Broker], Awaitable[None]] | None = None,
    pages: MakePages | None = None,
) -> AsyncIterator[Admin]:
    """`prepare` is awaited before the server is started, with `pages` beside the API."""
    broker = make_broker(asyncio.get_running_loop(), settings)
    if prepare is not None:
        await prepare(broker)
    reasons: list[str] = []
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = await start(broker, sock, not_ready=lambda: reasons[0] if reasons else None, pages=pages)
    try:
        async with aiohttp.ClientSession() as session:
            yield Admin(broker, server, session, reasons)
    finally:
        await server.stop()
        sock.close()
        broker.users.close()


@pytest.fixture
def serve() -> Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]:
    """Run a coroutine function with a fresh admin server."""

    def run(test: Callable[[Admin], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with running() as admin:
                await test(admin)

        uvloop.run(main())

    return run
