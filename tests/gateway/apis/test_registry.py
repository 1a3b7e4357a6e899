"""What is served: each API once, answered in one way, with a bound on its frames."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway import apis
from gateway.apis import registry
from gateway.apis.registry import APIS, LARGEST, SMALL_REQUEST, handles, serves
from gateway.wire import schema
from gateway.wire.api_keys import ApiKey

BY_HAND = {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}

AMONG_THEMSELVES = {
    4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82,
}  # fmt: skip
"""What brokers and controllers of Kafka ask each other, and brokers of 4.3 do not list for clients."""


@pytest.fixture(autouse=True)
def loaded() -> None:
    apis.load_all()


def test_everybody_but_produce_is_answered_in_one_way() -> None:
    for key, api in APIS.items():
        assert key == api.key
        assert (api.handler is not None) + (api.direct is not None) == (key != ApiKey.PRODUCE), api.name
        assert (api.direct is not None) == (key in BY_HAND), api.name
        assert api.min_version <= api.max_version


def test_what_waits_for_long_gives_way_when_the_gateway_stops() -> None:
    parks = {key for key, api in APIS.items() if api.parks}
    assert parks == {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH, ApiKey.SHARE_FETCH}


def test_few_requests_may_be_large() -> None:
    two, eight = 2 * SMALL_REQUEST, 8 * SMALL_REQUEST
    assert {**dict.fromkeys([*BY_HAND, ApiKey.CREATE_TOPICS], two), ApiKey.SYNC_GROUP: eight} == LARGEST


def test_everybody_counts_toward_the_turn_of_a_connection_but_produce_whose_bytes_do() -> None:
    assert {key: api.counts for key, api in APIS.items() if api.counts != 1} == {ApiKey.PRODUCE: 0}


def test_an_api_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "APIS", dict(APIS))
    with pytest.raises(ValueError, match=r"ApiVersions. is registered twice"):
        handles(ApiKey.API_VERSIONS, "ApiVersions", 0, 1)(lambda *_: None)
    with pytest.raises(ValueError, match=r"Fetch. is registered twice"):
        serves(ApiKey.FETCH, "Fetch", 0, 1, flexible=0)(lambda *_: None)  # type: ignore[type-var]


def test_what_kafka_lists_for_clients_is_served_or_left_out_in_words() -> None:
    page = (Path(__file__).parents[3] / "docs" / "OMISSIONS.md").read_text()
    rows = re.findall(r"^[|] ((?:[A-Z][A-Za-z]+(?:, )?)+) [|]", page.partition("## APIs of Kafka")[2], re.M)
    left_out = [name for row in rows for name in row.split(", ")]
    names = {key.name.replace("_", "").lower(): key for key in ApiKey if key not in AMONG_THEMSELVES}
    left_out.remove("API")
    assert sorted(names[name.lower()] for name in left_out) == sorted(set(names.values()) - set(APIS))
    assert all(schema.api_name(key) == APIS[key].name for key in APIS)
