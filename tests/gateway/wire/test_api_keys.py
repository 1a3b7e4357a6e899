"""The numbers of Kafka's APIs, against the tables of others who speak with Kafka."""

from __future__ import annotations

from kio.schema.index import api_key_map

from gateway.wire import schema
from gateway.wire.api_keys import ApiKey


def test_every_number_means_the_api_that_it_means_to_others() -> None:
    theirs = {key: folder.upper() for key, folder in api_key_map.items()}
    assert {key: ApiKey(key).name for key in theirs} == theirs
    # 4 to 7 went with ZooKeeper: they keep their numbers, and nobody else has them
    assert set(ApiKey) - set(theirs) == {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    }


def test_a_schema_carries_the_number_under_which_it_is_found() -> None:
    found = [schema.load(name) for name in schema.names() if schema.load(name).key >= 0]
    assert len(found) > 100
    for message in found:
        assert message.name.removesuffix("Request").removesuffix("Response") == schema.api_name(message.key)
