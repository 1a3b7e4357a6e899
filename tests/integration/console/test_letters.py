"""Dead letters in a real browser: chosen, edited, sent again while the gateway is killed; a loop that ends; a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from compat.peers.magnetar import MagnetarPeer
from tests.integration.console.conftest import Watched
from tests.integration.sharing import REJECT, acknowledge, make_topic, member, poll, until
from tests.integration.test_replaying import Q, call, counts, die, sent, stored

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

Watch = Callable[..., Watched]
Own = Callable[..., MagnetarPeer]

G = "/ui/s/public/default/t/g"


def confirmed(page: Page, verb: str = "Replay") -> str:
    """Press the button of the preview; the path of the job's page."""
    page.get_by_role("button", name=verb).filter(has_text="letter").click()
    page.wait_for_url("**/ui/jobs/*")
    return page.url.partition("/ui/")[2]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_each_of_a_thousand_letters_is_sent_once_through_sigkill(
    scripts: bool, own_gateway: Own, watch: Watch
) -> None:
    """By a filter and with an edit; the others not at all. The plan of a killed gateway is none: it is looked again."""
    gateway = own_gateway()
    meant = [b"wanted %d" % n for n in range(1000)]
    others = [b"other %d" % n for n in range(200)]
    die(gateway, [each for n in range(200) for each in (*meant[n * 5 : n * 5 + 5], others[n])], 3)
    edited = call(gateway, "GET", f"{Q}/deadletters?text=wanted%20777&limit=1")["letters"][0]["id"]
    watched = watch(home=gateway.admin_url, java_script_enabled=scripts)
    watched.to(f"{G}/dead")
    for least in (100, 600, 1000):
        # the browser has had its forms from a gateway that is gone
        page = look(watched, edited)
        if least == 100:
            main = page.locator("main").inner_text()
            assert "1,000 letters would be replayed" in main
            assert "left out by the loop guard" in main
        page.get_by_label("Letters a second").fill("100000" if least == 1000 else "1000")
        page.get_by_role("button", name="Look again").click()
        job = confirmed(page)
        until(lambda least=least: sent(gateway) >= least, f"{least} that are sent")  # type: ignore[misc]
        if least == 1000:
            break
        gateway.kill()
        gateway.start()
        watched.home = gateway.admin_url
        assert sent(gateway) < 1000, "it was killed amid the replay"
        assert "interrupted" in watched.to("/ui/" + job).locator(".facts").inner_text()
    number = job.rpartition("/")[2]
    until(lambda: call(gateway, "GET", f"/admin/v2/magnetar/jobs/{number}")["state"] == "done", "its end")
    values = Counter(each.value() for each in stored(gateway.bootstrap, "t-g-RETRY", 3))
    assert values == Counter([each for each in meant if each != b"wanted 777"] + [b"fixed <b>"])
    assert counts(gateway) == {"open": 200, "replayed": 999, "edited": 1, "discarded": 0}
    assert "200 open" in " ".join(watched.to(f"{G}/dead").locator(".facts").inner_text().split())


def look(watched: Watched, edited: str) -> Page:
    """The preview of all that match, with the edit as long as that letter is open; else of all that match."""
    page = watched.to(f"{G}/dead")
    page.get_by_label("Text in value, key or headers").fill("wanted")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**/dead?*text=wanted*")
    page = watched.to(f"{G}/letter?id={edited}&text=wanted")
    if page.get_by_label("New value").count():
        page.get_by_label("New value").fill("fixed <b>")
        page.get_by_role("button", name="Replay it and all that match the filter…").click()
        assert "of these edited\n1" in page.locator("main").inner_text()
        return page
    page = watched.to(f"{G}/dead?text=wanted")
    page.get_by_role("button", name="Replay all that match…").click()
    return page


def test_what_was_typed_survives_a_wrong_field_and_the_way_back(own_gateway: Own, watch: Watch) -> None:
    """Whatever is wrong, the page with the form is shown again; and no step back asks to send a form once more."""
    gateway = own_gateway()
    die(gateway, [b'{"n": 1}', b'{"n": 2}'], 1)
    watched = watch(home=gateway.admin_url)
    page = watched.to(f"{G}/dead")
    page.get_by_label("Died since").fill("the day before")
    page.get_by_label("Text in value, key or headers").fill("n")
    page.get_by_role("button", name="Show", exact=True).click()
    assert "is no time: write" in page.get_by_role("alert").inner_text()
    assert watched.axe() == []
    assert page.get_by_label("Died since").input_value() == "the day before"
    page.get_by_label("Died since").fill("2h")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("link", name="0:1", exact=True).first.click()
    value = page.get_by_label("New value")
    value.fill('{"n": 22}')
    page.get_by_role("button", name="Replay this one…").click()
    main = page.locator("main")
    assert "of these edited\n1" in main.inner_text()
    page.get_by_label("Letters a second").fill("many")
    page.get_by_role("radio", name="another topic").check()
    page.get_by_role("button", name="Look again").click()
    assert "not 'many'" in page.get_by_role("alert").inner_text()
    assert watched.axe() == []
    assert page.get_by_label("Letters a second").input_value() == "many"
    assert page.get_by_role("radio", name="another topic").is_checked()
    assert '{"n": 22}' in main.inner_text()
    page.go_back()
    assert "of these edited\n1" in main.inner_text()
    page.go_back()
    assert value.input_value() == '{"n": 22}'
    page.go_forward()
    page.get_by_role("link", name="Cancel").click()
    assert page.url.partition("?")[0].endswith(f"{G}/letter")
    assert value.input_value() == '{"n": 22}'
    page.get_by_role("button", name="Replay this one…").click()
    confirmed(page)
    until(lambda: sent(gateway) == 1, "its end")
    assert [each.value() for each in stored(gateway.bootstrap, "t-g-RETRY", 1)] == [b'{"n": 22}']
    assert counts(gateway) == {"open": 1, "replayed": 0, "edited": 1, "discarded": 0}
    watched.check()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_what_is_typed_beside_a_preview_goes_with_its_button(
    scripts: bool, own_gateway: Own, watch: Watch
) -> None:
    """Nobody has to look again first: the button does it, and does nothing else."""
    gateway = own_gateway()
    die(gateway, [b"one", b"two"], 1)
    make_topic(gateway.bootstrap, "elsewhere", 1)
    watched = watch(home=gateway.admin_url, java_script_enabled=scripts)
    page = watched.to(f"{G}/replay?m.0:1=1")
    page.get_by_role("radio", name="another topic").check()
    page.get_by_label("Another topic", exact=True).fill("elsewhere")
    page.get_by_label("Letters a second").fill("1")
    page.get_by_role("button", name="Replay 1 letter").click()
    assert "Nothing was done" in page.get_by_role("alert").inner_text()
    assert not scripts or watched.axe() == []
    assert counts(gateway)["open"] == 2
    main = page.locator("main").inner_text()
    assert "They would go to" in main
    assert page.get_by_role("radio", name="another topic").is_checked()
    confirmed(page)
    until(lambda: counts(gateway)["open"] == 1, "its end")
    assert [each.value() for each in stored(gateway.bootstrap, "elsewhere", 1)] == [b"two"]
    # Enter in a field looks again, and sends nothing
    page = watched.to(f"{G}/replay?all=1")
    page.get_by_label("Letters a second").fill("7")
    page.get_by_label("Letters a second").press("Enter")
    page.wait_for_url("**/replay?*rate=7*")
    assert "token" not in page.url
    assert counts(gateway)["open"] == 1
    watched.check()


