"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs for topics and brokers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.apis.configs import APPEND, DELETE, SET, SUBTRACT, apply_changes
from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, create

TOPIC, BROKER, GROUP = 2, 4, 32
BAD_REQUEST, BAD_CONFIG = Error.INVALID_REQUEST, Error.INVALID_CONFIG


async def describe(
    client: Client, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, **options: bool
) -> Any:
    request = messages.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    answer = await client.ask(ApiKey.DESCRIBE_CONFIGS, version, request(resources=[resource], **options))
    (result,) = answer.results
    return result


async def value(client: Client, kind: int, name: str, config: str) -> tuple[str | None, int]:
    (row,) = (await describe(client, kind, name, [config])).configs
    return row.value, row.config_source


async def alter(
    client: Client, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    request = messages.IncrementalAlterConfigsRequest
    answer = await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        request(
            resources=[
                request.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        request.AlterableConfig(name=config, config_operation=operation, value=text)
                        for config, operation, text in changes
                    ],
                )
            ],
            validate_only=validate_only,
        ),
    )
    (result,) = answer.responses
    return result


async def replace(
    client: Client, kind: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False
) -> int:
    request = messages.AlterConfigsRequest
    answer = await client.ask(
        ApiKey.ALTER_CONFIGS,
        2,
        request(
            resources=[
                request.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[request.AlterableConfig(name=config, value=text) for config, text in configs],
                )
            ],
            validate_only=validate_only,
        ),
    )
    code: int = answer.responses[0].error_code
    return code


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_topics_configs(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", retention__ms="5000")
        for keys in (None, list[str]()):
            every = await describe(client, TOPIC, "t", keys, version=version, include_synonyms=True)
            rows = {row.name: row for row in every.configs}
            assert len(rows) > 30
            assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5000", 1)
            assert (rows["cleanup.policy"].value, rows["cleanup.policy"].config_source) == ("delete", 5)
            assert rows["retention.ms"].synonyms[0].source == 1
        some = await describe(client, TOPIC, "t", ["retention.ms", "none"], version=version)
        assert [row.name for row in some.configs] == ["retention.ms"]
        assert some.configs[0].synonyms == []
        if version >= 3:
            told = await describe(
                client, TOPIC, "t", ["retention.ms"], version=version, include_documentation=True
            )
            assert told.configs[0].documentation
            assert told.configs[0].config_type == 5

    run(test)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no/slash", Error.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", 0),
        (BROKER, "", 0),
        (BROKER, "7", BAD_REQUEST),
        (BROKER, "x", BAD_REQUEST),
        (8, "1", BAD_REQUEST),
        (16, "m", 0),
        (32, "g", 0),
        (32, "", BAD_REQUEST),
        (3, "t", BAD_REQUEST),
    ],
)
def test_resources_that_are_and_are_not(kind: int, name: str, error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        result = await describe(client, kind, name)
        assert (result.error_code, result.resource_type, result.resource_name) == (error, kind, name)
        assert (result.error_message == "") == (error == 0)

    run(test, "node.id=1")


def test_set_append_subtract_delete() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for operation, text, after in [
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
            (SUBTRACT, "delete", "compact"),
            (SET, "delete", "delete"),
        ]:
            assert (await alter(client, TOPIC, "t", ("cleanup.policy", operation, text))).error_code == 0
            assert await value(client, TOPIC, "t", "cleanup.policy") == (after, 1)
        assert (await alter(client, TOPIC, "t", ("cleanup.policy", DELETE, None))).error_code == 0
        assert await value(client, TOPIC, "t", "cleanup.policy") == ("delete", 5)

    run(test)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("retention.ms", APPEND, "1")], BAD_CONFIG),
        ([("retention.ms", SET, None)], BAD_REQUEST),
        ([("retention.ms", 9, "1")], BAD_REQUEST),
        ([("retention.m", SET, "1")], BAD_CONFIG),
        ([("retention.ms", SET, "soon")], BAD_CONFIG),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], BAD_REQUEST),
        ([("retention.bytes", SET, "1"), ("retention.ms", SET, "soon")], BAD_CONFIG),
        ([("retention.m", DELETE, None)], 0),
    ],
)
def test_changes_of_a_topic_that_are_refused_change_nothing(changes: list[Any], error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", retention__ms="5000")
        result = await alter(client, TOPIC, "t", *changes)
        assert result.error_code == error
        assert (result.error_message is None) == (error == 0)
        assert gateway.broker.topics.get("t").configs == {"retention.ms": "5000"}

    run(test)


def test_only_checked_and_missing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        checked = await alter(client, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True)
        assert checked.error_code == 0
        bad = await alter(client, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True)
        assert bad.error_code == BAD_CONFIG
        assert await replace(client, TOPIC, "t", ("retention.ms", "1"), validate_only=True) == 0
        assert gateway.broker.topics.get("t").configs == {}
        missing = await alter(client, TOPIC, "missing", ("retention.ms", SET, "1"))
        assert missing.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await alter(client, 3, "t", ("retention.ms", SET, "1"))).error_code == BAD_REQUEST

    run(test)


