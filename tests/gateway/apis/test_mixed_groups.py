"""Members of both protocols on the wire: a classic group becomes a consumer group, and a classic one again."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from gateway.wire.errors import Error
from store import memory
from store.api import Refused
from tests.gateway.apis.old_members import Old
from tests.gateway.broker.consumer_members import assigned, beat, commit, describe, fetched, listed
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.serving import Client, create

AT_ONCE = "group.initial.rebalance.delay.ms=0"
POLICY = "group.consumer.migration.policy"


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
    """With one partition, that stays where it is: the newcomer changes nothing of the other member."""
    store = memory.open()
    old = Old(None, instance="i")  # type: ignore[arg-type]
    epoch = 0

    async def upgrade(gateway: Gateway, client: Client) -> None:
        nonlocal epoch
        old.client = client
        await create(client, "t", 1)
        await old.alone(1)
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
        await old.alone(1)
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
