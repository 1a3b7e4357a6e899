"""Configs of subscriptions to client metrics: kept and shown, and no client is asked for anything."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis import homes_asking
from tests.gateway.apis.test_configs import alter, describe, replace
from tests.gateway.broker.held import run
from tests.gateway.serving import Client

METRICS = 16
SET, DELETE, APPEND = 0, 1, 2
BAD, UNREADABLE = Error.INVALID_REQUEST, Error.INVALID_CONFIG


async def shown(client: Client, name: str) -> dict[str, tuple[str | None, int]]:
    """Config to value and source."""
    result = await describe(client, METRICS, name)
    assert result.error_code == 0
    return {row.name: (row.value, row.config_source) for row in result.configs}


async def listed(client: Client, version: int = 1) -> list[str]:
    request = messages.ListConfigResourcesRequest(resource_types=[METRICS])
    answer = await client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, request)
    assert answer.error_code == 0
    return [each.resource_name for each in answer.config_resources]


NOTHING = {"interval.ms": ("300000", 5), "match": ("", 5), "metrics": ("", 5)}


def test_what_is_altered_is_kept_and_listed_until_nothing_is_left() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await shown(client, "x") == NOTHING
        assert await listed(client) == []
        changes = [
            ("interval.ms", SET, "1000"),
            ("metrics", SET, "org.a,org.b"),
            ("match", SET, "client_id=a.*"),
        ]
        assert (await alter(client, METRICS, "x", *changes)).error_code == 0
        kept = {"interval.ms": ("1000", 7), "match": ("client_id=a.*", 7), "metrics": ("org.a,org.b", 7)}
        assert await shown(client, "x") == kept
        assert await shown(client, "y") == NOTHING
        assert await listed(client) == await listed(client, 0) == ["x"]
        assert await replace(client, METRICS, "x", ("interval.ms", "500")) == 0
        assert await shown(client, "x") == {**NOTHING, "interval.ms": ("500", 7)}
        assert (await alter(client, METRICS, "x", ("interval.ms", DELETE, None))).error_code == 0
        assert await listed(client) == []
        assert await shown(client, "x") == NOTHING

    run(test)


def test_clients_are_asked_for_nothing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert (await alter(client, METRICS, "x", ("metrics", SET, "*"))).error_code == 0
        request = messages.GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
        answer = await client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)
        assert (answer.error_code, answer.requested_metrics) == (0, [])

    run(test)


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("x", ("interval.ms", SET, "100"), 0),
        ("x", ("interval.ms", SET, "3600000"), 0),
        ("x", ("interval.ms", SET, "99"), BAD),
        ("x", ("interval.ms", SET, "3600001"), BAD),
        ("x", ("interval.ms", SET, "soon"), UNREADABLE),
        ("x", ("interval.ms", SET, ""), UNREADABLE),
        ("x", ("bogus", SET, "1"), BAD),
        ("x", ("metrics", SET, None), BAD),
        ("x", ("metrics", APPEND, "a"), UNREADABLE),
        ("x", ("metrics", SET, "a,,b"), UNREADABLE),
        ("x", ("match", SET, ""), 0),
        ("x", ("match", SET, "client_id=a, client_source_port=1"), 0),
        ("x", ("match", SET, "client_id"), UNREADABLE),
        ("x", ("match", SET, "client_id=a=b"), UNREADABLE),
        ("x", ("match", SET, "bogus=a"), UNREADABLE),
        ("x", ("match", SET, "client_id=("), UNREADABLE),
        ("", ("interval.ms", SET, "1000"), BAD),
        ("x" * 249, ("interval.ms", SET, "1000"), 0),
        ("x" * 250, ("interval.ms", SET, "1000"), BAD),
        ("x", ("metrics", SET, "m" * 65_536), 0),
        ("x", ("metrics", SET, "m" * 65_537), UNREADABLE),
        ("x", ("match", SET, ",".join(["client_id=a"] * 341)), 0),
        ("x", ("match", SET, ",".join(["client_id=a"] * 342)), UNREADABLE),
    ],
)
def test_a_change_is_checked(name: str, change: tuple[str, int, str | None], error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for validate_only in (True, False):
            result: Any = await alter(client, METRICS, name, change, validate_only=validate_only)
            assert (result.error_code, bool(result.error_message)) == (error, bool(error))
            assert await listed(client) == ([] if error or validate_only else [name])

    run(test)


def test_a_name_is_needed_to_see_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert (await describe(client, METRICS, "")).error_code == BAD

    run(test)


def test_a_client_of_one_namespace_changes_nothing_that_is_for_all() -> None:
    async def test(gateway: Gateway, public: Client, eu: Client, us: Client) -> None:
        change = ("interval.ms", SET, "1000")
        refused = await alter(eu, METRICS, "x", change)
        assert refused.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        assert (await alter(public, METRICS, "x", change)).error_code == 0

    homes_asking.run(test)
