"""The group of a queue topic: what members and who fetches hear when lanes come, one stands still or the topic goes."""

from __future__ import annotations

from gateway.broker.queues.news import AGAIN_MS
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.test_queue_topics import NAME, commit, committed, join, produce, queue, read
from tests.gateway.broker.asking import errors, fetch
from tests.gateway.broker.held import run, until
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, create


async def heartbeat(client: Client, member: str, generation: int) -> int:
    asked = messages.HeartbeatRequest(group_id="g", member_id=member, generation_id=generation)
    error: int = (await client.ask(ApiKey.HEARTBEAT, 3, asked)).error_code
    return error


def test_more_lanes_are_told_to_who_fetches_and_to_members_once() -> None:
    """Some clients look for more partitions when they look for leaders, others when the group is shared out anew."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        member, generation = await join(client, NAME, 0)
        assert await read(client) == [0, 1, 2]
        assert await heartbeat(client, member, generation) == Error.NONE
        await gateway.broker.topics.grow(NAME, 2)
        assert errors(await fetch(client, {NAME: {0: 3}})) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        assert errors(await fetch(client, {NAME: {0: 3, 1: 0}})) == {0: 0, 1: Error.NOT_LEADER_OR_FOLLOWER}
        assert errors(await fetch(client, {NAME: {0: 3, 1: 0}})) == {0: 0, 1: 0}
        assert await heartbeat(client, member, generation) == Error.REBALANCE_IN_PROGRESS
        # who comes later has looked for them just now
        later = await Client.connect(gateway)
        assert errors(await fetch(later, {NAME: {0: 3}})) == {0: 0}
        later.close()

    run(test)


def test_more_lanes_are_told_again_while_they_are_nobodys() -> None:
    """Clients throw away what they fetched when their group rebalances, and the news with it."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        member, generation = await join(client, NAME, 0)
        asked: dict[str | bytes, dict[int, int]] = {NAME: {0: 0}}

        async def tell_again(after_ms: int) -> None:
            news = gateway.broker.queues.of(gateway.broker.topics.get(NAME)).news
            assert news is not None
            due, news.due = news.due, news.due - after_ms
            gateway.broker.queues.tell_again()
            if news.due == due - after_ms:
                news.due = due

        await gateway.broker.topics.grow(NAME, 2)
        assert errors(await fetch(client, asked)) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        assert errors(await fetch(client, asked)) == {0: 0}
        await tell_again(AGAIN_MS)
        assert errors(await fetch(client, asked)) == {0: 0}, "they are just being shared out"
        member, generation = await join(client, NAME, 0, member=member)
        later = await Client.connect(gateway)
        for wait in (AGAIN_MS, 2 * AGAIN_MS):
            await tell_again(wait)
            for each in (client, later):
                assert errors(await fetch(each, asked)) == {0: Error.NOT_LEADER_OR_FOLLOWER}
                assert errors(await fetch(each, asked)) == {0: 0}
            assert await heartbeat(client, member, generation) == Error.REBALANCE_IN_PROGRESS
            member, generation = await join(client, NAME, 0, member=member)
        # a session asks nothing, so that its lane is taken from under it
        before = gateway.broker.queues.of(gateway.broker.topics.get(NAME))
        await tell_again(4 * AGAIN_MS)
        assert before.gone
        assert errors(await fetch(client, asked)) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        member, generation = await join(client, NAME, 0, 1, member=member)
        await tell_again(1 << 30)
        assert errors(await fetch(client, asked)) == {0: 0}
        assert await heartbeat(client, member, generation) == Error.NONE
        later.close()

    run(test)


def test_a_change_of_what_its_lanes_go_by_is_told_to_nobody() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        member, generation = await join(client, NAME, 0)
        configs = gateway.broker.subscriptions.configs
        await configs.alter_properties("g", "t", {"pulsar.nack.delay.ms": "7"})
        assert errors(await fetch(client, {NAME: {0: 0}})) == {0: 0}
        assert await heartbeat(client, member, generation) == Error.NONE

    run(test)


def test_a_member_that_settles_nothing_is_lost_to_its_group_and_what_it_had_comes_again() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        configs = gateway.broker.subscriptions.configs
        await configs.alter_properties(
            "g", "t", {"pulsar.ack.timeout.ms": "5000", "pulsar.nack.delay.ms": "0"}
        )
        await produce(client, 0, 1)
        member, generation = await join(client, NAME, 0)
        assert await read(client) == [0, 1]
        work = gateway.broker.queues.of(gateway.broker.topics.get(NAME))
        gateway.broker.queues.expel_stuck()
        assert await heartbeat(client, member, generation) == Error.NONE
        work.at[0].moved_at -= 5_000
        gateway.broker.queues.expel_stuck()
        assert await heartbeat(client, member, generation) == Error.UNKNOWN_MEMBER_ID
        assert work.lanes.owners == [None]
        (source,) = work.sources.values()
        assert [source.failures(offset) for offset in range(2)] == [1, 1]
        # its lane goes to who joins then, and so do its deliveries, under new offsets
        again, _ = await join(client, NAME, 0)
        assert work.lanes.owners == [again]
        assert await read(client, offset=2) == [2]

    run(test)


async def leave(client: Client, member: str) -> None:
    request = messages.LeaveGroupRequest
    identity = request.MemberIdentity(member_id=member)
    await client.ask(ApiKey.LEAVE_GROUP, 4, request(group_id="g", members=[identity]))


def test_when_its_queue_topic_is_gone_the_id_of_an_empty_group_is_free_for_a_share_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        member, _ = await join(client, NAME, 0)
        await leave(client, member)
        await gateway.broker.topics.delete(NAME)
        await until(lambda: gateway.broker.group_kinds.owner("g") is None)
        assert (await beat(client, "g", "m", 0, "t")).error_code == Error.NONE

    run(test)


def test_a_group_that_has_committed_elsewhere_stays_when_its_queue_topic_is_gone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        await create(client, "other")
        member, generation = await join(client, NAME, 0)
        assert await commit(client, {0: (7, "mine")}, topic="other", member=(member, generation)) == {0: 0}
        await leave(client, member)
        await gateway.broker.topics.delete(NAME)
        # what looks after it has had its turn
        await gateway.broker.write([])
        await gateway.broker.write([])
        assert await committed(client, [0], topic="other") == [(7, "mine", 0)]
        assert gateway.broker.groups.get("g") is not None

    run(test)
