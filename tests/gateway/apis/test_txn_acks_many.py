"""A transaction says something of very many messages: its end does all of it at once, and so there is a limit."""

from __future__ import annotations

import pytest

from gateway.broker import transacted_acks
from gateway.server import Gateway
from gateway.wire.errors import Error
from tests.gateway.apis.test_queue_topics import NAME, queue, read
from tests.gateway.apis.test_txn_acks import BOTH, again, begun, counts, states
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import alter_group, put, serving, topic
from tests.gateway.serving import Client

RECORDS = 300


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_many_that_lie_scattered(kind: str, committed: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await alter_group(client, **{"pulsar.subscription.type": kind})
        await put(client, *[b"%d" % each for each in range(RECORDS)])
        assert len(await again(client, topic_id, 0)) == RECORDS
        tx = await begun(client)
        some = ",".join(map(str, range(0, RECORDS, 2)))
        assert await tx.offsets("g", {("t", 0): (0, f"ack1;a={some};d=1")}) == 0
        assert await tx.end(committed=committed) == 0
        cursor = serving(gateway).ready()
        done = cursor.totals["acknowledged"], cursor.totals["rejected"]
        assert done == ((RECORDS // 2, 1) if committed else (0, 0))
        assert cursor.acquired == RECORDS // 2 - 1
        assert states(gateway, 3)[0] == "ACQUIRED"
        if not committed:
            assert set(counts(gateway, 1, *range(0, RECORDS, 2))) == {1}

    run(test)


@BOTH
def test_more_than_it_may_say_is_refused_and_it_is_aborted(
    new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transacted_acks, "MOST_SPANS", 2)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 6)
        assert len(await again(client, topic_id, 0)) == 6
        tx = await begun(client, new=new)
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=0-1")}) == 0
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=3")}) == 0
        refused = Error.TRANSACTION_ABORTABLE if new else Error.INVALID_TXN_STATE
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=5")}) == refused
        assert states(gateway, 5) == ["ACQUIRED"]
        assert await tx.end(committed=False) == 0
        assert counts(gateway, 0, 1, 3, 5) == [1, 1, 1, 0]
        # the next has room again
        assert await tx.offsets("g", {("t", 0): (0, "ack1;a=5")}) == 0
        assert await tx.end() == 0
        assert states(gateway, 5) == ["DONE"]

    run(test)


def test_a_lane_has_done_with_nothing_that_its_transaction_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transacted_acks, "MOST_SPANS", 1)

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 3)
        assert await read(client) == [0, 1, 2]
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): (1, "")}) == 0
        assert await tx.offsets("g", {(NAME, 0): (3, "")}) == Error.TRANSACTION_ABORTABLE
        assert await tx.end(committed=False) == 0
        queue_topic = gateway.broker.queues.of(gateway.broker.topics.get(NAME))
        assert queue_topic.at[0].lane.open == 1

    run(test)
