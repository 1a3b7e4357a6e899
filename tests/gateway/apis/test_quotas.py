"""Quotas of clients as they are described and altered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker import client_quotas
from gateway.server import Gateway
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.names import Namespace
from store import memory
from tests.gateway.apis.quota_asking import DEFAULT, EXACT, SPECIFIED, Parts, alter, describe, entry
from tests.gateway.broker.held import run
from tests.gateway.serving import Client

BAD, UNSUPPORTED = Error.INVALID_REQUEST, Error.UNSUPPORTED_VERSION
FORBIDDEN = Error.CLUSTER_AUTHORIZATION_FAILED

ADA: Parts = [("user", "ada")]
APP_OF_ADA: Parts = [("user", "ada"), ("client-id", "app")]
ANY_USER: Parts = [("user", None)]
ANY_APP_OF_ADA: Parts = [("user", "ada"), ("client-id", None)]
APP: Parts = [("client-id", "app")]
HOST: Parts = [("ip", "10.0.0.1")]
BOSS: Parts = [("user", "shop.boss")]
ALL = [ADA, APP_OF_ADA, ANY_USER, ANY_APP_OF_ADA, APP]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [*ALL, HOST]),
        ([], True, []),
        ([("user", EXACT, "ada")], False, [ADA, APP_OF_ADA, ANY_APP_OF_ADA]),
        ([("user", EXACT, "ada")], True, [ADA]),
        ([("user", DEFAULT, None)], True, [ANY_USER]),
        ([("user", SPECIFIED, None)], True, [ADA, ANY_USER]),
        ([("client-id", SPECIFIED, None)], False, [APP_OF_ADA, ANY_APP_OF_ADA, APP]),
        ([("user", SPECIFIED, None), ("client-id", EXACT, "app")], False, [APP_OF_ADA]),
        ([("user", EXACT, "ada"), ("client-id", DEFAULT, None)], True, [ANY_APP_OF_ADA]),
        ([("user", EXACT, "bob")], False, []),
        ([("ip", EXACT, "10.0.0.1")], False, [HOST]),
    ],
)
def test_a_filter_finds_what_it_asks_for(
    version: int, components: list[Any], strict: bool, found: list[Parts]
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        entries = [entry(each, producer_byte_rate=100.0 + at) for at, each in enumerate(ALL)]
        assert set(await alter(client, *entries, entry(HOST, connection_creation_rate=3.0))) == {0}
        told = await describe(client, *components, strict=strict, version=version)
        expected = {tuple(each): {"producer_byte_rate": 100.0 + at} for at, each in enumerate(ALL)}
        expected[tuple(HOST)] = {"connection_creation_rate": 3.0}
        assert told == {tuple(each): expected[tuple(each)] for each in found}

    run(test)


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("bogus", SPECIFIED, None)], UNSUPPORTED),
        ([("", SPECIFIED, None)], BAD),
        ([("user", 3, None)], BAD),
        ([("user", EXACT, None)], BAD),
        ([("user", DEFAULT, "a")], BAD),
        ([("user", SPECIFIED, "a")], BAD),
        ([("user", SPECIFIED, None), ("user", EXACT, "a")], BAD),
        ([("ip", SPECIFIED, None), ("user", EXACT, "a")], BAD),
    ],
)
def test_a_filter_that_is_none_is_refused(components: list[Any], error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await describe(client, *components) == error

    run(test)


@pytest.mark.parametrize("version", [0, 1])
def test_each_entry_is_taken_or_refused_by_itself(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        errors = await alter(
            client,
            entry(ADA, producer_byte_rate=1024.0, request_percentage=0.5),
            entry(APP, bogus=1.0),
            entry(ANY_USER, producer_byte_rate=-1.0),
            entry([("user", "")], producer_byte_rate=1.0),
            entry([("bogus", "a")], producer_byte_rate=1.0),
            entry([("ip", "10.0.0.")], connection_creation_rate=1.0),
            entry([("ip", "10.0.0.1"), ("user", "a")], connection_creation_rate=1.0),
            entry([("user", "a"), ("user", "b")], producer_byte_rate=1.0),
            entry([], producer_byte_rate=1.0),
            entry(HOST, producer_byte_rate=1.0),
            version=version,
        )
        assert errors == [0, *[BAD] * 9]
        told = {"producer_byte_rate": 1024.0, "request_percentage": 0.5}
        assert await describe(client) == {tuple(ADA): told}

    run(test)


def test_what_is_named_twice_is_altered_one_after_the_other_and_a_key_named_twice_is_not() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        first, second = entry(ADA, producer_byte_rate=1.0), entry(ADA, producer_byte_rate=3.0)
        assert await alter(client, first, second, entry(APP)) == [0, 0, 0]
        assert await describe(client) == {tuple(ADA): {"producer_byte_rate": 3.0}}
        both = entry(ADA, producer_byte_rate=1.0)
        both.ops += entry(ADA, producer_byte_rate=2.0).ops
        assert await alter(client, both) == [BAD]
        assert await describe(client) == {tuple(ADA): {"producer_byte_rate": 3.0}}

    run(test)


def test_what_is_only_validated_is_not_altered() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        asked = entry(ADA, producer_byte_rate=1.0), entry(APP, bogus=1.0)
        assert await alter(client, *asked, validate_only=True) == [0, BAD]
        assert await describe(client) == {}

    run(test)


def test_a_row_without_values_is_gone_and_taking_back_what_was_not_there_is_no_error() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter(client, entry(ADA, producer_byte_rate=1.0, consumer_byte_rate=2.0))
        assert await alter(client, entry(ADA, producer_byte_rate=None, request_percentage=None)) == [0]
        assert await describe(client) == {tuple(ADA): {"consumer_byte_rate": 2.0}}
        assert await alter(client, entry(ADA, consumer_byte_rate=None), entry(APP)) == [0, 0]
        assert await describe(client) == {}

    run(test)


def test_quotas_are_there_after_a_restart() -> None:
    store = memory.open()

    async def before(gateway: Gateway, client: Client) -> None:
        await alter(client, entry(APP_OF_ADA, producer_byte_rate=1.0), entry(ADA, request_percentage=0.25))

    async def after(gateway: Gateway, client: Client) -> None:
        assert await describe(client) == {
            tuple(APP_OF_ADA): {"producer_byte_rate": 1.0},
            tuple(ADA): {"request_percentage": 0.25},
        }

    run(before, store=store)
    run(after, store=store)


class _Only:
    """May do some things to the cluster."""

    principal = "User:shop.ada"
    home = Namespace("shop", "eu")

    def __init__(self, *operations: Operation) -> None:
        self.operations = operations
        self.checked = True

    def cluster(self, operation: Operation) -> bool:
        return operation in self.operations

    def node(self, operation: Operation) -> bool:
        return False


async def _as(gateway: Gateway, client: Client, namespace: str, *operations: Operation) -> None:
    """The client's connection is from now on that of somebody else."""
    await describe(client)
    (peer,) = [each for each in gateway.broker.client_quotas._peers if each.client_id == client.client_id]
    peer.rights = _Only(*operations)  # type: ignore[assignment]
    peer.namespace, peer.prefix = namespace, namespace.replace("/", ".") + "."


