"""Regular expressions of consumer groups, and topics that a member may not describe."""

from __future__ import annotations

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from semantics.access.acl import Operation
from tests.gateway.apis.rights_double import Granted, RightsDouble, changed
from tests.gateway.apis.test_rights import run
from tests.gateway.serving import Client, create

IN_GROUP: Granted = (Kind.GROUP, Operation.READ, "g")


def describe(*topics: str) -> set[Granted]:
    return {IN_GROUP, *((Kind.TOPIC, Operation.DESCRIBE, topic) for topic in topics)}


async def beat(
    client: Client, epoch: int, owned: set[bytes] | None = None, member: str = "m"
) -> tuple[int, set[bytes]]:
    """The member's epoch and topics, as it hears; it owns those that it says."""
    request = messages.ConsumerGroupHeartbeatRequest
    joins = epoch == 0
    partitions = [request.TopicPartitions(topic_id=each, partitions=[0]) for each in owned or ()]
    answer = await client.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        request(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000 if joins else -1,
            subscribed_topic_names=None,
            subscribed_topic_regex="t.*" if joins else None,
            topic_partitions=partitions if joins or owned is not None else None,
        ),
    )
    assert answer.error_code == 0, answer
    told = answer.assignment
    return answer.member_epoch, {each.topic_id for each in told.topic_partitions} if told else owned or set()


def test_a_member_is_assigned_what_it_may_describe_and_follows_its_rights() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        ids = {name: await create(admin, name) for name in ("t1", "t2", "t3")}
        double.granted = describe("t1", "t2")
        epoch, its = await beat(client, 0)
        assert its == {ids["t1"], ids["t2"]}
        # without a change it stays so
        epoch, its = await beat(client, epoch, its)
        assert its == {ids["t1"], ids["t2"]}
        double.granted = describe("t1", "t3")
        changed(gateway)
        for _ in range(3):
            # it gives up the one before it has the other
            epoch, its = await beat(client, epoch, its)
        assert its == {ids["t1"], ids["t3"]}

    run(test)


def test_a_topic_that_comes_later_is_only_assigned_to_who_may_describe_it() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        ids = {"t1": await create(admin, "t1")}
        double.granted = describe("t1", "t3")
        epoch, its = await beat(client, 0)
        for name in ("t2", "t3"):
            ids[name] = await create(admin, name)
        for _ in range(3):
            epoch, its = await beat(client, epoch, its)
        assert its == {ids["t1"], ids["t3"]}

    run(test)


def test_who_may_describe_everything_has_everything() -> None:
    """Where nobody is asked for rights, and when such a one says the same expression after another."""

    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        ids = {name: await create(admin, name) for name in ("t1", "t2")}
        double.granted = describe("t1")
        _, its = await beat(client, 0)
        assert its == {ids["t1"]}
        epoch, its = await beat(admin, 0, member="n")
        for _ in range(3):
            epoch, its = await beat(admin, epoch, its, member="n")
        assert ids["t2"] in its

    run(test)
