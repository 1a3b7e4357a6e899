"""From what needs attention to the record that is stuck, and out of it, in a real browser with real members."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.integration.console.conftest import HOSTILE, House, Watched
from tests.integration.sharing import make_group, make_topic, member, poll, send, some

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Watch = Callable[..., Watched]


def test_from_the_cause_to_the_stuck_record_and_the_sentence_of_the_command(
    house: House, watch: Watch
) -> None:
    at = house.gateway.bootstrap
    topic = make_topic(at, "stuck-key")
    group = make_group(at, "stuck", pulsar__subscription__type="key_shared")
    send(at, topic, [(HOSTILE.encode(), b"%d" % number) for number in range(4)])
    worker = member(at, group, topic)
    assert [each.value() for each in some(worker)] == [b"0"]
    watched = watch()
    page = watched.to(f"/ui/subscriptions?q={topic}")
    page.get_by_role("link", name=group).first.click()
    causes = page.get_by_role("region", name="What holds messages up")
    row = causes.get_by_role("row").filter(has=page.get_by_role("link", name=HOSTILE))
    cells = row.get_by_role("cell")
    assert cells.nth(2).inner_text() == "3"
    told = house.gateway.admin("topics", "explain", topic, "-s", group, "--offset", "0")
    # both make a time of day of what is left of the lock, which may differ by a millisecond
    said = cells.nth(1).inner_text().partition(", until")[0]
    assert said.endswith("has it")
    assert said in told.splitlines()[0]
    assert watched.axe() == []
    cells.nth(2).get_by_role("link").click()
    assert page.get_by_role("row").count() == 4, "the head and three that wait"
    page.go_back()
    row.get_by_role("link", name=HOSTILE).click()
    assert page.locator("h1").inner_text() == "Message 0:0"
    watched.check()
    worker.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_what_is_taken_back_is_given_to_the_next_member(scripts: bool, house: House, watch: Watch) -> None:
    at = house.gateway.bootstrap
    topic = make_topic(at, f"taken-{scripts}".lower())
    group = make_group(at, f"taking-{scripts}".lower(), share__record__lock__duration__ms=60_000)
    send(at, topic, [(None, b"1")])
    stuck = member(at, group, topic)
    assert [each.value() for each in some(stuck)] == [b"1"]
    other = member(at, group, topic)
    assert poll(other, 1.0) == []
    page = watch(java_script_enabled=scripts).to(f"/ui/s/public/default/{topic}/{group}")
    page.get_by_role("link", name="Take back…").click()
    assert "1 message of" in page.locator("main").inner_text()
    assert poll(other) == [], "a preview does nothing"
    page.get_by_role("button", name="Take 1 message back").click()
    assert page.get_by_role("status").first.inner_text() == "1 message taken back, for whoever is next."
    stuck.close()
    assert [each.value() for each in some(other)] == [b"1"]
    other.close()


def test_all_that_match_keeps_to_the_filter_and_a_plan_is_refused_after_a_change(
    house: House, watch: Watch
) -> None:
    at = house.gateway.bootstrap
    topic = make_topic(at, "matching")
    group = make_group(at, "matchers", share__record__lock__duration__ms=60_000)
    send(at, topic, [(b"keep", b"k")] * 5 + [(HOSTILE.encode(), b"h")] * 70)
    worker = member(at, group, topic)
    some(worker)
    worker.close()
    watched = watch()
    where = f"/ui/s/public/default/{topic}/{group}"
    page = watched.to(where + "/messages")
    page.get_by_label("Key", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="Look").click()
    assert page.get_by_role("row").count() == 51, "the head and 50 of 70"
    page.get_by_label("all that match the filter").check()
    page.get_by_role("button", name="Settle…").click()
    assert "70 messages of" in page.locator("main").inner_text()
    assert watched.axe() == []
    # somebody else settles some of them meanwhile
    house.gateway.admin("subscriptions", "act", "settle", topic, "-s", group, "--text", "h", "--yes")
    send(at, topic, [(HOSTILE.encode(), b"late")] * 3)
    page.get_by_label("Type the name").fill(group)
    page.get_by_role("button", name="Settle 70 messages").click()
    assert "Nothing was done" in page.get_by_role("alert").inner_text()
    page.get_by_label("Type the name").fill(group)
    page.get_by_role("button", name="Settle 3 messages").click()
    assert page.get_by_role("status").first.inner_text() == "3 messages settled."
    page = watched.to(f"{where}/messages?key={quote(HOSTILE)}")
    assert page.get_by_role("row").count() == 0
    page = watched.to(where + "/messages?key=keep")
    assert page.get_by_role("row").count() == 6
    watched.check()


def test_only_what_is_ticked(house: House, watch: Watch) -> None:
    at = house.gateway.bootstrap
    topic = make_topic(at, "ticking")
    group = make_group(at, "tickers")
    send(at, topic, [(None, b"%d" % number) for number in range(4)])
    worker = member(at, group, topic)
    some(worker)
    worker.close()
    page = watch().to(f"/ui/s/public/default/{topic}/{group}/messages")
    for offset in (1, 3):
        page.get_by_label(f"Choose 0:{offset}").check()
    page.get_by_role("button", name="Settle…").click()
    page.get_by_label("Type the name").fill(group)
    page.get_by_role("button", name="Settle 2 messages").click()
    again = member(at, group, topic)
    assert [each.value() for each in some(again)] == [b"0", b"2"]
    again.close()
