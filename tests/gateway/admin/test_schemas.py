"""Avro and Protobuf of Confluent's serializers, decoded by schemas that are in a topic of the gateway."""

from __future__ import annotations

import gc
import json
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest

from gateway.admin import schemas
from gateway.wire import records
from semantics.access.acl import Operation, ResourceType
from store.api import Delete
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Granted, Secured, furnish, serve_secured
from tests.gateway.admin.test_acts_audited import failing
from tests.gateway.console.browser import Browser, browse

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "notes", "type": {"type": "array", "items": "string"}},
        {"name": "sum", "type": "double"},
    ],
}
LIST = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
// what is sold
message Order {
  option deprecated = true;
  int64 id = 1;
  repeated string notes = 2;
  map<string, int32> counts = 3;
  optional bool paid = 4;
  Kind kind = 5;
  oneof how { string card = 6; Cash cash = 7; }
  google.protobuf.Timestamp at = 8;
  reserved 9, 20 to 30;
  enum Kind { NONE = 0; LARGE = 1; }
  message Cash { double given = 1 [json_name = "g"]; }
}
message Other { Order order = 1; }
"""


def written(schema_id: int, body: bytes) -> bytes:
    """As Confluent's serializers write it."""
    return struct.pack(">bI", 0, schema_id) + body


