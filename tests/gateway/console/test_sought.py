"""Messages that are found by what is in them: open ones with their reasons, and records that nobody has open."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from gateway.admin import browsing
from gateway.admin.chosen import Look
from gateway.console import sought
from gateway.console.sought import MOST_SECONDS, SECONDS
from gateway.wire import letters, records
from semantics.access.acl import Operation, ResourceType
from tests.gateway.admin.billing import EARLIEST, ack, made, take
from tests.gateway.admin.secured import Granted, Secured, basic, bury
from tests.gateway.admin.test_replaying import DLQ, RETRY, buried, dead, did
from tests.gateway.console.browser import Browser, browse, browse_secured


def test_an_open_message_is_found_with_why_it_does_not_arrive() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=3)
        await take(browser.admin, "c1", 1)
        told = await browser.admin.ask("GET", "P/orders/subscription/billing/explain?offset=0")
        why = told.json["explanation"].split(",")[0]
        page = await browser.get("/ui/find?q=m0")
        assert "/ui/m/public/default/orders/0/0" in page.text
        assert "/ui/m/public/default/orders/0/1" not in page.text
        assert why in page.words
        await ack(browser.admin, "c1", 0, 0)
        assert why not in (await browser.get("/ui/find?q=m0")).words

    browse(test)


def test_what_finds_a_dead_letter_on_a_terminal_is_the_verb_of_dead_letters() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        page = await browser.get("/ui/find?q=m1")
        assert "A dead letter: REJECTED" in page.words
        assert "magnetar-admin dead-letters list orders -s billing --text m1" in page.words
        assert "subscriptions why" not in page.words

    browse(test)


def test_a_letter_that_a_client_wrote_has_no_place_that_it_came_from() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 1)
        await browser.admin.produce(DLQ, 0, [b"by hand"])
        page = await browser.get("/ui/find?q=by+hand")
        assert "orders a letter that a client wrote" in page.words
        assert "-1:-1" not in page.words
        assert "0 times" not in page.words

    browse(test)


def test_what_says_only_a_part_of_where_it_came_from_has_no_place_either() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 1)
        headers: records.Headers = [(letters.OFFSET, b"0"), (letters.PARTITION, b"0")]
        await produced(browser, DLQ, b"by hand", headers)
        await produced(browser, DLQ, b"by hand", [(letters.TOPIC, b"orders"), *headers[:1]])
        page = await browser.get("/ui/find?q=by+hand")
        assert page.words.count("orders a letter that a client wrote") == 2

    browse(test)


def test_a_letter_that_died_in_the_retry_topic_says_so_and_hides_no_record() -> None:
    """Though one of its topic has the offset that it had there."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await dead(admin, 2)
        assert (await did(admin, "replay"))["done"] == 2
        reader = admin.broker.subscriptions.get("billing", RETRY)
        assert reader is not None
        at = reader.partition(0)
        at.attach("c1")
        given = at.fetch("c1", 10, 1 << 20, 10)
        if not isinstance(given, tuple):
            given = await given
        assert at.acknowledge("c1", [(1, 1, b"\x03")]) == 0
        await admin.broker.write([])
        await buried(admin, 3)
        # of every message
        page = await browser.get("/ui/find?q=k")
        assert f"{RETRY} 0:1 k billing dead A dead letter: REJECTED" in page.words
        assert "/ui/m/public/default/orders/0/1" in page.text
        page = await browser.get("/ui/s/public/default/orders/billing/dead")
        assert f"Rejected replayed 1 × k {RETRY} 0:1 1 m1" in page.words

    browse(test)


def test_what_one_subscription_has_keeps_no_settled_record_from_being_found() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await made(admin, count=1)
        await admin.produce("orders", 0, [b"No. 880026", b"about 880026"])
        await take(admin, "c1")
        await ack(admin, "c1", 1, 1)
        await admin.commit("archive", "orders", 0, 1)
        page = await browser.get("/ui/find?q=880026")
        assert "Messages 2, in 2 of 2 subscriptions" in page.words
        assert "orders 0:2 k billing in hand" in page.words
        assert "orders 0:1 k Its page says" in page.words

    browse(test)


def test_nor_does_a_letter_that_a_client_wrote() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await dead(admin, 1)
        await admin.produce("orders", 0, [b"No. 880026"])
        await take(admin, "c1")
        await ack(admin, "c1", 1, 1)
        await admin.produce(DLQ, 0, [b"about 880026"])
        page = await browser.get("/ui/find?q=880026")
        assert "orders a letter that a client wrote" in page.words
        assert "orders 0:1 k Its page says" in page.words

    browse(test)


def test_where_more_is_open_than_is_shown_records_are_not_looked_through() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=2 * sought.EACH)
        page = await browser.get("/ui/find?q=m")
        assert f"Messages {sought.EACH}, in 1 of 1 subscription" in page.words
        assert "Its page says" not in page.words

    browse(test)


