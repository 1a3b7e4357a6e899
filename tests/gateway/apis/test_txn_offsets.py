"""Offsets that are committed in transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import Refused
from tests.gateway.apis.transacting import Tx, committed
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client, create

BOTH = pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])
UNSTABLE = (Error.UNSTABLE_OFFSET_COMMIT, -1)


async def commit(client: Client, group: str, offset: int, topic: str = "t") -> int:
    """Outside of transactions, by nobody."""
    request = messages.OffsetCommitRequest
    partition = request.OffsetCommitRequestPartition
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        request(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                request.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        partition(
                            partition_index=0,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        ),
    )
    return int(answer.topics[0].partitions[0].error_code)


@BOTH
def test_they_are_in_force_when_it_commits_and_never_when_it_aborts(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client, new=new)
        await tx.init()
        assert await commit(client, "g", 3) == 0
        assert await tx.offsets("g", {("t", 0): 7, ("t", 1): 8}) == 0
        assert await committed(client, "g") == (0, 3)
        assert await committed(client, "g", stable=True) == UNSTABLE
        assert await committed(client, "g", index=1, stable=True) == UNSTABLE
        assert await tx.end() == 0
        assert [await committed(client, "g", index=index, stable=True) for index in (0, 1)] == [
            (0, 7),
            (0, 8),
        ]
        assert await tx.offsets("g", {("t", 0): 9}) == 0
        assert await tx.end(committed=False) == 0
        assert await committed(client, "g", stable=True) == (0, 7)

    run(test)


def test_a_commit_outside_of_it_that_comes_later_beats_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        assert await tx.offsets("g", {("t", 0): 7, ("t", 1): 8}) == 0
        assert await commit(client, "g", 5) == 0
        assert await committed(client, "g", stable=True) == (0, 5)
        assert await committed(client, "g", index=1, stable=True) == UNSTABLE
        assert await tx.end() == 0
        assert [await committed(client, "g", index=index) for index in (0, 1)] == [(0, 5), (0, 8)]

    run(test)


async def delete_offsets(client: Client, group: str, *indexes: int) -> int:
    request = messages.OffsetDeleteRequest
    partitions = [request.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    answer = await client.ask(
        ApiKey.OFFSET_DELETE,
        0,
        request(group_id=group, topics=[request.OffsetDeleteRequestTopic(name="t", partitions=partitions)]),
    )
    return int(answer.error_code)


async def delete_group(client: Client, group: str) -> int:
    answer = await client.ask(ApiKey.DELETE_GROUPS, 2, messages.DeleteGroupsRequest(groups_names=[group]))
    return int(answer.results[0].error_code)


async def groups(client: Client) -> list[str]:
    answer = await client.ask(ApiKey.LIST_GROUPS, 4, messages.ListGroupsRequest(states_filter=[]))
    return [one.group_id for one in answer.groups]


def test_what_is_deleted_is_not_brought_back_by_a_commit() -> None:
    store = memory.open()
    producer: tuple[int, int] = (-1, -1)

    async def test(gateway: Gateway, client: Client) -> None:
        nonlocal producer
        await create(client, "t", 2)
        tx = Tx(client)
        await tx.init()
        producer = tx.id, tx.epoch
        for group in ("g", "gone", "other"):
            assert await commit(client, group, 3) == 0
            assert await tx.offsets(group, {("t", 0): 7, ("t", 1): 8}) == 0
        assert await delete_offsets(client, "g", 0) == 0
        assert await delete_group(client, "gone") == 0
        assert await committed(client, "g", stable=True) == (0, -1)
        assert await committed(client, "g", index=1, stable=True) == UNSTABLE
        assert await committed(client, "gone", stable=True) == (0, -1)

    async def later(gateway: Gateway, client: Client) -> None:
        tx = Tx(client)
        tx.id, tx.epoch = producer
        assert await tx.end() == 0
        assert [await committed(client, "g", index=index) for index in (0, 1)] == [(0, -1), (0, 8)]
        assert [await committed(client, "gone", index=index) for index in (0, 1)] == [(0, -1), (0, -1)]
        assert [await committed(client, "other", index=index) for index in (0, 1)] == [(0, 7), (0, 8)]
        assert await groups(client) == ["g", "other"]

    run(test, store=store)
    # a start finds no more staged than there was
    run(later, store=store)


@pytest.mark.parametrize("delete", [delete_group, lambda client, group: delete_offsets(client, group, 0)])
def test_what_could_not_be_deleted_is_still_staged(delete: Callable[..., Any]) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        assert await tx.offsets("g", {("t", 0): 7}) == 0
        store.holding = True
        deleting = asyncio.create_task(delete(await Client.connect(gateway), "g"))
        await store.has(1)
        store.fail(Refused("no space"))
        store.holding = False
        assert await deleting == Error.COORDINATOR_NOT_AVAILABLE
        assert await committed(client, "g", stable=True) == UNSTABLE
        assert await tx.end() == 0
        assert await committed(client, "g", stable=True) == (0, 7)

    run_held(test)


@BOTH
def test_a_transaction_that_commits_beside_the_deletion_of_its_group_leaves_nothing_of_it(new: bool) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        tx = Tx(client, new=new)
        await tx.init()
        assert await tx.offsets("g", {("t", 0): 3}) == 0
        assert await tx.end() == 0
        assert await tx.offsets("g", {("t", 0): 5}) == 0
        store.holding = True
        deleting = asyncio.create_task(delete_group(await Client.connect(gateway), "g"))
        await store.has(1)
        ending = asyncio.create_task(tx.end())
        await store.has(2)
        store.release()
        assert (await deleting, await ending) == (0, 0)
        assert (await groups(client), await committed(client, "g", stable=True)) == ([], (0, -1))
        assert await tx.offsets("g", {("t", 0): 7}) == 0
        assert await tx.end() == 0
        assert (await groups(client), await committed(client, "g")) == (["g"], (0, 7))

    run_held(test)


def test_several_transactions_may_have_offsets_of_a_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        one, two = Tx(client, "one"), Tx(client, "two")
        for index, tx in enumerate((one, two)):
            await tx.init()
            assert await tx.offsets("g", {("t", index): 10 + index}) == 0
        assert await one.end() == 0
        assert await committed(client, "g", stable=True) == (0, 10)
        assert await committed(client, "g", index=1, stable=True) == UNSTABLE
        assert await two.end() == 0
        assert await committed(client, "g", index=1, stable=True) == (0, 11)

    run(test)


def test_who_may_commit_for_a_group() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client)
        await tx.init()
        assert await tx.offsets("g", {("t", 0): 7}, member="m", generation=3) == Error.ILLEGAL_GENERATION
        assert await tx.offsets("g", {("t", 0): 7}) == 0
        assert await tx.offsets("g", {("t", 0): 7}, member="m", generation=3) in (
            Error.UNKNOWN_MEMBER_ID,
            Error.ILLEGAL_GENERATION,
        )
        other = Tx(client, "other")
        await other.init()
        assert await other.offsets("h", {("t", 0): 7}, added=True) == Error.INVALID_TXN_STATE
        other.epoch += 1
        assert await other.offsets("h", {("t", 0): 7}, added=True) == Error.INVALID_PRODUCER_EPOCH
        other.id += 77
        assert await other.offsets("h", {("t", 0): 7}, added=True) == Error.INVALID_PRODUCER_ID_MAPPING

    run(test)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"transactional_id": ""}, Error.INVALID_REQUEST),
        ({"group_id": ""}, Error.INVALID_GROUP_ID),
        ({"topic": "missing"}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition_index": 9}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"committed_metadata": "x" * 5000}, Error.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], code: Error) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        tx = Tx(client, new=True)
        await tx.init()
        request = messages.TxnOffsetCommitRequest
        one: dict[str, Any] = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        one |= {name: value for name, value in change.items() if name in one}
        whole: dict[str, Any] = {
            **tx.who,
            "group_id": "g",
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
        }
        whole |= {name: value for name, value in change.items() if name in whole}
        answer = await client.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            5,
            request(
                **whole,
                topics=[
                    request.TxnOffsetCommitRequestTopic(
                        name=change.get("topic", "t"),
                        partitions=[request.TxnOffsetCommitRequestPartition(**one)],
                    )
                ],
            ),
        )
        assert answer.topics[0].partitions[0].error_code == code
        assert gateway.broker.transactions.describe("tx").state == "Empty"  # type: ignore[union-attr]

    run(test)
