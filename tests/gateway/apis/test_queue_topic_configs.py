"""What a queue topic is made with and shows as its configs: those of its subscription, and none of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.apis.cluster import TOPIC
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.test_queue_topics import NAME, make, queue
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, create


async def shown(client: Client, name: str = NAME) -> dict[str, tuple[str | None, bool, int]]:
    """Config -> (value, read-only, source), as DescribeConfigs has them."""
    request = messages.DescribeConfigsRequest
    asked = request.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    answer = await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, request(resources=[asked]))
    (result,) = answer.results
    assert result.error_code == 0
    names = [row.name for row in result.configs]
    assert len(set(names)) == len(names)
    return {row.name: (row.value, row.read_only, row.config_source) for row in result.configs}


async def alter(client: Client, changes: Mapping[str, tuple[int, str | None]]) -> Any:
    request = messages.IncrementalAlterConfigsRequest
    asked = request.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=NAME,
        configs=[
            request.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, (operation, value) in changes.items()
        ],
    )
    answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[asked]))
    return answer.responses[0]


def test_it_shows_what_its_subscription_goes_by() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client, kind="key_shared")
        await gateway.broker.group_configs.alter("g", lambda old: {**old, "pulsar.max.reconsume.count": "5"})
        found = await shown(client)
        # its own, its group's, and what nobody said
        assert found["pulsar.subscription.type"] == ("key_shared", True, 1)
        assert found["pulsar.max.reconsume.count"] == ("5", True, 8)
        assert found["pulsar.queue.headers"][1:] == (True, 5)
        assert "share.auto.offset.reset" not in found, "that is the group's"
        assert "pulsar.subscription.type" not in await shown(client, "t")

    run(test)


def test_one_over_a_pattern_shows_what_it_was_made_with() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        made = await make(
            client,
            "g-QUEUE",
            {
                "pulsar.queue.pattern": "t.*",
                "pulsar.subscription.type": "key_shared",
                "pulsar.nack.delay.ms": "9",
            },
        )
        assert made.error_code == 0
        found = await shown(client, "g-QUEUE")
        assert found["pulsar.subscription.type"] == ("key_shared", True, 1)
        assert found["pulsar.nack.delay.ms"] == ("9", True, 1)

    run(test)


@pytest.mark.parametrize("validate_only", [False, True])
def test_configs_of_records_are_refused_where_none_are_kept(validate_only: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        refused = await make(client, NAME, {"retention.ms": "7"}, validate_only=validate_only)
        assert refused.error_code == Error.INVALID_CONFIG
        assert "retention.ms" in refused.error_message
        assert "'t'" in refused.error_message
        assert gateway.broker.catalog.get(NAME) is None

    run(test)


def test_they_cannot_be_set_afterwards_and_the_answer_says_where_its_own_are() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await queue(gateway, client)
        refused = await alter(client, {"retention.ms": (0, "7")})
        assert refused.error_code == Error.INVALID_CONFIG
        assert "--entity-type groups --entity-name g" in refused.error_message
        assert (await shown(client))["retention.ms"][2] != 1
        # to take away what is not there changes nothing
        assert (await alter(client, {"retention.ms": (1, None)})).error_code == 0

    run(test)


def test_a_topic_and_its_queue_topic_can_be_made_by_one_request() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.CreateTopicsRequest
        asked = [
            request.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in (NAME, "t")
        ]
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, request(topics=asked, timeout_ms=1000))
        assert {each.name: each.error_code for each in answer.topics} == {NAME: 0, "t": 0}
        made = gateway.broker.catalog.get(NAME)
        assert made is not None
        assert made.queue is not None
        assert made.queue.subscription == "g"

    run(test)


def test_a_plain_topic_that_is_called_like_one_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        with caplog.at_level("WARNING", "magnetar.topics"):
            assert (await make(client, NAME, {})).error_code == 0
            assert not caplog.records
            assert (await make(client, "tt-g-QUEUE", {})).error_code == 0
        (line,) = caplog.records
        assert (line.__dict__["topic"], "no such topic" in line.__dict__["reason"]) == ("tt-g-QUEUE", True)

    run(test)