def test_who_may_not_is_told_so() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS)
        assert await alter(client, entry([("user", "shop.ada")], producer_byte_rate=1.0)) == [FORBIDDEN]
        assert await describe(client) == {}
        await _as(gateway, client, "shop/eu", Operation.ALTER_CONFIGS)
        assert await describe(client) == FORBIDDEN

    run(test)


def test_a_tenants_admin_sees_and_changes_quotas_of_its_own_users() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway, "other")
        rows: list[Parts] = [[("user", "shop.ada")], [("user", "shoppers.bob")], ANY_USER, APP, HOST]
        keys = [{"producer_byte_rate": 1.0}] * 4 + [{"connection_creation_rate": 1.0}]
        entries = [entry(each, **key) for each, key in zip(rows, keys, strict=True)]
        assert set(await alter(other, *entries)) == {0}
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
        assert list(await describe(client)) == [tuple(rows[0])]
        assert await alter(client, *entries) == [0, *[FORBIDDEN] * 4]
        assert len(await describe(other)) == 5
        other.close()

    run(test)


def test_a_tenants_admin_lowers_what_a_super_user_has_set_and_does_not_raise_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway, "other")
        await alter(other, entry(ANY_USER, consumer_byte_rate=50.0), entry(BOSS, producer_byte_rate=100.0))
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
        raised = [
            entry(BOSS, producer_byte_rate=101.0),
            entry(BOSS, producer_byte_rate=None),
            # what binds it as one of all users
            entry(BOSS, consumer_byte_rate=51.0),
            # a bucket for each client id that it has
            entry([*BOSS, ("client-id", None)], producer_byte_rate=100.0),
        ]
        for each in raised:
            assert await alter(client, each) == [BAD]
        assert await describe(client) == {tuple(BOSS): {"producer_byte_rate": 100.0}}
        lowered = [
            entry(BOSS, producer_byte_rate=90.0, consumer_byte_rate=40.0, request_percentage=5.0),
            entry([("user", "shop.ann")], producer_byte_rate=7.0),
        ]
        assert await alter(client, *lowered) == [0, 0]
        told = {"producer_byte_rate": 90.0, "consumer_byte_rate": 40.0, "request_percentage": 5.0}
        assert (await describe(client))[tuple(BOSS)] == told
        # what is its own it may take back
        assert await alter(client, entry(BOSS, producer_byte_rate=None, request_percentage=None)) == [0]
        told = {"producer_byte_rate": 100.0, "consumer_byte_rate": 40.0}
        assert (await describe(client))[tuple(BOSS)] == told
        # what a super-user says is what holds then
        assert await alter(other, entry(BOSS, consumer_byte_rate=45.0, producer_byte_rate=None)) == [0]
        assert (await describe(client))[tuple(BOSS)] == {"consumer_byte_rate": 45.0}
        other.close()

    run(test)


