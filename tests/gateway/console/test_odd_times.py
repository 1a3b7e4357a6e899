"""Pages of messages with times that no calendar has, as any client may stamp them, in zones at both ends of the day."""

from __future__ import annotations

import pytest

from gateway.admin.exchange import iso
from gateway.console.templates import Clock
from tests.gateway.admin.test_odd_times import FAR, LONG_AGO, far_due, stamped
from tests.gateway.admin.test_replaying import DLQ, dead
from tests.gateway.console.browser import Browser, browse

ZONES = ("UTC", "Pacific/Kiritimati", "Etc/GMT+12")
ORDERS = "/public/default/orders"


async def shown(browser: Browser, *paths: str) -> None:
    for zone in ZONES:
        assert (await browser.post("/ui/view", {"zone": zone, "theme": "auto", "keys": "on"})).status == 303
        for path in paths:
            page = await browser.get(path)
            assert page.status == 200, (zone, path, page.words)
            # in slices: what raises behind the first of them ends the page
            assert "</html>" in page.text, (zone, path)


@pytest.mark.parametrize(
    ("when", "first", "last"),
    [
        (FAR, "9999-12-31 23:59:59.999 UTC", "9999-12-31 11:59:59.999 Etc/GMT+12"),
        (LONG_AGO, "0001-01-01 00:00:00.000 UTC", "0001-01-01 00:00:00.000 UTC"),
    ],
)
def test_a_time_is_in_the_zone_if_that_has_it(when: int, first: str, last: str) -> None:
    now = 1_774_823_400_000
    for said in (when, iso(when)):
        for zone, expected in (("UTC", first), ("Etc/GMT+12", last)):
            assert f'title="{expected}"' in Clock(zone, now).at(said)
            assert Clock(zone, now).since(said)
    assert 'title="9999-12-31 23:59:59.999 UTC"' in Clock("Pacific/Kiritimati", now).at(FAR)


def test_pages_of_a_message_that_is_due_in_millions_of_years() -> None:
    async def test(browser: Browser) -> None:
        await far_due(browser.admin)
        await shown(
            browser,
            "/ui/",
            "/ui/subscriptions",
            "/ui/topics",
            "/ui/find?q=odd",
            "/ui/attention",
            f"/ui/t{ORDERS}",
            f"/ui/s{ORDERS}/billing",
            f"/ui/s{ORDERS}/billing/due",
            f"/ui/s{ORDERS}/billing/messages",
            f"/ui/m{ORDERS}/0/0",
            f"/ui/m{ORDERS}/0/0?way=1",
        )

    browse(test)


@pytest.mark.parametrize("ms", [LONG_AGO, FAR])
def test_pages_of_a_letter_that_a_client_wrote(ms: int) -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 1)
        await stamped(browser.admin, DLQ, ms)
        billing = f"/ui/s{ORDERS}/billing"
        await shown(
            browser,
            f"{billing}/dead",
            f"{billing}/letter?id=0:1",
            "/ui/dead",
            f"/ui/m/public/default/{DLQ}/0/1",
            f"/ui/m/public/default/{DLQ}/0/1?way=1",
        )

    browse(test)
