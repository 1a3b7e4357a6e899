"""An admin server that asks who calls: who there is, what each may do, and how each says so."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import uvloop

from gateway.admin.pages import MakePages
from gateway.auth.errors import RefusedError
from gateway.broker.broker import Broker
from gateway.broker.users import row_of
from gateway.peer import Identity
from semantics.access.acl import Operation, ResourceType
from semantics.group_names import bare, home_of
from semantics.names import Namespace
from tests.gateway.admin.conftest import Admin, running

SETTINGS = ("authorization=true", "super.users=User:root")


class Passwords:
    """Users with their passwords."""

    def __init__(self, **passwords: str) -> None:
        self.passwords = passwords
        self.watchers: list[Callable[[str], None]] = []
        self.asked: list[str] = []
        # whoever asks waits for it, if there is one
        self.held: asyncio.Event | None = None

    async def identify_password(self, name: str, password: str, mechanism_hint: str) -> Identity:
        self.asked.append(name)
        if self.held is not None:
            await self.held.wait()
        if self.passwords.get(name) != password:
            raise RefusedError("wrong password")
        return Identity(f"User:{name}", mechanism_hint, None, None, name)

    def change(self, name: str, password: str) -> None:
        self.passwords[name] = password
        for each in self.watchers:
            each(name)


class Signed:
    """Tokens that are good, by their text."""

    def __init__(self, **tokens: Identity) -> None:
        self.tokens = tokens
        self.asked: list[str] = []

    async def verify(self, text: str) -> Identity:
        self.asked.append(text)
        if text not in self.tokens:
            raise RefusedError("bad signature")
        return self.tokens[text]


class Granted(NamedTuple):
    """One right: of a kind of resource in a namespace, `*` for all names."""

    principal: str
    kind: ResourceType
    operation: Operation
    name: str = "*"
    namespace: Namespace = Namespace("shop", "eu")


class Held:
    """The rights of one principal."""

    checked = True
    home = Namespace("public", "default")

    def __init__(self, access: Rows, principal: str) -> None:
        self.rules = access
        self._access = access
        self.principal = principal

    def _has(self, kind: ResourceType, operation: Operation, name: str, namespace: Namespace) -> bool:
        also = {operation}
        if operation is Operation.DESCRIBE:
            also |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
        return any(
            row.principal == self.principal
            and row.kind is kind
            and row.operation in also
            and row.namespace == namespace
            and row.name in ("*", name)
            for row in self._access.rows
        )

    def topic(self, operation: Operation, name: str) -> bool:
        full = self._access.broker.catalog.namespaces.full(name)
        return self._has(ResourceType.TOPIC, operation, full.local, full.namespace)

    def group(self, operation: Operation, group_id: str) -> bool:
        return self._has(ResourceType.GROUP, operation, bare(group_id), home_of(group_id))

    def transactional_id(self, operation: Operation, transactional_id: str) -> bool:
        return False

    def cluster(self, operation: Operation) -> bool:
        return False

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        return False

    def node(self, operation: Operation) -> bool:
        return self._has(ResourceType.CLUSTER, operation, "kafka-cluster", Namespace("public", "default"))

    def any(self, kind: ResourceType, operation: Operation) -> bool:
        return any(
            (row.principal, row.kind, row.operation, row.namespace)
            == (self.principal, kind, operation, self._access.asked)
            for row in self._access.rows
        )

    def operations(self, kind: ResourceType, name: str) -> int:
        return 0


class Rows:
    """Who may do what, in the place of who keeps the rights: all else is asked of that."""

    def __init__(self, broker: Broker, rows: Sequence[Granted]) -> None:
        self.broker = broker
        self.rows = list(rows)
        self.asked = Namespace("public", "default")
        self._kept = broker.access

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    @property
    def version(self) -> int:
        return abs(hash(tuple(self.rows)))

    def rights_of(self, principal: str, host: str, namespace: Namespace, *, at_home: bool = True) -> Held:
        self.asked = namespace
        assert host == "127.0.0.1"
        return Held(self, principal)


PRODUCE = [Operation.WRITE, Operation.CREATE]

ROWS = [
    *(Granted("User:pat", ResourceType.TOPIC, each) for each in PRODUCE),
    Granted("User:cora", ResourceType.TOPIC, Operation.READ),
    Granted("User:cora", ResourceType.GROUP, Operation.READ),
    Granted("User:mona", ResourceType.CLUSTER, Operation.DESCRIBE, namespace=Namespace("public", "default")),
]
"""Pat may produce to all of shop/eu, Cora consume from it, Mona look at the cluster."""

NAMES = ("root", "ada", "eve", "pat", "cora", "mona")


def basic(name: str, password: str = "") -> str:
    """A header that says so; the password of each is its name twice."""
    return "Basic " + base64.b64encode(f"{name}:{password or name * 2}".encode()).decode()


class Secured:
    """An admin server, and those that it knows. Tenant shop has Ada as its admin, tenant other Eve."""

    def __init__(self, admin: Admin, tokens: Signed, rows: Rows) -> None:
        self.admin = admin
        self.tokens = tokens
        self.rows = rows

    async def ask(
        self, who: str | None, method: str, path: str, body: str | None = None, **headers: str
    ) -> Any:
        """As one of NAMES, or as nobody."""
        if who is not None:
            headers["Authorization"] = basic(who)
        return await self.admin.ask(method, path, body, **headers)


@asynccontextmanager
async def secured(*settings: str, pages: MakePages | None = None) -> AsyncIterator[Secured]:
    tokens = Signed()

    async def secure(broker: Any) -> None:
        for name in NAMES:
            await broker.users.create(name, row_of(await broker.users.hashed(name * 2), None))
        broker.tokens, broker.access = tokens, Rows(broker, ROWS)

    async with running((*SETTINGS, *settings), secure, pages) as admin:
        yield Secured(admin, tokens, cast("Rows", admin.broker.access))


async def furnish(at: Secured) -> None:
    """Two tenants, shop/eu with a topic of two partitions and a subscription, and other/eu."""
    for method, path, body in (
        ("PUT", "tenants/shop", '{"adminRoles": ["ada"]}'),
        ("PUT", "tenants/other", '{"adminRoles": ["eve"]}'),
        ("PUT", "namespaces/shop/eu", "{}"),
        ("PUT", "namespaces/other/eu", "{}"),
        ("PUT", "persistent/shop/eu/orders/partitions", "2"),
        ("PUT", "persistent/shop/eu/orders/subscription/billing", '{"ledgerId": -1, "entryId": -1}'),
    ):
        answer = await at.ask("root", method, "/admin/v2/" + path, body)
        assert answer.status == 204, (path, answer)


async def bury(at: Secured, count: int = 1) -> None:
    """So many messages, m0 and so on, become dead letters of shop/eu/orders and billing."""
    broker = at.admin.broker
    group = broker.catalog.namespaces.group_of("shop/eu/orders", "billing")
    found = broker.subscriptions.get(group, "shop/eu/orders")
    assert found is not None
    await at.admin.produce("shop/eu/orders", 0, [b"m%d" % number for number in range(count)])
    cursor = found.partition(0)
    cursor.attach("c")
    await broker.write([])
    end = broker.partition(broker.topics.get("shop/eu/orders"), 0).high_watermark
    cursor.fetch("c", 100, 1 << 20, 100)
    assert cursor.acknowledge("c", [(end - count, end - 1, b"\3")]) == 0
    await broker.write([])
    letters = "/admin/v2/persistent/shop/eu/orders/subscription/billing/magnetar/deadletters"
    async with asyncio.timeout(30):
        while len((await at.ask("root", "GET", letters)).json["letters"]) < min(count, 50):
            await asyncio.sleep(0)


def serve_secured(test: Callable[[Secured], Coroutine[Any, Any, None]], *settings: str) -> None:
    """Run a coroutine function with a fresh server that asks."""

    async def main() -> None:
        async with secured(*settings) as at:
            await test(at)

    uvloop.run(main())
