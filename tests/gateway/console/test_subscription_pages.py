"""What holds messages up, the messages themselves, and acts behind previews, as pages of a real broker."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import quote

from tests.gateway.admin.billing import ack, cursor_of, take
from tests.gateway.admin.test_open_messages import keyed
from tests.gateway.console.browser import Browser, Seen, browse

AT = "/ui/s/public/default/orders/billing"
SLOW = json.dumps({"pulsar.nack.delay.ms": "600000", "pulsar.ack.timeout.ms": "30000"})
HOSTILE = '"><script>x</script>'


async def held_up(browser: Browser) -> None:
    """Five of key a, of which the first is in the hands of c1; three of b, of which the first backs off."""
    some = [(b"a", b"x", 0)] * 5 + [(b"b", b"y", 0)] * 3 + [(HOSTILE.encode(), b"z", 60_000)]
    await keyed(browser.admin, "key_shared", some)
    answer = await browser.admin.ask("PUT", "P/orders/subscription/billing/properties", SLOW)
    assert answer.status == 204
    assert await take(browser.admin, "c1") == [0, 5]
    await ack(browser.admin, "c1", 5, 5, kind=2)


def links(page: Seen, text: str) -> list[str]:
    """Where links with this text lead."""
    return [html.unescape(each) for each in re.findall(rf'href="([^"]*)"[^>]*>{text}<', page.text)]


def fields(page: Seen) -> dict[str, str]:
    """What the form of a preview sends."""
    main = page.text.partition("<main")[2]
    return {
        html.unescape(name): html.unescape(value)
        for name, value in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', main)
    }


class TestCauses:
    def test_they_stand_before_records_with_the_sentence_of_explain(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT)
            assert page.status == 200
            found = (await browser.admin.ask("GET", "P/orders/subscription/billing/magnetar/causes")).json
            words = page.words
            for each in found["causes"]:
                assert each["explanation"].split(",")[0] in words
            assert words.index("What holds messages up") < words.index("Why does a message not arrive?")
            # the four behind the first of key a
            listed = re.findall(r'href="([^"]*messages[^"]*)">4<', page.text)
            behind = await browser.get(html.unescape(listed[0]))
            assert re.findall(r">0:(\d)</a>", behind.text) == ["1", "2", "3", "4"]
            assert ">1 in hand</a>" in page.text, "what a consumer has holds up nobody by itself"
            assert "magnetar-admin subscriptions why orders -s billing" in words

        browse(test)

    def test_a_consumer_group_has_none(self) -> None:
        async def test(browser: Browser) -> None:
            await browser.admin.plain("orders")
            await browser.admin.commit("readers", "orders", 0, 0)
            page = await browser.get("/ui/s/public/default/orders/readers")
            assert page.status == 200
            assert "What holds messages up" not in page.words

        browse(test)

    def test_a_console_that_reads_shows_causes_and_no_buttons(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            for path in (AT, AT + "/messages"):
                page = await browser.get(path)
                assert page.status == 200
                assert "c1" in page.words
                assert "Take back…" not in page.words
                assert 'type="checkbox"' not in page.text
            answer = await browser.post(AT + "/act", {"do": "settle", "all": "1"})
            assert answer.status == 403

        browse(test, "admin.console=read")


class TestOpenMessages:
    def test_each_says_why_and_what_others_wrote_is_text(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT + "/messages")
            assert re.findall(r">0:(\d)</a>", page.text) == [str(each) for each in range(9)]
            assert HOSTILE in page.words
            assert "<script>x" not in page.text
            only = await browser.get(AT + "/messages?key=b&state=blocked")
            assert re.findall(r">0:(\d)</a>", only.text) == ["6", "7"]
            assert "--state=blocked --key=b" in only.words
            hostile = await browser.get(AT + f"/messages?key={quote(HOSTILE)}")
            assert re.findall(r">0:(\d)</a>", hostile.text) == ["8"]
            assert "<script>x" not in hostile.text
            wrong = await browser.get(AT + "/messages?state=lost")
            assert wrong.status == 400

        browse(test)

    def test_a_page_leads_to_the_next(self) -> None:
        async def test(browser: Browser) -> None:
            await keyed(browser.admin, "shared", [(b"a", b"x", 0)] * 60)
            await take(browser.admin, "c1")
            first = await browser.get(AT + "/messages?key=a")
            (behind,) = links(first, "Next 50")
            second = await browser.get(behind)
            found = [int(each) for page in (first, second) for each in re.findall(r">0:(\d+)</a>", page.text)]
            assert found == list(range(60))
            assert links(second, "Next 50") == []

        browse(test)


class TestActs:
    def test_a_record_is_taken_back_behind_a_preview(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT)
            there = links(page, "Take back…")[0]
            preview = await browser.get(there)
            assert preview.status == 200
            assert "1 message of billing" in preview.words
            assert cursor_of(browser.admin).ready().stats()["acquired"] == 1, "a look does nothing"
            assert browser.admin.broker.audit.last(1)[0].what != "POST", "and is no change"
            done = await browser.post(AT + "/act", fields(preview))
            assert (done.status, done.location) == (303, AT + "?did=take-back&n=1")
            assert cursor_of(browser.admin).ready().stats()["acquired"] == 0
            assert "1 message taken back" in (await browser.get(done.location)).words
            (entry,) = browser.admin.broker.audit.last(1)
            assert (entry.kind, entry.what) == ("change", "POST")

        browse(test)

    def test_all_that_match_keeps_to_the_filter_and_what_is_final_asks_for_the_name(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            preview = await browser.get(AT + "/act?do=settle&all=1&key=a")
            assert "5 messages of billing" in preview.words
            asked = fields(preview)
            assert (asked["key"], asked["all"]) == ("a", "1")
            again = await browser.post(AT + "/act", asked)
            assert again.status == 400
            assert "Type the name as it stands there" in again.words
            done = await browser.post(AT + "/act", {**fields(again), "confirm": "billing"})
            assert done.location == AT + "?did=settle&n=5"
            left = await browser.get(AT + "/messages")
            assert re.findall(r">0:(\d)</a>", left.text) == ["5", "6", "7", "8"]

        browse(test)

    def test_a_plan_that_things_have_changed_under_leads_to_a_new_preview(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            preview = await browser.get(AT + "/act?do=settle&all=1&key=b")
            await browser.admin.ask(
                "POST",
                "P/orders/subscription/billing/magnetar/act",
                json.dumps({"do": "settle", "messages": await _ids(browser, 6)}),
            )
            refused = await browser.post(AT + "/act", {**fields(preview), "confirm": "billing"})
            assert refused.status == 409
            assert "Nothing was done" in refused.words
            assert "2 messages of billing" in refused.words
            assert cursor_of(browser.admin).ready().backlog(9) == 8
            done = await browser.post(AT + "/act", {**fields(refused), "confirm": "billing"})
            assert done.location == AT + "?did=settle&n=2"
            # a plan is for one act
            twice = await browser.post(AT + "/act", {**fields(refused), "confirm": "billing"})
            assert twice.status == 409

        browse(test)

    def test_an_act_on_nothing_is_refused(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            for path, status in (("?do=settle", 400), ("?do=burn&all=1", 404), ("", 404)):
                assert (await browser.get(AT + "/act" + path)).status == status
            none = await browser.get(AT + "/act?do=settle&all=1&key=none")
            assert "There is nothing to do" in none.words
            assert fields(none) == {}

        browse(test)


async def _ids(browser: Browser, *offsets: int) -> list[str]:
    page = await browser.admin.ask("GET", "P/orders/subscription/billing/magnetar/open")
    return [each["messageId"] for each in page.json["messages"] if each["offset"] in offsets]


class TestDrawings:
    def test_a_strip_and_who_consumes(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT)
            says = "Partition 0, offsets 0 to 8: 1 delayed, 1 in hand, 1 in backoff, 6 blocked"
            assert says in html.unescape(page.text)
            svg = page.text.partition('class="strip"')[2].partition("</svg>")[0]
            assert re.findall(r'<path class="(f-\w+)"', svg) == [
                "f-delayed", "f-acquired", "f-backoff", "f-blocked"
            ]  # fmt: skip
            assert "Nothing of billing was measured yet" in page.words
            await browser.admin.broker.sampling.sample()
            measured = await browser.get(AT)
            assert "Open messages, last hour: 9 now, 9 at least, 9 at most" in measured.text
            assert measured.text.count("<polyline") == 2
            assert "span 48h" in (await browser.get(AT + "?span=48h")).words

        browse(test)

    def test_when_messages_are_due(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT + "/due?span=1h")
            assert page.status == 200
            assert page.text.count('<rect class="f-delayed"') == 1
            assert page.text.count('<rect class="f-backoff"') == 1
            assert "1 delayed" in page.words
            assert (await browser.get(AT + "/due?span=never")).status == 200

        browse(test)

    def test_consumers_are_paged_by_name(self) -> None:
        async def test(browser: Browser) -> None:
            await keyed(browser.admin, "shared", [(b"a", b"x", 0)])
            for number in range(60):
                cursor_of(browser.admin).attach(f"c{number:02}")
            await browser.admin.broker.write([])
            first = await browser.get(AT)
            (behind,) = links(first, "Next 50")
            second = await browser.get(behind)
            found = [each for page in (first, second) for each in re.findall(r">(c\d\d)</td>", page.text)]
            assert found == [f"c{number:02}" for number in range(60)]
            assert re.search(r"<td [^>]*>51</td><td [^>]*>c50</td>", second.text)

        browse(test)


def test_a_reset_to_a_time_that_is_to_come_settles_nothing() -> None:
    async def test(browser: Browser) -> None:
        await held_up(browser)
        start = cursor_of(browser.admin).ready().start
        page = await browser.post(f"{AT}/reset", {"confirm": "billing", "time": "2999-01-01"})
        assert "That time is to come" in page.text
        assert cursor_of(browser.admin).ready().start == start

    browse(test)
