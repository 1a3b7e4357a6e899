"""DescribeUserScramCredentials and AlterUserScramCredentials: Kafka's answers, and what is kept after them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
import uvloop

from gateway.apis.registry import Context
from gateway.apis.scram_credentials import alter_user_scram_credentials, describe_user_scram_credentials
from gateway.auth.credentials import SHA_256, SHA_512, check
from gateway.broker.namespaces import TenantRow
from gateway.broker.users import row_of, verifiers_of
from gateway.peer import Peer
from gateway.rights import Rights, Unchecked
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.names import DEFAULT
from store.api import Refused
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client, serving
from tests.gateway.tenants import EU, OTHER, Tenants
from tests.gateway.tenants import run as with_tenants

Asked = messages.AlterUserScramCredentialsRequest
GOOD, NOT_FOUND, TWICE, BAD = (
    0, Error.RESOURCE_NOT_FOUND, Error.DUPLICATE_RESOURCE, Error.UNACCEPTABLE_CREDENTIAL,
)  # fmt: skip
UNKNOWN_MECHANISM, FORBIDDEN = Error.UNSUPPORTED_SASL_MECHANISM, Error.CLUSTER_AUTHORIZATION_FAILED


def put(
    name: str,
    mechanism: int = 1,
    *,
    password: str = "sesame",
    iterations: int = 4096,
    salt: bytes = b"salt",
    salted: bytes | None = None,
) -> Any:
    if salted is None:
        salted = hashlib.pbkdf2_hmac(
            {2: "sha512"}.get(mechanism, "sha256"), password.encode(), b"salt", iterations
        )
    return Asked.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def drop(name: str, mechanism: int = 1) -> Any:
    return Asked.ScramCredentialDeletion(name=name, mechanism=mechanism)


def request_of(asked: Sequence[Any]) -> Any:
    return Asked(
        deletions=[each for each in asked if isinstance(each, Asked.ScramCredentialDeletion)],
        upsertions=[each for each in asked if isinstance(each, Asked.ScramCredentialUpsertion)],
    )


def told(answer: Any) -> list[tuple[str, int]]:
    assert all(bool(each.error_code) == bool(each.error_message) for each in answer.results)
    return [(each.user, each.error_code) for each in answer.results]


async def alter(client: Client, *asked: Any) -> list[tuple[str, int]]:
    return told(await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request_of(asked)))


def users_of(*names: str) -> Any:
    name = messages.DescribeUserScramCredentialsRequest.UserName
    return messages.DescribeUserScramCredentialsRequest(users=[name(name=each) for each in names])


async def describe(client: Client, request: Any) -> dict[str, Any]:
    answer = await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return shown(answer)


def shown(answer: Any) -> dict[str, Any]:
    return {
        each.user: each.error_code or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


ALL = messages.DescribeUserScramCredentialsRequest(users=None)


def test_a_user_is_made_and_seen_and_goes_with_its_last_credential() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        users = gateway.broker.users
        assert await describe(client, ALL) == {}
        assert await alter(client, put("ada"), put("bob", 2, iterations=16_384)) == [
            ("ada", GOOD),
            ("bob", GOOD),
        ]
        assert await alter(client, put("ada", 2, password="other")) == [("ada", GOOD)]
        every = {"ada": {1: 4096, 2: 4096}, "bob": {2: 16_384}}
        assert await describe(client, ALL) == await describe(client, users_of()) == every
        assert await describe(client, users_of("bob", "eve")) == {"bob": {2: 16_384}, "eve": NOT_FOUND}
        row = users.get("ada")
        assert row is not None
        assert check(row.verifiers[SHA_256], "sesame")
        assert check(row.verifiers[SHA_512], "other")
        assert await alter(client, drop("ada", 1)) == [("ada", GOOD)]
        assert await describe(client, users_of("ada")) == {"ada": {2: 4096}}
        assert await alter(client, drop("ada", 2)) == [("ada", GOOD)]
        assert users.names() == ["bob"]

    run(test)


def test_thousands_in_one_request_are_one_fact_and_hold_up_nobody() -> None:
    names = [f"u{n:04}" for n in range(2500)]

    async def test(gateway: Gateway, client: Client) -> None:
        done = False
        turns = 0

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        assert await alter(client, *(put(name, salted=b"x") for name in names)) == [
            (name, GOOD) for name in names
        ]
        assert await describe(client, ALL) == {name: {1: 4096} for name in names}
        done = True
        await counting
        assert turns > 12, "others were served in between"

    run(test)


def test_one_asked_for_twice() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter(client, put("ada"))
        assert await describe(client, users_of("ada", "eve", "ada")) == {"ada": TWICE, "eve": NOT_FOUND}

    run(test)


def test_a_user_that_has_a_home_keeps_it_without_credentials() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        users = gateway.broker.users
        await users.create("ada", row_of({SHA_256: verifiers_of("x")[SHA_256]}, "shop/eu"))
        assert await alter(client, drop("ada")) == [("ada", GOOD)]
        row = users.get("ada")
        assert row is not None
        assert (row.home, row.verifiers) == ("shop/eu", {})
        # to Kafka's tools it is gone
        assert await describe(client, ALL) == {}
        assert await describe(client, users_of("ada")) == {"ada": NOT_FOUND}
        assert await alter(client, drop("ada")) == [("ada", NOT_FOUND)]
        assert await alter(client, put("ada")) == [("ada", GOOD)]
        row = users.get("ada")
        assert row is not None
        assert row.home == "shop/eu"

    run(test)


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ([put("ada", iterations=4095)], [("ada", BAD)]),
        ([put("ada", iterations=16_385)], [("ada", BAD)]),
        ([put("ada", iterations=-1, salted=b"x")], [("ada", BAD)]),
        ([put("")], [("", BAD)]),
        ([put("a,b")], [("a,b", BAD)]),
        ([put("CN=ops")], [("CN=ops", BAD)]),
        ([put("ANONYMOUS")], [("ANONYMOUS", BAD)]),
        ([put("x" * 129)], [("x" * 129, BAD)]),
        ([put("ada", salt=b"")], [("ada", BAD)]),
        ([put("ada", salt=bytes(257))], [("ada", BAD)]),
        ([put("ada", salted=b"")], [("ada", BAD)]),
        ([put("ada", 0)], [("ada", UNKNOWN_MECHANISM)]),
        ([put("ada", 3)], [("ada", UNKNOWN_MECHANISM)]),
        ([drop("ada", 3)], [("ada", UNKNOWN_MECHANISM)]),
        ([drop("")], [("", BAD)]),
        ([drop("ada")], [("ada", NOT_FOUND)]),
        ([drop("old", 2)], [("old", NOT_FOUND)]),
        # the same user twice, whatever is done to it
        ([put("ada"), put("ada")], [("ada", TWICE)]),
        ([put("ada"), put("ada", 2)], [("ada", TWICE)]),
        ([put("ada"), put("ada"), put("ada")], [("ada", TWICE)]),
        ([drop("old"), put("old")], [("old", TWICE)]),
        ([drop("old"), put("old", 2)], [("old", TWICE)]),
        ([drop("old"), drop("old", 2)], [("old", TWICE)]),
        # the first thing that is wrong is told
        ([drop("ada"), put("ada")], [("ada", NOT_FOUND)]),
    ],
)
def test_what_is_refused(asked: list[Any], answers: list[tuple[str, int]]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter(client, put("old"))
        assert await alter(client, *asked) == answers
        assert await describe(client, ALL) == {"old": {1: 4096}}

    run(test)


def test_what_is_good_is_done_beside_what_is_not() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter(client, put("old"), put("bob"))
        answers = await alter(client, put("ada"), put("", 1), drop("bob"), drop("eve"), put("old", 2))
        assert answers == [("bob", GOOD), ("ada", GOOD), ("old", GOOD), ("eve", NOT_FOUND), ("", BAD)]
        assert await describe(client, ALL) == {"ada": {1: 4096}, "old": {1: 4096, 2: 4096}}

    run(test)


def test_one_request_is_one_commit_and_a_failed_one_is_told_for_each() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        asked = asyncio.ensure_future(alter(client, put("ada"), put("bob"), put("")))
        await store.has(1)
        assert gateway.broker.users.names() == []
        store.fail(Refused("no"))
        failed = Error.KAFKA_STORAGE_ERROR
        assert await asked == [("ada", failed), ("bob", failed), ("", BAD)]
        assert gateway.broker.users.names() == []

    run_held(test)


# -- rights and tenants


class Of(Unchecked):
    """Rights on the cluster as the client sees it, and on the whole gateway."""

    def __init__(self, cluster: set[Operation], node: set[Operation] = frozenset()) -> None:  # type: ignore[assignment]
        self._cluster, self._node = cluster, node

    def cluster(self, operation: Operation) -> bool:
        return operation in self._cluster

    def node(self, operation: Operation) -> bool:
        return operation in self._node


BOTH = {Operation.ALTER, Operation.DESCRIBE}


class Asking:
    """A client with these rights, by the handlers."""

    def __init__(self, gateway: Gateway, namespace: str, rights: Rights, principal: str = "User:x") -> None:
        self._broker = gateway.broker
        peer = Peer(1, "/127.0.0.1", "SASL", principal=principal, namespace=namespace, rights=rights)
        self._context = Context(peer, 51, 0, 1, None)

    async def alter(self, *asked: Any) -> list[tuple[str, int]]:
        return told(await alter_user_scram_credentials(self._broker, self._context, request_of(asked)))

    def answered(self, request: Any) -> messages.DescribeUserScramCredentialsResponse:
        answer = describe_user_scram_credentials(self._broker, self._context, request)
        assert not isinstance(answer, Awaitable), "there are few"
        return answer

    def describe(self, request: Any) -> Any:
        answer = self.answered(request)
        return answer.error_code or shown(answer)


def test_without_the_right_nothing_is_told_or_done() -> None:
    async def main() -> None:
        async with serving() as gateway:
            await gateway.broker.users.create("ada", row_of(verifiers_of("x"), None))
            nobody = Asking(gateway, "public/default", Of(set()))
            assert nobody.describe(ALL) == nobody.describe(users_of("ada")) == FORBIDDEN
            told = nobody.answered(users_of("ada", "eve"))
            assert (told.error_code, bool(told.error_message)) == (FORBIDDEN, True)
            # as often as it was asked, of nobody
            assert [(each.user, each.error_code) for each in told.results] == [("", FORBIDDEN)] * 2
            assert await nobody.alter(put("bob"), drop("ada")) == [("ada", FORBIDDEN), ("bob", FORBIDDEN)]
            reads = Asking(gateway, "public/default", Of(set(), {Operation.DESCRIBE}))
            assert reads.describe(ALL) == {"ada": {1: 4096, 2: 4096}}
            assert await reads.alter(put("bob")) == [("bob", FORBIDDEN)]
            writes = Asking(gateway, "public/default", Of(set(), {Operation.ALTER}))
            assert writes.describe(ALL) == FORBIDDEN
            assert gateway.broker.users.names() == ["ada"]
            # elsewhere by the right on the namespace
            assert Asking(gateway, "shop/eu", Of({Operation.DESCRIBE})).describe(ALL) == {}
            assert Asking(gateway, "shop/eu", Of({Operation.ALTER})).describe(ALL) == FORBIDDEN
            bob = [("bob", FORBIDDEN)]
            assert await Asking(gateway, "shop/eu", Of({Operation.DESCRIBE})).alter(put("bob")) == bob

    uvloop.run(main())


def test_an_administrator_of_the_tenant_public_has_nobody_elses_password() -> None:
    async def main() -> None:
        async with serving("authorization=true", "super.users=User:root") as gateway:
            for name in ("root", "pat"):
                await gateway.broker.users.create(name, row_of(verifiers_of("x"), None))
            await gateway.broker.tenancy.update_tenant("public", lambda _: TenantRow(["pat"]))
            before = gateway.broker.users.get("root")
            rights = gateway.broker.access.rights_of("User:pat", "127.0.0.1", DEFAULT)
            assert rights.cluster(Operation.ALTER)
            pat = Asking(gateway, "public/default", rights, "User:pat")
            assert pat.describe(ALL) == FORBIDDEN
            assert await pat.alter(put("root"), put("eve")) == [("root", FORBIDDEN), ("eve", FORBIDDEN)]
            assert gateway.broker.users.get("root") == before
            assert gateway.broker.users.names() == ["pat", "root"]

    uvloop.run(main())


def test_an_administrator_of_a_namespace_has_users_of_its_own() -> None:
    async def main() -> None:
        async with serving("super.users=User:shop.root") as gateway:
            users = gateway.broker.users
            await users.create("ada", row_of(verifiers_of("x"), None))
            await users.create("shop.us", row_of(verifiers_of("x"), "shop/us"))
            eu = Asking(gateway, "shop/eu", Of(BOTH))
            assert await eu.alter(put("ada"), put("shop.bob", 2)) == [("ada", GOOD), ("shop.bob", GOOD)]
            assert users.names() == ["ada", "shop.ada", "shop.bob", "shop.us"]
            row = users.get("shop.ada")
            assert row is not None
            assert row.home == "shop/eu"
            assert eu.describe(ALL) == {"shop.ada": {1: 4096}, "shop.bob": {2: 4096}}
            assert eu.describe(users_of("ada", "shop.bob")) == {"ada": {1: 4096}, "shop.bob": {2: 4096}}
            # others' are as if they were not there; their names cannot be had, nor one that may do everything
            assert eu.describe(users_of("us", "shop.us")) == {"us": NOT_FOUND, "shop.us": NOT_FOUND}
            assert await eu.alter(drop("us")) == [("us", NOT_FOUND)]
            assert await eu.alter(put("us"), put("root")) == [("us", BAD), ("root", BAD)]
            # nor one that administers a tenant
            await gateway.broker.tenancy.create_tenant("shop", TenantRow(["shop.boss"]))
            await users.create("shop.boss", row_of(verifiers_of("x"), "shop/eu"))
            assert await eu.alter(put("boss")) == [("boss", BAD)]
            assert await eu.alter(drop("boss")) == [("boss", BAD)]
            # but itself
            boss = Asking(gateway, "shop/eu", Of(BOTH), "User:shop.boss")
            assert await boss.alter(put("boss"), put("root")) == [("boss", GOOD), ("root", BAD)]
            await users.delete("shop.boss")
            # both are one user
            assert await eu.alter(put("ada"), put("shop.ada")) == [("ada", TWICE), ("shop.ada", TWICE)]
            # neither is its home taken along when another looks
            us = Asking(gateway, "shop/us", Of(BOTH))
            assert us.describe(ALL) == {"shop.us": {1: 4096, 2: 4096}}
            assert await us.alter(put("ada")) == [("ada", BAD)]

    uvloop.run(main())


def test_a_user_at_home_here_whose_name_is_not_of_the_tenant_is_told_of_and_no_other_made_in_its_place() -> (
    None
):
    async def test(tenants: Tenants) -> None:
        users = tenants.broker.users
        await tenants.user("bob", str(EU))
        await tenants.user("far", str(OTHER))
        boss = await tenants.login("shop.boss")

        async def asked(what: Any) -> tuple[int, str | None]:
            answer = await boss.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request_of([what]))
            (one,) = answer.results
            return one.error_code, one.error_message

        before = users.names()
        why = (
            "bob is at home in shop/eu, and its name does not begin with shop. as those of users whom its tenant "
            "manages: a super-user changes it (magnetar-admin users). Say shop.bob for another user."
        )
        assert await asked(put("bob")) == (BAD, why)
        assert await asked(drop("bob")) == (NOT_FOUND, why)
        described = await boss.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users_of("bob"))
        assert described.results[0].error_message == why
        assert users.names() == before
        # who is at home elsewhere is not told of
        assert await asked(put("far")) == (GOOD, None)
        assert await asked(put("shop.bob")) == (GOOD, None)
        # and from now on the name means that one
        assert await asked(drop("bob")) == (GOOD, None)
        assert users.get("bob") is not None

    with_tenants(test)


def test_who_may_alter_the_whole_gateway_sees_all_users_from_anywhere() -> None:
    async def main() -> None:
        async with serving() as gateway:
            await gateway.broker.users.create("ada", row_of(verifiers_of("x"), None))
            eu = Asking(gateway, "shop/eu", Of(BOTH, BOTH))
            assert eu.describe(ALL) == {"ada": {1: 4096, 2: 4096}}
            assert await eu.alter(put("eve")) == [("eve", GOOD)]
            row = gateway.broker.users.get("eve")
            assert row is not None
            assert row.home is None

    uvloop.run(main())


def test_the_log_warns_of_a_password_that_stays_by_another_mechanism(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def warned() -> list[str]:
        found = [vars(each)["users"] for each in caplog.records if "stays as it was" in each.getMessage()]
        caplog.clear()
        return found

    async def test(_: Gateway, client: Client) -> None:
        await alter(client, put("ada"), put("bob", 2))
        await alter(client, put("ada", password="other"), drop("eve"))
        assert warned() == []
        await alter(client, put("ada", 2))
        assert warned() == ["ada (SCRAM-SHA-256)"]
        await alter(client, drop("ada", 1), drop("bob", 2))
        assert warned() == ["ada (SCRAM-SHA-512)"]
        # what is not done is not warned of
        await alter(client, put("ada", 1, iterations=1))
        await alter(client, drop("ada", 2))
        assert warned() == []

    run(test)
