"""Pages of others, in the same browser, in front of a gateway at work: what they may not see, and may not do."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Response

from tests.integration.console.conftest import REBOUND, House, Watched

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Watch = Callable[..., Watched]


def bait(page: Page, home: str, body: str = "") -> None:
    """A page of somebody else's, at this address."""
    url = home + "/bait"
    page.route(url, lambda route: route.fulfill(content_type="text/html", body=f"<!doctype html>{body}"))
    page.goto(url)


def sent(page: Page, action: str, token: str, topic: str) -> Response:
    """What is answered to a form that a page sends by itself."""
    with page.expect_navigation() as answer:
        page.evaluate(
            """([action, token, topic]) => {
                const form = document.createElement("form");
                form.method = "post";
                form.action = action;
                for (const [name, value] of Object.entries({token, topic, partitions: "1"})) {
                    const field = document.createElement("input");
                    Object.assign(field, {name, value});
                    form.append(field);
                }
                document.body.append(form);
                form.submit();
            }""",
            [action, token, topic],
        )
    return answer.value


def token_of(page: Page) -> str:
    return page.locator("input[name=token]").first.input_value()


def topics(house: House) -> str:
    return house.gateway.admin("topics", "list-partitioned-topics", "public/default")


def test_a_page_whose_name_was_made_to_lead_here_sees_nothing_and_changes_nothing(
    house: House, watch: Watch
) -> None:
    """Its Host and its Origin are the same name, and a browser lets it read what it asks for."""
    page = watch().page
    # from a page that comes from here, as one of others could only ask where a browser lets it ask this network
    answer = page.goto(f"http://{REBOUND}:{house.gateway.admin_port}/")
    assert answer is not None
    assert answer.status == 403
    for path in ("/ui/", "/ui/topics", "/admin/v2/persistent/public/default", "/metrics"):
        status, text = page.evaluate(
            "async path => { const answer = await fetch(path); return [answer.status, await answer.text()]; }",
            path,
        )
        assert status == 403, path
        assert REBOUND in text
        assert "orders" not in text
    put = "/admin/v2/persistent/public/default/rebound/partitions"
    assert (
        page.evaluate("path => fetch(path, {method: 'PUT', body: '1'}).then(got => got.status)", put) == 403
    )
    assert sent(page, "/ui/topics", "", "rebound").status == 403
    assert "rebound" not in topics(house)


@pytest.mark.parametrize("whose", ["another port", "another site"])
def test_a_page_of_others_sends_no_form_here_even_with_the_token(
    whose: str, house: House, watch: Watch
) -> None:
    """To a browser another port of this host is the same site: it sends cookies along."""
    watched = watch()
    page = watched.to("/ui/topics")
    token = token_of(page)
    port = house.gateway.admin_port
    bait(page, f"http://127.0.0.1:{port - 1}" if whose == "another port" else "http://evil.example")
    answer = sent(page, house.url("/ui/topics"), token, "foreign")
    assert answer.status == 403
    assert "another site" in answer.text()
    assert urlsplit(page.url).port == port, "it is this gateway's answer"
    assert "foreign" not in topics(house)
    watched.to("/ui/topics")
    assert sent(page, house.url("/ui/topics"), token, f"own-{whose[8:]}").status == 200
    assert f"own-{whose[8:]}" in topics(house)


def test_a_form_without_its_token_or_with_that_of_another_browser_does_nothing(
    house: House, watch: Watch
) -> None:
    others = token_of(watch().to("/ui/topics"))
    watched = watch()
    for token in ("", others, "0" * 64):
        page = watched.to("/ui/topics")
        assert sent(page, "/ui/topics", token, "tokenless").status == 403
        assert "was not made for this browser" in page.get_by_role("alert").inner_text()
    assert "tokenless" not in topics(house)


def test_no_page_of_others_shows_one_of_these_in_a_frame(house: House, watch: Watch) -> None:
    """Else it could lay itself over a button, and have it pressed."""
    page = watch().page
    bait(page, "http://evil.example", f'<iframe src="{house.url("/ui/")}"></iframe>')
    (frame,) = page.main_frame.child_frames
    assert frame.url.startswith("chrome-error:")
