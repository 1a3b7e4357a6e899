"""Quotas asked for and altered over the wire, as tests say them."""

from __future__ import annotations

from typing import Any

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

Parts = list[tuple[str, "str | None"]]


def entry(parts: Parts, **values: float | None) -> Any:
    """What is to be altered of one entity; None takes a value back."""
    request = messages.AlterClientQuotasRequest
    return request.EntryData(
        entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[
            request.OpData(key=key, value=value if value is not None else 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


async def alter(client: Client, *entries: Any, validate_only: bool = False, version: int = 1) -> list[int]:
    """The error of each entry."""
    body = messages.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = await client.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, body)
    for asked, told in zip(entries, answer.entries, strict=True):
        assert bool(told.error_code) == bool(told.error_message)
        assert [(each.entity_type, each.entity_name) for each in told.entity] == [
            (each.entity_type, each.entity_name) for each in asked.entity
        ]
    return [each.error_code for each in answer.entries]


async def describe(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    """The error, or by entity its values."""
    request = messages.DescribeClientQuotasRequest
    body = request(
        components=[
            request.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )
    answer = await client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, body)
    assert (answer.error_message == "") == (answer.error_code == 0)
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }
