"""The console in a real browser, over a gateway with real members: what hinders people, what is loaded, what runs."""

from __future__ import annotations

import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from playwright.sync_api import ViewportSize

from compat.peers.magnetar import MagnetarPeer
from tests.integration.console.conftest import HOSTILE, House, Watched
from tests.integration.sharing import PATIENCE, acknowledge, make_group, make_topic, member, send, some

pytestmark = pytest.mark.integration

Watch = Callable[..., Watched]

WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
WAYS: dict[str, tuple[Literal["light", "dark"], ViewportSize]] = {
    "light": ("light", WIDE),
    "dark": ("dark", WIDE),
    "dark phone": ("dark", NARROW),
    "phone": ("light", NARROW),
}
NAMES = (
    "overview", "attention", "topics", "new topic", "subscriptions", "topic", "key shared", "shared",
    "consumer group", "lanes", "open messages", "due", "act", "message", "dead message", "hostile message",
    "no message", "dead everywhere", "dead letters", "letters in groups", "letter", "hostile letter", "replay",
    "replay to one", "discard", "jobs", "job", "transactions", "gateway", "audit", "find", "found", "hostile found",
    "clear", "reset", "reset preview", "delete", "looks", "login", "nowhere",
)  # fmt: skip


def test_all_pages_are_looked_at(house: House) -> None:
    assert set(NAMES) == set(house.pages)


def test_no_page_hinders_anybody(house: House, watch: Watch) -> None:
    """axe has no violation in any way to look at it, nothing comes from elsewhere, and no policy is violated."""
    watched = watch()
    for name in NAMES:
        page = watched.to(house.pages[name])
        # a page that says why there is none, and one of what is refused while consumers are connected
        assert (page.get_by_role("alert").count() == 1) == (name in ("nowhere", "delete")), name
        for way, (scheme, size) in WAYS.items():
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            assert page.evaluate("[matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]") == [
                scheme == "dark",
                size["width"],
            ]
            # colours that change with the scheme have come to rest
            page.evaluate("Promise.all(document.getAnimations().map(each => each.finished)).then(() => null)")
            assert watched.axe() == [], (name, way)
        watched.check()


def test_the_theme_that_was_chosen_hinders_nobody_either(house: House, watch: Watch) -> None:
    watched = watch(color_scheme="light")
    page = watched.to("/ui/view")
    page.get_by_label("Colours", exact=True).select_option("dark")
    page.get_by_role("button", name="Keep").click()
    for name in ("overview", "key shared", "message"):
        watched.to(house.pages[name])
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        assert watched.axe() == [], name
    watched.check()


def test_no_page_is_wider_than_a_small_screen(house: House, watch: Watch) -> None:
    watched = watch(viewport={"width": 320, "height": 640})
    for name in NAMES:
        page = watched.to(house.pages[name])
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 320, name


def test_what_others_wrote_is_text(house: House, watch: Watch) -> None:
    """In keys, values, headers and their names, in names of groups, of clients, and of a topic that is asked for."""
    watched = watch()
    page = watched.to(house.pages["hostile message"])
    assert HOSTILE in page.locator("pre.body").inner_text()
    assert HOSTILE in page.locator(".facts").inner_text()
    assert page.get_by_text(HOSTILE, exact=True).count() >= 3
    watched.check()
    page.get_by_role("link", name=HOSTILE).click()
    assert page.locator("h1").inner_text() == HOSTILE
    watched.check()
    for path in ("json", "text", "hex"):
        watched.to(f"/ui/m/public/default/hostile/0/1?as={path}")
        watched.check()
    page = watched.to(house.pages["key shared"])
    assert HOSTILE in page.locator("table").filter(has_text="Client").inner_text()
    for path in ("/ui/t/public/default/", "/ui/s/public/default/orders/", "/ui/find?q=", "/ui/"):
        page = watched.to(path + quote(HOSTILE, safe=""))
        watched.check()
        assert "window.harmed" in page.locator("body").inner_text() or path == "/ui/"


def test_a_value_is_saved_and_never_opened(house: House, watch: Watch) -> None:
    watched = watch()
    page = watched.to(house.pages["hostile message"])
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert Path(saved.value.path()).read_bytes() == HOSTILE.encode()
    watched.check()


