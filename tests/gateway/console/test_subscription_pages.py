"""What holds messages up, the messages themselves, and acts behind previews, as pages of a real broker."""

from __future__ import annotations

import html
import json
import re
from datetime import datetime
from urllib.parse import quote

import pytest

from semantics.subscriptions.states import Ending
from tests.gateway.admin.billing import ack, cursor_of, take
from tests.gateway.admin.test_open_messages import keyed
from tests.gateway.admin.test_reset_preview import hourly
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
                # times of the sentence are shown in the zone of the reader
                assert re.split(r",| \d{4}-", each["explanation"])[0] in words
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
            page = await browser.get(AT)
            assert links(page, "Dead letters") == ["/ui/dead", AT + "/dead"], "they may be looked at"
            assert "Clear backlog" not in page.words
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
            for query, says in (("state=lost", "A state is one of"), ("slot=x&text=y", "A slot is a number")):
                wrong = await browser.get(f"{AT}/messages?{query}")
                assert wrong.status == 400
                assert says in wrong.words
                assert "Nothing was looked at" in wrong.words
            assert 'name="text" size="14" value="y"' in wrong.text

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
            assert done.status == 303
            assert cursor_of(browser.admin).ready().stats()["acquired"] == 0
            assert "1 message taken back, for whoever is next." in (await browser.get(done.location)).words
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
            assert "5 messages settled." in (await browser.get(done.location)).words
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
            assert "and 0 have come. Nothing was done" in refused.words
            assert "2 messages of billing" in refused.words
            assert cursor_of(browser.admin).ready().backlog(9) == 8
            done = await browser.post(AT + "/act", {**fields(refused), "confirm": "billing"})
            assert "2 messages settled." in (await browser.get(done.location)).words
            # a plan is for one act
            twice = await browser.post(AT + "/act", {**fields(refused), "confirm": "billing"})
            assert twice.status == 409

        browse(test)

    def test_an_act_on_nothing_is_refused(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            for path, status in (("?do=settle&key=b", 400), ("?do=burn&all=1", 404), ("", 404)):
                page = await browser.get(AT + "/act" + path)
                assert page.status == status
                if status == 400:
                    assert "No message was chosen" in page.words
                    assert re.findall(r">0:(\d)</a>", page.text) == ["5", "6", "7"], "those to choose from"
            none = await browser.get(AT + "/act?do=settle&all=1&key=none")
            assert "There is nothing to do" in none.words
            assert fields(none) == {}

        browse(test)


class TestWhatWasDone:
    def test_it_is_told_once_to_who_did_it(self) -> None:
        """By the page behind the form, as long as that is looked at."""

        async def test(browser: Browser) -> None:
            await held_up(browser)
            preview = await browser.get(AT + "/clear")
            done = await browser.post(AT + "/clear", {**fields(preview), "confirm": "billing"})
            assert done.status == 303
            stranger = Browser(browser.admin)
            assert "settled." not in (await stranger.get(done.location)).words
            assert "9 messages were settled." in (await browser.get(done.location)).words
            anew = await browser.get(done.location + "&part=live")
            assert "9 messages were settled." in anew.words, "it does not go from under somebody's eyes"
            again = await browser.get(done.location)
            assert again.status == 200
            assert "settled." not in again.words

        browse(test)

    def test_a_link_tells_nothing(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            for query in ("did=clear&n=12", "did=reset&n=12", "did=settle&n=12", "did=" + "x" * 500, "did="):
                page = await browser.get(f"{AT}?{query}")
                assert page.status == 200
                assert 'role="status"><svg class="ic k-acked"' not in page.text
                assert "12 messages" not in page.words

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

    def test_what_is_blocked_is_the_same_number_everywhere(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT)
            tiles = dict(re.findall(r"<span>(?:<svg.*?</svg>)?(\w[\w ]*)</span><b>([\d,]+)</b>", page.text))
            wanted = {
                "Open": "9",
                "Available": "0",
                "Blocked": "6",
                "In hand": "1",
                "In backoff": "1",
                "Delayed": "1",
            }
            assert {name: tiles[name] for name in wanted} == wanted
            bar = "6 blocked, 1 in backoff, 1 in hand, 1 delayed"
            assert f'aria-label="{bar}"' in page.text, "of the partition"
            for url in ("/ui/t/public/default/orders", "/ui/subscriptions"):
                assert f'aria-label="{bar}"' in (await browser.get(url)).text, url
            (row,) = (await browser.admin.ask("GET", "/admin/v2/magnetar/subscriptions")).json[
                "subscriptions"
            ]
            assert row["states"]["blocked"] == 6
            # whom it is for has gone: all wait for a consumer, and no key is in the way but of what failed
            at = cursor_of(browser.admin)
            for name in list(at.consumers):
                at.detach(name, Ending.LEFT)
            await browser.admin.broker.write([])
            causes = (await browser.admin.ask("GET", "P/orders/subscription/billing/magnetar/causes")).json[
                "causes"
            ]
            assert [(each["cause"], each["holdsUp"]) for each in causes] == [
                ("no-consumer", 5), ("key", 2), ("backoff", 1), ("delay", 1)
            ]  # fmt: skip

        browse(test)

    def test_when_messages_are_due(self) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            page = await browser.get(AT + "/due?span=1h")
            assert page.status == 200
            assert page.text.count('<rect class="f-delayed"') == 1
            assert page.text.count('<rect class="f-backoff"') == 1
            assert "1 delayed" in page.words

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


class TestReset:
    def test_the_time_is_asked_first_and_then_comes_what_would_happen(self) -> None:
        async def test(browser: Browser) -> None:
            await hourly(browser.admin, "shared")
            await take(browser.admin, "c1", 4)
            await ack(browser.admin, "c1", 3, 3)
            page = await browser.get(AT + "/reset")
            assert page.status == 200
            assert "would be delivered" not in page.words
            assert "reset-cursor orders -s billing --time 2h" in page.words
            there = "2023-11-15T00:13:20+00:00"
            preview = await browser.get(f"{AT}/reset?time={quote(there)}")
            assert "4 messages of billing" in preview.words
            assert 'placeholder="Topic, subscription, key, text" value=""' in preview.text
            assert "of these settled already, which come again 1 " in preview.words
            assert "open before it, which would be settled 2 " in preview.words
            assert "--time 2023-11-15T00:13:20Z" in preview.words
            assert cursor_of(browser.admin).ready().acquired == 3, "a look does nothing"
            again = await browser.post(AT + "/reset", {**fields(preview), "confirm": "bill"})
            assert again.status == 400
            assert "Type the name as it stands there" in again.words
            assert fields(again)["time"] == fields(preview)["time"]
            done = await browser.post(AT + "/reset", {**fields(again), "confirm": "billing"})
            assert done.status == 303
            assert "4 messages are to be delivered" in (await browser.get(done.location)).words
            assert cursor_of(browser.admin).ready().start == 2

        browse(test)

    def test_an_age_becomes_a_time_when_it_is_looked_at(self) -> None:
        """What is sent is what was shown, however long somebody looks at it; also of a time when no clock ran yet."""

        async def test(browser: Browser) -> None:
            await hourly(browser.admin, "shared")
            for said, begins in (("2h", 6), ("1970-01-01", 0)):
                preview = await browser.get(f"{AT}/reset?time={said}")
                assert datetime.fromisoformat(fields(preview)["time"]).tzinfo is not None
                done = await browser.post(AT + "/reset", {**fields(preview), "confirm": "billing"})
                assert done.status == 303
                assert cursor_of(browser.admin).ready().start == begins

        browse(test)

    @pytest.mark.parametrize(
        ("said", "why"), [("soon", "'soon' is no time"), ("2999-01-01", "to come"), ("", "is no time")]
    )
    def test_what_is_wrong_is_said_beside_what_was_typed(self, said: str, why: str) -> None:
        async def test(browser: Browser) -> None:
            await held_up(browser)
            start = cursor_of(browser.admin).ready().start
            for page in (
                await browser.get(f"{AT}/reset?time={said}"),
                await browser.post(AT + "/reset", {"confirm": "billing", "time": said}),
            ):
                assert page.status == 400
                assert why in page.words
                assert f'name="time" required size="24" maxlength="60" value="{said}"' in page.text
                assert fields(page) == {}, "nothing to confirm"
            assert cursor_of(browser.admin).ready().start == start

        browse(test)

    def test_a_group_that_is_at_work_is_told_so_before(self) -> None:
        async def test(browser: Browser) -> None:
            await browser.admin.plain("orders")
            await browser.admin.commit("readers", "orders", 0, 0)
            await browser.admin.join("readers", "orders")
            page = await browser.get("/ui/s/public/default/orders/readers/reset?time=2h")
            assert page.status == 412
            assert "stop them first" in page.words
            assert fields(page) == {}
            assert (await browser.get("/ui/s/public/default/orders/nobody/reset")).status == 404

        browse(test)
