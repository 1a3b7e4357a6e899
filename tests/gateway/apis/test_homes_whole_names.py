"""A client's own topics by their whole names: `shop.eu.orders` is `orders` to who is at home in shop/eu."""

from __future__ import annotations

from typing import Any

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.errors import Error
from semantics.group_names import scoped
from tests.gateway.apis.homes_asking import EU, errors, run
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

WHOLE = "shop.eu.orders"


async def metadata(client: Client, *names: str, make: bool = False) -> dict[str, tuple[bytes, int]]:
    asked = messages.MetadataRequest.MetadataRequestTopic
    request = messages.MetadataRequest(
        topics=[asked(name=name) for name in names] if names else None, allow_auto_topic_creation=make
    )
    answer = await client.ask(3, 12, request)
    return {topic.name: (topic.topic_id, topic.error_code) for topic in answer.topics}


def names_in(gateway: Gateway) -> list[str]:
    return sorted(each.name for each in gateway.broker.catalog.topics_within(""))


def test_a_whole_name_finds_the_topic_of_the_home_and_is_answered() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own = await create(eu, "orders")
        assert await metadata(eu, WHOLE, make=True) == {WHOLE: (own, 0)}
        told = (await eu.ask(0, 9, produce_body(WHOLE, batch(b"eu")))).responses[0]
        assert (told.name, told.partition_responses[0].error_code) == (WHOLE, 0)
        for name in (WHOLE, "orders"):
            answer = await eu.ask(1, 12, fetch_body(name, 0))
            assert (answer.responses[0].topic, errors(answer)) == (name, [0])
            assert b"eu" in bytes(answer.responses[0].partitions[0].records)
        assert list(await metadata(eu)) == ["orders"]
        assert names_in(gateway) == ["shop/eu/orders"]

    run(test)


def test_a_whole_name_makes_the_topic_that_all_others_mean_by_it() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, WHOLE)
        await metadata(eu, "shop.eu.more", make=True)
        assert names_in(gateway) == ["shop/eu/more", "shop/eu/orders"]
        own = await metadata(eu, "orders")
        assert (await metadata(at_home, WHOLE))[WHOLE] == own["orders"]
        assert (await metadata(us, WHOLE))[WHOLE][1] == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_a_topic_of_the_home_that_is_called_so_comes_first() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        literal = (await gateway.broker.create_topic(f"shop/eu/{WHOLE}", 1, {})).topic_id
        assert await metadata(eu, WHOLE) == {WHOLE: (literal, 0)}

    run(test)


def test_a_fetch_by_a_whole_name_has_no_session_which_would_answer_by_another() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")

        async def fetched(name: str, session: tuple[int, int]) -> Any:
            return await eu.ask(1, 12, fetch_body(name, 0, session=session))

        answer = await fetched(WHOLE, (0, 0))
        assert (answer.session_id, answer.responses[0].topic) == (0, WHOLE)
        begun = await fetched("orders", (0, 0))
        assert begun.session_id
        more = await fetched(WHOLE, (begun.session_id, 1))
        assert more.error_code == Error.FETCH_SESSION_ID_NOT_FOUND

    run(test)


def test_members_of_classic_groups_mean_the_same_by_it() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        wording = gateway.broker.catalog.wording(scoped(EU, "readers"))
        assert wording.inward(WHOLE) == wording.inward("orders") == "shop/eu/orders"

    run(test)


def test_rights_are_given_on_the_topic_that_a_whole_name_means() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        row = messages.CreateAclsRequest.AclCreation(
            resource_type=2, resource_name=WHOLE, resource_pattern_type=3, principal="User:ada", host="*",
            operation=3, permission_type=2,
        )  # fmt: skip
        await eu.ask(30, 3, messages.CreateAclsRequest(creations=[row]))
        row.resource_name, row.resource_pattern_type = "shop.eu.ord", 4
        await eu.ask(30, 3, messages.CreateAclsRequest(creations=[row]))

        async def shown(name: str, pattern: int = 3) -> list[str]:
            asked = messages.DescribeAclsRequest(
                resource_type_filter=2, resource_name_filter=name, pattern_type_filter=pattern, principal_filter=None,
                host_filter=None, operation=1, permission_type=1,
            )  # fmt: skip
            return [each.resource_name for each in (await eu.ask(29, 3, asked)).resources]

        assert await shown("orders") == await shown(WHOLE) == ["orders"]
        assert await shown("ord", 4) == await shown("shop.eu.ord", 4) == ["ord"]

    run(test, "authorization=true", "super.users=User:ANONYMOUS")