def test_what_a_tenant_has_lowered_is_there_after_a_restart() -> None:
    store = memory.open()

    async def before(gateway: Gateway, client: Client) -> None:
        await alter(client, entry(BOSS, producer_byte_rate=100.0))
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
        assert await alter(client, entry(BOSS, producer_byte_rate=90.0)) == [0]

    async def after(gateway: Gateway, client: Client) -> None:
        assert await describe(client) == {tuple(BOSS): {"producer_byte_rate": 90.0}}
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
        assert await alter(client, entry(BOSS, producer_byte_rate=None)) == [0]
        assert await describe(client) == {tuple(BOSS): {"producer_byte_rate": 100.0}}

    run(before, store=store)
    run(after, store=store)


def test_a_tenant_takes_no_room_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MOST_OF_TENANT", 2)
    monkeypatch.setattr(client_quotas, "MOST_ROWS", 3)

    async def test(gateway: Gateway, client: Client) -> None:
        other = await Client.connect(gateway, "other")
        await describe(other)
        await _as(gateway, client, "shop/eu", Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
        entries = [entry([("user", f"shop.u{each}")], producer_byte_rate=1.0) for each in range(3)]
        assert await alter(client, *entries) == [Error.POLICY_VIOLATION] * 3
        assert await alter(client, *entries[:2]) == [0, 0]
        assert await alter(client, entries[2]) == [Error.POLICY_VIOLATION]
        assert await alter(other, *(entry(each, producer_byte_rate=1.0) for each in ALL[:3])) == [0, 0, 0]
        # what is taken back is room again
        assert await alter(client, entry([("user", "shop.u1")], producer_byte_rate=None), entries[2]) == [
            0,
            0,
        ]
        other.close()

    run(test)
