"""Series as charts: drawn from the table that stands beside them, in each theme and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.integration.console.conftest import House, Watched
from tests.integration.sharing import make_group, make_topic, member, send, some, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Watch = Callable[..., Watched]

WAYS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 320, "height": 640}},
}


@pytest.fixture(scope="module")
def charted(house: House) -> dict[str, str]:
    """Pages with a chart: of a subscription that was measured, and of its topic."""
    at = house.gateway.bootstrap
    make_topic(at, "charted")
    for group in ("charting", "also-charting"):
        make_group(at, group)
        worker = member(at, group, "charted")
        send(at, "charted", [(None, b"x")] * 5)
        some(worker)
        worker.close()
        words = ["--output", "json", "series", "charted", "-s", group]
        until(lambda words=words: _measured(house, words), "what is measured of it")  # type: ignore[misc]
    return {"subscription": "/ui/s/public/default/charted/charting", "topic": "/ui/t/public/default/charted"}


def _measured(house: House, words: list[str]) -> bool:
    ((code, said),) = house.run([words])
    return code == 0 and any(each is not None for each in json.loads(said)["open"])


def inked(page: Page) -> list[int]:
    """Of each chart's canvas, how many of its pixels are painted."""
    found: list[int] = page.evaluate(
        """() => [...document.querySelectorAll(".chart canvas")].map(canvas => {
            const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
            Object.assign(copy.canvas, {width: canvas.width, height: canvas.height});
            copy.drawImage(canvas, 0, 0);
            const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
            return data.filter((value, at) => at % 4 === 3 && value).length;
        })"""
    )
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("of", ["subscription", "topic"])
def test_what_was_measured_is_drawn_and_hinders_nobody(
    of: str, way: str, charted: dict[str, str], watch: Watch
) -> None:
    watched = watch(**WAYS[way])
    page = watched.to(charted[of])
    assert len(inked(page)) >= 1
    assert min(inked(page)) > 200
    assert page.locator(".chart > svg").first.is_hidden(), "the lines that are there without scripts"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_text("The numbers").click()
    assert watched.axe() == []
    watched.check()


def test_colours_follow_the_theme_and_the_width_the_window(charted: dict[str, str], watch: Watch) -> None:
    watched = watch(color_scheme="light", viewport={"width": 1280, "height": 900})
    page = watched.to(charted["topic"])
    before = page.locator(".chart canvas").first
    light, wide = (
        before.evaluate("canvas => canvas.toDataURL()"),
        before.evaluate("canvas => canvas.clientWidth"),
    )
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "before => document.querySelector('.chart canvas')?.toDataURL() !== before", arg=light
    )
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("wide => document.querySelector('.chart canvas').clientWidth < wide", arg=wide)
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    watched.check()


def test_without_scripts_there_are_lines_and_the_numbers(charted: dict[str, str], watch: Watch) -> None:
    page = watch(java_script_enabled=False).to(charted["topic"])
    assert page.locator(".chart > svg polyline").count() >= 2
    page.get_by_text("The numbers").click()
    table = page.get_by_role("table").filter(
        has=page.get_by_role("columnheader", name="charting", exact=True)
    )
    last = table.get_by_role("row").last.get_by_role("cell").all_inner_texts()
    assert {"5", "10"} >= {last[1], last[2]} - {""}
    assert page.get_by_role("img", name="Open messages, by subscription").count() == 1


def test_what_draws_is_loaded_where_there_is_a_chart(
    house: House, charted: dict[str, str], watch: Watch
) -> None:
    watched = watch()
    loaded: list[str] = []
    watched.page.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))
    for path in ("/ui/", "/ui/topics", "/ui/gateway", house.pages["message"]):
        watched.to(path)
    assert not {"uplot.js", "uplot.css", "charts.js"} & set(loaded)
    watched.to(charted["subscription"])
    assert {"uplot.js", "uplot.css", "charts.js"} <= set(loaded)


def test_a_chart_goes_on_while_it_is_looked_at(house: House, charted: dict[str, str], watch: Watch) -> None:
    """The same chart with more in it; its table goes on, too."""
    watched = watch()
    page = watched.to(charted["topic"])
    page.evaluate("window.before = document.querySelector('.uplot')")
    legend = page.locator(".chart + .leg").first
    was = legend.inner_text()
    page.evaluate("document.getElementById('main').dataset.live = 0.2")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))")
    send(house.gateway.bootstrap, "charted", [(None, b"x")] * 5)
    page.wait_for_function("was => document.querySelector('.chart + .leg').innerText !== was", arg=was)
    assert page.evaluate("window.before === document.querySelector('.uplot')")
    assert page.locator(".uplot").count() == page.locator(".chart").count()
    watched.check()
