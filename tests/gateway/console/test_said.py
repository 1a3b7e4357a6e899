"""Sentences of the API on pages: their times are in the zone of who reads them."""

from __future__ import annotations

import re

import pytest

from gateway.console.templates import Clock
from tests.gateway.admin.test_replaying import dead
from tests.gateway.console.browser import Browser, browse
from tests.gateway.console.test_subscription_pages import AT, held_up

NOON = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def seen(text: str) -> str:
    return re.sub(r"<[^>]*>", "", text)


@pytest.mark.parametrize(
    ("sentence", "reads"),
    [
        ("It is due at 2023-11-14T22:49:20.470Z.", "It is due at 17:49:20."),
        (
            "From 2023-11-14T23:49:20+01:00 on, until 2023-11-15T22:00:00Z",
            "From 17:49:20 on, until 2023-11-15 17:00",
        ),
        ("none <b>here</b>", "none &lt;b&gt;here&lt;/b&gt;"),
        # no time, or none that there is
        ("x2023-11-14T22:49:20Z, 2023-02-31T22:49:20Z", "x2023-11-14T22:49:20Z, 2023-02-31T22:49:20Z"),
        # one that this zone has not
        ("0001-01-01T00:00:00Z", "0001-01-01 00:00"),
        ("a\u202eb 2023-11-14T22:49:20Z\u2066", "a\\u202eb 17:49:20\\u2066"),
    ],
)
def test_times_in_a_sentence(sentence: str, reads: str) -> None:
    assert seen(Clock("America/New_York", NOON).said(sentence)) == reads


def test_a_time_in_a_sentence_has_the_whole_of_it_when_pointed_at() -> None:
    said = Clock("America/New_York", NOON).said("due at 2023-11-14T22:49:20.470Z")
    assert 'title="2023-11-14 17:49:20.470 America/New_York"' in said


def test_pages_tell_no_time_of_another_zone() -> None:
    """Of causes, of open messages, of what is found, of a message: why each waits, and until when."""

    async def test(browser: Browser) -> None:
        await held_up(browser)
        zone = "Asia/Tokyo"
        assert (await browser.post("/ui/view", {"zone": zone, "theme": "auto", "keys": "on"})).status == 303
        explained = await browser.admin.ask("GET", "P/orders/subscription/billing/explain?offset=5")
        assert re.search(r"\dT\d\d:\d\d", explained.json["explanation"])
        for path in (AT, f"{AT}/messages", "/ui/find?q=y", "/ui/m/public/default/orders/0/5"):
            page = await browser.get(path)
            assert page.status == 200
            assert not re.search(r"\dT\d\d:\d\d:\d\d", page.words), path
            assert f'{zone}">' in page.text, path

    browse(test)


def test_neither_do_pages_of_dead_letters_and_resets() -> None:
    """But for lines of a command, which takes a time with its zone."""

    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        zone = "Asia/Tokyo"
        assert (await browser.post("/ui/view", {"zone": zone, "theme": "auto", "keys": "on"})).status == 303
        since = "since=2023-11-14T22:13:20Z"
        for path in (
            f"{AT}/replay?all=1&{since}&until=1h",
            f"{AT}/discard?all=1&{since}",
            f"{AT}/dead?{since}",
            f"{AT}/letter?id=0:0&{since}",
            f"{AT}/reset?time=2023-11-14T22:13:20Z",
        ):
            page = await browser.get(path)
            assert page.status == 200, page.words
            words = seen(re.sub(r'<div class="cli">.*?</div>', "", page.text))
            assert not re.search(r"\dT\d\d:\d\d:\d\d", words), (path, words)
            if "/replay" in path or "/discard" in path:
                assert "2023-11-15 07:13" in words

    browse(test)
