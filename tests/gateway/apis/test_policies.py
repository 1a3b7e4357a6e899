"""What policies forbid, as members of groups are told it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Family
from tests.gateway.broker.held import run
from tests.gateway.broker.share_members import assigned, beat
from tests.gateway.serving import Client, create

READS_LANES = b"\0\1\0\0\0\1" + len(b"t-g-QUEUE").to_bytes(2, "big") + b"t-g-QUEUE" + b"\xff\xff\xff\xff"


async def say(gateway: Gateway, topic: str, **policies: str) -> None:
    said = {"pulsar." + name.replace("__", "."): value for name, value in policies.items()}
    await gateway.broker.topics.configure(topic, lambda old: {**old, **said})


async def join(client: Client, member: str = "", instance: str | None = None, group: str = "g") -> Any:
    """A member of a consumer group; the answer that tells it to come again with an id, or refuses it."""
    request = messages.JoinGroupRequest
    return await client.ask(
        ApiKey.JOIN_GROUP,
        5,
        request(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=READS_LANES)],
        ),
    )


class TestConsumers:
    @pytest.mark.parametrize("limit", ["max__consumers", "max__consumers__per__subscription"])
    def test_of_a_share_group(self, limit: str) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t")
            await create(client, "u")
            await say(gateway, "t", **{limit: "2"})
            for member in ("a", "b"):
                assert (await beat(client, "g", member, 0, "t")).error_code == 0
            refused = await beat(client, "g", "c", 0, "t")
            assert refused.error_code == Error.GROUP_MAX_SIZE_REACHED
            assert "may have no more than 2 consumers" in refused.error_message
            # those who are there go on, and come again with what they have
            joined = await beat(client, "g", "a", 0, "t")
            assert assigned(joined) == {topic: [0]}
            other = await beat(client, "g", "c", 0, "u")
            assert other.error_code == 0
            refused = await beat(client, "g", "c", other.member_epoch, "t", "u")
            assert refused.error_code == Error.GROUP_MAX_SIZE_REACHED
            # of another subscription: the topic's limit counts all, a subscription's its own
            answer = await beat(client, "h", "x", 0, "t")
            full = limit == "max__consumers"
            assert answer.error_code == (Error.GROUP_MAX_SIZE_REACHED if full else 0)
            await beat(client, "g", "b", -1)
            assert (await beat(client, "g", "d", 0, "t")).error_code == 0
            await say(gateway, "t", **{limit: "0"})
            assert (await beat(client, "g", "e", 0, "t")).error_code == 0

        run(test)

    @pytest.mark.parametrize("limit", ["max__consumers", "max__consumers__per__subscription"])
    def test_of_lanes(self, limit: str) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await gateway.broker.queues.make("t", "g", 4, {})
            await say(gateway, "t", **{limit: "1"})
            first = await join(client)
            assert first.error_code == Error.MEMBER_ID_REQUIRED
            joined = await join(client, first.member_id)
            assert joined.error_code == 0
            assert (await join(client)).error_code == Error.GROUP_MAX_SIZE_REACHED
            assert (await join(client, instance="i")).error_code == Error.GROUP_MAX_SIZE_REACHED
            # it is there, and may come again
            assert (await join(client, joined.member_id)).error_code == 0
            # a group that reads no lanes has as many as it likes
            assert (await join(client, group="plain")).error_code == Error.MEMBER_ID_REQUIRED
            await say(gateway, "t", **{limit: "2"})
            assert (await join(client)).error_code == Error.MEMBER_ID_REQUIRED

        run(test)

    def test_of_lanes_and_share_groups_together(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await gateway.broker.queues.make("t", "g", 4, {})
            await say(gateway, "t", max__consumers="2")
            first = await join(client)
            assert (await join(client, first.member_id)).error_code == 0
            assert (await beat(client, "h", "x", 0, "t")).error_code == 0
            assert (await beat(client, "h", "y", 0, "t")).error_code == Error.GROUP_MAX_SIZE_REACHED
            assert (await join(client)).error_code == Error.GROUP_MAX_SIZE_REACHED

        run(test)


class TestSubscriptions:
    def test_a_member_of_a_group_that_gets_none_is_told_why(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await say(gateway, "t", max__subscriptions="1")
            assert (await beat(client, "g", "a", 0, "t")).error_code == 0
            refused = await beat(client, "h", "a", 0, "t")
            assert refused.error_code == Error.POLICY_VIOLATION
            assert refused.error_message.startswith("Topic t may have no more than 1 subscriptions")

        run(test)

    @pytest.mark.parametrize(
        "policy",
        [
            {"max__subscriptions": "1"},
            {"subscription__types__enabled": "Key_Shared"},
            {"auto__subscription__creation": "false"},
        ],
    )
    def test_who_comes_in_vain_leaves_no_group(self, policy: dict[str, str]) -> None:
        """A share group keeps its id from consumer groups, also when it has no subscription."""

        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await create(client, "u")
            assert (await beat(client, "g", "a", 0, "t")).error_code == 0
            await say(gateway, "t", **policy)
            # not even the subscription and the RETRY topic that it might have had
            names = ("t", "u", "u-h-RETRY")
            assert (await beat(client, "h", "a", 0, *names)).error_code == Error.POLICY_VIOLATION
            assert gateway.broker.store.get(Family.GROUP, b"h") is None
            assert gateway.broker.subscriptions.of_group("h") == []
            assert gateway.broker.catalog.get("u-h-RETRY") is None
            assert (await join(client, group="h")).error_code == Error.MEMBER_ID_REQUIRED

        run(test)

    def test_none_is_made_for_who_comes(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await say(gateway, "t", auto__subscription__creation="false")
            refused = await beat(client, "g", "a", 0, "t")
            assert refused.error_code == Error.POLICY_VIOLATION
            assert (
                "none is made for who comes. Make it with: magnetar-admin topics create-sub"
                in refused.error_message
            )
            await gateway.broker.subscriptions.ensure("g", "t")
            assert (await beat(client, "g", "a", 0, "t")).error_code == 0

        run(test)

    def test_who_comes_in_vain_is_no_member(self) -> None:
        """Its client gives up: it would hold a consumer's place until its session is over."""

        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await say(gateway, "t", auto__subscription__creation="false", max__consumers="1")
            refused = await beat(client, "g", "a", 0, "t")
            assert refused.error_code == Error.POLICY_VIOLATION
            await gateway.broker.subscriptions.ensure("g", "t")
            assert (await beat(client, "g", "b", 0, "t")).error_code == 0
            # who is there already goes on, whatever more is forbidden
            await create(client, "u")
            await create(client, "v")
            await say(gateway, "u", auto__subscription__creation="false")
            joined = await beat(client, "h", "c", 0, "v")
            refused = await beat(client, "h", "c", joined.member_epoch, "u", "v")
            assert refused.error_code == Error.POLICY_VIOLATION
            assert (await beat(client, "h", "c", joined.member_epoch, "v")).error_code == 0

        run(test)

    def test_a_type_that_is_not_allowed(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await say(gateway, "t", subscription__types__enabled="Key_Shared,Failover")
            refused = await beat(client, "g", "a", 0, "t")
            assert refused.error_code == Error.POLICY_VIOLATION
            said = "Topic t takes no Shared subscriptions, only: Key_Shared, Failover."
            assert refused.error_message.startswith(said)
            kind = {"pulsar.subscription.type": "key_shared"}
            await gateway.broker.group_configs.alter("h", lambda old: kind)
            assert (await beat(client, "h", "a", 0, "t")).error_code == 0

        run(test)