def test_a_loop_of_letters_ends_and_the_page_says_so(own_gateway: Own, watch: Watch) -> None:
    gateway = own_gateway()
    die(gateway, [b"poison"], 1)
    watched = watch(home=gateway.admin_url)
    consumer = member(gateway.bootstrap, "g", "t", "t-g-RETRY")
    for turn in range(1, 4):
        page = watched.to(f"{G}/dead")
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Replay those ticked…").click()
        confirmed(page)

        def rejected(turn: int = turn) -> bool:
            found = poll(consumer)
            if found:
                acknowledge(consumer, found, REJECT)
            now = counts(gateway)
            return (now["open"], now["replayed"]) == (1, turn)

        until(rejected, "its next death")
    page = watched.to(f"{G}/dead")
    assert "replayed 3 ×" in page.locator("main").inner_text()
    page.get_by_role("button", name="Replay all that match…").click()
    main = page.locator("main").inner_text()
    assert "0 letters would be replayed" in main
    assert "There is nothing to do" in main
    page.get_by_label("Leave out what was replayed so often").fill("4")
    page.get_by_role("button", name="Look again").click()
    assert "1 letter would be replayed" in page.locator("main").inner_text()
    consumer.close()
    watched.check()


def test_a_job_is_seen_to_go_on_and_is_stopped(own_gateway: Own, watch: Watch) -> None:
    """Its page is made anew by itself; what it has sent stays sent."""
    gateway = own_gateway()
    die(gateway, [b"m%d" % n for n in range(100)], 1)
    watched = watch(home=gateway.admin_url)
    page = watched.to(f"{G}/replay?all=1&rate=5")
    confirmed(page)
    heading = page.locator("#pr")
    before = heading.inner_text()
    page.wait_for_function("before => document.querySelector('#pr').innerText !== before", arg=before)
    page.get_by_role("navigation", name="Main").get_by_text("1 running").wait_for(state="attached")
    assert watched.axe() == []
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped by").wait_for()
    done = sent(gateway)
    assert 0 < done < 100
    assert len(stored(gateway.bootstrap, "t-g-RETRY", 1)) == done
    assert counts(gateway)["open"] == 100 - done
    watched.check()


def test_a_job_that_ended_with_its_gateway_is_shown_by_the_next(own_gateway: Own, watch: Watch) -> None:
    """By the page that was open all the while."""
    gateway = own_gateway()
    die(gateway, [b"m%d" % n for n in range(100)], 1)
    page = watch(home=gateway.admin_url).to(f"{G}/replay?all=1&rate=5")
    confirmed(page)
    page.wait_for_function("parseInt(document.querySelector('#pr').innerText) > 0")
    assert gateway.stop() == 0
    page.locator("#stale").filter(has_text="does not answer").wait_for()
    gateway.start()
    page.locator(".facts").get_by_text("interrupted").wait_for()
    assert 0 < int(page.locator("#pr").inner_text().split()[0]) < 100


def test_a_console_that_reads_sends_nothing(own_gateway: Own, watch: Watch, tmp_path: Path) -> None:
    gateway = own_gateway("--set=admin.console=read")
    die(gateway, [b"m0", b"m1"], 1)
    watched = watch(home=gateway.admin_url)
    for path in ("/dead", "/letter?id=0:0", "/replay?all=1", "/discard?all=1"):
        page = watched.to(G + path)
        assert page.locator("main form[method=post]").count() == 0, path
        assert watched.axe() == [], path
    # a form that somebody made all the same
    page.evaluate(
        """() => { const form = document.querySelector("form[action='/ui/view']");
        form.action = '/ui/s/public/default/t/g/discard';
        form.innerHTML += '<input name=all value=1><input name=plan value=x><input name=confirm value=g>';
        form.submit(); }"""
    )
    page.get_by_role("alert").wait_for()
    assert "This console changes nothing" in page.get_by_role("alert").inner_text()
    assert counts(gateway)["open"] == 2
    watched.check()
