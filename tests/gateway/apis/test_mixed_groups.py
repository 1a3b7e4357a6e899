"""Members of both protocols on the wire: a classic group becomes a consumer group, and a classic one again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from gateway.coordinators import subscription
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import Refused
from tests.gateway.broker.consumer_members import assigned, beat, commit, describe, fetched, listed
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.coordinators.mixed_bench import metadata
from tests.gateway.serving import Client, create

AT_ONCE = "group.initial.rebalance.delay.ms=0"
POLICY = "group.consumer.migration.policy"


class Old:
    """A member of the classic protocol, an eager one."""

    def __init__(self, client: Client, name: str = "range", instance: str | None = None) -> None:
        self.client, self.name, self.instance = client, name, instance
        self.member_id, self.generation = "", -1

    async def join(self, *topics: str, owned: Collection[tuple[str, int]] = ()) -> Any:
        request = messages.JoinGroupRequest
        answer = await self.client.ask(
            ApiKey.JOIN_GROUP,
            9,
            request(
                group_id="g",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=[
                    request.JoinGroupRequestProtocol(
                        name=self.name, metadata=metadata(topics or ("t",), owned)
                    )
                ],
            ),
        )
        self.member_id = answer.member_id or self.member_id
        if answer.error_code == Error.MEMBER_ID_REQUIRED:
            return await self.join(*topics, owned=owned)
        self.generation = answer.generation_id
        return answer

    async def sync(self, shares: dict[str, bytes] | None = None) -> Any:
        """The error, or the partitions by topic."""
        request = messages.SyncGroupRequest
        answer = await self.client.ask(
            ApiKey.SYNC_GROUP,
            5,
            request(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=self.name,
                assignments=[
                    request.SyncGroupRequestAssignment(member_id=member, assignment=share)
                    for member, share in (shares or {}).items()
                ],
            ),
        )
        return answer.error_code or subscription.assignment(bytes(answer.assignment))

    async def beat(self) -> int:
        answer = await self.client.ask(
            ApiKey.HEARTBEAT,
            4,
            messages.HeartbeatRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
            ),
        )
        return int(answer.error_code)

    async def leave(self) -> int:
        request = messages.LeaveGroupRequest
        member = request.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        answer = await self.client.ask(ApiKey.LEAVE_GROUP, 5, request(group_id="g", members=[member]))
        return int(answer.members[0].error_code)

    async def alone(self, partitions: int = 2, topic: str = "t") -> None:
        """The only member of a classic group, with all partitions."""
        assert (await self.join(topic)).error_code == 0
        all_of_it = b"\0\1\0\0\0\1\0" + bytes([len(topic)]) + topic.encode()
        all_of_it += partitions.to_bytes(4, "big")
        all_of_it += b"".join(index.to_bytes(4, "big") for index in range(partitions)) + b"\xff" * 4
        assert await self.sync({self.member_id: all_of_it}) == {topic: list(range(partitions))}


async def kind(client: Client) -> tuple[str, str]:
    ((_, kind, state),) = await listed(client)
    return kind, state


def test_there_and_back() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        assert await kind(client) == ("classic", "Stable")
        came = await beat(client, "a", 0, "t")
        assert (came.error_code, assigned(came)) == (0, {})
        assert await kind(client) == ("consumer", "Reconciling")
        # it goes on until it is told, and commits what it has read
        first = old.generation
        assert await commit(client, old.member_id, first, 1, offset=4, version=8) == 0
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        answer = await old.join()
        assert (answer.error_code, answer.leader, answer.members) == (0, "", [])
        assert answer.generation_id == came.member_epoch
        assert await old.sync() == {"t": [0]}
        assert assigned(await beat(client, "a", came.member_epoch)) == {t: [1]}
        assert await fetched(client, "a", came.member_epoch) == (0, -1)
        described = await describe(client)
        assert described.group_state == "Stable"
        assert {each.member_id: each.member_type for each in described.members} == {old.member_id: 0, "a": 1}
        assert await commit(client, old.member_id, first, 1, version=8) == Error.ILLEGAL_GENERATION
        assert (await beat(client, "a", -1)).error_code == 0
        assert (await kind(client))[0] == "classic"
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        await old.alone()
        assert await kind(client) == ("classic", "Stable")

    run(test, AT_ONCE)


def test_whoever_waits_in_a_classic_group_is_sent_to_join_the_new_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        first, second = Old(client), Old(await Client.connect(gateway))
        await first.alone()
        joining = asyncio.create_task(second.join())
        while (await kind(client))[1] != "PreparingRebalance":
            await asyncio.sleep(0)
        assert (await beat(client, "a", 0, "t")).error_code == 0
        assert (await joining).error_code == Error.REBALANCE_IN_PROGRESS
        answer = await second.join()
        assert (answer.error_code, answer.leader) == (0, "")
        assert await first.beat() == Error.REBALANCE_IN_PROGRESS
        assert {each.member_type for each in (await describe(client)).members} == {0, 1}
        second.client.close()

    run(test, AT_ONCE)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_unless_it_may_be_upgraded(policy: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        answer = await beat(client, "a", 0, "t")
        assert (answer.error_code, answer.error_message) == (
            Error.GROUP_ID_NOT_FOUND,
            "Group g is not a consumer group.",
        )
        assert await old.beat() == 0
        assert await kind(client) == ("classic", "Stable")

    run(test, AT_ONCE, f"{POLICY}={policy}")


@pytest.mark.parametrize(
    ("policy", "kinds"), [("disabled", "consumer"), ("upgrade", "consumer"), ("downgrade", "classic")]
)
def test_a_consumer_group_stays_one_unless_it_may_be_downgraded(policy: str, kinds: str) -> None:
    """A classic member may join it all the same, and goes on when it is the last."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        came = await beat(client, "a", 0, "t")
        old = Old(client)
        assert (await old.join()).error_code == 0
        assert await old.sync() == {}
        assert (await beat(client, "a", came.member_epoch)).error_code == 0
        await beat(client, "a", -1)
        assert (await kind(client))[0] == kinds
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        if kinds == "consumer":
            assert (await old.join()).error_code == 0
            assert await old.sync() == {"t": [0, 1]}

    run(test, AT_ONCE, f"{POLICY}={policy}")


