"""Eight questions of an operator, as docs/CONSOLE.md has them: each is answered within three clicks of the first page.

A click is a link that is followed, or a form that is sent; typing is none. Chromium goes through them over a live
gateway with real members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from compat.console.picture import shoot, size_of
from compat.console.shop import AGAIN, CUSTOMER, LATER, REMINDERS, Shop
from compat.peers.magnetar import MagnetarPeer
from tests.integration.console.conftest import Watched
from tests.integration.sharing import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DOC = Path(__file__).parents[3] / "docs" / "CONSOLE.md"
MOST = 3
"""Clicks."""


class Operator:
    """Somebody who begins at the first page; what a question costs is counted."""

    def __init__(self, watched: Watched, gateway: MagnetarPeer) -> None:
        self.watched = watched
        self.gateway = gateway
        self.page: Page = watched.page
        self.clicks = 0

    def begin(self) -> None:
        self.watched.to("/ui/")
        self.clicks = 0

    def click(self, what: Locator) -> None:
        """A link that leads elsewhere, or a button that sends its form."""
        with self.page.expect_navigation():
            what.click()
        self.clicks += 1

    def find(self, text: str) -> None:
        """Type into the field in the head of each page, and press Enter."""
        self.page.get_by_label("Go to a topic").fill(text)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")
        self.clicks += 1

    def row(self, text: str) -> Locator:
        """The rows that have this text."""
        return self.page.locator("main").get_by_role("row").filter(has_text=text)

    def of(self, name: str) -> Locator:
        """The rows that have a link of this name."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.page.locator("main").get_by_role("row").filter(has=link)

    def reads(self) -> str:
        """What stands on the page, without its head and foot."""
        return " ".join(self.page.locator("main").inner_text().split())


