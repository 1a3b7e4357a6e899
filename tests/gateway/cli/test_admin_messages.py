"""Messages as they come from the admin port: what is read of headers and of Pulsar's batch form, and shown as JSON."""

from __future__ import annotations

import json

import pytest

from gateway.cli.admin_messages import Message, read_messages
from tests.gateway.cli.conftest import Peer

TOPIC = "persistent/public/default/orders"
SUB = f"{TOPIC}/subscription/billing"
ONE = {"X-Pulsar-Message-ID": "17:3:-1:0", "X-Magnetar-Offset": "4"}


def test_what_pulsar_has_names_for_stands_apart_from_properties() -> None:
    headers = {
        **ONE,
        "X-Pulsar-publish-time": "2026-01-01T00:00:00Z",
        "X-Pulsar-event-time": "17",
        "X-Pulsar-partition-key": "/w==",
        "X-Pulsar-partition-key-b64-encoded": "true",
        "X-Pulsar-PROPERTY": '{"colour": "blue"}',
        "X-Unheard-Of": "1",
    }
    (found,) = read_messages(headers, b"hello")
    assert found == Message(
        "17:3:-1:0",
        b"hello",
        {"Offset": "4", "Publish time": "2026-01-01T00:00:00Z", "Event time": "17", "Key (base64)": "/w=="},
        {"colour": "blue"},
    )
    assert found.plain() == {
        "messageId": "17:3:-1:0",
        "offset": 4,
        "publishTime": "2026-01-01T00:00:00Z",
        "eventTime": 17,
        "keyBase64": "/w==",
        "properties": {"colour": "blue"},
        "payload": "hello",
    }


@pytest.mark.parametrize(
    ("more", "body", "expected"),
    [
        ({}, b"", {"payload": ""}),
        ({"X-Pulsar-null-value": "true"}, b"", {"payload": None}),
        ({}, b"\xff\x00", {"payloadBase64": "/wA="}),
        ({"X-Pulsar-partition-key": "k"}, b"x", {"payload": "x", "key": "k"}),
        # a client may write anything into these
        ({"X-Pulsar-event-time": "soon"}, b"x", {"payload": "x", "eventTime": "soon"}),
        ({"X-Pulsar-sequence-id": "²"}, b"x", {"payload": "x", "sequenceId": "²"}),
    ],
)
def test_a_program_gets_numbers_as_numbers_and_bytes_that_are_no_text_in_base64(
    more: dict[str, str], body: bytes, expected: dict[str, object]
) -> None:
    (found,) = read_messages({**ONE, **more}, body)
    plain = found.plain()
    assert json.loads(json.dumps(plain)) == {
        "messageId": "17:3:-1:0", "offset": 4, "properties": {}, **expected
    }  # fmt: skip


BATCH = {"X-Pulsar-Message-ID": "17:3:-1", "X-Magnetar-Offset": "40", "X-Pulsar-num-batch-message": "2"}


def message(metadata: bytes, payload: bytes = b"") -> bytes:
    return len(metadata).to_bytes(4, "big") + metadata + payload


def test_a_batch_is_read_field_by_field_and_fields_of_later_versions_are_passed_over() -> None:
    long = bytes(300)
    pair = b"\x0a\x01a\x12\x01b"
    metadata = (
        b"\x0a" + bytes([len(pair)]) + pair  # a property
        + b"\x12\x04/w=="  # the key
        + b"\x28\xac\x02"  # an event time, which is not shown
        + b"\x18\xac\x02"  # 300 bytes of payload
        + b"\x30\x01"  # the key is in base64
        + b"\x3a\x02oo"  # an ordering key
        + b"\xc2\x3e\x03new"  # field 1000
    )  # fmt: skip
    first, second, third = read_messages(
        BATCH, message(metadata, long) + message(b"\x18\x00\x48\x01") + message(b"\x18\x02", b"m3")
    )
    assert (first.id, first.payload, first.properties) == ("17:3:-1:0", long, {"a": "b"})
    assert first.known == {"Offset": "40", "Key (base64)": "/w=="}
    assert (second.id, second.payload, second.known) == ("17:3:-1:1", None, {"Offset": "41"})
    assert (third.payload, third.known) == (b"m3", {"Offset": "42"})


def test_a_property_without_a_value_is_empty() -> None:
    (found,) = read_messages(BATCH, message(b"\x0a\x03\x0a\x01a\x18\x00"))
    assert (found.properties, found.payload) == ({"a": ""}, b"")


def test_messages_are_shown_with_all_that_is_known_of_them(peer: Peer) -> None:
    headers = {
        "X-Pulsar-Message-ID": "17:3:0:0", "X-Magnetar-Offset": "4", "X-Pulsar-publish-time": "2026-01-01T00:00:00Z",
        "X-Pulsar-partition-key": "k", "X-Pulsar-PROPERTY": '{"colour": "blue"}',
    }  # fmt: skip
    peer.answers["GET", f"/admin/v2/{SUB}/position/1"] = (200, headers, b"hello")
    peer.answers["GET", f"/admin/v2/{SUB}/position/2"] = (200, headers, b"\x00\xff")
    peer.says("GET", f"{SUB}/position/3", {"reason": "no more"}, 404)
    result = peer.run("topics", "peek-messages", "orders", "-s", "billing", "-n", "5")
    assert result.exit_code == 0
    for word in ("Message ID: 17:3:0:0", "Offset: 4", "Key: k", '"colour": "blue"', "hello", "00 ff"):
        assert word in result.output
    result = peer.run("--output", "json", "topics", "peek-messages", "orders", "-s", "billing")
    assert json.loads(result.output)[0]["payload"] == "hello"


def test_an_entry_is_shown_message_by_message(peer: Peer) -> None:
    metadata = b"\x0a\x06\x0a\x01a\x12\x01b" + b"\x12\x01k" + b"\x18\x02"
    body = len(metadata).to_bytes(4, "big") + metadata + b"m1"
    nothing = b"\x18\x00\x48\x01"
    body += len(nothing).to_bytes(4, "big") + nothing
    headers = {"X-Pulsar-Message-ID": "17:3:0", "X-Magnetar-Offset": "4", "X-Pulsar-num-batch-message": "2"}
    peer.answers["GET", f"/admin/v2/{TOPIC}/ledger/17/entry/3"] = (200, headers, body)
    result = peer.run("--output", "json", "topics", "get-message-by-id", "orders", "-l", "17", "-e", "3")
    first, second = json.loads(result.output)
    assert (first["messageId"], first["payload"], first["properties"]) == ("17:3:0:0", "m1", {"a": "b"})
    assert (second["offset"], second["payload"]) == (5, None)
