"""Messages as headers and a payload, and whole entries in Pulsar's batch form, as the other end reads them."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin import messages
from gateway.cli.admin_messages import Message, read_messages
from gateway.wire import compression, records
from gateway.wire.records import Record
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin, Answer

NOW = 1_700_000_000_000
PATH = "/admin/v2/persistent/public/default/orders"


async def stored(admin: Admin, *contents: Record, codec: int = compression.NONE) -> None:
    """One batch on the topic `orders`."""
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    batch = records.build_batch(list(contents), codec=codec)
    admin.broker.partition(topic, 0).append(batch, records.header(batch), NOW)
    await admin.broker.write([])


def read(answer: Answer) -> list[Message]:
    assert answer.status == 200, answer
    return read_messages(answer.headers, answer.body)


async def examined(admin: Admin, number: int) -> Message:
    (message,) = read(
        await admin.ask("GET", f"{PATH}/examinemessage?initialPosition=earliest&messagePosition={number}")
    )
    return message


@pytest.mark.parametrize(
    ("key", "shown", "encoded"),
    [
        (b"ada", "ada", False),
        (b"", "", False),
        (b"two words", "two words", False),
        (b" in front", "IGluIGZyb250", True),
        (b"a\nb", "YQpi", True),
        ("ä".encode(), "w6Q=", True),
        (b"\xff", "/w==", True),
    ],
)
def test_a_key_that_a_header_would_change_is_encoded(key: bytes, shown: str, encoded: bool) -> None:
    found = messages.described(Record(0, NOW, key, b"v", []))
    assert found["X-Pulsar-partition-key"] == shown
    assert found["X-Pulsar-partition-key-b64-encoded"] == ("true" if encoded else "false")


def test_what_pulsar_has_names_for_is_in_headers_of_its_own_and_the_rest_are_properties() -> None:
    found = messages.described(
        Record(
            0,
            NOW,
            None,
            None,
            [
                ("pulsar-producer-name", "Zoë\r\nX-Evil: 1".encode()),
                ("pulsar-sequence-id", b"7"),
                ("pulsar-event-time", b"17"),
                ("pulsar-deliver-at", b"18"),
                ("pulsar-ordering-key", b"\xff"),
                ("colour", b"blue"),
                ("n", None),
                ("bytes", b"\xff"),
            ],
        )
    )
    assert json.loads(found.pop("X-Pulsar-PROPERTY")) == {"colour": "blue", "n": "", "bytes": "\ufffd"}
    assert found == {
        "X-Pulsar-publish-time": "2023-11-14T22:13:20.000Z",
        # nothing that ends a header gets into one
        "X-Pulsar-producer-name": "Zo\\u00eb\\r\\nX-Evil: 1",
        "X-Pulsar-sequence-id": "7",
        "X-Pulsar-event-time": "17",
        "X-Pulsar-deliver-at-time": "18",
        "X-Pulsar-Base64-ordering-key": "/w==",
        "X-Pulsar-null-value": "true",
    }
    assert messages.described(Record(0, -5, None, b"", []))["X-Pulsar-publish-time"].startswith("1970-01-01")


def test_properties_are_cut_to_what_a_header_may_hold_and_how_many_are_left_out_is_said() -> None:
    many: records.Headers = [(f"p{n}", b"x" * 1000) for n in range(10)]
    found = messages.described(Record(0, NOW, None, b"v", many))
    kept = json.loads(found["X-Pulsar-PROPERTY"])
    assert list(kept) == [f"p{n}" for n in range(10 - int(found["X-Magnetar-Properties-Left-Out"]))]
    assert 4 * 1024 < len(found["X-Pulsar-PROPERTY"]) <= messages.LARGEST_HEADER
    few = messages.described(Record(0, NOW, None, b"v", many[:3]))
    assert "X-Magnetar-Properties-Left-Out" not in few
    assert len(json.loads(few["X-Pulsar-PROPERTY"])) == 3


@given(st.text(max_size=300), st.binary(max_size=300))
def test_no_record_makes_a_header_that_http_cannot_carry(name: str, value: bytes) -> None:
    name = name.encode("utf-8", "replace").decode()
    for own in (name, "pulsar-producer-name", "pulsar-event-time", "pulsar-deliver-at"):
        for text in messages.described(Record(0, NOW, value, value, [(own, value)])).values():
            assert text.isascii()
            assert text.isprintable()


def test_a_whole_entry_is_read_message_by_message(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(
            admin,
            Record(0, NOW, b"ada", b"first", [("a", b"1"), ("b", b"")]),
            Record(1, NOW, b"\xff", None, []),
            Record(2, NOW, None, b"", [("c", "ü".encode())]),
            Record(3, NOW, b"k" * 300, bytes(300), []),
        )
        where = (await examined(admin, 1)).id.split(":")
        found = read(await admin.ask("GET", f"{PATH}/ledger/{where[0]}/entry/{where[1]}"))
        assert [each.payload for each in found] == [b"first", None, b"", bytes(300)]
        assert [each.properties for each in found] == [{"a": "1", "b": ""}, {}, {"c": "ü"}, {}]
        assert [each.known.get("Key") for each in found] == ["ada", None, None, "k" * 300]
        assert found[1].known["Key (base64)"] == base64.b64encode(b"\xff").decode()
        assert [each.known["Offset"] for each in found] == ["0", "1", "2", "3"]
        assert [each.id.split(":")[:2] for each in found] == [where[:2]] * 4

    serve(test)


def test_a_whole_entry_is_read_whatever_clients_wrote_into_its_headers(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        digits = b"9" * 5_000
        await stored(
            admin,
            Record(0, NOW, b"ada", b"first", [("pulsar-event-time", digits), ("a\udcff", b"1")]),
            Record(1, NOW, b"ada", b"second", []),
        )
        where = (await examined(admin, 1)).id.split(":")
        first, second = read(await admin.ask("GET", f"{PATH}/ledger/{where[0]}/entry/{where[1]}"))
        assert (first.payload, second.payload) == (b"first", b"second")
        assert first.properties == {"pulsar-event-time": digits.decode(), "a?": "1"}

    serve(test)


def test_an_entry_of_one_message_is_that_message(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(admin, Record(0, NOW, b"ada", b"alone", [("a", b"1")]))
        one = await examined(admin, 1)
        ledger, entry = one.id.split(":")[:2]
        answer = await admin.ask("GET", f"{PATH}/ledger/{ledger}/entry/{entry}")
        assert (read(answer), answer.body) == ([one], b"alone")
        assert (one.payload, one.properties, one.known["Key"]) == (b"alone", {"a": "1"}, "ada")

    serve(test)


def test_a_message_is_found_behind_offsets_that_have_none(serve: Serve) -> None:
    """What compaction leaves: holes in a batch, and a batch without records."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        partition = admin.broker.partition(topic, 0)
        for span, batch in (
            (5, records.build_batch([Record(1, NOW, None, b"one", [])], last_offset_delta=4)),
            (5, records.empty_batch(0, 4)),
            (1, records.build_batch([Record(0, NOW, None, b"ten", [])])),
        ):
            # not as a producer's, whose batches have no holes
            partition.append_carried(batch, span, NOW)
        await admin.broker.write([])
        found: list[Any] = [await messages.record_at(admin.broker, partition, at) for at in range(12)]
        assert [None if each is None else (each.offset, each.record.value) for each in found] == [
            (1, b"one"),
            (1, b"one"),
            *[(10, b"ten")] * 9,
            None,
        ]
        assert await messages.entry_at(admin.broker, partition, 3) == ([found[0]], 5)
        assert await messages.entry_at(admin.broker, partition, 11) == ([], 11)

    serve(test)


@pytest.mark.parametrize(("codec", "value"), [(compression.ZSTD, b"x"), (compression.NONE, bytes(100_000))])
def test_what_may_be_large_is_opened_beside_the_loop(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, codec: int, value: bytes
) -> None:
    """Few compressed bytes may unfold to many records: others wait for the loop."""
    by_loop: list[bool] = []
    opened = records.records

    def watched(*what: Any) -> list[Record]:
        by_loop.append(threading.current_thread() is threading.main_thread())
        return opened(*what)

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(admin, Record(0, NOW, b"k", value, []), codec=codec)
        with monkeypatch.context() as patched:
            patched.setattr(records, "records", watched)
            assert (await examined(admin, 1)).payload == value
        assert by_loop == [False]

    serve(test)
