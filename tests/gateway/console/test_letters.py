"""Dead letters on pages: shown, chosen, edited, sent again and discarded, behind pages that say first what happens."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

from gateway.console.typed import edited
from tests.gateway.admin.billing import ack, made, take
from tests.gateway.admin.secured import Secured
from tests.gateway.admin.test_empty_filters import bury
from tests.gateway.admin.test_replaying import RETRY, buried, dead, did, stored
from tests.gateway.console.browser import Browser, Seen, browse, browse_secured
from tests.gateway.console.test_console import log_in

HERE = "/ui/s/public/default/orders/billing"


def plan_of(page: Seen) -> dict[str, str]:
    """The fields of the form that confirms."""
    (form,) = [each for each in re.findall(r"<form.*?</form>", page.text, re.S) if 'name="plan"' in each]
    found = {}
    for each in re.findall(r"<input[^>]*>", form):
        said = {name: html.unescape(text) for name, text in re.findall(r'(\w+)="([^"]*)"', each)}
        if said.get("type") != "radio" or " checked" in each:
            found[said["name"]] = said.get("value", "")
    return found


async def ended(browser: Browser, answer: Seen) -> Seen:
    """The page of the job that a form began, when it is over."""
    assert answer.status == 303, answer.words
    assert answer.location.startswith("/ui/jobs/")
    await browser.admin.broker.redrive.wait(int(answer.location.rpartition("/")[2]), 20)
    page = await browser.get(answer.location)
    assert " done " in page.words
    return page


async def edits(browser: Browser, letter: str, value: str, **more: str) -> Seen:
    """The preview that the form of a letter leads to."""
    answer = await browser.post(HERE + "/replay", {"edit": letter, "value": value, "as": "text", **more})
    assert answer.status == 303, answer.words
    return await browser.get(answer.location)


def value_of(page: Seen, name: str) -> str:
    """What stands in a field."""
    (found,) = re.findall(rf'name="{name}"[^>]* value="([^"]*)"', page.text.partition("<main")[2])[:1]
    return html.unescape(found)


def test_they_are_listed_and_put_into_groups() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        page = await browser.get(HERE + "/dead")
        assert page.status == 200, page.words
        assert "3 open" in page.words
        assert re.findall(r'name="m\.([^"]+)"', page.text) == ["0:0", "0:1", "0:2"]
        assert page.text.count("REJECTED") >= 1
        assert "Rejected" in page.words
        alone = await browser.get(HERE + "/dead?text=m1")
        assert re.findall(r'name="m\.([^"]+)"', alone.text) == ["0:1"]
        assert "There are none that match" in (await browser.get(HERE + "/dead?reason=CORRUPT")).words
        assert "json:$.a" in (await browser.get(HERE + "/dead?by=json:$.a")).words
        assert (await browser.get(HERE + "/dead?state=nonsense")).status == 400
        wrong = await browser.get(HERE + "/dead?by=nonsense")
        assert "Letters are grouped by" in wrong.words, "the letters are shown all the same"
        assert 'name="m.0:0"' in wrong.text

    browse(test)


def test_a_group_that_no_link_can_mean_has_none() -> None:
    """With an empty field it would be a link to all letters."""

    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        await bury(browser.admin, b"k", b"")
        page = await browser.get(HERE + "/dead")
        assert "3 open" in page.words
        assert re.findall(r"/dead\?reason=(\w*)", page.text) == ["REJECTED"]

    browse(test)


def test_the_page_of_a_message_leads_to_its_letter_and_says_what_became_of_it() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 1)
        page = await browser.get("/ui/m/public/default/orders/0/0")
        assert f'<a href="{HERE}/letter?id=0:0">The letter</a>' in page.text
        assert (await browser.get(f"{HERE}/letter?id=0:0")).status == 200
        assert "replayed since" not in page.words
        await did(browser.admin, "replay")
        assert "It was replayed since" in (await browser.get("/ui/m/public/default/orders/0/0")).words

    browse(test)


def test_a_replay_is_a_page_first_and_keeps_to_the_filter() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 5)
        page = await browser.get(f"{HERE}/replay?{urlencode({'all': '1', 'text': 'm2'})}")
        assert page.status == 200, page.words
        assert "1 letter would be replayed" in page.words
        assert "RETRY" in page.words
        assert await stored(browser.admin, RETRY) == [], "nothing has changed yet"
        job = await ended(browser, await browser.post(HERE + "/replay", plan_of(page)))
        assert "1 of 1 letter" in job.words
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"m2"]
        page = await browser.get(HERE + "/dead")
        assert "4 open 1 replayed" in page.words
        assert "1 of 1" in (await browser.get("/ui/jobs")).words
        (entry,) = browser.admin.broker.audit.last(1)
        assert entry.target.endswith("replay"), "the dry run is no change, the replay is"

    browse(test)


def test_those_that_were_ticked_go_and_no_others() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 5)
        none = await browser.get(HERE + "/replay?text=m")
        assert none.status == 400
        assert "No letter was chosen" in none.words
        page = await browser.get(f"{HERE}/replay?{urlencode({'m.0:1': '1', 'm.0:3': '1'})}")
        await ended(browser, await browser.post(HERE + "/replay", plan_of(page)))
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"m1", b"m3"]

    browse(test)


def test_one_is_edited_and_goes_with_all_that_match() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 4)
        page = await browser.get(HERE + "/letter?id=0:2")
        assert page.status == 200, page.words
        assert ">\nm2</textarea>" in page.text
        seen = await edits(browser, "0:2", "fixed\r\n<b>", all="1")
        assert seen.status == 200, seen.words
        assert "of these edited 1" in seen.words
        assert "<b>" not in re.sub(r'<b class="[^"]*">', "", seen.text).replace("<b>magnetar</b>", "")
        await ended(browser, await browser.post(HERE + "/replay", plan_of(seen)))
        values = [each.value for each in await stored(browser.admin, RETRY)]
        assert values == [b"m0", b"m1", b"fixed\n<b>", b"m3"]
        assert "edited" in (await browser.get(HERE + "/letter?id=0:2")).words
        assert "Edit it before" not in (await browser.get(HERE + "/letter?id=0:2")).words
        for said, status in (("0:99", 404), ("x", 404), ("", 404)):
            assert (await browser.get(f"{HERE}/letter?id={said}")).status == status

    browse(test)


def test_one_is_edited_and_goes_alone() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        seen = await edits(browser, "0:1", "//4=", **{"as": "base64"})
        assert "1 letter would be replayed" in seen.words
        await ended(browser, await browser.post(HERE + "/replay", plan_of(seen)))
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"\xff\xfe"]
        for fields, status in (
            ({"value": "x", "as": "base64"}, 400),
            ({"value": "x" * 20_000}, 413),
            # beyond what other forms may have
            ({"value": "{€}" * 20_000}, 413),
        ):
            page = await browser.post(HERE + "/replay", {"edit": "0:2", **fields})
            assert page.status == status
            assert f">\n{fields['value']}</textarea>" in page.text, "what was typed is there"
            assert "That is no base64" in page.words or "magnetar-admin more" in page.words
        huge = await browser.post(HERE + "/replay", {"edit": "0:2", "value": "x" * 600_000})
        assert huge.status == 413
        assert "a step back shows what you typed" in huge.words
        assert "2 open" in (await browser.get(HERE + "/dead")).words

    browse(test)


def test_a_value_that_nobody_changed_is_no_edit() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        seen = await edits(browser, "0:1", "m1", text="m")
        assert "The value is as it was: nothing is edited." in seen.words
        assert "of these edited 0" in seen.words
        assert "dead-letters replay orders 0:1 -s billing" in seen.words
        (cancel,) = re.findall(r'href="([^"]*)">Cancel', seen.text)
        assert html.unescape(cancel) == f"{HERE}/letter?id=0%3A1&text=m"
        await ended(browser, await browser.post(HERE + "/replay", plan_of(seen)))
        assert "1 open 1 replayed" in (await browser.get(HERE + "/dead")).words

    browse(test)


def test_an_edit_that_breaks_json_is_told_before_it_is_sent() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await dead(admin, 1)
        await admin.produce("orders", 0, [b'{"n": 1}'])
        await take(admin, "c1")
        await ack(admin, "c1", 1, 1, kind=3)
        await buried(admin, 2)
        seen = await edits(browser, "0:1", '{"n": 1,\r\n "o" 2}')
        says = "The value of 0:1 was JSON, and edited it is none: line 2, column 6: Expecting ':' delimiter."
        assert says in seen.words
        assert 'name="plan"' in seen.text, "who wants that may"
        for letter, value in (("0:1", '{"n": 2}'), ("0:0", "{")):
            assert "was JSON" not in (await edits(browser, letter, value)).words

    browse(test)


def test_an_edit_does_not_come_with_a_link() -> None:
    """Somebody else may have made it, and its value with it."""

    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        query = urlencode({"all": "1", "e.0:1": edited("evil", "text")})
        page = await browser.get(f"{HERE}/replay?{query}")
        assert "of these edited 0" in page.words
        eve = Browser(browser.admin)
        await edits(eve, "0:1", "evil")
        hers = await eve.post(HERE + "/replay", {"edit": "0:1", "value": "evil", "all": "1"})
        seen = await browser.get(hers.location)
        assert seen.status == 409
        assert "The edit is not kept any more" in seen.words
        assert 'name="plan"' not in seen.text
        seen = await browser.get(hers.location.replace("all=1", "m.0%3A1=1"))
        assert (seen.status, ">\nm1</textarea>" in seen.text) == (409, True), "the letter, to edit it again"
        await ended(browser, await browser.post(HERE + "/replay", plan_of(page)))
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"m0", b"m1"]

    browse(test)


def test_what_has_changed_since_is_looked_at_again() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await dead(admin, 3)
        page = await browser.get(HERE + "/replay?all=1")
        await browser.admin.produce("orders", 0, [b"more"])
        await take(admin, "c1")
        await ack(admin, "c1", 3, 3, kind=3)
        await buried(admin, 4)
        again = await browser.post(HERE + "/replay", plan_of(page))
        assert again.status == 409
        assert "and 1 have come. Nothing was done; this is what would be done now." in again.words
        assert "4 letters would be replayed" in again.words
        assert await stored(admin, RETRY) == []
        await ended(browser, await browser.post(HERE + "/replay", plan_of(again)))
        assert len(await stored(admin, RETRY)) == 4
        # a plan is for once
        used = await browser.post(HERE + "/replay", plan_of(again))
        assert "There is no plan" in used.words
        assert len(await stored(admin, RETRY)) == 4

    browse(test)


def test_a_discard_wants_the_name() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        page = await browser.get(HERE + "/discard?all=1&rate=x&to=other")
        assert "2 letters would be discarded" in page.words
        wrong = await browser.post(HERE + "/discard", {**plan_of(page), "confirm": "bill"})
        assert wrong.status == 400
        assert "Type the name" in wrong.words
        assert "2 open" in (await browser.get(HERE + "/dead")).words
        await ended(browser, await browser.post(HERE + "/discard", {**plan_of(wrong), "confirm": "billing"}))
        assert "0 open 0 replayed 2 discarded" in (await browser.get(HERE + "/dead")).words

    browse(test)


def test_what_is_typed_after_the_preview_is_not_passed_over() -> None:
    """To press the button that replays, without looking again, replays nothing in another way than was shown."""

    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        await browser.admin.plain("elsewhere")
        page = await browser.get(f"{HERE}/replay?m.0:2=1")
        for typed in ({"to": "other", "other": "elsewhere"}, {"to": "topic"}, {"rate": "1"}, {"most": "7"}):
            seen = await browser.post(HERE + "/replay", {**plan_of(page), **typed})
            assert seen.status == 409, seen.words
            assert "was changed after the preview. Nothing was done" in seen.words
            sent = plan_of(seen)
            assert {name: sent[name] for name in typed} == typed, "as it was typed"
            assert "1 letter would be replayed" in seen.words
        wrong = await browser.post(HERE + "/replay", {**plan_of(page), "rate": "fast"})
        assert wrong.status == 400
        assert value_of(wrong, "rate") == "fast"
        assert "3 open" in (await browser.get(HERE + "/dead")).words
        seen = await browser.post(HERE + "/replay", {**plan_of(page), "to": "other", "other": "elsewhere"})
        assert "They would go to elsewhere" in seen.words
        # what is not sent to is no difference
        again = {**plan_of(seen), "rate": "0100"}
        await ended(browser, await browser.post(HERE + "/replay", again))
        assert [each.value for each in await stored(browser.admin, "elsewhere")] == [b"m2"]
        assert await stored(browser.admin, RETRY) == []

    browse(test)


def test_to_look_again_leads_to_a_preview_with_an_address() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        seen = await edits(browser, "0:1", "better", text="m")
        answer = await browser.post(HERE + "/replay", {**plan_of(seen), "rate": "1", "look": "1"})
        assert answer.status == 303
        assert "token" not in answer.location
        assert "plan" not in answer.location
        page = await browser.get(answer.location)
        assert value_of(page, "rate") == "1"
        assert "of these edited 1" in page.words
        await ended(browser, await browser.post(HERE + "/replay", plan_of(page)))
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"better"]

    browse(test)


def test_the_head_says_how_many_are_open_and_how_many_jobs_run() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        everywhere = await browser.get("/ui/dead")
        assert "billing on orders 3" in everywhere.words
        assert HERE + "/dead" in everywhere.text
        assert "Dead letters 3 open" in everywhere.words
        page = await browser.get(HERE + "/replay?all=1&rate=1")
        answer = await browser.post(HERE + "/replay", plan_of(page))
        job = await browser.get(answer.location)
        assert "running" in job.words
        assert "Jobs 1 running" in job.words
        assert " data-live" in job.text
        stopped = await browser.post(answer.location + "/stop", {})
        assert (stopped.status, stopped.location) == (303, answer.location)
        job = await browser.get(answer.location)
        assert "stopped by" in job.words
        assert " data-live" not in job.text
        assert "1 running" not in job.words
        assert (await browser.post(answer.location + "/stop", {})).status == 303
        assert (await browser.get("/ui/jobs/99")).status == 404
        assert (await browser.post(answer.location + "/begin", {})).status == 404

    browse(test)


def test_a_console_that_only_reads_shows_what_would_happen_and_does_nothing() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        for path in ("/dead", "/letter?id=0:0", "/replay?all=1", "/discard?all=1"):
            page = await browser.get(HERE + path)
            assert page.status == 200, page.words
            assert set(re.findall(r'method="post" action="([^"]*)"', page.text)) == {"/ui/view"}, path
        for verb in ("replay", "discard"):
            seen = await browser.post(f"{HERE}/{verb}", {"all": "1", "plan": "x", "confirm": "billing"})
            assert seen.status == 403
        assert (await browser.post("/ui/jobs/1/stop", {})).status == 403
        assert "2 open" in (await browser.get(HERE + "/dead")).words

    browse(test, "admin.console=read")


def test_a_wrong_field_of_a_preview_is_shown_with_what_was_typed() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        seen = await edits(browser, "0:1", "better", text="m")
        draft = value_of(seen, "draft")
        good = {"m.0:1": "1", "text": "m", "draft": draft}
        for wrong, status, says in (
            ({"rate": "0"}, 400, "Letters a second is a number from 1 to 100,000, not '0'."),
            ({"rate": "1000000"}, 400, "Letters a second"),
            ({"most": "often"}, 400, "not 'often'"),
            ({"to": "other", "other": " "}, 400, "Say which topic"),
            ({"to": "other", "other": "a b"}, 404, "There is no topic 'a b'"),
            ({"to": "other", "other": "orders-billing-DLQ"}, 412, "they would only be copied"),
        ):
            page = await browser.get(f"{HERE}/replay?{urlencode({**good, **wrong})}")
            assert page.status == status, (wrong, page.words)
            assert says in page.words
            for name, said in {**good, **wrong}.items():
                if name != "to":
                    assert value_of(page, re.escape(name)) == said.strip()
            assert "better" in page.words, "and the edit"
            assert 'name="plan"' not in page.text, "nothing can be confirmed"
        page = await browser.get(f"{HERE}/replay?{urlencode({**good, 'rate': '7'})}")
        assert "of these edited 1" in page.words
        await ended(browser, await browser.post(HERE + "/replay", plan_of(page)))
        assert [each.value for each in await stored(browser.admin, RETRY)] == [b"better"]

    browse(test)


def test_cancel_leads_back_to_the_letter_that_was_edited_or_to_the_list() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)

        async def cancelled(page: Seen) -> Seen:
            (link,) = re.findall(r'href="([^"]*)">Cancel', page.text)
            return await browser.get(html.unescape(link))

        page = await cancelled(await edits(browser, "0:1", "better <b>", text="m"))
        assert ">\nbetter &lt;b&gt;</textarea>" in page.text
        assert value_of(page, "text") == "m", "and the filter that it was found by"
        page = await cancelled(await edits(browser, "0:1", "better", text="m1", all="1"))
        assert re.findall(r'name="m\.([^"]+)"', page.text) == ["0:1"]
        page = await cancelled(await browser.get(HERE + "/replay?m.0:1=1&text=m"))
        assert "Dead letters of billing" in page.words

    browse(test)


def test_a_filter_that_makes_no_sense_is_shown_with_what_was_typed() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        for wrong, says in (
            ({"since": "then"}, "'then' is no time: write"),
            ({"until": "2026-13-01"}, "is no time"),
            ({"header": "x"}, "NAME=VALUE"),
            ({"failedBelow": "few"}, "failedBelow"),
        ):
            (name,) = wrong
            for path in ("dead", "replay", "discard"):
                page = await browser.get(f"{HERE}/{path}?{urlencode({'all': '1', 'text': 'm', **wrong})}")
                assert page.status == 400, (wrong, page.words)
                assert says in page.words
                assert value_of(page, name) == wrong[name]
                assert value_of(page, "text") == "m"
                assert "2 open" in page.words
                assert 'name="m.0:0"' not in page.text, "nothing was looked at"
        page = await browser.get(HERE + "/replay?text=m")
        assert page.status == 400
        assert "No letter was chosen" in page.words
        assert value_of(page, "text") == "m"
        lately = await browser.get(HERE + "/dead?since=2h")
        assert re.findall(r'name="m\.([^"]+)"', lately.text) == ["0:0", "0:1"]
        assert value_of(lately, "since") == "2h"
        (link,) = re.findall(r'href="([^"]*/letter\?id=0%3A1[^"]*since[^"]*)"', lately.text)
        assert "since=2h" not in link, "what is chosen there is what was seen"

    browse(test)


def test_targets_that_there_are_not() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin, "shared", 1)
        assert (await browser.get(f"{HERE}/replay?m.x=1")).status == 400
        for path in ("dead", "replay?all=1", "letter?id=0:0"):
            assert (await browser.get(f"/ui/s/public/default/orders/nobody/{path}")).status == 404
        page = await browser.get(HERE + "/replay?all=1")
        assert "There is nothing to do" in page.words
        assert 'name="plan"' not in page.text

    browse(test)


def test_each_sees_and_sends_its_own() -> None:
    async def test(browser: Browser, at: Secured) -> None:
        here = "/ui/s/shop/eu/orders/billing"
        paths = ("/dead", "/letter?id=0:0", "/replay?all=1", "/discard?all=1")
        for path in (*(here + each for each in paths), "/ui/dead", "/ui/jobs", "/ui/jobs/1"):
            assert (await browser.get(path)).location.startswith("/ui/login"), path
        assert await log_in(browser, "eve") == 303
        for path in paths:
            assert (await browser.get(here + path)).status == 403, path
        for verb in ("replay", "discard"):
            answer = await browser.post(f"{here}/{verb}", {"all": "1", "plan": "x", "confirm": "billing"})
            assert answer.status == 403
        assert "orders" not in (await browser.get("/ui/dead")).words
        ada = Browser(at.admin)
        assert await log_in(ada, "ada") == 303
        for path in (here + "/dead", here + "/replay?all=1", "/ui/jobs"):
            page = await ada.get(path)
            assert page.status == 200, page.words

    browse_secured(test)


def test_who_has_not_logged_in_is_not_told_how_many_there_are() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 3)
        assert "3 open" in (await browser.get("/ui/dead")).words
        assert "3 open" not in (await browser.get("/ui/login")).words
        assert "3 open" in (await browser.get("/ui/topics")).words

    browse(test)


def test_groups_by_a_header_lead_to_their_letters() -> None:
    async def test(browser: Browser) -> None:
        await dead(browser.admin, 2)
        page = await browser.get(HERE + "/dead?by=header:none")
        assert "without" in page.words
        assert "header=none%3D" not in page.text, "no filter says that a header is not there"
        page = await browser.get(HERE + "/dead")
        (link,) = re.findall(r'href="([^"]*/dead\?reason=[^"]*)"', page.text)
        alone = await browser.get(html.unescape(link))
        assert re.findall(r'name="m\.([^"]+)"', alone.text) == ["0:0", "0:1"]

    browse(test)