def test_batches_that_cannot_be_opened_are_told() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        now = admin.broker.clock.wall_ms()
        batch = bytearray(records.build_batch([records.Record(0, now, b"k", b"needle", [])]))
        # it says that it is compressed
        batch[22] |= 1
        await stored(browser, "orders", bytes(batch))
        await admin.commit("archive", "orders", 0, 0)
        page = await browser.get("/ui/find?q=needle")
        assert "None that was looked at has that" in page.words
        assert "Not looked at: records of orders : 1 batch cannot be opened." in page.words

    browse(test)


def test_a_record_of_a_consumer_group_is_found_by_key_and_by_text() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"one", b'{"order": 880026}', b"three"])
        await admin.commit("readers", "orders", 0, 3)
        page = await browser.get("/ui/find?q=880026")
        assert "/ui/m/public/default/orders/0/1" in page.text
        assert "Its page says what each subscription made of it." in page.words
        none = await browser.get("/ui/find?q=nothing+like+it")
        assert "None that was looked at has that" in none.words

    browse(test)


def test_what_a_subscription_has_open_is_no_record_of_its_topic_besides() -> None:
    """Though a consumer group, of which only records can be looked through, is behind by more."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await made(admin, count=3)
        await admin.commit("archive", "orders", 0, 0)
        await take(admin, "c1", 1)
        await ack(admin, "c1", 0, 0)
        page = await browser.get("/ui/find?q=m2")
        assert "Messages 1, in 2 of 2 subscriptions" in page.words
        assert "Its page says" not in page.words
        assert "Its page says" in (await browser.get("/ui/find?q=m0")).words, "of what is settled"

    browse(test)


def test_a_topic_that_several_subscriptions_read_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"one"])
        await admin.commit("readers", "orders", 0, 0)
        await admin.commit("others", "orders", 0, 0)
        browsed, seen = browsing.browse, list[Any]()

        async def counted(*args: Any) -> Any:
            seen.append(args)
            return await browsed(*args)

        monkeypatch.setattr(browsing, "browse", counted)
        assert "None that was looked at has that" in (await browser.get("/ui/find?q=nothing+like+it")).words
        assert len(seen) == 1

    browse(test)


async def stored(browser: Browser, name: str, batch: bytes) -> None:
    """A batch in a topic, as it is."""
    broker = browser.admin.broker
    topic = broker.catalog.get(name)
    assert topic is not None
    broker.partition(topic, 0).append(batch, records.header(batch), broker.clock.wall_ms())
    await broker.write([])


async def produced(browser: Browser, name: str, value: bytes, headers: records.Headers) -> None:
    """A message with headers."""
    now = browser.admin.broker.clock.wall_ms()
    await stored(browser, name, records.build_batch([records.Record(0, now, b"k", value, headers)]))


async def headed(browser: Browser) -> None:
    """A message with an order's number in a header."""
    await made(browser.admin, count=1)
    await produced(browser, "orders", b"m1", [("order", b"No. 880026")])


@pytest.mark.parametrize("dies", [False, True])
def test_headers_of_open_messages_letters_and_records_are_looked_at_as_they_are_written(dies: bool) -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await headed(browser)
        await take(admin, "c1")
        assert "in hand c1 has it" in (await browser.get("/ui/find?q=880026")).words
        assert "None that was looked at" in (await browser.get("/ui/find?q=no.+880026")).words
        await ack(admin, "c1", 1, 1, kind=3 if dies else 1)
        if dies:
            await buried(admin, 1)
        page = await browser.get("/ui/find?q=880026")
        assert ("A dead letter: REJECTED" if dies else "Its page says what each subscription") in page.words
        assert "Messages 1, in 1 of 1 subscription" in page.words
        assert "None that was looked at" in (await browser.get("/ui/find?q=no.+880026")).words
        # which topic a letter is from stands in headers of the gateway's own
        assert "None that was looked at" in (await browser.get("/ui/find?q=default%2Forders")).words

    browse(test)


def test_who_may_not_look_into_subscriptions_is_not_told_that_there_is_none() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        await bury(at)
        orders = await at.ask(
            "root", "PUT", "/admin/v2/persistent/shop/eu/orders/subscription/archive", EARLIEST
        )
        assert orders.status == 204
        at.rows.rows.append(Granted("User:mona", ResourceType.TOPIC, Operation.DESCRIBE))
        page = await browser.get("/ui/find?q=m0", Authorization=basic("mona"))
        assert (
            "Messages 0, in 0 of 2 subscriptions, those with the oldest open messages first No" in page.words
        )
        assert "No message could be looked at." in page.words
        assert "2 subscriptions were not looked into: that takes the right to consume." in page.words
        assert "no time" not in page.words
        coras = [row for row in at.rows.rows if row.principal == "User:cora"]
        at.rows.rows += [
            row._replace(principal="User:mona", name=name) for row in coras for name in ("orders", "archive")
        ]
        page = await browser.get("/ui/find?q=zzz", Authorization=basic("mona"))
        assert "Messages 0, in 1 of 2 subscriptions" in page.words
        assert "None that was looked at has that" in page.words
        assert "1 subscription was not looked into" in page.words

    browse_secured(test)


