"""pulsar.subscription.type exclusive and failover on the wire, for groups of all kinds."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from gateway.broker.errors import KafkaError
from gateway.coordinators import classic_failover
from gateway.server import Gateway
from gateway.wire.errors import Error
from store import memory
from store.api import StoreError
from tests.gateway.apis.old_members import Old
from tests.gateway.broker.consumer_members import assigned, beat
from tests.gateway.broker.held import HeldStore, run, serving_on
from tests.gateway.broker.share_members import alter
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.serving import Client, create

AT_ONCE = "group.initial.rebalance.delay.ms=0"


async def exclusive(gateway: Gateway, client: Client) -> bytes:
    await alter(gateway, "g", pulsar__subscription__type="exclusive")
    return await create(client, "t", 2)


async def failover(gateway: Gateway, **configs: str) -> None:
    await alter(gateway, "g", pulsar__subscription__type="failover", **configs)


async def two_consumers(gateway: Gateway, client: Client) -> None:
    """Members 1 (instance a), which has both partitions, and 2 (c)."""
    await failover(gateway, pulsar__failover__priorities="c=1")
    await create(client, "t", 2)
    await beat(client, "1", 0, "t", instance_id="a")
    await beat(client, "2", 0, "t", instance_id="c")
    assert targets(gateway) == {"1": [0, 1], "2": []}


def targets(gateway: Gateway) -> dict[str, list[int]]:
    group = gateway.broker.consumer_groups.get("g")
    assert group is not None
    return {name: sorted(index for _, index in its.target) for name, its in group.members.items()}


async def heard(gateway: Gateway, client: Client) -> None:
    """Each of both says that it is there."""
    for name, instance in (("1", "a"), ("2", "c")):
        group = gateway.broker.consumer_groups.get("g")
        assert group is not None
        await beat(client, name, group.members[name].epoch, instance_id=instance)


class TestExclusive:
    def test_a_classic_group_has_one_member(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            first, second = Old(client), Old(await Client.connect(gateway))
            await first.alone()
            assert (await second.join()).error_code == Error.GROUP_MAX_SIZE_REACHED
            # who is there may join again, and is not disturbed
            assert await first.beat() == 0
            await first.alone()
            assert await first.leave() == 0
            await second.alone()

        run(test)

    def test_two_that_come_to_a_classic_group_at_once(self) -> None:
        """The first rebalance of a group waits for others as a rule."""

        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            both = Old(client), Old(await Client.connect(gateway))
            codes = [answer.error_code for answer in await asyncio.gather(*[each.join() for each in both])]
            assert sorted(codes) == [0, Error.GROUP_MAX_SIZE_REACHED]

        run(test)

    def test_a_static_member_of_a_classic_group_comes_back(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            first = Old(client, instance="i")
            await first.alone()
            again = Old(await Client.connect(gateway), instance="i")
            assert (await again.join()).error_code == 0
            assert await again.sync() == {"t": [0, 1]}
            assert await first.beat() == Error.FENCED_INSTANCE_ID
            other = Old(client, instance="j")
            assert (await other.join()).error_code == Error.GROUP_MAX_SIZE_REACHED

        run(test)

    def test_a_consumer_group_has_one_member_of_either_protocol(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            t = await exclusive(gateway, client)
            came = await beat(client, "a", 0, "t")
            assert assigned(came) == {t: [0, 1]}
            refused = await beat(client, "b", 0, "t")
            assert refused.error_code == Error.GROUP_MAX_SIZE_REACHED
            assert "maximum capacity of 1" in refused.error_message
            assert (await Old(client).join()).error_code == Error.GROUP_MAX_SIZE_REACHED
            assert (await beat(client, "a", 0, "t")).error_code == 0
            assert (await beat(client, "a", -1)).error_code == 0
            assert assigned(await beat(client, "b", 0, "t")) == {t: [0, 1]}

        run(test)

    def test_a_static_member_of_a_consumer_group_comes_back(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            t = await exclusive(gateway, client)
            await beat(client, "a", 0, "t", instance_id="i")
            assert (await beat(client, "a", -2, instance_id="i")).error_code == 0
            assert (await beat(client, "c", 0, "t")).error_code == Error.GROUP_MAX_SIZE_REACHED
            assert assigned(await beat(client, "b", 0, "t", instance_id="i")) == {t: [0, 1]}

        run(test)

    def test_a_classic_group_with_a_member_stays_as_it_is_for_one_of_the_new_protocol(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            first = Old(client)
            await first.alone()
            assert (await beat(client, "a", 0, "t")).error_code == Error.GROUP_MAX_SIZE_REACHED
            assert await first.beat() == 0
            assert gateway.broker.groups.members("g") == 1

        run(test)

    def test_a_share_group_has_one_member(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            came = await share_beat(client, "g", "a", 0, "t")
            assert came.error_code == 0
            refused = await share_beat(client, "g", "b", 0, "t")
            assert refused.error_code == Error.GROUP_MAX_SIZE_REACHED
            assert (await share_beat(client, "g", "a", came.member_epoch)).error_code == 0
            assert (await share_beat(client, "g", "a", -1)).error_code == 0
            assert (await share_beat(client, "g", "b", 0, "t")).error_code == 0

        run(test)

    def test_after_a_restart_too(self) -> None:
        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await exclusive(gateway, client)
                first = Old(client)
                await first.alone()
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again) as gateway:
                first.client = client = await Client.connect(gateway)
                assert (await Old(client).join()).error_code == Error.GROUP_MAX_SIZE_REACHED
                assert await first.beat() == 0
                client.close()

        asyncio.run(main())

    def test_the_type_stays_while_there_are_members(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t", 2)
            old = Old(client)
            await old.alone()
            for kind in ("exclusive", "failover"):
                with pytest.raises(KafkaError, match=rf"cannot become {kind} while it has consumers \(1\)"):
                    await alter(gateway, "g", pulsar__subscription__type=kind)
            assert await old.leave() == 0
            await alter(gateway, "g", pulsar__subscription__type="exclusive")
            await beat(client, "a", 0, "t")
            with pytest.raises(KafkaError, match="is exclusive and cannot become shared"):
                await alter(gateway, "g", pulsar__subscription__type="shared")

        run(test)

    def test_lanes_do_not_serve_it(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await exclusive(gateway, client)
            queues = gateway.broker.queues
            with pytest.raises(KafkaError, match="group g is exclusive"):
                await queues.make("t", "g", 2, {})
            with pytest.raises(KafkaError, match="shared or key_shared; failover is said of a group"):
                await queues.make("t", "h", 2, {"pulsar.subscription.type": "failover"})
            await queues.make("t", "h", 2, {})
            with pytest.raises(KafkaError, match="t-h-QUEUE serve one of group h"):
                await alter(gateway, "h", pulsar__subscription__type="exclusive")

        run(test)


async def generation(leader: Old, *others: Old, topics: tuple[str, ...] = ("t",)) -> list[Any]:
    """All join anew, and the leader gives everybody nothing: what each is told."""
    members = (leader, *others)
    answers = await asyncio.gather(*[each.join(*topics) for each in members])
    assert [answer.error_code for answer in answers] == [0] * len(members)
    nothing = b"\0\1\0\0\0\0\xff\xff\xff\xff"
    shares = {each.member_id: nothing for each in members}
    lead = next(each for each in members if each.member_id == answers[0].leader)
    followers = [asyncio.create_task(each.sync()) for each in members if each is not lead]
    told = {lead.member_id: await lead.sync(shares)}
    told |= {
        each.member_id: await sync
        for each, sync in zip([each for each in members if each is not lead], followers, strict=True)
    }
    return [told[each.member_id] for each in members]


class TestFailover:
    def test_a_classic_group_is_shared_out_by_the_coordinator(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await failover(gateway)
            await create(client, "t", 5)
            b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
            assert await generation(b, a) == [{"t": [1, 3]}, {"t": [0, 2, 4]}]
            # what is kept is what members were told
            assert gateway.broker.groups.assignment("g")[a.member_id] == {"t": [0, 2, 4]}

        run(test)

    def test_priorities_of_a_classic_group_count_at_once(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await failover(gateway, pulsar__failover__priorities="a=1,c=7")
            await create(client, "t", 2)
            b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
            assert await generation(b, a) == [{"t": [0, 1]}, {}]
            await alter(gateway, "g", pulsar__nack__delay__ms="5")
            assert await b.beat() == 0, "that is nothing to them"
            await alter(gateway, "g", pulsar__failover__priorities="b=1")
            assert await b.beat() == Error.REBALANCE_IN_PROGRESS
            assert await generation(b, a) == [{}, {"t": [0, 1]}]

        run(test)

    def test_a_restart_before_members_have_heard_of_priorities(self) -> None:
        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await failover(gateway, pulsar__failover__priorities="a=1")
                await create(client, "t", 2)
                b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
                assert await generation(b, a) == [{"t": [0, 1]}, {}]
                await alter(gateway, "g", pulsar__failover__priorities="b=1")
                a.client.close()
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again) as gateway:
                b.client = client = await Client.connect(gateway)
                a.client = await Client.connect(gateway)
                assert await b.beat() == Error.REBALANCE_IN_PROGRESS
                assert await generation(b, a) == [{}, {"t": [0, 1]}]
                assert await b.beat() == 0
                a.client.close()
                client.close()

        asyncio.run(main())

    def test_only_the_leader_of_the_generation_has_partitions_shared_out(self) -> None:
        """It is work for the whole gateway: nobody else has it done, nor the leader twice."""

        async def test(gateway: Gateway, client: Client) -> None:
            await failover(gateway)
            await create(client, "t", 2)
            b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
            with mock.patch.object(
                classic_failover, "assignments", side_effect=classic_failover.assignments
            ) as shared:
                await generation(b, a)
                shares = {each.member_id: b"" for each in (a, b)}
                assert await a.sync(shares) == {"t": [0]}
                assert await b.sync(shares) == {"t": [1]}
                b.generation -= 1
                assert await b.sync(shares) == Error.ILLEGAL_GENERATION
                b.member_id = "nobody"
                assert await b.sync(shares) == Error.FENCED_INSTANCE_ID
            assert shared.call_count == 1

        run(test)

    @pytest.mark.parametrize("other", [False, True])
    def test_a_classic_group_knows_its_priorities_after_a_restart(self, other: bool) -> None:
        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await failover(gateway, pulsar__failover__priorities="a=1")
                await create(client, "t", 2)
                b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
                assert await generation(b, a) == [{"t": [0, 1]}, {}]
                a.client.close()
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again) as gateway:
                b.client = client = await Client.connect(gateway)
                assert await b.beat() == 0
                if other:
                    await alter(gateway, "g", pulsar__failover__priorities="")
                else:
                    await alter(gateway, "g", pulsar__nack__delay__ms="5")
                assert await b.beat() == (Error.REBALANCE_IN_PROGRESS if other else 0)
                client.close()

        asyncio.run(main())

    def test_without_the_type_a_classic_group_has_what_its_leader_made(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t", 2)
            b, a = Old(client, instance="b"), Old(await Client.connect(gateway), instance="a")
            assert await generation(b, a) == [{}, {}]

        run(test)

    def test_a_consumer_group_has_no_other_assignor(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await failover(gateway, pulsar__failover__priorities="c=1")
            await create(client, "t", 3)
            await beat(client, "1", 0, "t", instance_id="b", server_assignor="uniform")
            await beat(client, "2", 0, "t", instance_id="a", server_assignor="uniform")
            await beat(client, "3", 0, "t", instance_id="c", server_assignor="uniform")
            group = gateway.broker.consumer_groups.get("g")
            assert group is not None
            assert group.assignor == "failover"
            targets = {name: sorted(index for _, index in its.target) for name, its in group.members.items()}
            assert targets == {"1": [1], "2": [0, 2], "3": []}
            # in force with the next that says something
            await alter(gateway, "g", pulsar__failover__priorities="a=1,b=1")
            await beat(client, "2", group.members["2"].epoch, instance_id="a")
            targets = {name: sorted(index for _, index in its.target) for name, its in group.members.items()}
            assert targets == {"1": [], "2": [], "3": [0, 1, 2]}

        run(test)

    def test_priorities_of_a_consumer_group_outlive_a_restart_before_members_are_heard(self) -> None:
        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await two_consumers(gateway, client)
                await alter(gateway, "g", pulsar__failover__priorities="a=1")
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again) as gateway:
                client = await Client.connect(gateway)
                # loaded by its offsets being asked for, or by whoever comes first
                await heard(gateway, client)
                assert targets(gateway) == {"1": [], "2": [0, 1]}
                group = gateway.broker.consumer_groups.get("g")
                assert group is not None
                epoch = group.epoch
                await heard(gateway, client)
                assert group.epoch == epoch, "once"
                client.close()

        asyncio.run(main())

    def test_priorities_outlive_a_commit_that_fails(self) -> None:
        async def main() -> None:
            store = HeldStore()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await two_consumers(gateway, client)
                await alter(gateway, "g", pulsar__failover__priorities="a=1")
                group = gateway.broker.consumer_groups.get("g")
                assert group is not None
                store.holding = True
                going = asyncio.create_task(beat(client, "2", group.members["2"].epoch, instance_id="c"))
                await store.has(1)
                store.fail(StoreError("no"))
                store.holding = False
                await going
                await heard(gateway, client)
                assert targets(gateway) == {"1": [], "2": [0, 1]}
                client.close()

        asyncio.run(main())

    def test_topics_without_partitions_and_who_joined_first_after_a_restart(self) -> None:
        """The vector of `tests/semantics/subscriptions/test_failover.py`."""
        names = [f"topic-{number}" for number in range(4)]

        async def main() -> None:
            store = memory.open()
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                await failover(gateway)
                for name in names:
                    await gateway.broker.topics.create(name, 1, {}, partitioned=False)
                await beat(client, "z", 0, "topic-0", instance_id="B")
                await beat(client, "y", 0, "topic-0", instance_id="A")
                assert _owners(gateway) == {"topic-0": "z"}
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again) as gateway:
                client = await Client.connect(gateway)
                group = gateway.broker.consumer_groups.get("g")
                assert group is not None
                instances = {"z": "B", "y": "A"}

                async def subscribe(member: str, *topics: str) -> None:
                    epoch, instance = group.members[member].epoch, instances[member]
                    answer = await beat(client, member, epoch, *topics, instance_id=instance, owned={})
                    assert answer.error_code == 0

                await subscribe("y", "topic-0", "topic-2", "topic-3")
                assert _owners(gateway) == {"topic-0": "z", "topic-2": "y", "topic-3": "y"}
                await subscribe("y", "topic-0")
                assert _owners(gateway) == {"topic-0": "z"}, "z has joined before"
                await subscribe("y", *names)
                await subscribe("z", *names)
                found = _owners(gateway)
                assert [found[name] for name in names] == ["z", "z", "z", "y"]
                client.close()

        asyncio.run(main())


def _owners(gateway: Gateway) -> dict[str, str]:
    """By topic, who is to have its first partition."""
    group = gateway.broker.consumer_groups.get("g")
    assert group is not None
    names = {view.topic_id: name for name, view in group.topics.items()}
    return {names[topic]: member.member_id for member in group.members.values() for topic, _ in member.target}