def avro(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


async def put(admin: Admin, topic: str, rows: list[tuple[bytes | None, bytes | None]]) -> None:
    """Records of a topic, by its name in the catalog, which is made if need be."""
    if admin.broker.catalog.get(topic) is None:
        await admin.broker.topics.create(topic, 1, {})
    found = admin.broker.catalog.get(topic)
    assert found is not None
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch(
        [records.Record(n, now, key, value, []) for n, (key, value) in enumerate(rows)]
    )
    admin.broker.partition(found, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


async def register(
    admin: Admin, schema_id: int, schema: Any, kind: str = "AVRO", topic: str = schemas.NAME, **more: Any
) -> None:
    """As a registry does."""
    subject = f"s{schema_id}"
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    row = {"subject": subject, "version": 1, "id": schema_id, "schema": text, "deleted": False, **more}
    if kind != "AVRO":
        row["schemaType"] = kind
    await put(admin, topic, [(json.dumps(key).encode(), json.dumps(row).encode())])


async def shown(admin: Admin, topic: str = "orders") -> list[dict[str, Any]]:
    answer = await admin.ask("GET", f"P/{topic}/magnetar/records?dir=newer")
    assert answer.status == 200, answer
    return [each["value"] for each in answer.json["records"]]


def test_avro_is_decoded_by_the_schema_that_it_names(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        from decimal import Decimal

        body = avro(ORDER, {"id": 7, "price": Decimal("1.50"), "notes": ["a", "ü"], "sum": float("inf")})
        await put(admin, "orders", [(None, written(3, body)), (None, written(4, body)), (None, b"plain")])
        # before there is a schema: bytes, and the id
        assert [(each["kind"], each.get("schemaId")) for each in await shown(admin)] == [
            ("hex", 3), ("hex", 4), ("text", None),
        ]  # fmt: skip
        await register(admin, 3, ORDER)
        (first, second, plain) = await shown(admin)
        assert (first["kind"], first["schemaId"]) == ("avro", 3)
        assert first["decoded"] == {"id": 7, "price": "1.50", "notes": ["a", "ü"], "sum": "inf"}
        assert second["kind"] == "hex"
        assert "notDecoded" not in second
        assert plain["decoded"] == "plain"
        # what was added later is found, too
        await register(admin, 4, ORDER)
        assert [each["kind"] for each in await shown(admin)] == ["avro", "avro", "text"]

    serve(test)


@pytest.mark.parametrize("fails", [False, True])
def test_of_a_registry_whose_topic_is_deleted_nothing_is_kept(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    async def test(admin: Admin) -> None:
        def alive() -> int:
            gc.collect()
            return sum(isinstance(each, schemas.Registry) for each in gc.get_objects())

        before = alive()
        await put(admin, "orders", [(None, written(3, b"x"))])
        await register(admin, 3, ORDER)
        assert [each["schemaId"] for each in await shown(admin)] == [3]
        assert alive() == before + 1
        if fails:
            failing(admin, monkeypatch, lambda write: isinstance(write, Delete))
        answer = await admin.ask("DELETE", f"P/{schemas.NAME}?force=true")
        if answer.status == 409:
            answer = await admin.ask("DELETE", f"P/{schemas.NAME}/partitions?force=true")
        assert answer.status == (503 if fails else 204)
        # one that is there still is read no second time
        assert alive() == before + fails
        assert len(await shown(admin)) == 1
        assert alive() == before + fails

    serve(test)


def test_avro_that_refers_to_other_schemas(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        outer = {"type": "record", "name": "Cart", "fields": [{"name": "first", "type": "shop.Order"}]}
        refers = [{"name": "shop.Order", "subject": "s1", "version": 1}]
        body = avro(
            {**outer, "fields": [{"name": "first", "type": {**ORDER, "fields": ORDER["fields"][:1]}}]},
            {"first": {"id": 5}},
        )
        await put(admin, "orders", [(None, written(2, body))])
        await register(admin, 2, outer, references=refers)
        (value,) = await shown(admin)
        assert value["notDecoded"] == "AVRO: not all that its schema refers to is known"
        await register(admin, 1, {**ORDER, "fields": ORDER["fields"][:1]})
        (value,) = await shown(admin)
        assert value["decoded"] == {"first": {"id": 5}}

    serve(test)


def test_protobuf_is_decoded_by_the_message_that_it_names(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        from google.protobuf import timestamp_pb2

        at = timestamp_pb2.Timestamp(seconds=1).SerializeToString()
        order = b"\x08\x07\x12\x01a\x12\x01b\x1a\x05\x0a\x01k\x10\x05\x20\x01\x28\x01"
        order += b"\x3a\x09\x09" + struct.pack("<d", 1.5) + b"\x42" + bytes([len(at)]) + at
        await register(admin, 9, PROTO, "PROTOBUF")
        await put(
            admin,
            "orders",
            [
                (None, written(9, b"\0" + order)),
                # the second message of the file; the first message within the first
                (None, written(9, b"\x02\x02\x0a\x02\x08\x07")),
                (None, written(9, b"\x04\x00\x00\x09" + struct.pack("<d", 2.5))),
                (None, written(9, b"\x02\x08\x08\x07")),
            ],
        )
        (first, second, third, wrong) = await shown(admin)
        assert (first["kind"], first["decoded"]) == (
            "protobuf",
            {
                "id": "7", "notes": ["a", "b"], "counts": {"k": 5}, "paid": True, "kind": "LARGE",
                "cash": {"given": 1.5}, "at": "1970-01-01T00:00:01Z",
            },
        )  # fmt: skip
        assert (second["decoded"], third["decoded"]) == ({"order": {"id": "7"}}, {"given": 2.5})
        assert wrong["kind"] == "hex"
        assert "a message that the schema does not have" in wrong["notDecoded"]

    serve(test)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        # nine bytes that say that there are a great many elements of no bytes
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
        # one that recurses sixty thousand times
        (LIST, b"\x02" * 60_000 + b"\0"),
        # two to the thirtieth values of no bytes at all
        ({"type": "record", "name": "R0", "fields": []}, b""),
    ],
)
def test_bytes_that_mean_harm_do_none(serve: Serve, schema: Any, body: bytes) -> None:
    async def test(admin: Admin) -> None:
        harm = schema
        if not body:
            for depth in range(1, 31):
                fields = [{"name": "a", "type": harm}, {"name": "b", "type": f"R{depth - 1}"}]
                harm = {"type": "record", "name": f"R{depth}", "fields": fields}
        await register(admin, 1, harm)
        await register(admin, 2, {"type": "long"})
        await put(
            admin, "orders", [(None, written(1, body or b"\0")), (None, written(2, b"\x0e")), (None, b"x")]
        )
        (bad, good, _) = await shown(admin)
        assert bad["kind"] in ("hex", "text")
        assert bad["notDecoded"].startswith("AVRO: ")
        # the next one is decoded all the same
        assert good["decoded"] == 7

    serve(test)


def test_a_page_of_harm_is_over_after_a_while(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "PAGE_S", 0.1)

    async def test(admin: Admin) -> None:
        await register(admin, 1, {"type": "array", "items": "null"})
        forever = written(1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00")
        await put(admin, "orders", [(None, forever)] * 50)
        said = [each["notDecoded"] for each in await shown(admin)]
        assert said == [
            "AVRO: it takes too long",
            *["AVRO: others on this page took too long, or are too large"] * 49,
        ]

    serve(test)


def test_what_is_no_row_of_a_registry_is_passed_over(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        key = b'{"keytype":"SCHEMA","subject":"s","version":1}'
        deep = b'{"subject":"s","version":1,"id":1,"schema":' + b"[" * 50_000
        await put(
            admin,
            schemas.NAME,
            [
                (None, b"x"), (b"x", b"x"), (key, None), (key, b"{}"), (key, deep), (b"\xff", b"\xff"),
                (b'{"keytype":"NOOP"}', b'{"subject":"s","version":1,"id":1,"schema":"\\"string\\""}'),
                (key, json.dumps({"subject": "s", "version": 1, "id": 1, "schema": "no schema"}).encode()),
            ],
        )  # fmt: skip
        await register(admin, 2, {"type": "long"})
        await put(admin, "orders", [(None, written(1, b"\x0e")), (None, written(2, b"\x0e"))])
        (bad, good) = await shown(admin)
        assert bad["notDecoded"].startswith("AVRO: ")
        assert good["decoded"] == 7

    serve(test)


def test_what_is_kept_of_a_registry_is_bounded() -> None:
    registry = schemas.Registry()
    for number in range(1, 400):
        row = {"subject": f"s{number}", "version": 1, "id": number, "schema": "x" * 100_000}
        registry.add(b'{"keytype":"SCHEMA"}', json.dumps(row).encode())
    known = [number for number in range(1, 400) if registry.schema(number) is not None]
    assert 0 < len(known) * 100_000 <= schemas.MOST_KEPT


@pytest.mark.parametrize("where", ["subject", "references"])
def test_what_stands_beside_a_schema_counts_as_well(where: str) -> None:
    registry = schemas.Registry()
    long = "\U0001f980" + "s" * 60_000
    others = [{"name": "n", "subject": long, "version": 1}] * (where == "references")
    for number in range(1, 400):
        row = {"subject": long if where == "subject" else "s", "version": number, "id": number, "schema": "1"}
        text = json.dumps({**row, "references": others}, ensure_ascii=False)
        registry.add(b'{"keytype":"SCHEMA"}', text.encode())
    known = [number for number in range(1, 400) if registry.schema(number) is not None]
    # four bytes a character, as one of them needs them
    assert len(known) * 4 * 60_000 <= schemas.MOST_KEPT


def test_schemas_that_refer_to_each_other_are_none_and_many_are_too_many() -> None:
    registry = schemas.Registry()

    def add(number: int, *others: int) -> None:
        references = [{"name": f"n{each}", "subject": f"s{each}", "version": 1} for each in others]
        row = {"subject": f"s{number}", "version": 1, "id": number, "schema": str(number)}
        registry.add(b'{"keytype":"SCHEMA"}', json.dumps({**row, "references": references}).encode())

    def others(number: int) -> list[str] | None:
        row = registry.schema(number)
        assert row is not None
        found = registry.others(row)
        return None if found is None else [text for _, text in found]

    add(1)
    add(2, 1)
    add(3, 2, 1)
    assert others(3) == ["1", "2"]
    # round and round: it ends, and the decoder says what it thinks of that
    add(4, 5)
    add(5, 4)
    assert others(4) is not None
    for number in range(100, 200):
        add(number, number + 1)
    add(200)
    assert others(100) is None


def test_schemas_of_another_namespace_and_those_that_one_may_not_read_are_out_of_reach() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/orders/magnetar/records"
        value = written(2, b"\x0e")
        await put(at.admin, "shop/eu/orders", [(None, value)])
        await register(at.admin, 2, {"type": "long"})

        async def kind(who: str) -> str:
            answer = await at.ask(who, "GET", path)
            assert answer.status == 200, answer
            found: str = answer.json["records"][0]["value"]["kind"]
            return found

        assert await kind("root") == "hex", "these are of public/default"
        await register(at.admin, 2, {"type": "long"}, topic="shop/eu/_schemas")
        at.rows.rows.append(Granted("User:mona", ResourceType.TOPIC, Operation.READ, "orders"))
        assert (await kind("root"), await kind("mona")) == ("avro", "hex")
        at.rows.rows.append(Granted("User:mona", ResourceType.TOPIC, Operation.READ, "_schemas"))
        assert await kind("mona") == "avro"

    serve_secured(test)


def test_the_page_of_a_message_shows_what_it_says_beside_its_bytes() -> None:
    async def test(browser: Browser) -> None:
        await register(
            browser.admin, 3, {"type": "record", "name": "A", "fields": [{"name": "x", "type": "string"}]}
        )
        script = b"<script>alert(1)</script>"
        await put(browser.admin, "orders", [(None, written(3, bytes([2 * len(script)]) + script))])
        page = await browser.get("/ui/m/public/default/orders/0/0")
        assert page.status == 200
        assert "&lt;script&gt;alert(1)" in page.text
        assert "<script>alert" not in page.text
        assert 'aria-label="Value as Avro"' in page.text
        assert "00000000  00 00 00 00 03 32 3c 73" in page.text
        alone = await browser.get("/ui/m/public/default/orders/0/0?as=hex")
        assert 'aria-label="Value as Avro"' not in alone.text
        assert "00000000  00 00 00 00 03 32 3c 73" in alone.text
        await put(browser.admin, "orders", [(None, written(3, b"\x32"))])
        broken = await browser.get("/ui/m/public/default/orders/0/1")
        assert "Not decoded as Avro" in broken.words

    browse(test)
