"""Quotas of clients: none, and none can be made."""

from __future__ import annotations

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
BAD, UNSUPPORTED = Error.INVALID_REQUEST, Error.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([], 0),
        ([("user", EXACT, "a")], 0),
        ([("user", DEFAULT, None), ("client-id", SPECIFIED, None)], 0),
        ([("ip", EXACT, "10.0.0.1")], 0),
        ([("bogus", SPECIFIED, None)], UNSUPPORTED),
        ([("", SPECIFIED, None)], BAD),
        ([("user", 3, None)], BAD),
        ([("user", EXACT, None)], BAD),
        ([("user", DEFAULT, "a")], BAD),
        ([("user", SPECIFIED, "a")], BAD),
        ([("user", SPECIFIED, None), ("user", EXACT, "a")], BAD),
        ([("ip", SPECIFIED, None), ("user", EXACT, "a")], BAD),
    ],
)
def test_a_filter_finds_nothing(
    version: int, components: list[tuple[str, int, str | None]], error: int
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.DescribeClientQuotasRequest
        parts = [
            request.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ]
        body = request(components=parts, strict=False)
        answer = await client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, body)
        assert (answer.error_code, answer.entries) == (error, None if error else [])
        assert bool(answer.error_message) == bool(error)

    run(test)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("entity", "remove", "error"),
    [
        ([("user", "a")], [False], UNSUPPORTED),
        ([("user", "a"), ("client-id", None)], [True, False], UNSUPPORTED),
        # there was none
        ([("user", "a")], [True], 0),
        ([("ip", "10.0.0.1")], [], 0),
        ([("ip", "10.0.0.")], [True], BAD),
        ([("ip", "10.0.0.1"), ("user", "a")], [True], BAD),
        ([("user", "a"), ("user", "b")], [True], BAD),
        ([("user", "")], [True], BAD),
        ([("bogus", "a")], [True], BAD),
        ([], [True], BAD),
    ],
)
def test_none_is_made_and_none_was_there_to_be_taken(
    version: int, entity: list[tuple[str, str | None]], remove: list[bool], error: int
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        request = messages.AlterClientQuotasRequest
        entry = request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[request.OpData(key="producer_byte_rate", value=1024.0, remove=each) for each in remove],
        )
        body = request(entries=[entry, entry], validate_only=False)
        answer = await client.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, body)
        for each in answer.entries:
            assert (each.error_code, bool(each.error_message)) == (error, bool(error))
            assert [(part.entity_type, part.entity_name) for part in each.entity] == entity
        assert len(answer.entries) == 2

    run(test)