def test_one_that_is_not_let_in_leaves_the_group_as_it_is() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        answer = await beat(client, "a", 0, "t", server_assignor="sticky")
        assert answer.error_code == Error.UNSUPPORTED_ASSIGNOR
        assert await kind(client) == ("classic", "Stable")
        assert await old.beat() == 0

    run(test, AT_ONCE)


def test_groups_of_other_types_are_not_upgraded() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        await share_beat(client, "g", "s", 0, "t")
        assert (await beat(client, "a", 0, "t")).error_code == Error.GROUP_ID_NOT_FOUND
        assert (await Old(client).join()).error_code == Error.INCONSISTENT_GROUP_PROTOCOL

    run(test, AT_ONCE)


def test_a_group_that_reads_a_queue_topic_stays_a_classic_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "u")
        await gateway.broker.queues.make("t", "g", 2, {})
        old = Old(client)
        await old.alone(topic="t-g-QUEUE")
        answer = await beat(client, "a", 0, "u")
        assert answer.error_code == Error.INVALID_REQUEST
        assert "t-g-QUEUE is a queue topic" in answer.error_message
        assert await old.beat() == 0

    run(test, AT_ONCE)


def test_nor_does_a_classic_member_of_a_consumer_group_read_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "u")
        await gateway.broker.queues.make("t", "other", 2, {})
        assert (await beat(client, "a", 0, "u")).error_code == 0
        assert (await Old(client).join("t-other-QUEUE")).error_code == Error.INCONSISTENT_GROUP_PROTOCOL
        assert (await Old(client).join("u")).error_code == 0

    run(test, AT_ONCE)


def test_what_cannot_be_stored_has_not_happened() -> None:
    """The newcomer is refused, the classic group goes on."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        store.holding = True
        coming = asyncio.create_task(beat(await Client.connect(gateway), "a", 0, "t"))
        await store.has(1)
        store.fail(Refused("no space"))
        store.holding = False
        assert (await coming).error_code == Error.COORDINATOR_NOT_AVAILABLE
        assert await kind(client) == ("classic", "Stable")
        assert await old.beat() == 0
        assert (await beat(client, "a", 0, "t")).error_code == 0

    run_held(test, AT_ONCE)


def test_a_commit_that_is_on_its_way_is_answered() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        store.holding = True
        other = await Client.connect(gateway)
        committing = asyncio.create_task(commit(other, old.member_id, old.generation, offset=7, version=8))
        await store.has(1)
        coming = asyncio.create_task(beat(client, "a", 0, "t"))
        await store.has(2)
        store.release()
        assert await committing == 0
        answer = await coming
        assert answer.error_code == 0
        assert await fetched(client, "a", answer.member_epoch) == (0, 7)
        other.close()

    run_held(test, AT_ONCE)


def test_a_restart_after_each_step() -> None:
    store = memory.open()
    old = Old(None, instance="i")  # type: ignore[arg-type]
    epoch = 0

    async def upgrade(gateway: Gateway, client: Client) -> None:
        nonlocal epoch
        old.client = client
        await create(client, "t", 2)
        await old.alone()
        epoch = (await beat(client, "a", 0, "t")).member_epoch

    async def downgrade(gateway: Gateway, client: Client) -> None:
        old.client = client
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        assert (await old.join()).generation_id == epoch
        assert await old.sync() == {"t": [0]}
        assert (await beat(client, "a", epoch)).error_code == 0
        await beat(client, "a", -1)

    async def again(gateway: Gateway, client: Client) -> None:
        old.client = client
        assert await kind(client) == ("classic", "PreparingRebalance")
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        await old.alone()
        assert await old.leave() == 0

    for step in (upgrade, downgrade, again):
        run(step, AT_ONCE, store=store)


def test_a_static_member_is_started_anew_with_the_other_protocol() -> None:
    """It does not say that it goes, and gets what it had without a rebalance."""

    async def test(gateway: Gateway, client: Client) -> None:
        t = await create(client, "t", 2)
        old = Old(client, instance="i")
        await old.alone()
        answer = await beat(client, "a", 0, "t", instance_id="i")
        assert (answer.error_code, assigned(answer)) == (0, {t: [0, 1]})
        assert await old.beat() == Error.FENCED_INSTANCE_ID
        again = Old(client, instance="i")
        assert (await again.join()).error_code == 0
        assert (await kind(client))[0] == "classic", "nobody of the new protocol is left"
        # it is to join again, which GROUP_ID_NOT_FOUND would not tell it
        late = await beat(client, "a", answer.member_epoch, instance_id="i")
        assert late.error_code == Error.UNKNOWN_MEMBER_ID

    run(test, AT_ONCE)