def test_the_old_way_replaces_everything() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", retention__ms="5000", retention__bytes="7")
        assert await replace(client, TOPIC, "t", ("retention.ms", "6000"), ("segment.ms", "9")) == 0
        assert gateway.broker.topics.get("t").configs == {"retention.ms": "6000", "segment.ms": "9"}
        assert await replace(client, TOPIC, "t", ("retention.ms", None)) == BAD_REQUEST
        assert await replace(client, TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")) == BAD_REQUEST
        assert gateway.broker.topics.get("t").configs == {"retention.ms": "6000", "segment.ms": "9"}
        assert await replace(client, TOPIC, "t") == 0
        assert gateway.broker.topics.get("t").configs == {}

    run(test)


def test_a_broker_and_all_brokers() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        name = "message.max.bytes"
        default = await value(client, BROKER, "1", name)
        assert (await describe(client, BROKER, "")).configs == []
        assert (await alter(client, BROKER, "", (name, SET, "3000"))).error_code == 0
        assert await value(client, BROKER, "1", name) == ("3000", 3)
        assert (await alter(client, BROKER, "1", (name, SET, "2000"))).error_code == 0
        assert await value(client, BROKER, "1", name) == ("2000", 2)
        assert await value(client, BROKER, "", name) == ("3000", 3), "that of all is what was set for all"
        assert [row.name for row in (await describe(client, BROKER, "")).configs] == [name]
        await create(client, "t")
        assert (await value(client, TOPIC, "t", "max.message.bytes"))[0] == "2000"
        assert (await alter(client, BROKER, "1", (name, DELETE, None))).error_code == 0
        assert await value(client, BROKER, "1", name) == ("3000", 3)
        assert (await alter(client, BROKER, "", (name, DELETE, None))).error_code == 0
        assert await value(client, BROKER, "1", name) == default
        for change in (("node.id", SET, "2"), (name, SET, "many"), ("message.max.byte", SET, "1")):
            assert (await alter(client, BROKER, "1", change)).error_code == BAD_REQUEST
        assert (await alter(client, BROKER, "7", (name, SET, "1"))).error_code == BAD_REQUEST
        checked = await alter(client, BROKER, "1", (name, SET, "1"), validate_only=True)
        assert checked.error_code == 0
        assert await value(client, BROKER, "1", name) == default

    run(test, "node.id=1")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("num.io.threads", "thread pools"),
        ("log.cleaner.io.buffer.size", "megabyte"),
        ("ssl.provider", "security"),
        ("leader.replication.throttled.rate", "replicas"),
        ("max.connection.creation.rate", "rate"),
    ],
)
def test_a_broker_setting_without_effect_here_says_so_and_why(name: str, why: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for resource in ("1", ""):
            answer = await alter(client, BROKER, resource, (name, SET, "1"))
            assert answer.error_code == BAD_REQUEST
            assert f'"{name}" has no effect here: ' in answer.error_message
            assert why in answer.error_message

    run(test, "node.id=1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.location", "../../etc/passwd"),
        ("ssl.certificate.location", "/etc/ssl/../passwd"),
        ("listener.name.plaintext.ssl.keystore.location", "../x"),
        ("token.public.key", "file:///etc/../x"),
        ("users.file", "../users"),
        ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/passwd"),
        ("super.users", "User:eve"),
        ("authorization", "false"),
        ("sasl.plain.insecure", "true"),
    ],
)
def test_nothing_of_security_is_altered_by_a_client_and_no_file_is_looked_for(name: str, value: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        before = (await describe(client, BROKER, "1")).configs
        for resource in ("1", ""):
            answer = await alter(client, BROKER, resource, (name, SET, value))
            assert answer.error_code == BAD_REQUEST
            assert "passwd" not in answer.error_message
        assert (await describe(client, BROKER, "1")).configs == before

    run(test, "node.id=1")


def test_operations_on_lists_begin_with_the_default() -> None:
    assert apply_changes({}, [("cleanup.policy", APPEND, "compact")]) == {"cleanup.policy": "delete,compact"}
    assert apply_changes({}, [("cleanup.policy", SUBTRACT, "delete")]) == {"cleanup.policy": ""}
    assert apply_changes({"a": "1"}, [("a", DELETE, None), ("b", DELETE, None)]) == {}
    with pytest.raises(KafkaError):
        apply_changes({}, [("cleanup.policy", APPEND, None)])


def test_a_resource_twice_and_one_for_all_topics() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        request = messages.IncrementalAlterConfigsRequest

        def set_to(name: str, text: str) -> Any:
            change = request.AlterableConfig(name="retention.ms", config_operation=SET, value=text)
            return request.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[change])

        twice = request(resources=[set_to("t", "1"), set_to("t", "2")], validate_only=False)
        answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, twice)
        assert [each.error_code for each in answer.responses] == [BAD_REQUEST, BAD_REQUEST]
        assert await value(client, TOPIC, "t", "retention.ms") == ("604800000", 5), "neither was taken"
        assert (await alter(client, TOPIC, "", ("retention.ms", SET, "1"))).error_code == BAD_REQUEST

    run(test)


