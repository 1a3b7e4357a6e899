"""What a page asks for by itself, again and again: its figures without its frame."""

from __future__ import annotations

from tests.gateway.console.browser import Browser, browse


def test_a_part_is_what_may_have_changed_and_is_not_sent_twice() -> None:
    async def test(browser: Browser) -> None:
        whole = await browser.get("/ui/topics?namespace=public%2Fdefault")
        assert 'data-live="5"' in whole.text
        part = await browser.get("/ui/topics?namespace=public%2Fdefault&part=live")
        assert part.status == 200
        for frame in ("<!doctype", "<script", "<footer", 'type="search"', "part=live"):
            assert frame not in part.text
        for figures in ("<main", 'aria-label="Main"', "There are none here."):
            assert figures in part.text
            assert figures in whole.text
        assert part.headers["X-As-Of"].endswith(" UTC")
        has = {"If-None-Match": part.headers["ETag"]}
        again = await browser.get("/ui/topics?namespace=public%2Fdefault&part=live", **has)
        assert (again.status, again.text) == (304, "")
        assert again.headers["X-As-Of"].endswith(" UTC")
        await browser.post("/ui/topics", {"topic": "orders", "partitions": "1"})
        changed = await browser.get("/ui/topics?namespace=public%2Fdefault&part=live", **has)
        assert changed.status == 200
        assert "orders" in changed.words

    browse(test)


def test_pages_without_figures_ask_for_nothing() -> None:
    async def test(browser: Browser) -> None:
        for path in ("/ui/gateway", "/ui/audit", "/ui/view", "/ui/topics/none"):
            page = await browser.get(path)
            assert "data-live" not in page.text
            assert "live.js" not in page.text

    browse(test)
