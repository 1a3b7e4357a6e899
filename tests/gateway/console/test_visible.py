"""Names, keys and headers with characters that nobody sees, or that turn a line round, are shown as what they are."""

from __future__ import annotations

import asyncio
import html
import json
import re
import subprocess
from urllib.parse import quote

import pytest

from gateway.wire import records
from semantics.command_line import line
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_open_transactions import begun
from tests.gateway.console.browser import Browser, browse
from tests.gateway.console.test_subscription_pages import fields

ODD = "pay\u202eroll\u2066\u200b\n\x1b[2J"
SHOWN = "pay\\u202eroll\\u2066\\u200b\\u000a\\u001b[2J"
HERE = "/ui/s/public/default/orders/" + quote(ODD, safe="")


async def furnished(admin: Admin) -> None:
    """A topic with a record whose key and header are called so, a consumer group and a transactional id."""
    await admin.plain("orders")
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    at, now = admin.broker.partition(topic, 0), admin.broker.clock.wall_ms()
    odd = ODD.encode()
    batch = records.build_batch([records.Record(0, now, odd, b"x", [(ODD, odd)])])
    at.append(batch, records.header(batch), now)
    await admin.broker.write([])
    await admin.commit(ODD, "orders", 0, 0)
    await begun(admin, ODD)


def test_pages_show_them_escaped_wherever_they_stand() -> None:
    async def test(browser: Browser) -> None:
        await furnished(browser.admin)
        for path, times in (
            ("/ui/", 1), ("/ui/topics", 1), ("/ui/subscriptions", 1), ("/ui/t/public/default/orders", 1), (HERE, 3),
            ("/ui/m/public/default/orders/0/0", 4), ("/ui/find?q=pay", 2), ("/ui/transactions", 1),
            (HERE + "/clear", 2), ("/ui/find?q=" + quote(ODD + "x", safe=""), 2),
        ):  # fmt: skip
            page = await browser.get(path)
            assert page.status == 200, (path, page.words)
            # what a form sends back stays what it is, to the character
            text = re.sub(r'\bvalue="[^"]*"', "", page.text)
            assert all(each.isprintable() or each == "\n" for each in text), path
            assert html.unescape(text).count(SHOWN) >= times, path

    browse(test)


def test_a_form_sends_back_what_it_was_given() -> None:
    async def test(browser: Browser) -> None:
        page = await browser.get("/ui/subscriptions?q=" + quote("pay\u202eroll\u200b"))
        assert 'value="pay\u202eroll\u200b"' in page.text

    browse(test)


@pytest.mark.parametrize("name", [ODD, "it's\u202e\\n", "a\x07b", "\U000e0001c", "\udcff!"], ids=ascii)
def test_a_line_is_visible_and_a_shell_reads_the_name_from_it(name: str) -> None:
    shown = line("subscriptions", "why", "orders", "-s", name)
    assert shown.isprintable()
    word = shown.removeprefix("magnetar-admin subscriptions why orders -s ")
    said = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert said.stdout.decode("utf-8", "surrogateescape") == name


def test_what_asks_for_a_name_takes_it_as_it_is_shown() -> None:
    """No browser sends a field of one line with an end of a line in it, and nobody types what nobody sees."""

    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.plain("orders")
        await admin.plain("graves")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        api = "P/orders/subscription/" + quote(ODD, safe="")
        assert (await admin.ask("PUT", f"{api}?type=shared", EARLIEST)).status == 204
        properties = json.dumps({"pulsar.dead.letter.topic": "graves"})
        assert (await admin.ask("PUT", f"{api}/properties", properties)).status == 204

        async def goes(page: str, query: str, *, asks: bool = True) -> None:
            preview = await browser.get(f"{HERE}/{page}{query}")
            assert (f'Type the name, <b class="m">{SHOWN}</b>' in preview.text) == asks, preview.words
            said = fields(preview)
            if asks:
                wrong = await browser.post(f"{HERE}/{page}", {**said, "confirm": "payroll"})
                assert wrong.status == 400
                assert "Type the name as it stands there." in wrong.words
                said = fields(wrong)
            done = await browser.post(f"{HERE}/{page}", {**said, "confirm": SHOWN})
            assert done.status == 303, done.words
            await admin.broker.write([])

        await goes("act", "?do=dead-letter&all=1", asks=False)
        graves = admin.broker.catalog.get("graves")
        assert graves is not None
        async with asyncio.timeout(20):
            while admin.broker.partition(graves, 0).high_watermark < 3:
                await asyncio.sleep(0)
        await goes("discard", "?all=1")
        await admin.produce("orders", 0, [b"d"])
        await goes("act", "?do=settle&all=1")
        await goes("reset", "?time=" + quote("2000-01-01 00:00"))
        await goes("clear", "")
        await goes("unsubscribe", "")
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []

    browse(test)
