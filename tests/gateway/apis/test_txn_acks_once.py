"""A delivery is part of one transaction: whoever names what has become something else since is refused, so that what it
made of the message is not there beside what another made of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from gateway.wire.records import records
from tests.gateway.apis.test_queue_topics import NAME, commit, queue, read
from tests.gateway.apis.test_txn_acks import again, begun, states
from tests.gateway.broker.asking import errors, fetch, told
from tests.gateway.broker.held import Clock, run, until
from tests.gateway.broker.share_asking import acquired, alter_group, serving, share_fetch, topic
from tests.gateway.serving import Client, batch, create, produce_body

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])


@KINDS
def test_what_came_again_and_was_done_there_is_refused(kind: str) -> None:
    """A worker tries its message again after an abort, under the offset that it had."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1, kind=kind)
        await create(client, "out")
        assert await read(client) == [0]
        one, other = await begun(client, name="one"), await begun(client, name="other")
        assert await one.put(b"of one", topic="out") == 0
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == 0
        assert await one.end(committed=False) == 0
        assert await read(client, offset=1) == [1]
        # while it is open, or another's, the old name is refused
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE
        await one.end(committed=False)
        assert await other.put(b"of the other", topic="out") == 0
        assert await other.offsets("g", {(NAME, 0): (0, "ack1;a=1")}) == 0
        assert await other.end() == 0
        assert await one.put(b"of one", topic="out") == 0
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE

    run(test)


@KINDS
def test_what_became_a_dead_letter_after_an_abort_is_refused(kind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1, kind=kind)
        await alter_group(client, **{"pulsar.max.redeliver.count": "1"})
        await create(client, "out")
        assert await read(client) == [0]
        tx = await begun(client)
        for offset in (0, 1):
            assert await tx.offsets("g", {(NAME, 0): (0, f"ack1;a={offset}")}) == 0
            assert await tx.end(committed=False) == 0
            if not offset:
                assert await read(client, offset=1) == [1]
        await until(lambda: states(gateway, 0) == ["DONE"])
        assert serving(gateway).ready().totals["buried"] == 1
        assert await tx.put(b"made of it", topic="out") == 0
        assert await tx.offsets("g", {(NAME, 0): (0, "ack1;a=1")}) == Error.INVALID_RECORD_STATE

    run(test)


def test_what_another_transaction_has_done_is_refused() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1)
        await create(client, "out")
        assert await read(client) == [0]
        one, other = await begun(client, name="one"), await begun(client, name="other")
        for tx in (one, other):
            assert await tx.put(b"made of it", topic="out") == 0
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == 0
        assert await one.end() == 0
        error = await other.offsets("g", {(NAME, 0): (0, "ack1;a=0")})
        await other.end(committed=not error)
        assert error == Error.INVALID_RECORD_STATE

    run(test)


def test_what_the_lane_forgot_is_not_taken_for_done() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1)
        assert await read(client) == [0]
        one, other = await begun(client, name="one"), await begun(client, name="other")
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == 0
        assert await one.end(committed=False) == 0
        assert await read(client, offset=1) == [1]
        found = gateway.broker.catalog.get(NAME)
        assert found is not None
        gateway.broker.queues.of(found).at[0].trim(1)  # what keep() does by time, bytes or rows
        assert await other.offsets("g", {(NAME, 0): (0, "ack1;a=1")}) == 0
        assert await one.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE

    run(test)


@pytest.mark.parametrize("verb", ["d", "r:1000"])
def test_what_was_sent_elsewhere_is_refused(verb: str) -> None:
    """It lies in the dead letter topic, or comes again as a retry letter."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, 1)
        assert await read(client) == [0]
        assert await commit(client, {0: (1, f"ack1;{verb}=0")}) == {0: 0}
        tx = await begun(client)
        for _ in range(2):
            assert await tx.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE
        await until(lambda: states(gateway, 0) == ["DONE"])
        assert await tx.offsets("g", {(NAME, 0): (0, "ack1;a=0")}) == Error.INVALID_RECORD_STATE

    run(test)


def test_a_span_over_what_was_never_sent_is_taken() -> None:
    """Key_Shared: reads pass over what is void, and a plain commit of the span is taken."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, kind="key_shared")
        for key in (b"A", b"B", b"A", b"B"):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 200, key=key)))
        got: Any = await fetch(client, {NAME: {0: 0}}, max_wait=5_000, max_bytes=1)
        assert errors(got) == {0: 0}
        assert await commit(client, {0: (1, "ack1;n:60000=0")}) == {0: 0}
        seen = await read(client, offset=1)
        assert seen == [1, 3]
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): (1, "ack1;a=1-3")}) == 0

    run(test)


@pytest.mark.parametrize("member", ["m", ""], ids=["of the member", "of anybody"])
@pytest.mark.parametrize("first", [0, 1], ids=["the first open one", "behind an open one"])
def test_a_slow_member_of_a_share_group_is_refused_when_another_has_done_it(first: int, member: str) -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await create(client, "out")
        assert await again(client, topic_id, 0) == {0: 1, 1: 1}
        clock.now += 31_000
        serving(gateway).ready().tick(clock.now, clock.now)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {0: 2, 1: 2}}
        slow, other = await begun(client, name="slow"), await begun(client, name="other")
        for tx in (slow, other):
            assert await tx.put(b"made of it", topic="out") == 0
        assert await other.offsets("g", {("t", 0): (0, f"ack1;a={first}@2")}, member="n") == 0
        assert await other.end() == 0
        error = await slow.offsets("g", {("t", 0): (0, f"ack1;a={first}@1")}, member=member)
        await slow.end(committed=not error)
        assert error == Error.INVALID_RECORD_STATE

    run(test, clock=clock)


def test_what_is_given_after_an_abort_comes_in_the_order_of_its_key() -> None:
    """What nobody was sent yet of the key comes behind that."""

    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, kind="key_shared")
        for value in (b"0", b"1", b"2", b"3"):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(value * 200, key=b"k")))
        got: Any = await fetch(client, {NAME: {0: 0}}, max_wait=5_000, max_bytes=1)
        assert errors(got) == {0: 0}
        tx = await begun(client)
        assert await tx.offsets("g", {(NAME, 0): (1, "")}) == 0
        assert await tx.end(committed=False) == 0
        found: Any = await fetch(client, {NAME: {0: 1}}, max_wait=5_000)
        left, values = bytes(told(found)[0].records), []
        while left:
            size = int.from_bytes(left[8:12], "big") + 12
            values += [(each.value or b"")[:1] for each in records(left[:size])]
            left = left[size:]
        assert values == [b"0", b"1", b"2", b"3"]

    run(test)