def test_from_what_needs_attention_to_why_a_message_does_not_arrive(house: House, watch: Watch) -> None:
    watched = watch()
    page = watched.to("/ui/")
    # it is told when a message has waited for a minute
    told_of = page.get_by_role("region", name="Needs attention").get_by_role("link", name="shipping")
    end = time.monotonic() + 3 * PATIENCE
    while not told_of.count():
        assert time.monotonic() < end, "gave up waiting for a finding"
        page.reload()
    told_of.click()
    assert "no consumer is connected" in page.locator(".say").inner_text()
    page.get_by_label("Partition", exact=True).fill("0")
    page.get_by_label("Offset", exact=True).fill("3")
    page.get_by_role("button", name="Explain").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shipping"))
    page.get_by_role("link", name="shipping").wait_for()
    said = row.get_by_role("cell").nth(2).inner_text()
    told = house.gateway.admin("topics", "explain", "orders-partition-0", "-s", "shipping", "--offset", "3")
    assert told.splitlines()[0] == said
    assert page.url.partition("#")[0] in told.split()
    page.go_back()
    watched.check()


def test_a_topic_is_found_by_its_name(house: House, watch: Watch) -> None:
    page = watch().to("/ui/")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/t/public/default/orders")
    page.get_by_label("Go to a topic").fill("orders:1:5")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/m/public/default/orders/1/5")