def test_a_groups_configs() -> None:
    """Names, sources and answers as Kafka 4.3's, which has no group for all and lists only those that were altered."""

    async def test(gateway: Gateway, client: Client) -> None:
        assert await value(client, GROUP, "g", "share.session.timeout.ms") == ("45000", 5)
        result = await alter(
            client,
            GROUP,
            "g",
            ("share.isolation.level", SET, "read_committed"),
            ("pulsar.key.shared.ranges", APPEND, "a:0-9,b:10-19"),
        )
        assert (result.error_code, result.error_message) == (0, None)
        assert await value(client, GROUP, "g", "share.isolation.level") == ("read_committed", 8)
        assert await value(client, GROUP, "other", "share.isolation.level") == ("read_uncommitted", 5)
        await alter(client, GROUP, "g", ("pulsar.key.shared.ranges", SUBTRACT, "a:0-9"))
        assert await value(client, GROUP, "g", "pulsar.key.shared.ranges") == ("b:10-19", 8)
        listed = await client.ask(
            ApiKey.LIST_CONFIG_RESOURCES, 1, messages.ListConfigResourcesRequest(resource_types=[GROUP])
        )
        assert [(one.resource_name, one.resource_type) for one in listed.config_resources] == [("g", GROUP)]
        await alter(client, GROUP, "g", ("pulsar.key.shared.ranges", DELETE, None))
        assert await value(client, GROUP, "g", "pulsar.key.shared.ranges") == ("", 5)
        assert await replace(client, GROUP, "g", ("pulsar.nack.delay.ms", "9")) == 0
        assert await value(client, GROUP, "g", "share.isolation.level") == ("read_uncommitted", 5)
        assert await value(client, GROUP, "g", "pulsar.nack.delay.ms") == ("9", 8)

    run(test)


@pytest.mark.parametrize(
    ("group", "change", "code", "said"),
    [
        ("g", ("share.nothing", SET, "1"), BAD_CONFIG, "share.nothing"),
        ("g", ("share.heartbeat.interval.ms", SET, "1"), BAD_CONFIG, "from 5000 to 15000"),
        ("g", ("pulsar.subscription.type", SET, "queue"), BAD_CONFIG, "key_shared, exclusive or failover"),
        ("g", ("share.isolation.level", APPEND, "x"), BAD_CONFIG, "no list"),
        ("g", ("share.isolation.level", SET, None), BAD_REQUEST, "missing"),
        ("", ("share.isolation.level", SET, "read_committed"), BAD_REQUEST, "all of them"),
    ],
)
def test_a_groups_config_that_is_refused_says_what_is_good(
    group: str, change: tuple[str, int, str | None], code: int, said: str
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        result = await alter(client, GROUP, group, change)
        assert result.error_code == code
        assert said in result.error_message

    run(test)
