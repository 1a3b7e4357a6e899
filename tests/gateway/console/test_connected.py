"""How many consumers a subscription with lanes has: those that are connected, on each page."""

from __future__ import annotations

import re

from tests.gateway.admin.test_lanes import join, queue
from tests.gateway.console.browser import Browser, browse

TOPIC = "/ui/t/public/default/orders"
PAGE = "/ui/s/public/default/orders/billing"


async def counts(browser: Browser) -> tuple[str, str, str]:
    """Of the overview, of the topic and of the subscription."""
    found = []
    for path in ("/ui/subscriptions", TOPIC):
        text = (await browser.get(path)).text
        row = next(
            each for each in re.findall(r"<tr data-row>.*?</tr>", text, re.DOTALL) if "billing" in each
        )
        # the last cell
        found.append(re.findall(r">([^<]*)</td>", row)[-1])
    said = re.search(r"(\d+) consumers? ", (await browser.get(PAGE)).words)
    assert said is not None
    return found[0], found[1], said[1]


def test_lanes_that_nobody_has_are_no_consumers() -> None:
    async def test(browser: Browser) -> None:
        await queue(browser.admin)
        assert await counts(browser) == ("none", "none", "0")
        assert "5 messages are open and no consumer is connected" in (await browser.get(PAGE)).words
        # one member may have more than one lane
        await join(browser.admin, 0, 1)
        assert await counts(browser) == ("1", "1", "1")
        assert "no consumer is connected" not in (await browser.get(PAGE)).words

    browse(test)
