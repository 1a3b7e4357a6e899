"""How many dead letters are open, as the head and the first page say it: of what the reader may see, and no less than
there are.
"""

from __future__ import annotations

import re

import pytest

from gateway.console import counts
from tests.gateway.admin.secured import Secured, basic
from tests.gateway.console.browser import Browser, Seen, browse_secured
from tests.gateway.console.test_doors import others


def figure(page: Seen) -> str:
    """On the first page."""
    (found,) = re.findall(r"Open dead letters</span><b[^>]*>([^<]*)</b>", page.text)
    return str(found)


def pill(page: Seen) -> str:
    """In the head, "" for none."""
    found = re.search(r'href="/ui/dead"[^>]*>Dead letters(?:<span class="pill[^>]*>([^<]*))?', page.text)
    assert found is not None
    return found[1] or ""


async def letters(at: Secured, base: str, group: str, count: int) -> None:
    """So many are in the dead letter topic of a subscription."""
    name = f"{base}-{group}-DLQ"
    assert (await at.ask("root", "PUT", f"/admin/v2/persistent/{name}", "{}")).status == 204
    await at.admin.produce(name, 0, [b"x"] * count)


@pytest.mark.parametrize(
    ("looked_at", "says"),
    [
        (9, {"root": "11", "eve": "9", "ada": "2"}),
        # of the four with letters, that of Ada is the last
        (4, {"root": "11", "eve": "9", "ada": "2"}),
        (3, {"root": "9+", "eve": "9+", "ada": "?"}),
    ],
)
def test_behind_many_letters_of_others_there_may_be_more(
    monkeypatch: pytest.MonkeyPatch, looked_at: int, says: dict[str, str]
) -> None:
    monkeypatch.setattr(counts, "MOST", looked_at)

    async def test(browser: Browser, at: Secured) -> None:
        await others(at)
        for number in range(3):
            await letters(at, f"other/eu/a-{number}", "theirs", 3)
        await letters(at, "shop/eu/orders", "billing", 2)
        for who, said in says.items():
            listed = await browser.get("/ui/dead", Authorization=basic(who))
            assert listed.text.count("<tr data-row>") == {"root": 4, "eve": 3, "ada": 1}[who]
            page = await browser.get("/ui/", Authorization=basic(who))
            assert (figure(page), pill(page)) == (said, said), who

    browse_secured(test)


def test_where_there_are_as_many_as_are_counted_there_are_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(browser: Browser, at: Secured) -> None:
        await others(at)
        for number in range(3):
            await letters(at, f"other/eu/a-{number}", "theirs", 3)
        await browser.get("/ui/dead", Authorization=basic("eve"))
        for most, said in ((4, "9"), (3, "9"), (2, "6+")):
            monkeypatch.setattr(counts, "LOOKED", most)
            assert figure(await browser.get("/ui/", Authorization=basic("eve"))) == said
        # nobody is told of what others have
        assert figure(await browser.get("/ui/", Authorization=basic("ada"))) == "0"
        assert pill(await browser.get("/ui/", Authorization=basic("ada"))) == ""

    browse_secured(test)