@pytest.fixture(scope="module")
def operator(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with MagnetarPeer(directory=tmp_path_factory.mktemp("shop")) as gateway, Shop(gateway):
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(30_000)
        context.add_init_script(
            "addEventListener('securitypolicyviolation', event => { window.violated = event.violatedDirective; })"
        )
        yield Operator(Watched(context.new_page(), gateway.admin_url), gateway)
        context.close()


def order_that_does_not_arrive(at: Operator) -> None:
    at.find(str(LATER))
    row = at.of("packing").filter(has_text="blocked")
    said = row.inner_text()
    assert "It waits for its key" in said
    assert re.search(r"is packer-[12] at 127\.0\.0\.1", said), "who has the earlier one"
    assert CUSTOMER in said


def who_holds_a_customer(at: Operator) -> None:
    at.find(CUSTOMER)
    row = at.of("packing").filter(has_text="in hand")
    assert re.search(r"has it, .* is packer-[12] at 127\.0\.0\.1", " ".join(row.inner_text().split()))
    assert re.search(r"packing on orders: slot [0-9,]+ of \S+ \(packer-[12] at", at.reads())


def failures_of_yesterday_again(at: Operator) -> None:
    # the subscription's row: what needs attention has one before it
    at.click(at.of("booking").get_by_role("link", name=re.compile(r"^\d+$")).first)
    page = at.page
    page.get_by_label("Text in value, key or headers").fill("adyen")
    page.get_by_label("Died since").fill("yesterday")
    page.get_by_label("Died before").fill("today")
    page.get_by_label("Failed fewer times than").fill("3")
    at.click(page.get_by_role("button", name="Replay what matches…"))
    assert f"{AGAIN} letters would be replayed" in at.reads()
    assert "--failed-below=3" in at.reads()
    at.click(page.get_by_role("button", name=f"Replay {AGAIN} letters"))
    until(lambda: "done" in page.locator(".facts").inner_text(), "the end of the job")
    letters = at.gateway.admin(
        *(
            "--output",
            "json",
            "dead-letters",
            "list",
            "payments",
            "-s",
            "booking",
            "--state",
            "any",
            "-n",
            "1000",
        )
    )
    sent = [each for each in json.loads(letters)["letters"] if each["state"] == "replayed"]
    assert len(sent) == AGAIN
    assert {(each["failed"], json.loads(each["value"])["provider"]) for each in sent} == {(1, "adyen")}
    today = [each for each in json.loads(letters)["letters"] if each["origin"]["offset"] >= 0]
    assert {each["state"] for each in today} == {"open"}


CHARTS = (r"Oldest open message\s+now\s+[0-9]", r"Open messages\s+now\s+[0-9,]+")


def group_that_is_behind(at: Operator) -> None:
    first = at.page.get_by_role("region", name="Subscriptions, by age").get_by_role("row").nth(1)
    assert re.search(r"\b[23] h\b", first.inner_text()), first.inner_text()
    at.click(first.get_by_role("link", name="accounting"))

    def measured() -> bool:
        over = at.page.get_by_role("region", name="Over time")
        # each measurement is of ten seconds, and the first of them may have come before the group had read
        if all(re.search(what, over.inner_text()) for what in CHARTS):
            return True
        at.page.reload()
        return False

    until(measured, "a measurement of what is open, and for how long")
    assert "accounting-1" in at.page.get_by_role("region", name="Consumers").inner_text()


def transaction_that_holds_readers_up(at: Operator) -> None:
    at.click(at.page.get_by_role("link", name="Open transactions"))
    said = " ".join(at.row("ledger-writer").inner_text().split())
    assert re.search(r"ledger-writer open [0-9.]+ (s|min)", said)
    assert re.search(r"payments [01] readers wait at [01]:\d+", said)


def how_long_messages_are_kept(at: Operator) -> None:
    at.find("orders")
    for policy, length, level in (
        ("message-ttl", "3 d", "topic"),
        ("retentionTimeInMinutes", "7 d", "namespace"),
    ):
        said = " ".join(at.row(policy).first.inner_text().split())
        assert length in said
        assert f" {level} " in said


def reminders_that_are_due(at: Operator) -> None:
    at.click(at.page.get_by_role("link", name="mailing"))
    at.click(at.page.get_by_role("link", name="When delayed ones are due"))
    at.click(at.page.get_by_role("link", name="One hour"))
    rows = at.page.locator("main").get_by_role("row")
    counts = [
        int(rows.nth(number).get_by_role("cell").nth(2).inner_text()) for number in range(1, rows.count())
    ]
    assert sum(counts) == REMINDERS
    assert "the next at" in at.reads()


def who_cleared_a_backlog(at: Operator) -> None:
    at.click(at.page.get_by_role("navigation", name="Main").get_by_role("link", name="Audit"))
    said = at.row("cleared a backlog").inner_text()
    assert "invoices/subscription/billing" in said
    assert "127.0.0.1" in said
    assert re.search(r"\d\d:\d\d:\d\d", said)


QUESTIONS: dict[str, Callable[[Operator], None]] = {
    "Why does order 880026 not arrive?": order_that_does_not_arrive,
    "Who holds customer-248?": who_holds_a_customer,
    "Which group is furthest behind, does it get worse, and who are its members?": group_that_is_behind,
    "Which open transaction holds up readers of `payments`, since when, and whose is it?": (
        transaction_that_holds_readers_up
    ),
    "How long are messages of `orders` kept, and who says so?": how_long_messages_are_kept,
    "How many reminders are due in the next hour, and when is the next?": reminders_that_are_due,
    "Who cleared the backlog of `billing`, and when?": who_cleared_a_backlog,
    "Send yesterday's adyen failures again, but not those that failed three times.": failures_of_yesterday_again,
}
"""What changes something comes last."""


def test_eight_questions_take_three_clicks_each_at_most(operator: Operator) -> None:
    took = {}
    for question, answer in QUESTIONS.items():
        operator.begin()
        answer(operator)
        took[question] = operator.clicks
        operator.watched.check()
    assert max(took.values()) <= MOST, took
    told = re.findall(r"^\| ([^|]+) \| .* \| (\d) \|$", DOC.read_text(), re.M)
    assert {question: int(clicks) for question, clicks in told} == took, "docs/CONSOLE.md says other numbers"


def test_the_picture_of_the_readme_is_made_of_a_live_gateway(operator: Operator, tmp_path: Path) -> None:
    picture = tmp_path / "console.png"
    shoot(operator.page, operator.gateway.admin_url, picture)
    assert size_of(picture) == (1280, 900)
    for group in ("accounting", "packing", "booking", "shipping", "mailing", "loyalty"):
        assert operator.page.get_by_role("link", name=group, exact=True).first.is_visible()
    attention = operator.page.get_by_role("region", name="Needs attention").inner_text()
    assert "loyalty on orders" in attention
    assert "packing on orders" in attention
