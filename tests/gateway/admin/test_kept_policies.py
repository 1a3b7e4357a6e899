"""Answers about a namespace's policies are kept, and what is changed shows in the next one."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.admin import kept_policies
from gateway.admin.exchange import Reply
from gateway.admin.kept_policies import KeptPolicies
from gateway.broker.namespaces import NamespaceRow
from semantics.names import DEFAULT, Namespace
from tests.gateway.admin.raw_http import RawClient, request

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

SHOP = "/admin/v2/namespaces/shop/eu"
TOPIC = "/admin/v2/persistent/shop/eu/orders"
FULL = "persistent://shop/eu/orders"

REPLY = Reply(200, b"{}")


class Watched:
    """Somebody who asks for the policies again and again, over one connection."""

    def __init__(self, admin: Admin, client: RawClient) -> None:
        self.admin = admin
        self.client = client

    async def policies(self, path: str = SHOP) -> Any:
        answer = await self.client.ask(request("GET", path))
        return json.loads(answer.body) if answer.status == 200 else answer.status

    async def do(self, method: str, path: str, body: str | None = None) -> None:
        answer = await self.admin.ask(method, path, body)
        assert answer.status == 204, answer

    async def shop(self) -> None:
        await self.do("PUT", "/admin/v2/tenants/shop", "{}")
        await self.do("PUT", SHOP, "{}")
        for _ in range(3):
            assert "message_ttl_in_seconds" not in await self.policies()


def watching(serve: Serve, test: Callable[[Watched], Coroutine[Any, Any, None]]) -> None:
    async def run(admin: Admin) -> None:
        client = await RawClient.to(admin.server.address)
        await test(Watched(admin, client))
        client.close()

    serve(run)


@pytest.mark.parametrize(
    ("path", "body", "key", "shown"),
    [
        ("messageTTL", "60", "message_ttl_in_seconds", 60),
        ("retention", '{"retentionTimeInMinutes": 1, "retentionSizeInMB": 2}', "retention_policies",
         {"retentionTimeInMinutes": 1, "retentionSizeInMB": 2}),
        ("deduplication", "true", "deduplicationEnabled", True),
        ("permissions/ada", '["produce"]', "auth_policies",
         {"namespace_auth": {"ada": ["produce"]}, "destination_auth": {}, "subscription_auth_roles": {}}),
        ("permissions/subscription/s", '["ada"]', "auth_policies",
         {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {"s": ["ada"]}}),
        ("allowedClusters", '["standalone"]', "allowed_clusters", ["standalone"]),
        ("subscriptionAuthMode", '"Prefix"', "subscription_auth_mode", "Prefix"),
    ],
)  # fmt: skip
def test_what_is_set_shows_at_once(serve: Serve, path: str, body: str, key: str, shown: object) -> None:
    async def test(watched: Watched) -> None:
        await watched.shop()
        before = await watched.policies()
        await watched.do("POST", f"{SHOP}/{path}", body)
        assert (await watched.policies())[key] == shown
        assert (await watched.policies()) == {**before, key: shown}

    watching(serve, test)


def test_each_of_many_changes_shows(serve: Serve) -> None:
    async def test(watched: Watched) -> None:
        await watched.shop()
        for seconds in range(1, 30):
            await watched.do("POST", f"{SHOP}/messageTTL", str(seconds))
            assert (await watched.policies())["message_ttl_in_seconds"] == seconds
        await watched.do("DELETE", f"{SHOP}/messageTTL")
        assert "message_ttl_in_seconds" not in await watched.policies()
        await watched.do("PUT", f"{SHOP}/properties", '{"team": "a"}')
        assert (await watched.policies())["properties"] == {"team": "a"}
        await watched.do("DELETE", f"{SHOP}/properties")
        assert (await watched.policies())["properties"] == {}

    watching(serve, test)


def test_what_a_topic_allows_shows_and_goes(serve: Serve) -> None:
    async def test(watched: Watched) -> None:
        await watched.shop()
        await watched.do("PUT", TOPIC, "{}")

        async def allowed() -> object:
            return (await watched.policies())["auth_policies"]["destination_auth"]

        assert await allowed() == {}
        await watched.do("POST", f"{TOPIC}/permissions/ada", '["consume"]')
        assert await allowed() == {FULL: {"ada": ["consume"]}}
        await watched.do("POST", f"{TOPIC}/permissions/bob", '["produce"]')
        assert await allowed() == {FULL: {"ada": ["consume"], "bob": ["produce"]}}
        await watched.do("DELETE", f"{TOPIC}/permissions/ada")
        assert await allowed() == {FULL: {"bob": ["produce"]}}
        assert (await watched.admin.ask("DELETE", TOPIC)).status == 204
        assert await allowed() == {}

    watching(serve, test)


def test_a_namespace_that_goes_and_comes_again_is_another(serve: Serve) -> None:
    async def test(watched: Watched) -> None:
        await watched.shop()
        await watched.do("POST", f"{SHOP}/messageTTL", "60")
        assert (await watched.policies())["message_ttl_in_seconds"] == 60
        await watched.do("DELETE", SHOP)
        assert await watched.policies() == 404
        await watched.do("PUT", SHOP, "{}")
        assert "message_ttl_in_seconds" not in await watched.policies()

    watching(serve, test)


def test_a_namespace_does_not_have_the_answer_of_another(serve: Serve) -> None:
    async def test(watched: Watched) -> None:
        await watched.shop()
        await watched.do("PUT", "/admin/v2/namespaces/shop/us", "{}")
        await watched.do("POST", "/admin/v2/namespaces/shop/us/messageTTL", "5")
        for _ in range(2):
            assert (await watched.policies("/admin/v2/namespaces/shop/us"))["message_ttl_in_seconds"] == 5
            assert "message_ttl_in_seconds" not in await watched.policies()

    watching(serve, test)


# -- what is kept


def test_it_is_kept_for_the_same_row_and_version_only() -> None:
    kept, row = KeptPolicies(), NamespaceRow()
    kept.keep(DEFAULT, row, (3, 0), REPLY)
    assert kept.get(DEFAULT, row, (3, 0)) is REPLY
    assert kept.get(DEFAULT, row, (4, 0)) is None
    assert kept.get(DEFAULT, row, (3, 1)) is None
    # another row, though it says the same
    assert kept.get(DEFAULT, NamespaceRow(), (3, 0)) is None
    assert kept.get(Namespace("shop", "eu"), row, (3, 0)) is None


def test_a_long_answer_is_not_kept() -> None:
    kept, row = KeptPolicies(), NamespaceRow()
    kept.keep(DEFAULT, row, (3, 0), REPLY)
    kept.keep(DEFAULT, row, (4, 0), Reply(200, b"x" * (kept_policies.LONGEST + 1)))
    assert kept.get(DEFAULT, row, (4, 0)) is None


def test_no_more_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_policies, "MOST", 2)
    kept, row = KeptPolicies(), NamespaceRow()
    names = [Namespace("shop", name) for name in "abc"]
    for name in names:
        kept.keep(name, row, (1, 0), REPLY)
    # one that is kept anew takes no more room
    kept.keep(names[2], row, (2, 0), REPLY)
    assert [kept.get(name, row, (2, 0)) is not None for name in names] == [False, False, True]