def test_letters_in_a_topic_that_the_reader_may_not_read_are_told_as_not_looked_at() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        properties = "/admin/v2/persistent/shop/eu/orders/subscription/billing/properties"
        chosen = '{"pulsar.dead.letter.topic": "shop/eu/graves"}'
        assert (await at.ask("root", "PUT", properties, chosen)).status == 204
        await bury(at)
        page = await browser.get("/ui/find?q=zzz", Authorization=basic("cora"))
        assert "Not looked at" not in page.words
        coras = [row for row in at.rows.rows if row.principal == "User:cora"]
        at.rows.rows = [row._replace(name=name) for row in coras for name in ("orders", "billing")]
        page = await browser.get("/ui/find?q=zzz", Authorization=basic("cora"))
        assert (
            "Not looked at: dead letters of billing on persistent://shop/eu/orders : That takes" in page.words
        )

    browse_secured(test)


def test_a_topic_whose_records_cannot_be_looked_through_is_named() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.partitioned("orders", browsing.PARTITIONS + 1)
        await admin.produce("orders", 0, [b"one"])
        await admin.commit("readers", "orders", 0, 0)
        page = await browser.get("/ui/find?q=one")
        assert "Messages 0, in 0 of 1 subscription" in page.words
        assert "No message could be looked at. Not looked at: records of orders : " in page.words
        assert "has 101 partitions" in page.words
        assert "no time" not in page.words

    browse(test)


def test_what_is_found_is_text() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"<script>x</script>"])
        await admin.commit("readers", "orders", 0, 0)
        page = await browser.get("/ui/find?q=%3Cscript%3Ex")
        assert "/ui/m/public/default/orders/0/0" in page.text
        assert "<script>x" not in page.text

    browse(test)


def test_where_there_was_no_time_for_all_messages_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said that there is none."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await made(admin, count=3)
        whole = await browser.get("/ui/find?q=nothing+like+it")
        assert "in 1 of 1 subscription, those with the oldest open messages first None" in whole.words
        assert "There was no time for all" not in whole.words
        monkeypatch.setattr(Look, "_over", property(lambda _: True))
        part = await browser.get("/ui/find?q=nothing+like+it")
        assert "oldest open messages first; not all of their messages None" in part.words
        assert "There was no time for all. The pages of single subscriptions look on" in part.words

    browse(test)


def test_while_not_all_subscriptions_are_known_it_says_so() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=3)
        browser.admin.server._context.sums.whole = False
        page = await browser.get("/ui/find?q=nothing+like+it")
        assert "in 1 of 1 subscription, those with the oldest open messages first; not all" in page.words
        assert "There was no time for all" in page.words

    browse(test)


@pytest.mark.parametrize(
    ("waited", "whole"), [(SECONDS + 0.01, True), (MOST_SECONDS - 0.01, True), (MOST_SECONDS + 0.01, False)]
)
def test_what_a_search_waits_for_a_core_does_not_count_but_it_has_an_end(
    monkeypatch: pytest.MonkeyPatch, waited: float, whole: bool
) -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, count=3)
        monkeypatch.setattr(sought, "SECONDS", SECONDS)
        monkeypatch.setattr(sought, "MOST_SECONDS", MOST_SECONDS)
        # what has begun is not what is asked about here, and a slow machine may need it
        monkeypatch.setattr(sought, "LEAST_MS", 200)
        looks = count(0.0, waited)
        monkeypatch.setattr(sought, "perf_counter", lambda: next(looks))
        monkeypatch.setattr(sought, "thread_time", lambda: 0.0)
        page = await browser.get("/ui/find?q=m0")
        assert ("/ui/m/public/default/orders/0/0" in page.text) == whole
        assert ("There was no time for all" in page.words) != whole

    browse(test)


def test_dead_letters_take_no_longer_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred thousand a search of 150 ms comes to some, and says that it was not whole."""
    monkeypatch.setattr(sought, "SECONDS", 0.15)

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await dead(admin, 1)
        for _ in range(10):
            await admin.produce(DLQ, 0, [b"x"] * 10_000)
        page = await browser.get("/ui/find?q=nothing+like+it")
        assert "not all of their messages None that was looked at" in page.words
        assert "There was no time for all" in page.words

    browse(test)


def test_who_looks_for_nothing_is_not_told_that_there_is_none() -> None:
    async def test(browser: Browser) -> None:
        assert "None has that in its name" not in (await browser.get("/ui/find")).words
        assert "None has that in its name" in (await browser.get("/ui/find?q=x")).words

    browse(test)
