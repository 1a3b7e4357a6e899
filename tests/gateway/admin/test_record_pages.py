"""Records of a topic by pages: browsed both ways, searched, and shown."""

from __future__ import annotations

import base64
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin import browsing
from gateway.admin.browsing import Cursor
from gateway.admin.exchange import RefusedError
from gateway.wire import compression, records
from gateway.wire.records import Record
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

T0 = 1_700_000_000_000
PATH = "P/orders/magnetar/records"


async def stored(admin: Admin, index: int, *contents: Record, codec: int = compression.NONE) -> None:
    """One batch on a partition of `orders`."""
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    batch = records.build_batch(list(contents), codec=codec)
    admin.broker.partition(topic, index).append(batch, records.header(batch), T0)
    await admin.broker.write([])


def record(
    delta: int, at: int, value: bytes | None, key: bytes | None = None, *headers: tuple[str, bytes | None]
) -> Record:
    return Record(delta, T0 + at, key, value, list(headers))


async def page(admin: Admin, query: str) -> dict[str, Any]:
    answer = await admin.ask("GET", f"{PATH}?{query}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


async def pages(admin: Admin, query: str) -> list[dict[str, Any]]:
    """All of them, until the last."""
    found = [await page(admin, query)]
    while "next" in found[-1]:
        found.append(await page(admin, f"{query}&after={found[-1]['next']}"))
    return found


def values(*found: dict[str, Any]) -> list[Any]:
    return [each["value"]["decoded"] for one in found for each in one["records"]]


async def three_partitions(admin: Admin) -> None:
    """m0 to m29, of which each third is on the same partition, in batches of two; times tell them apart."""
    await admin.partitioned("orders", 3)
    for first in range(0, 30, 6):
        for index in range(3):
            at = (first + index, first + index + 3)
            await stored(admin, index, *[record(n, at[n], b"m%d" % at[n], b"k%d" % index) for n in (0, 1)])


@pytest.mark.parametrize("limit", [1, 4, 7, 50])
@pytest.mark.parametrize("way", ["older", "newer"])
def test_partitions_are_browsed_together_in_the_order_of_their_times(
    serve: Serve, way: str, limit: int
) -> None:
    async def test(admin: Admin) -> None:
        await three_partitions(admin)
        found = await pages(admin, f"dir={way}&limit={limit}")
        everything = [f"m{n}" for n in range(30)]
        assert values(*found) == (everything if way == "newer" else everything[::-1])
        assert [len(each["records"]) for each in found[:-1]] == [limit] * (len(found) - 1)
        assert (found[-1]["looked"], found[-1]["of"]) == (30, 30)
        assert found[0]["of"] == 30

    serve(test)


def test_a_page_begins_at_an_offset_a_time_a_message_or_an_end(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await three_partitions(admin)
        at = "2023-11-14T22:13:20.015Z"
        assert values(await page(admin, f"dir=newer&from={at}&limit=3")) == ["m15", "m16", "m17"]
        assert values(await page(admin, f"dir=older&from={at}&limit=3")) == ["m14", "m13", "m12"]
        assert values(await page(admin, "partition=1&dir=newer&from=9")) == ["m28"]
        assert values(await page(admin, "partition=1&dir=older&from=1")) == ["m4", "m1"]
        assert values(await page(admin, "dir=newer&from=latest")) == []
        (found,) = (await page(admin, "partition=2&from=4&limit=1"))["records"]
        assert (found["partition"], found["offset"], found["time"]) == (2, 4, "2023-11-14T22:13:20.014Z")
        # a message is on one partition
        assert values(await page(admin, f"dir=newer&from={found['messageId']}&limit=2")) == ["m14", "m17"]
        named = await admin.ask("GET", "P/orders-partition-0/magnetar/records?limit=2")
        assert values(named.json) == ["m27", "m24"]

    serve(test)


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_a_search_finds_keys_text_and_headers(serve: Serve, codec: int) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        for index in range(2):
            await stored(
                admin, index,
                record(0, 0, b"plain", b"ada"),
                record(1, 1, b'{"state": "paid"}', b"bob", ("trace", b"t1")),
                record(2, 2, None, b"ada", ("trace", b"t2"), ("plain", None)),
                record(3, 3, b"unpaid", None), codec=codec,
            )  # fmt: skip

        async def offsets(query: str) -> list[int]:
            return sorted({each["offset"] for each in (await page(admin, query))["records"]})

        assert await offsets("key=ada") == [0, 2]
        assert await offsets("text=paid") == [1, 3]
        assert await offsets("text=ad") == [0, 2], "in keys"
        assert await offsets("text=t") == [1, 2], "in headers' values, and a value"
        assert await offsets("text=Paid") == []
        assert await offsets("header=trace") == [1, 2]
        assert await offsets("header=trace%3Dt2") == [2]
        assert await offsets("header=plain") == [2]
        assert await offsets("key=bob&text=paid&header=trace") == [1]
        assert await offsets("key=ad") == []
        none = await page(admin, "text=nowhere")
        assert (none["looked"], none["of"], "next" in none) == (8, 8, False)

    serve(test)


def test_a_search_that_takes_long_says_how_far_it_came_and_goes_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await three_partitions(admin)
        monkeypatch.setattr(browsing, "WORK_NS", 0)
        monkeypatch.setattr(browsing, "STRETCH", 1)
        for way in ("older", "newer"):
            found = await pages(admin, f"dir={way}&key=k1&limit=50")
            assert len(found) > 3
            assert sorted(values(*found), key=lambda name: int(name[1:])) == [
                f"m{n}" for n in range(1, 30, 3)
            ]
            looked = [each["looked"] for each in found]
            assert looked == sorted(set(looked))
            assert looked[-1] == 30
            # the order is kept over pages, too
            whole = await pages(admin, f"dir={way}")
            everything = [f"m{n}" for n in range(30)]
            assert values(*whole) == (everything if way == "newer" else everything[::-1])

    serve(test)


def test_who_asks_may_say_how_long_a_search_takes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await three_partitions(admin)
        ticks = count(0, 1_000_000)
        monkeypatch.setattr(admin.broker, "clock_ns", lambda: next(ticks))
        monkeypatch.setattr(browsing, "STRETCH", 1)
        short = await page(admin, "text=nowhere&work=1")
        assert 0 < short["looked"] < short["of"]
        assert "next" in short
        assert (await page(admin, "text=nowhere"))["looked"] == short["of"]
        assert (await admin.ask("GET", "P/orders/magnetar/records?work=201")).status == 400

    serve(test)


def test_a_record_is_shown_with_all_that_is_known_of_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(
            admin, 0,
            record(0, 0, b'{"id": 1}', b"\xff", ("<b>", b"x"), ("empty", None), ("\udcff", b"\0\0\0\0\x09{}")),
            record(1, -(2**60), b"x" * (browsing.SHOWN + 1), None, *[(f"h{n}", b"y" * 5000) for n in range(101)]),
        )  # fmt: skip
        large, small = (await page(admin, ""))["records"]
        assert small["key"] == {"size": 1, "base64": "/w==", "kind": "hex", "decoded": "ff"}
        assert small["value"]["decoded"] == {"id": 1}
        assert base64.b64decode(small["value"]["base64"]) == b'{"id": 1}'
        assert small["headers"] == [
            {"name": "<b>", "size": 1, "base64": "eA==", "kind": "text", "decoded": "x"},
            {"name": "empty", "decoded": None},
            {
                "name": "\ufffd",
                "size": 7,
                "base64": "AAAAAAl7fQ==",
                "kind": "json",
                "decoded": {},
                "schemaId": 9,
            },
        ]
        assert small["topic"] == "orders"
        assert small["messageId"].endswith(":-1:0")
        assert large["key"] is None
        assert (large["value"]["size"], len(large["value"]["decoded"])) == (
            browsing.SHOWN + 1,
            browsing.SHOWN,
        )
        assert large["value"]["cut"] is True
        # a producer's time that no calendar has
        assert (large["timestamp"], "time" in large) == (T0 - 2**60, False)
        assert (len(large["headers"]), large["headersLeftOut"], large["headers"][0]["cut"]) == (100, 1, True)

    serve(test)


def test_a_page_has_so_many_bytes_at_most(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(admin, 0, *[record(n, n, b"%02d" % n + b"x" * 60_000) for n in range(30)])
        found = await pages(admin, "dir=newer")
        assert [text[:2] for text in values(*found)] == [f"{n:02}" for n in range(30)]
        assert all(sum(each["value"]["size"] for each in one["records"]) <= browsing.ANSWER for one in found)
        assert len(found) < 30

    serve(test)


def test_of_large_values_only_what_is_shown_counts_and_is_kept(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for number in range(3):
            await stored(admin, 0, record(0, number, b"x" * (browsing.ANSWER - 1)))
        (found,) = await pages(admin, "dir=newer")
        assert [each["value"]["size"] for each in found["records"]] == [browsing.ANSWER - 1] * 3

    serve(test)


def test_a_batch_that_cannot_be_opened_is_passed_over_and_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await stored(admin, 0, record(0, 0, b"before"))
        header = records.header(records.build_batch([record(0, 1, b"x")]))
        broken = records.assemble(header, b"\xff" * 20)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        admin.broker.partition(topic, 0).append(broken, records.header(broken), T0)
        await stored(admin, 0, record(0, 2, b"behind"))
        found = await page(admin, "")
        assert values(found) == ["behind", "before"]
        assert found["damagedBatches"] == 1

    serve(test)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("dir=up", 400), ("from=tomorrow", 400), ("from=1:x", 400), ("limit=0", 400), ("limit=1001", 400),
        ("partition=3", 400), ("after=x", 400), ("after=%00%ff", 400), ("after=AAAA", 400), ("from=99:1", 404),
        (f"text={'x' * 4097}", 400),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(serve: Serve, query: str, status: int) -> None:
    async def test(admin: Admin) -> None:
        await three_partitions(admin)
        assert (await admin.ask("GET", f"{PATH}?{query}")).status == status

    serve(test)


@given(
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 2**63), min_size=1),
)
def test_a_cursor_is_what_it_was(older: bool, looked: int, positions: dict[int, int]) -> None:
    cursor = Cursor(older, looked, positions)
    assert Cursor.parse(str(cursor)) == cursor


@given(st.text(max_size=60))
def test_a_text_is_a_cursor_or_refused(text: str) -> None:
    with suppress(RefusedError):
        assert Cursor.parse(text).positions
