"""What makes no sense in the address of a page is said on that page, with what was typed: it is neither passed over nor
a page of its own.
"""

from __future__ import annotations

import pytest

from tests.gateway.admin.billing import EARLIEST, made
from tests.gateway.console.browser import Browser, browse

AT = "/ui/s/public/default/orders/billing"
MESSAGE = "/ui/m/public/default/orders/0/0"


@pytest.mark.parametrize(
    ("path", "says", "page"),
    [
        (AT + "?partition=0&offset=abc", "'abc' is no offset.", "Why does a message not arrive?"),
        (AT + "?partition=0&offset=-1", "'-1' is no offset.", "Why does a message not arrive?"),
        (AT + "?partition=x&offset=3", "'x' is no partition.", "Why does a message not arrive?"),
        (
            AT + "/messages?partition=x",
            "partition is a number from 0 to 0, not 'x'",
            "Nothing was looked at.",
        ),
        (
            AT + "?partition=7&offset=3",
            "orders has no partition 7: its only one is 0.",
            "Why does a message not arrive?",
        ),
        (AT + "?span=1y", "span is one of 1h, 48h, not '1y'; this is 1h.", "Over time"),
        ("/ui/t/public/default/orders?span=1y", "span is one of 1h, 48h, not '1y'; this is 1h.", "Over time"),
        (AT + "/due?span=never", "span is one of 1h, 24h, 7d, 30d, not 'never'", "Due, by time"),
        (
            "/ui/subscriptions?sort=age",
            "sort is one of oldest, open, deadLetters, name, not 'age'",
            "By age of",
        ),
        ("/ui/attention?rule=stuck", "rule is one of all, nobody, full,", "Needs attention"),
        ("/ui/transactions?state=dead", "state is one of open, any, not 'dead'", "None is open."),
        ("/ui/audit?kind=made", "kind is one of change, refused, login, not 'made'.", "made a topic"),
        ("/ui/jobs?after=x", "after is a number, not 'x'; this is the first page.", "There was none yet."),
        ("/ui/jobs?after=" + "9" * 19, "after is a number, not '9999", "There was none yet."),
        ("/ui/gateway?from=-1", "from is a number from 0 to", "Settings in force"),
        ("/ui/gateway?all=true&from=5000", "not '5000'; this is the first page.", "admin.console"),
        (
            "/ui/t/public/default/orders?from=x",
            "from is a number from 0 to 0, not 'x'; this is the first page.",
            "billing",
        ),
        (
            AT + "?from=1",
            "from is a number from 0 to 0, not '1'; this is the first page.",
            "Why does a message",
        ),
        (
            AT + "?from=x&span=1y",
            "from is a number from 0 to 0, not 'x'; this is the first page. span is one of 1h, 48h, not '1y'",
            "Over time",
        ),
        (
            MESSAGE + "?as=xml",
            "as is one of json, text, hex, not 'xml'.",
            "What each subscription made of it",
        ),
        (
            MESSAGE + "?as=schema",
            "as is one of json, text, hex, not 'schema'.",
            "text; shown as text, never run",
        ),
    ],
)
def test_it_is_said_on_the_page(path: str, says: str, page: str) -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        seen = await browser.get(path)
        assert seen.status == 400
        assert says in seen.words
        assert page in seen.words
        assert " data-live" not in seen.text, "nothing goes from under the sentence"
        assert (await browser.get(path.partition("?")[0])).status == 200

    browse(test)


def test_the_field_that_is_wrong_is_the_one_that_says_so() -> None:
    async def test(browser: Browser) -> None:
        await browser.admin.partitioned("wide", 3)
        await browser.admin.produce("wide", 2, [b"x"])
        path = "P/wide/subscription/billing?type=shared"
        assert (await browser.admin.ask("PUT", path, EARLIEST)).status == 204
        at = "/ui/s/public/default/wide/billing"
        bad = ' aria-invalid="true" aria-describedby="wrong"'
        seen = await browser.get(at + "?partition=3&offset=0")
        assert "wide has no partition 3: its partitions are 0 to 2." in seen.words
        assert f'size="5" value="3"{bad}' in seen.text
        assert 'required value="0">' in seen.text
        seen = await browser.get(at + "?partition=2&offset=x")
        assert 'size="5" value="2">' in seen.text
        assert f'required value="x"{bad}' in seen.text
        good = await browser.get(at + "?partition=2&offset=0")
        assert (good.status, good.location) == (303, "/ui/m/public/default/wide/2/0")

    browse(test)


def test_an_offset_stays_as_it_was_typed_and_a_good_one_leads_to_its_message() -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        seen = await browser.get(AT + "?partition=7&offset=%22abc")
        assert 'name="partition" inputmode="numeric" size="5" value="7"' in seen.text
        assert 'value="&#34;abc"' in seen.text
        good = await browser.get(AT + "?partition=0&offset=%202%20")
        assert (good.status, good.location) == (303, "/ui/m/public/default/orders/0/2")

    browse(test)


@pytest.mark.parametrize(
    ("query", "says", "page"),
    [
        ("do=settle&all=1&state=unread", "settle is for messages that are", "5 looked at of 5 open"),
        ("do=take-back&all=1&state=delayed", "take-back is for messages that are acquired", "Nothing was"),
        (
            "do=settle&all=1&partition=x",
            "partition is a number from 0 to 0, not 'x'",
            "Nothing was looked at.",
        ),
        ("do=settle&m.nonsense=1", "nonsense", "5 looked at of 5 open"),
    ],
)
def test_an_act_that_is_not_for_what_was_chosen_leads_to_the_messages_to_choose_from(
    query: str, says: str, page: str
) -> None:
    async def test(browser: Browser) -> None:
        await made(browser.admin)
        seen = await browser.get(f"{AT}/act?{query}")
        assert seen.status == 400
        assert says in seen.words
        assert page in seen.words
        assert "Open messages of billing" in seen.words

    browse(test)
