"""Words on pages: one of a thing is no plural, and what went wrong is said in a sentence for people."""

from __future__ import annotations

import re

from gateway.wire import records
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_schemas import put, register, written
from tests.gateway.console.browser import Browser, browse

MESSAGE = "/ui/m/public/default/orders/0/"


def test_there_is_one_partition_one_topic_and_one_byte() -> None:
    async def test(browser: Browser) -> None:
        await browser.admin.partitioned("orders", 1)
        await browser.admin.produce("orders", 0, [b"x"])
        await browser.admin.commit("readers", "orders", 0, 0)
        seen = {path: (await browser.get(path)).words for path in ("/ui/", "/ui/t/public/default/orders")}
        assert " 1 partition " in seen["/ui/t/public/default/orders"]
        message = (await browser.get(MESSAGE + "0")).words
        assert "value of 1 byte " in message
        one = await browser.get("/ui/s/public/default/orders/readers")
        assert "1 message is open and no consumer is connected" in one.words
        for words in (*seen.values(), message, one.words):
            assert not re.search(r"\b1 (partitions|topics|bytes|messages|consumers|subscriptions)\b", words)

    browse(test)


def test_the_name_of_a_header_is_cut_where_a_key_is() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        at, now = admin.broker.partition(topic, 0), admin.broker.clock.wall_ms()
        batch = records.build_batch([records.Record(0, now, None, b"v", [("h" * 30_000, b"1")])])
        at.append(batch, records.header(batch), now)
        await admin.broker.write([])
        page = await browser.get(MESSAGE + "0")
        assert "h" * 200 + "…" in page.text
        assert "h" * 201 not in page.text

    browse(test)


async def in_avro(admin: Admin) -> None:
    await register(admin, 1, {"type": "string"})
    await put(admin, "orders", [(None, written(1, b"\xfe\xff\xff\xff\xff\x01x")), (None, written(9, b"x"))])


def test_bytes_that_their_schema_does_not_fit_are_told_of_in_words() -> None:
    async def test(browser: Browser) -> None:
        await in_avro(browser.admin)
        words = (await browser.get(MESSAGE + "0")).words
        assert "Not decoded as Avro: its bytes end before the schema does" in words
        assert "Error" not in words

    browse(test)


def test_a_schema_that_is_not_there_is_told_of() -> None:
    async def test(browser: Browser) -> None:
        await put(browser.admin, "orders", [(None, written(9, b"x"))])
        said = "there is no such schema"
        assert said not in (await browser.get(MESSAGE + "0")).words, "no registry is in reach"
        await register(browser.admin, 1, {"type": "string"})
        words = (await browser.get(MESSAGE + "0")).words
        assert "with schema 9 does, and " + said in words

    browse(test)


def test_the_help_of_keys_names_each_that_leads_to_a_page() -> None:
    async def test(browser: Browser) -> None:
        page = await browser.get("/ui/view")
        keys = re.findall(r'data-key="(\w)"', page.text)
        assert len(keys) == 8
        named = re.search(r"\(g then ([^)]*)\)", page.words)
        assert named is not None
        assert re.findall(r"\b\w\b", named[1]) == keys

    browse(test)
