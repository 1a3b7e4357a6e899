"""ACLs as clients list, make and remove them: at both kinds of home, and what is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
import uvloop

from gateway.apis import acls, slices
from gateway.apis.registry import Context
from gateway.broker import access
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.filters import Filter
from semantics.names import DEFAULT, Namespace
from tests.gateway.broker import held
from tests.gateway.broker.rights import ASKING, EU, SUPER, row, shop
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.serving import Client, serving

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
EVERYTHING = Filter()
CREATION = (
    "resource_type", "resource_pattern_type", "resource_name", "principal", "host", "operation",
    "permission_type",
)  # fmt: skip
FILTER = (
    "resource_type_filter", "pattern_type_filter", "resource_name_filter", "principal_filter", "host_filter",
    "operation", "permission_type",
)  # fmt: skip
"""Fields in the order of `Acl` and of `Filter`."""


def creation(said: Sequence[Any]) -> messages.CreateAclsRequest.AclCreation:
    given: dict[str, Any] = dict(zip(CREATION, said[:7], strict=True))
    return messages.CreateAclsRequest.AclCreation(**given)


class Asking:
    """A client of such a name and home."""

    def __init__(self, world: World, principal: str = "User:root", home: Namespace = DEFAULT) -> None:
        rights = world.broker.access.rights_of(principal, "/10.0.0.1", home)
        self.broker = world.broker
        self.peer = Peer(1, "/10.0.0.1", "X", principal=principal, namespace=str(home), rights=rights)

    async def _ask(self, handler: Any, request: Any) -> Any:
        found = handler(self.broker, Context(self.peer, 0, 3, 1, None), request)
        return await found if isinstance(found, Awaitable) else found

    async def create(self, *rows: Any) -> list[int]:
        """The errors; a row is an Acl, of which the namespace does not count, or numbers and texts."""
        made = [creation(each) for each in rows]
        answer = await self._ask(acls.create_acls, messages.CreateAclsRequest(creations=made))
        for each in answer.results:
            assert bool(each.error_message) == bool(each.error_code)
        return [each.error_code for each in answer.results]

    async def describe(self, said: Filter = EVERYTHING) -> set[Acl]:
        """What is told, as rows of the namespace public/default."""
        answer = await self.described(said)
        assert answer.error_code == 0
        found = [
            Acl(
                ResourceType(each.resource_type),
                PatternType(each.pattern_type),
                each.resource_name,
                acl.principal,
                acl.host,
                Operation(acl.operation),
                Permission(acl.permission_type),
            )
            for each in answer.resources
            for acl in each.acls
        ]
        assert len(set(found)) == len(found)
        return set(found)

    async def described(self, said: Filter) -> messages.DescribeAclsResponse:
        given: dict[str, Any] = dict(zip(FILTER, said, strict=True))
        request = messages.DescribeAclsRequest(**given)
        answer: messages.DescribeAclsResponse = await self._ask(acls.describe_acls, request)
        return answer

    async def delete(self, *filters: Sequence[Any]) -> list[tuple[int, set[Acl]]]:
        """By filter: the error, and what matched."""
        made = [
            messages.DeleteAclsRequest.DeleteAclsFilter(**dict(zip(FILTER, each, strict=True)))
            for each in filters
        ]
        answer = await self._ask(acls.delete_acls, messages.DeleteAclsRequest(filters=made))
        return [
            (
                each.error_code,
                {
                    Acl(
                        ResourceType(acl.resource_type),
                        PatternType(acl.pattern_type),
                        acl.resource_name,
                        acl.principal,
                        acl.host,
                        Operation(acl.operation),
                        Permission(acl.permission_type),
                    )
                    for acl in each.matching_acls
                },
            )
            for each in answer.filter_results
        ]


# -- over the wire


@pytest.mark.parametrize("version", [1, 2, 3])
def test_made_listed_and_removed(version: int, caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        made = messages.CreateAclsRequest.AclCreation(
            resource_type=TOPIC,
            resource_pattern_type=PREFIXED,
            resource_name="ord",
            principal="User:ada",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.DENY,
        )
        creation = messages.CreateAclsRequest(creations=[made])
        answer = await client.ask(ApiKey.CREATE_ACLS, version, creation)
        assert [(each.error_code, each.error_message) for each in answer.results] == [(0, "")]
        every: dict[str, Any] = dict(zip(FILTER, EVERYTHING, strict=True))
        described = messages.DescribeAclsRequest(**every)
        answer = await client.ask(ApiKey.DESCRIBE_ACLS, version, described)
        (found,) = answer.resources
        assert (answer.error_code, found.resource_type, found.resource_name, found.pattern_type) == (
            0, TOPIC, "ord", PREFIXED,
        )  # fmt: skip
        (acl,) = found.acls
        assert (acl.principal, acl.host, acl.operation, acl.permission_type) == ("User:ada", "*", 3, 2)
        said = messages.DeleteAclsRequest.DeleteAclsFilter(**every)
        request = messages.DeleteAclsRequest(filters=[said, said])
        answer = await client.ask(ApiKey.DELETE_ACLS, version, request)
        # each filter tells what it found
        assert [len(each.matching_acls) for each in answer.filter_results] == [1, 1]
        assert (await client.ask(ApiKey.DESCRIBE_ACLS, version, described)).resources == []
        caplog.clear()
        await client.ask(ApiKey.CREATE_ACLS, version, creation)
        await client.ask(ApiKey.DELETE_ACLS, version, request)
        # each change has one line, which says who made it
        assert [each.name for each in caplog.records] == ["magnetar.audit"] * 2

    with caplog.at_level("INFO", "magnetar"):
        held.run(test, ASKING, "super.users=User:ANONYMOUS")


def test_over_a_listener_of_a_namespace_names_are_not_put_into_other_words() -> None:
    async def test() -> None:
        async with serving(
            ASKING,
            "super.users=User:ANONYMOUS",
            "listener.name.eu.pulsar.namespace=shop/eu",
            listeners="127.0.0.1:0,EU://127.0.0.1:0",
        ) as gateway:
            await gateway.broker.tenancy.create_tenant("shop", TenantRow())
            await gateway.broker.tenancy.create(EU, NamespaceRow())
            client = await Client.connect(gateway, listener="EU")
            rows = [row("orders"), row("a/b", resource=GROUP), row("*"), row("shop.", pattern=PREFIXED)]
            made = [creation(each) for each in rows]
            answer = await client.ask(ApiKey.CREATE_ACLS, 3, messages.CreateAclsRequest(creations=made))
            assert [each.error_code for each in answer.results] == [0] * 4
            assert set(gateway.broker.access.rows()) == {each._replace(namespace=EU) for each in rows}
            every: dict[str, Any] = dict(zip(FILTER, EVERYTHING, strict=True))
            described = await client.ask(ApiKey.DESCRIBE_ACLS, 3, messages.DescribeAclsRequest(**every))
            assert {each.resource_name for each in described.resources} == {each.name for each in rows}
            said = messages.DeleteAclsRequest.DeleteAclsFilter(**every)
            deleted = await client.ask(ApiKey.DELETE_ACLS, 3, messages.DeleteAclsRequest(filters=[said]))
            (told,) = deleted.filter_results
            assert {each.resource_name for each in told.matching_acls} == {each.name for each in rows}
            client.close()

    uvloop.run(test())


# -- who may


def test_where_nobody_is_asked_there_are_none() -> None:
    async def test(world: World) -> None:
        client = Asking(world)
        assert await client.create(row(), row()) == [Error.SECURITY_DISABLED] * 2
        assert (await client.described(EVERYTHING)).error_code == Error.SECURITY_DISABLED
        assert await client.delete(EVERYTHING) == [(Error.SECURITY_DISABLED, set())]

    run(test)


def test_to_list_takes_describe_and_to_change_alter() -> None:
    async def test(world: World) -> None:
        ada = Asking(world, "User:ada")
        no = Error.CLUSTER_AUTHORIZATION_FAILED
        assert await ada.create(row()) == [no]
        told = await ada.described(EVERYTHING)
        assert (told.error_code, told.resources) == (no, [])
        assert "User:ada needs DESCRIBE on the cluster (kafka-acls --add" in (told.error_message or "")
        assert await ada.delete(EVERYTHING) == [(no, set())]
        right = row("kafka-cluster", Operation.DESCRIBE, resource=CLUSTER)
        await world.broker.access.add([right])
        assert await ada.describe() == {right}
        assert await ada.create(row()) == [no]
        await world.broker.access.add([right._replace(operation=Operation.ALTER)])
        assert await ada.create(row("mine"), row("kafka-cluster", resource=CLUSTER)) == [0, 0]
        assert (await ada.delete(Filter(TOPIC)))[0] == (0, {row("mine")})

    run(test, None, ASKING)


def test_hosts_that_no_client_has_are_taken_and_told_of_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        root = Asking(world)
        good = ["*", "10.0.0.7", "2001:db8::1", "fe80::1%eth0"]
        assert await root.create(*(row(host=host) for host in good)) == [0] * 4
        assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == []
        wrong = [
            "foo.example",
            "10.0.0.0/8",
            "10.0.0.0/33",
            "2001:db8:0:0:0:0:0:1",
            "::ffff:10.0.0.7",
            "010.0.0.7",
            "",
        ]
        assert await root.create(row(host="10.0.0.8"), *(row(host=host) for host in wrong)) == [0] * 8
        (told,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert "hosts that no client has" in told.getMessage()
        assert vars(told)["hosts"] == ", ".join(wrong)
        assert vars(told)["principal"] == "User:root"

    run(test, None, ASKING, SUPER)


def test_principals_that_no_client_is_are_taken_and_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        root = Asking(world)
        good = ["User:ada", "User:*", "User:CN=ada,O=Example"]
        assert await root.create(*(row(principal=principal) for principal in good)) == [0] * 3
        assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == []
        assert await root.create(row(), row(principal="user:bob"), row(principal="Group:shop")) == [0] * 3
        (told,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert "principals that no client is" in told.getMessage()
        assert vars(told)["principals"] == "user:bob, Group:shop"

    run(test, None, ASKING, SUPER)


def test_who_administrates_a_tenant_has_its_namespaces_and_not_the_gateway() -> None:
    async def test(world: World) -> None:
        await shop(world, "ada")
        await world.broker.tenancy.update_tenant("public", lambda old: type(old)(["ada"]))
        home, there = Asking(world, "User:ada"), Asking(world, "User:ada", EU)
        cluster = row("kafka-cluster", Operation.ALTER, resource=CLUSTER)
        no = Error.CLUSTER_AUTHORIZATION_FAILED
        assert await there.create(cluster, row()) == [0, 0]
        assert await home.create(cluster, row("shop.eu.x"), row("x")) == [no, no, 0]
        assert await there.describe() == {cluster, row()}
        assert await home.describe() == {row("x")}
        assert await home.delete(EVERYTHING) == [(0, {row("x")})]
        assert set(world.broker.access.rows()) == {each._replace(namespace=EU) for each in (cluster, row())}

    run(test, None, ASKING)


# -- what they are called


def test_at_home_in_a_namespace_there_are_those_of_it() -> None:
    async def test(world: World) -> None:
        await shop(world)
        rows = [row("orders"), row("*", resource=GROUP), row("shop.us.x"), row("ord", pattern=PREFIXED)]
        await world.broker.access.add([row("home"), row("a/b", resource=GROUP)])
        there = Asking(world, home=EU)
        assert await there.create(*rows) == [0] * 4
        assert set(world.broker.access.rows(EU)) == {each._replace(namespace=EU) for each in rows}
        assert await there.describe() == set(rows)
        assert await there.describe(Filter(TOPIC, MATCH, "orders")) == {rows[0], rows[3]}
        assert await there.delete(Filter(name="orders"), Filter(GROUP)) == [(0, {rows[0]}), (0, {rows[1]})]
        assert len(world.broker.access.rows(DEFAULT)) == 2

    run(test, None, ASKING, SUPER)


def test_at_home_in_public_default_others_have_their_namespace_in_front() -> None:
    async def test(world: World) -> None:
        await shop(world)
        client = Asking(world)
        said = {
            row("shop.eu.orders"): row("orders", namespace=EU),
            row("shop.eu.ord", pattern=PREFIXED): row("ord", pattern=PREFIXED, namespace=EU),
            row("shop.eu..", pattern=PREFIXED): row(".", pattern=PREFIXED, namespace=EU),
            row("shop.eu.", pattern=PREFIXED): row("*", namespace=EU),
            row("shop/eu//billing", resource=GROUP): row("billing", resource=GROUP, namespace=EU),
            row("shop/eu//*", resource=GROUP): row("*", resource=GROUP, namespace=EU),
            row("shop/eu//kafka-cluster", resource=CLUSTER): row(
                "kafka-cluster", resource=CLUSTER, namespace=EU
            ),
            # and these are public/default's own
            row("shop.us.orders"): row("shop.us.orders"),
            row("shop.", pattern=PREFIXED): row("shop.", pattern=PREFIXED),
            row("shop.eu.*"): row("shop.eu.*"),
            row("shop.eu."): row("shop.eu."),
            row("*"): row("*"),
            row("shop/us//x", resource=GROUP): row("shop/us//x", resource=GROUP),
            row("shop.eu.x", resource=GROUP): row("shop.eu.x", resource=GROUP),
        }
        assert await client.create(*said) == [0] * len(said)
        assert set(world.broker.access.rows()) == set(said.values())
        assert await client.describe() == set(said)
        for each in said:
            exact = Filter(each.resource, each.pattern, each.name)
            assert await client.describe(exact) == {each}
        assert await client.describe(Filter(TOPIC, LITERAL)) == {
            each for each in said if each.resource is TOPIC and each.pattern is LITERAL
        }
        # of a topic in shop/eu no row of public/default decides
        assert {each.name for each in await client.describe(Filter(TOPIC, MATCH, "shop.eu.orders"))} == {
            "shop.eu.orders", "shop.eu.ord", "shop.eu.",
        }  # fmt: skip
        assert {each.name for each in await client.describe(Filter(TOPIC, MATCH, "shop.us.orders"))} == {
            "shop.us.orders", "shop.", "*",
        }  # fmt: skip
        any_type = await client.describe(Filter(name="shop.eu.x"))
        assert any_type == {row("shop.eu.x", resource=GROUP)}
        for each in said:
            exact = Filter(each.resource, each.pattern, each.name)
            assert await client.delete(exact) == [(0, {each})]
        assert world.broker.access.rows() == []

    run(test, None, ASKING, SUPER)


def test_a_name_that_public_default_has_itself_is_its_own_in_rows_too() -> None:
    async def test(world: World) -> None:
        await shop(world)
        client = Asking(world)
        said = row("shop.eu.orders")
        assert await client.create(said) == [0]
        await world.topic("shop.eu.orders")
        # the one there was is told apart from then on, and the name is that of the other topic
        other = row("shop/eu/orders")
        assert await client.describe() == {other}
        assert await client.create(said, row("shop/eu/bills")) == [0, 0]
        assert set(world.broker.access.rows()) == {
            said, row("orders", namespace=EU), row("bills", namespace=EU),
        }  # fmt: skip
        assert await client.describe() == {said, other, row("shop.eu.bills")}
        for each in (said, other, row("shop/eu/bills")):
            assert await client.describe(Filter(TOPIC, LITERAL, each.name)) == {each}
        assert {each.name for each in await client.describe(Filter(TOPIC, MATCH, "shop.eu.orders"))} == {
            "shop.eu.orders"
        }
        assert await client.delete(Filter(TOPIC, LITERAL, "shop.eu.orders")) == [(0, {said})]
        assert await client.delete(Filter(TOPIC, LITERAL, "shop/eu/orders")) == [(0, {other})]
        assert world.broker.access.rows() == [row("bills", namespace=EU)]

    run(test, None, ASKING, SUPER)


def test_a_row_from_before_its_namespace_is_found_by_its_name() -> None:
    async def test(world: World) -> None:
        client = Asking(world)
        assert await client.create(row("shop.eu.orders"), row("shop/eu//g", resource=GROUP)) == [0, 0]
        await shop(world)
        assert await client.describe(Filter(name="shop.eu.orders")) == {row("shop.eu.orders")}
        group = row("public/default//shop/eu//g", resource=GROUP)
        assert await client.describe(Filter(GROUP)) == {group}
        assert await client.describe(Filter(name=group.name)) == {group}
        (told,) = await client.delete(Filter(TOPIC, LITERAL, "shop.eu.orders"))
        assert told == (0, {row("shop.eu.orders")})

    run(test, None, ASKING, SUPER)


def test_what_kafka_has_no_words_for_is_not_told_nor_removed() -> None:
    async def test(world: World) -> None:
        await world.broker.permissions.grant(DEFAULT, "*", "ada", ["sinks", "produce"])
        client = Asking(world)
        told = {row("*", Operation.WRITE), row("*", Operation.CREATE)}
        assert await client.describe() == told
        assert await client.delete(EVERYTHING) == [(0, told)]
        assert [each.operation for each in world.broker.access.rows()] == [Operation.SINKS]
        assert world.broker.permissions.on(DEFAULT) == {"ada": ["sinks"]}

    run(test, None, ASKING, SUPER)


# -- what is refused


GOOD = row()


@pytest.mark.parametrize(
    "bad",
    [
        GOOD._replace(resource=ResourceType.UNKNOWN),
        GOOD._replace(resource=ResourceType.ANY),
        (77, *GOOD[1:]),
        GOOD._replace(pattern=PatternType.UNKNOWN),
        GOOD._replace(pattern=PatternType.ANY),
        GOOD._replace(pattern=PatternType.MATCH),
        GOOD._replace(operation=Operation.UNKNOWN),
        GOOD._replace(operation=Operation.ANY),
        # kept for Pulsar, and not for clients
        GOOD._replace(operation=Operation.SINKS),
        GOOD._replace(permission=Permission.UNKNOWN),
        GOOD._replace(permission=Permission.ANY),
        GOOD._replace(name=""),
        GOOD._replace(name="x" * 250),
        GOOD._replace(principal="ada"),
        GOOD._replace(host="h" * 256),
        row("other", resource=CLUSTER),
    ],
)
def test_an_acl_that_is_none_is_refused_and_those_beside_it_are_made(bad: Any) -> None:
    async def test(world: World) -> None:
        client = Asking(world)
        assert await client.create(GOOD, bad, row("x")) == [0, Error.INVALID_REQUEST, 0]
        assert await client.describe() == {GOOD, row("x")}

    run(test, None, ASKING, SUPER)


@pytest.mark.parametrize(
    "bad",
    [
        EVERYTHING._replace(resource=ResourceType.UNKNOWN),
        EVERYTHING._replace(pattern=PatternType.UNKNOWN),
        EVERYTHING._replace(operation=Operation.UNKNOWN),
        EVERYTHING._replace(operation=Operation.SINKS),
        EVERYTHING._replace(permission=Permission.UNKNOWN),
    ],
)
def test_a_filter_of_something_unknown_is_refused(bad: Filter) -> None:
    async def test(world: World) -> None:
        client = Asking(world)
        await world.broker.access.add([row()])
        assert (await client.described(bad)).error_code == Error.INVALID_REQUEST
        assert await client.delete(bad, Filter(GROUP)) == [(Error.INVALID_REQUEST, set()), (0, set())]
        assert world.broker.access.rows() == [row()]

    run(test, None, ASKING, SUPER)


def test_there_is_a_bound_on_requests_and_on_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MOST", 3)
    monkeypatch.setattr(acls, "MOST_FILTERS", 1)
    monkeypatch.setattr(access, "MOST", 2)
    # and work is done in slices
    monkeypatch.setattr(slices, "SLICE", 1)

    async def test(world: World) -> None:
        client = Asking(world)
        rows = [row(name) for name in "abcd"]
        assert await client.create(*rows) == [Error.INVALID_REQUEST] * 4
        assert await client.create(*rows[:2]) == [0, 0]
        bad = GOOD._replace(principal="ada")
        assert await client.create(bad, *rows[2:]) == [Error.INVALID_REQUEST, *[Error.POLICY_VIOLATION] * 2]
        assert await client.describe() == set(rows[:2])
        assert await client.delete(EVERYTHING, EVERYTHING) == [(Error.INVALID_REQUEST, set())] * 2
        assert await client.delete(EVERYTHING) == [(0, set(rows[:2]))]

    run(test, None, ASKING, SUPER)


def test_a_namespace_that_is_not_there_has_none() -> None:
    async def test(world: World) -> None:
        client = Asking(world, home=EU)
        assert await client.create(row()) == [Error.INVALID_REQUEST]
        assert (await client.described(EVERYTHING)).error_code == Error.INVALID_REQUEST

    run(test, None, ASKING, SUPER)
