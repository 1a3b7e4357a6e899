"""A form that comes when its session has ended: nothing is done, and what was chosen and typed is not lost."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.gateway.admin.secured import Secured
from tests.gateway.console.browser import Browser, browse_secured
from tests.gateway.console.test_console import log_in

AT = "/ui/s/shop/eu/orders/billing"
PREVIEW = {"plan": "ab", "confirm": "billing"}


@pytest.mark.parametrize(
    ("path", "form", "back"),
    [
        (AT + "/act", {"do": "settle", "m.3:0:-1:0": "1", **PREVIEW}, AT + "/act?do=settle&m.3:0:-1:0=1"),
        (AT + "/clear", {"ends": "0:4 1:2", "messages": "6", **PREVIEW}, AT + "/clear"),
        (AT + "/reset", {"time": "2h", "messages": "6", **PREVIEW}, AT + "/reset?time=2h"),
        (
            AT + "/replay",
            {"m.0:1": "1", "to": "other", "other": "a/b", "planned": "x", **PREVIEW},
            AT + "/replay?m.0:1=1&to=other&other=a/b",
        ),
        (
            AT + "/replay",
            {"edit": "0:1", "as": "text", "value": "mended</textarea>\u200b", "key": "k"},
            AT + "/letter?id=0:1&key=k",
        ),
        ("/ui/jobs/7/stop", {}, "/ui/jobs/7"),
    ],
)
def test_what_was_chosen_comes_again_after_the_login(path: str, form: dict[str, str], back: str) -> None:
    async def test(browser: Browser, at: Secured) -> None:
        assert await log_in(browser, "ada") == 303
        token = (await browser.get("/ui/topics")).token
        body = '{"password": "another-one"}'
        done = await at.ask("root", "POST", "/admin/v2/magnetar/users/ada/password", body)
        assert done.status == 204
        page = await browser.post(path, {**form, "token": token})
        assert page.status == 401
        assert "nothing was done" in page.words
        if "value" in form:
            assert f">\n{html.escape(form['value'])}</textarea>" in page.text
        found = re.search(r'name="back" value="([^"]*)"', page.text.partition("<main")[2])
        assert found is not None
        to, wanted = urlsplit(html.unescape(found[1])), urlsplit(back)
        assert (to.path, parse_qsl(to.query)) == (wanted.path, parse_qsl(wanted.query))
        said = {
            "token": page.token,
            "name": "ada",
            "password": "another-one",
            "back": html.unescape(found[1]),
        }
        assert (await browser.post("/ui/login", said)).location == html.unescape(found[1])

    browse_secured(test)
