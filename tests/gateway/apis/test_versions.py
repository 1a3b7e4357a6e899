"""ApiVersions: what is registered is what is told, and what is told is served."""

from __future__ import annotations

import pytest

from gateway.apis.registry import APIS
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run
from tests.gateway.serving import Client


def named(software: str, version: str) -> messages.ApiVersionsRequest:
    return messages.ApiVersionsRequest(client_software_name=software, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_what_is_served(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await client.ask(ApiKey.API_VERSIONS, version, named("apache-kafka-java", "4.3.0"))
        told = [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys]
        assert answer.error_code == 0
        assert told == sorted((api.key, api.min_version, api.max_version) for api in APIS.values())
        ranges = {key: (low, high) for key, low, high in told}
        assert ranges[ApiKey.PRODUCE] == (0, 13), "min 0: librdkafka drops compression otherwise"
        assert ranges[ApiKey.FETCH] == (4, 18)
        assert ranges[ApiKey.METADATA] == (0, 13)
        assert ranges[ApiKey.LIST_OFFSETS] == (1, 11)
        assert ranges[ApiKey.API_VERSIONS] == (0, 4)
        assert ranges[ApiKey.SHARE_GROUP_HEARTBEAT] == (1, 1)
        finalized = [
            (one.name, one.max_version_level, one.min_version_level) for one in answer.finalized_features
        ]
        has = [
            ("group.version", 1, 1),
            ("metadata.version", 30, 30),
            ("share.version", 1, 1),
            ("transaction.version", 2, 2),
        ]
        assert finalized == (has if version >= 3 else [])
        # a least level of 0 is more than clients of version 3 can take
        supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
        least = [
            ("group.version", 0, 1),
            ("metadata.version", 30, 30),
            ("share.version", 0, 1),
            ("transaction.version", 0, 2),
        ]
        assert supported == (least if version >= 4 else least[1:2] if version == 3 else [])

    run(test)


@pytest.mark.parametrize(
    ("software", "version", "error"),
    [
        ("a", "1", 0),
        ("apache-kafka-java", "4.3.0", 0),
        ("", "1", Error.INVALID_REQUEST),
        ("a b", "1", Error.INVALID_REQUEST),
        ("a", "1 2", Error.INVALID_REQUEST),
        ("-a", "1", Error.INVALID_REQUEST),
        ("a\n", "1", Error.INVALID_REQUEST),
    ],
)
def test_names_of_software(software: str, version: str, error: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        answer = await client.ask(ApiKey.API_VERSIONS, 3, named(software, version))
        assert answer.error_code == error
        assert bool(answer.api_keys) == (error == 0)
        again = await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert again.error_code == 0, "the connection goes on"

    run(test)


def test_everything_told_can_be_encoded_and_decoded_in_all_its_versions() -> None:
    """A version without a codec would close the connections of those who believe what they were told."""
    from gateway import apis
    from gateway.wire import codec

    apis.load_all()
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            assert codec.request_header_version(api.key, version) in (0, 1, 2), api.name
            assert codec.response_header_version(api.key, version) in (0, 1), api.name
