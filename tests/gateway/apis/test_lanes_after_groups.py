"""A consumer group has read a topic itself, and is served by lanes from now on: it goes on where it stands."""

from __future__ import annotations

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.queues.patterned import CONFIG
from gateway.server import Gateway
from gateway.wire.errors import Error
from semantics.patterns import Pattern
from tests.gateway.apis.test_queue_topics import NAME, commit, committed, join, produce
from tests.gateway.broker.asking import errors, fetch, offsets, told
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, create


async def _made(gateway: Gateway, over: bool) -> str:
    if over:
        return (await gateway.broker.queues.make_over("g", Pattern("t"), 1, {})).name
    return (await gateway.broker.queues.make("t", "g", 1, {})).name


@pytest.mark.parametrize("over", [False, True], ids=["one topic", CONFIG])
@pytest.mark.parametrize(("stood", "begins"), [(4, 4), (50, 10)], ids=["inside", "beyond the end"])
def test_lanes_go_on_where_the_group_stands(over: bool, stood: int, begins: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        await produce(client, *range(10))
        assert await commit(client, {0: (stood, None)}, topic="t") == {0: 0}
        name = await _made(gateway, over)
        await produce(client, 10)
        # the other partition begins at its end, as configs say of new ones
        assert await committed(client, [0, 1], topic="t") == [(begins, "", 0), (0, "", 0)]
        answer = await fetch(client, {name: {0: 0}}, max_wait=5_000)
        assert errors(answer) == {0: 0}
        assert len(offsets(told(answer)[0].records)) == 11 - begins

    run(test)


@pytest.mark.parametrize("over", [False, True], ids=["one topic", CONFIG])
def test_none_are_made_while_its_members_read_the_topic(over: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await join(client, "t", 0)
        with pytest.raises(KafkaError, match="read 't' itself: stop them first") as refused:
            await _made(gateway, over)
        assert refused.value.code == Error.NON_EMPTY_GROUP
        assert gateway.broker.catalog.names() == ["t"]
        assert gateway.broker.subscriptions.row("g", "t") is None

    run(test)


def test_members_that_wait_for_the_queue_topic_may_be_there() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await join(client, NAME)
        assert await _made(gateway, over=False) == NAME

    run(test)