def test_keys_walk_through_pages_and_can_be_switched_off(house: House, watch: Watch) -> None:
    watched = watch()
    page = watched.to("/ui/topics")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") == "A"
    for key, at in (("/", "q"), ("Escape", "")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == at
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/ui/audit")
    watched.to("/ui/view?back=%2Fui%2Ftopics")
    page.get_by_label("Keys").select_option("off")
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**/ui/topics")
    page.keyboard.press("j")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.tagName") == "BODY"


def test_times_are_in_the_zone_of_the_reader(house: House, watch: Watch) -> None:
    page = watch().to(house.failed)
    published = page.locator(".facts time")
    moment, shown = published.get_attribute("datetime"), published.get_attribute("title")
    assert moment is not None
    assert shown is not None
    assert shown.endswith(" UTC")
    page.get_by_role("link", name="UTC", exact=True).click()
    page.get_by_label("Time zone").fill("Asia/Kathmandu")
    page.get_by_role("button", name="Keep").click()
    assert published.get_attribute("datetime") == moment
    there = published.get_attribute("title")
    assert there is not None
    assert there.endswith(" Asia/Kathmandu")
    minutes = [int(text[14:16]) for text in (shown, there)]
    assert (minutes[1] - minutes[0]) % 60 == 45


def test_a_time_is_typed_in_the_zone_of_the_reader(house: House, watch: Watch) -> None:
    """What is reset to a time in Kathmandu delivers what was published from then on, and each page shows that zone."""
    at = house.gateway.bootstrap
    topic = make_topic(at, "zoned")
    group = make_group(at, "zoning")
    noon = 1_767_960_000_000
    producer = Producer({"bootstrap.servers": at})
    for number in range(3):
        producer.produce(topic, b"%d" % number, timestamp=noon + number * 3_600_000)
        assert producer.flush(60) == 0, "each in a batch of its own"
    worker = member(at, group, topic)
    given: list[bytes | None] = []
    while len(given) < 3:
        found = some(worker)
        acknowledge(worker, found)
        given += [each.value() for each in found]
    worker.close()
    watched = watch()
    page = watched.to("/ui/view?back=%2Fui%2F")
    page.get_by_label("Time zone").fill("Asia/Kathmandu")
    page.get_by_role("button", name="Keep").click()
    watched.to(f"/ui/s/public/default/{topic}/{group}/reset")
    page.get_by_label("To which time, in Asia/Kathmandu").fill("2026-01-09 18:45")
    page.get_by_role("button", name="What would happen?").click()
    preview = page.locator("main").inner_text()
    assert "2 messages of zoning" in preview
    assert "2 were settled already and come again" in preview
    command = page.locator(".cli code").inner_text()
    assert command.endswith("--time 2026-01-09T18:45:00+05:45")
    ((code, told),) = house.run([[*shlex.split(command)[1:], "--dry-run"]])
    assert (code, told.splitlines()[0] in preview) == (0, True), told
    page.get_by_label("Type the name").fill(group)
    page.get_by_role("button", name="Reset, and deliver 2").click()
    assert page.get_by_role("status").first.inner_text() == "2 messages are to be delivered."
    again = member(at, group, topic)
    assert [each.value() for each in some(again)] == [b"1", b"2"]
    again.close()
    for name in ("overview", "message", "audit", "dead letters", "due", "job"):
        times = watched.to(house.pages[name]).locator("time")
        for shown in times.all():
            assert (shown.get_attribute("title") or "").endswith(" Asia/Kathmandu"), name
        assert times.count(), name
    watched.check()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_backlog_is_cleared_behind_a_page_that_asks(scripts: bool, house: House, watch: Watch) -> None:
    at = house.gateway.bootstrap
    name = f"cleared-{scripts}".lower()
    make_topic(at, name, 2)
    make_group(at, "clearing")
    worker = member(at, "clearing", name)
    send(at, name, [(None, b"x") for _ in range(20)])
    some(worker)
    worker.close()
    watched = watch(java_script_enabled=scripts)
    page = watched.to(f"/ui/s/public/default/{name}/clearing")
    page.get_by_role("link", name="Clear backlog…").click()
    assert "20 messages would be settled" in page.locator("main").inner_text()
    confirm = page.get_by_label("Type the name")
    confirm.fill("clear")
    page.get_by_role("button", name="Settle 20 messages").click()
    assert "Type the name as it stands there" in page.get_by_role("alert").inner_text()
    confirm.fill("clearing")
    page.get_by_role("button", name="Settle 20 messages").click()
    assert page.get_by_role("status").first.inner_text() == "20 messages were settled."
    stats = house.gateway.admin("topics", "list", "public/default", "--lag")
    (row,) = [line for line in stats.splitlines() if name in line]
    assert " 0" in row
    page = watched.to("/ui/audit?kind=change")
    assert (
        f"persistent/public/default/{name}/subscription/clearing/skip_all"
        in page.locator("main").inner_text()
    )


def test_a_topic_is_made_and_deleted(house: House, watch: Watch) -> None:
    watched = watch()
    page = watched.to("/ui/topics")
    page.get_by_label("Name", exact=True).fill("shortlived")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_role("button", name="What would it be?").click()
    assert watched.axe() == []
    page.get_by_role("button", name="Make the topic").click()
    page.wait_for_url("**/ui/t/public/default/shortlived")
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label("Type the name").fill("shortlived")
    page.get_by_role("button", name="Delete 0 messages").click()
    page.wait_for_url("**/ui/topics?did=*")
    assert "The topic shortlived was deleted." in page.locator("main").inner_text()
    assert not page.get_by_role("link", name="shortlived").count()
    watched.check()


def test_each_page_shows_a_command_that_does_the_same(house: House, watch: Watch) -> None:
    """They are lines that magnetar-admin takes."""
    watched = watch()
    lines: set[str] = set()
    for name in NAMES:
        shown = watched.to(house.pages[name]).locator(".cli code").all_inner_texts()
        assert shown or name in ("looks", "login", "nowhere"), name
        lines |= set(shown)
    changing = (
        "act",
        "replay",
        "edit",
        "discard",
        "stop",
        "clear-backlog",
        "reset-cursor",
        "delete-partitioned-topic",
        "unsubscribe",
        "create-partitioned-topic",
    )
    tried: list[list[str]] = []
    for line in sorted(lines):
        words = shlex.split(line)
        assert words[0] == "magnetar-admin"
        if words[2] in changing:
            tried.append([*words[1:3], "--help"])
        elif "99999" not in line:
            tried.append(words[1:])
    for words, (code, said) in zip(tried, house.run(tried), strict=True):
        assert code == 0, (words, said)


def test_a_console_that_reads_has_no_button_and_one_that_is_off_is_not_there(
    own_gateway: Callable[..., MagnetarPeer], watch: Watch, tmp_path: Path
) -> None:
    gateway = own_gateway("--set=admin.console=read")
    assert gateway.lines[-1] == f"console on {gateway.admin_url}/ui/"
    make_topic(gateway.bootstrap, "orders", 1)
    watched = watch(home=gateway.admin_url)
    page = watched.to("/ui/t/public/default/orders")
    assert page.locator("main form[method=post], main button:not(.copy)").count() == 0
    assert page.get_by_role("link", name="Delete…").count() == 0
    # a form that somebody made all the same
    page.evaluate(
        """() => { const form = document.forms[1]; form.action = '/ui/t/public/default/orders/delete';
        form.innerHTML += '<input name=confirm value=orders>'; form.submit(); }"""
    )
    page.get_by_role("alert").wait_for()
    assert "This console changes nothing" in page.get_by_role("alert").inner_text()
    assert gateway.admin("topics", "list-partitioned-topics", "public/default").split() == [
        "persistent://public/default/orders"
    ]
    gateway.stop()
    gateway = own_gateway("--set=admin.console=off", directory=tmp_path / "off")
    assert not any(line.startswith("console") for line in gateway.lines)
    for path in ("/ui/", "/ui/topics", "/ui/static/x/console.js", "/"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(gateway.admin_url + path)
        assert refused.value.code == 404
