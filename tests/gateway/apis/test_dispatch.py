"""From a request to the bytes of its answer: answers that are kept, and requests that are not served."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.apis import dispatch, registry
from gateway.promise import Promise
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.asking import delete_topic
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, create

Request = messages.MetadataRequest
MISSING = Error.UNKNOWN_TOPIC_OR_PARTITION


async def ask(
    client: Client, names: list[str] | None, *, version: int = 9, auto: bool = False, **options: Any
) -> Any:
    topics = None if names is None else [Request.MetadataRequestTopic(name=name) for name in names]
    return await client.ask(
        ApiKey.METADATA, version, Request(topics=topics, allow_auto_topic_creation=auto, **options)
    )


def told(answer: Any) -> list[tuple[str, int, int]]:
    """(name, error, partitions) of each topic."""
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics]


def test_kept_answers_follow_every_change() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        async def every() -> list[tuple[str, int, int]]:
            first = told(await ask(client, None))
            assert told(await ask(client, None)) == first
            return first

        assert await every() == []
        await create(client, "a")
        assert await every() == [("a", 0, 1)]
        await gateway.broker.create_partitions("a", 2)
        assert await every() == [("a", 0, 2)]
        old = (await ask(client, ["a"], version=12)).topics[0].topic_id
        assert await delete_topic(client, "a") == 0
        assert await every() == []
        new = await create(client, "a")
        assert new != old
        assert (await ask(client, ["a"], version=12)).topics[0].topic_id == new

    run(test)


def test_what_is_kept_is_bounded_and_errors_are_not_kept() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        cache = gateway.broker.metadata_cache
        await create(client, "a")
        await ask(client, ["missing"])
        assert not cache
        for number in range(dispatch._CACHED + 10):
            await ask(client, ["a"] * (1 + number))
        assert 0 < len(cache) <= dispatch._CACHED

    run(test)


def test_large_answers_push_others_out_and_huge_ones_are_not_kept() -> None:
    cache: dict[dispatch.Question, bytes] = {}
    size = dispatch._CACHED_BYTES
    dispatch._keep(cache, (1, "", False, b"a"), bytes(size // 2))
    dispatch._keep(cache, (1, "", False, b"b"), bytes(size // 3))
    assert len(cache) == 2
    dispatch._keep(cache, (1, "", False, b"c"), bytes(size // 2))
    assert list(cache) == [(1, "", False, b"c")]
    dispatch._keep(cache, (1, "", False, b"d" * size), b"x")
    assert not cache


@pytest.mark.parametrize("later", [False, True])
def test_what_a_handler_promises_is_a_frame_in_the_call_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        promise: Promise[Any] = Promise()
        key = ApiKey.LIST_GROUPS
        monkeypatch.setitem(registry.APIS, key, replace(registry.APIS[key], handler=lambda *_: promise))
        answer = asyncio.ensure_future(
            client.ask(ApiKey.LIST_GROUPS, 4, messages.ListGroupsRequest(states_filter=[]))
        )
        async with asyncio.timeout(5):
            while promise._then is None:
                await asyncio.sleep(0)
        found = messages.ListGroupsResponse(error_code=7, groups=[])

        async def much_later() -> Any:
            return found

        promise.tell(much_later() if later else found)
        assert (await answer).error_code == 7
        # and it goes on
        monkeypatch.undo()
        asked = messages.ListGroupsRequest(states_filter=[])
        assert (await client.ask(ApiKey.LIST_GROUPS, 4, asked)).error_code == 0

    run(test)


def test_a_promised_answer_that_cannot_be_written_ends_the_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        promise: Promise[Any] = Promise()
        key = ApiKey.LIST_GROUPS
        monkeypatch.setitem(registry.APIS, key, replace(registry.APIS[key], handler=lambda *_: promise))
        other = await Client.connect(gateway)
        body = messages.ListGroupsRequest(states_filter=[])
        answer = asyncio.ensure_future(other.ask(ApiKey.LIST_GROUPS, 4, body))
        async with asyncio.timeout(5):
            while promise._then is None:
                await asyncio.sleep(0)
        # whoever brings it is not hindered
        promise.tell(object())
        with pytest.raises((EOFError, ConnectionError)):
            await answer
        await create(client, "a")
        other.close()

    run(test)
