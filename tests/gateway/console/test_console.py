"""From a request to a page: who is let in, which forms are ours, what stands in headers."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

import pytest

from gateway.console.console import PAGES
from tests.gateway.admin.secured import Secured, basic
from tests.gateway.console.browser import Browser, browse, browse_secured
from tests.gateway.console.test_subscription_pages import fields as sent_by

FORGED = {"Content-Type": "application/x-www-form-urlencoded"}


class TestHeaders:
    def test_each_page_may_load_what_is_here_and_nothing_else(self) -> None:
        async def test(browser: Browser) -> None:
            for path in (
                "/ui/",
                "/ui/topics",
                "/ui/nowhere",
                "/ui/gateway",
                "/ui/audit",
                "/ui/view",
                "/ui/find?q=",
            ):
                page = await browser.get(path)
                policy = page.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
                assert "frame-ancestors 'none'" in policy
                assert "form-action 'self'" in policy
                assert "unsafe" not in policy
                assert page.headers["X-Content-Type-Options"] == "nosniff"
                assert page.headers["Cache-Control"] == "no-store"
                assert " style=" not in page.text
                assert page.text.count("<script") == page.text.count("<script src=")

        browse(test)

    def test_files_are_kept_and_named_by_what_is_in_them(self) -> None:
        async def test(browser: Browser) -> None:
            page = await browser.get("/ui/")
            files = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', page.text)
            assert {path.rpartition("/")[2] for path in files} == {
                "mark.svg",
                "console.css",
                "console.js",
                "live.js",
            }
            for path in files:
                answer = await browser.get(path)
                assert answer.status == 200
                assert "immutable" in answer.headers["Cache-Control"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
            for path in (
                "/ui/static/x/../console.py",
                "/ui/static/x/%2e%2e/console.py",
                "/ui/static/x/none.js",
            ):
                assert (await browser.get(path)).status == 404

        browse(test)

    def test_cookies_are_for_the_server_alone(self) -> None:
        async def test(browser: Browser) -> None:
            page = await browser.get("/ui/")
            (cookie,) = page.set_cookies
            assert "; Path=/ui; HttpOnly; SameSite=Strict" in cookie
            assert (await browser.get("/ui/")).set_cookies == [], "it has one"

        browse(test)

    def test_where_one_begins(self) -> None:
        async def test(browser: Browser) -> None:
            for path in ("/", "/ui"):
                answer = await browser.get(path)
                assert (answer.status, answer.location) == (303, "/ui/")

        browse(test)


class TestForms:
    def test_without_its_token_a_form_is_refused(self) -> None:
        async def test(browser: Browser) -> None:
            fields = {"topic": "orders", "partitions": "1"}
            stranger = Browser(browser.admin)
            token = (await stranger.get("/ui/topics")).token
            await browser.get("/ui/topics")
            for wrong in ("", "0" * 64, token):
                answer = await browser.post("/ui/topics", {**fields, "token": wrong})
                assert answer.status == 403
                assert "form was not made for this browser" in answer.words
            assert browser.admin.broker.catalog.get("orders") is None
            done = await browser.post("/ui/topics", fields)
            assert (done.status, done.location) == (303, "/ui/t/public/default/orders")
            assert browser.admin.broker.catalog.get("orders") is not None

        browse(test)

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
    def test_a_page_of_another_site_sends_nothing_here(self, origin: str) -> None:
        async def test(browser: Browser) -> None:
            answer = await browser.post("/ui/topics", {"topic": "orders"}, Origin=origin)
            assert answer.status == 403
            assert browser.admin.broker.catalog.get("orders") is None

        browse(test)

    def test_a_name_that_was_made_to_lead_here_shows_nothing(self) -> None:
        async def test(browser: Browser) -> None:
            for path in ("/ui/", "/ui/static/x/console.js", "/"):
                answer = await browser.get(path, Host="evil.example:8080")
                assert answer.status == 403, path
                assert "evil.example" in answer.text
            answer = await browser.post(
                "/ui/topics", {"topic": "x"}, Host="evil.example:8080", Origin="http://evil.example:8080"
            )
            assert answer.status == 403

        browse(test)

    def test_only_forms_are_read(self) -> None:
        async def test(browser: Browser) -> None:
            for kind in ("text/plain", "application/json", "multipart/form-data"):
                answer = await browser.post("/ui/topics", {"topic": "x"}, **{"Content-Type": kind})
                assert answer.status == 403
            token = (await browser.get("/ui/view")).token
            long = await browser.post("/ui/topics", {"topic": "x" * 70_000, "token": token})
            assert long.status == 413

        browse(test)

    def test_what_is_changed_stands_in_the_audit(self) -> None:
        async def test(browser: Browser) -> None:
            await browser.post("/ui/topics", {"topic": "orders", "partitions": "0"})
            (entry,) = browser.admin.broker.audit.last(1)
            assert (entry.kind, entry.what, entry.target) == (
                "change",
                "PUT",
                "persistent/public/default/orders",
            )
            assert entry.host == "127.0.0.1"

        browse(test)


class TestMode:
    def test_a_console_that_only_reads_has_no_buttons_and_refuses_forms(self) -> None:
        async def test(browser: Browser) -> None:
            await browser.admin.plain("orders")
            pages = [await browser.get(path) for path in ("/ui/topics", "/ui/t/public/default/orders")]
            for page in pages:
                assert page.status == 200
                assert set(re.findall(r'method="post" action="([^"]*)"', page.text)) == {"/ui/view"}
                assert "Delete…" not in page.text
            asked = await browser.get("/ui/t/public/default/orders/delete")
            assert asked.text.count('method="post"') == 1
            for path, fields in (
                ("/ui/topics", {"topic": "more"}),
                ("/ui/t/public/default/orders/delete", {"confirm": "orders"}),
                ("/ui/s/public/default/orders/billing/clear", {"confirm": "billing"}),
            ):
                answer = await browser.post(path, fields)
                assert answer.status == 403, path
                assert "admin.console" in answer.words
            assert browser.admin.broker.catalog.get("orders") is not None
            # how pages look is nobody else's affair
            assert (await browser.post("/ui/view", {"theme": "dark"})).status == 303

        browse(test, "admin.console=read")

    def test_methods_that_pages_have_not(self) -> None:
        async def test(browser: Browser) -> None:
            for method in ("PUT", "DELETE"):
                async with browser.admin.session.request(method, browser.admin.server.url + "/ui/") as answer:
                    assert answer.status == 405
            async with browser.admin.session.head(browser.admin.server.url + "/ui/") as answer:
                assert answer.status == 200

        browse(test)


class TestLooks:
    def test_the_server_makes_a_page_as_its_reader_wants_it(self) -> None:
        async def test(browser: Browser) -> None:
            page = await browser.get("/ui/")
            assert "data-theme" not in page.text
            fields = {"theme": "dark", "zone": "Asia/Tokyo", "keys": "off", "back": "/ui/audit"}
            answer = await browser.post("/ui/view", fields)
            assert (answer.status, answer.location) == (303, "/ui/audit")
            page = await browser.get("/ui/audit")
            assert '<html lang="en" data-tz="Asia/Tokyo" data-theme="dark" data-keys="off">' in page.text

        browse(test)

    def test_a_zone_that_there_is_not_is_told_of(self) -> None:
        async def test(browser: Browser) -> None:
            answer = await browser.post("/ui/view", {"zone": "Mars/<Base>"})
            assert answer.status == 400
            assert "There is no time zone 'Mars/<Base>' here" in answer.words
            assert "<Base>" not in answer.text

        browse(test)

    def test_nobody_is_sent_to_another_site(self) -> None:
        async def test(browser: Browser) -> None:
            answer = await browser.post("/ui/view", {"theme": "dark", "back": "//evil.example/"})
            assert answer.location == "/ui/"

        browse(test)


async def log_in(browser: Browser, name: str, password: str = "") -> int:
    token = (await browser.get("/ui/login")).token
    fields = {"token": token, "name": name, "password": password or name * 2, "back": "/ui/topics"}
    return (await browser.post("/ui/login", fields)).status


class TestLogin:
    def test_a_page_leads_to_the_login_and_back(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            for path in (
                "",
                "topics",
                "t/shop/eu/orders",
                "gateway",
                "audit",
                "find?q=x",
                "s/shop/eu/orders/billing",
            ):
                answer = await browser.get("/ui/" + path)
                assert answer.status == 303, path
                assert answer.location.startswith("/ui/login?back=%2Fui%2F"), path
                assert "WWW-Authenticate" not in answer.headers, "a browser would ask by a window of its own"
            page = await browser.get("/ui/login?back=%2Fui%2Ftopics%3Fafter%3Dx")
            fields = {"token": page.token, "name": "ada", "password": "adaada", "back": "/ui/topics?after=x"}
            answer = await browser.post("/ui/login", fields)
            assert (answer.status, answer.location) == (303, "/ui/topics?after=x")
            (cookie,) = answer.set_cookies
            assert "HttpOnly; SameSite=Strict" in cookie
            assert "Max-Age" not in cookie, "it goes with the browser"
            assert "you are User:ada" in (await browser.get("/ui/topics")).words

        browse_secured(test)

    def test_what_runs_here_is_told_to_who_is_logged_in(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            runs = f"magnetar {at.admin.broker.version}"
            forged = await browser.post("/ui/topics", {"token": "0" * 64, "topic": "x"})
            refused = await browser.post("/ui/login", {"name": "ada", "password": "wrong"})
            for page in (
                await browser.get("/ui/login"),
                await browser.get("/ui/view"),
                await browser.post("/ui/topics", {"topic": "x"}),
                forged,
                refused,
            ):
                assert page.status in (200, 401, 403)
                assert "made at" in page.words
                assert runs not in page.words
                assert "node" not in page.words
            assert await log_in(browser, "ada") == 303
            assert (
                f"standalone · node {at.admin.broker.node_id} · {runs}" in (await browser.get("/ui/")).words
            )

        browse_secured(test)

    def test_where_nobody_is_asked_it_is_told_to_everybody(self) -> None:
        async def test(browser: Browser) -> None:
            for path in ("/ui/", "/ui/view", "/ui/login"):
                assert f"magnetar {browser.admin.broker.version}" in (await browser.get(path)).words

        browse(test)

    def test_a_wrong_password_is_told_of_and_not_shown_again(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            token = (await browser.get("/ui/login")).token
            fields = {"token": token, "name": "ada", "password": "guess-17"}
            answer = await browser.post("/ui/login", fields)
            assert answer.status == 401
            assert "guess-17" not in answer.text
            assert 'value="ada"' in answer.text
            assert await log_in(browser, "nobody") == 401
            assert (await browser.get("/ui/")).status == 303

        browse_secured(test)

    def test_guesses_are_bounded_as_those_over_the_api(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            seen = {await log_in(browser, "ada", f"wrong {each}") for each in range(25)}
            assert seen == {401, 429}

        browse_secured(test)

    def test_by_a_token(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            from gateway.peer import Identity

            at.tokens.tokens["good.one"] = Identity("User:ada", "JWT", None, None, None)
            token = (await browser.get("/ui/login")).token
            answer = await browser.post("/ui/login", {"token": token, "said": " Bearer good.one "})
            assert answer.status == 303
            assert "you are User:ada" in (await browser.get("/ui/topics")).words
            # it ends, and the session with it
            at.tokens.tokens.clear()
            at.admin.server._logins._known.clear()
            assert (await browser.get("/ui/topics")).status == 303

        browse_secured(test)

    def test_a_changed_password_ends_the_session(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            assert await log_in(browser, "ada") == 303
            assert (await browser.get("/ui/topics")).status == 200
            done = await at.ask(
                "root", "POST", "/admin/v2/magnetar/users/ada/password", '{"password": "another-one"}'
            )
            assert done.status == 204
            assert (await browser.get("/ui/topics")).status == 303
            assert await log_in(browser, "ada", "another-one") == 303

        browse_secured(test)

    def test_who_logs_out_is_out(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            assert await log_in(browser, "ada") == 303
            kept = dict(browser.cookies)
            answer = await browser.post("/ui/logout", {})
            assert (answer.status, answer.location) == (303, "/ui/login")
            # the cookie that somebody has copied is worth nothing
            browser.cookies = kept
            assert (await browser.get("/ui/topics")).status == 303

        browse_secured(test)

    def test_a_token_of_before_the_login_is_none_behind_it(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            before = (await browser.get("/ui/login")).token
            assert await log_in(browser, "ada") == 303
            answer = await browser.post("/ui/topics", {"token": before, "topic": "shop/eu/more"})
            assert answer.status == 403
            answer = await browser.post("/ui/topics", {"topic": "shop/eu/more", "partitions": "2"})
            assert (answer.status, answer.location) == (303, "/ui/t/shop/eu/more")

        browse_secured(test)

    def test_what_the_api_takes_pages_take(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            assert (await browser.get("/ui/topics", Authorization=basic("ada"))).status == 200
            assert (await browser.get("/ui/topics", Authorization=basic("ada", "wrong"))).status == 303

        browse_secured(test)


class TestRights:
    def test_each_sees_its_own(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            eve, cora, root = Browser(at.admin), Browser(at.admin), Browser(at.admin)
            for each, name in ((browser, "ada"), (eve, "eve"), (cora, "cora"), (root, "root")):
                assert await log_in(each, name) == 303
            topic, subscription = "/ui/t/shop/eu/orders", "/ui/s/shop/eu/orders/billing"
            for each in (browser, cora, root):
                assert "orders" in (await each.get("/ui/topics")).words
                assert (await each.get(topic)).status == 200
                assert (await each.get(subscription)).status == 200
            assert "orders" not in (await eve.get("/ui/topics")).words
            assert "orders" not in (await eve.get("/ui/find?q=rders")).words
            for path in (topic, subscription, "/ui/m/shop/eu/orders/0/0"):
                assert (await eve.get(path)).status == 403, path
            # a guess finds out nothing
            assert (await eve.get("/ui/t/shop/eu/no-such")).status == 403
            for path in ("/ui/gateway", "/ui/audit"):
                assert (await browser.get(path)).status == 403
                assert (await root.get(path)).status == 200

        browse_secured(test)

    def test_buttons_are_for_who_may(self) -> None:
        async def test(browser: Browser, at: Secured) -> None:
            cora = Browser(at.admin)
            assert await log_in(browser, "ada") == 303
            assert await log_in(cora, "cora") == 303
            topic, subscription = "/ui/t/shop/eu/orders", "/ui/s/shop/eu/orders/billing"
            assert "Delete…" in (await browser.get(topic)).words
            assert "Delete…" not in (await cora.get(topic)).words
            assert "Clear backlog…" in (await cora.get(subscription)).words
            answer = await cora.post(topic + "/delete", {"confirm": "orders"})
            assert answer.status == 403
            assert at.admin.broker.catalog.get("shop/eu/orders") is not None
            assert (await browser.get(topic)).status == 200

        browse_secured(test)


def test_what_explains_a_message_says_where_its_page_is() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 1, [b"a", b"b"])
        await admin.commit("readers", "orders", 1, 1)
        told = await admin.ask("GET", "P/orders-partition-1/subscription/readers/explain?offset=1")
        assert told.json["page"] == admin.server.url + "/ui/m/public/default/orders/1/1"
        page = await browser.get(told.json["page"].removeprefix(admin.server.url))
        assert page.status == 200
        assert told.json["explanation"] in page.words

    browse(test)


def test_each_page_is_one_of_those_that_are_tested() -> None:
    assert {first for first, _ in PAGES} == {
        "",
        "attention",
        "topics",
        "subscriptions",
        "t",
        "s",
        "m",
        "gateway",
        "audit",
        "find",
        "dead",
        "jobs",
        "transactions",
    }


@pytest.mark.parametrize(
    ("typed", "count", "status", "says"),
    [
        ("orders", "many", 412, "How many partitions is a number, 0 for a plain topic; not 'many'."),
        ("orders", "-1", 412, "How many partitions"),
        ("a b<", "1", 412, "a b<"),
        ("nobody/knows/orders", "2", 404, "nobody"),
        ("there", "1", 409, "already"),
        ("orders", "999999", 412, "partitions"),
    ],
)
def test_a_topic_that_cannot_be_made_stays_in_the_form(
    typed: str, count: str, status: int, says: str
) -> None:
    async def test(browser: Browser) -> None:
        await browser.admin.plain("there")
        said = {"topic": typed, "partitions": count}
        sent = await browser.post("/ui/topics", said)
        assert (sent.status, says in sent.words) == (status, True)
        page = await browser.get("/ui/topics/new?" + urlencode(said))
        assert page.status == status, page.words
        assert says in page.words.partition("New topic")[2]
        assert re.search(rf'name="topic"[^>]* value="{re.escape(html.escape(typed))}"', page.text)
        assert f'name="partitions" inputmode="numeric" value="{count}"' in page.text
        assert " data-live" not in page.text, "what stands there is not made anew"
        assert browser.admin.broker.catalog.get("orders") is None
        assert "there" in page.words.partition("New topic")[0], "the others are shown as before"

    browse(test)


def test_a_topic_that_is_to_be_made_is_shown_first() -> None:
    async def test(browser: Browser) -> None:
        admin = browser.admin
        assert (await admin.ask("PUT", "/admin/v2/tenants/shop", "{}")).status == 204
        assert (await admin.ask("PUT", "/admin/v2/namespaces/shop/eu", "{}")).status == 204
        assert (await admin.ask("POST", "/admin/v2/namespaces/shop/eu/messageTTL", "90")).status == 204
        (form,) = re.findall(r'<form[^>]*action="/ui/topics/new"', (await browser.get("/ui/topics")).text)
        assert "post" not in form
        page = await browser.get("/ui/topics/new?topic=shop/eu/orders&partitions=3")
        assert page.status == 200, page.words
        assert "3 partitions Name orders Namespace shop/eu" in page.words
        assert "message-ttl 90 1 min" in page.words
        assert "magnetar-admin topics create-partitioned-topic persistent://shop/eu/orders -p 3" in page.words
        assert admin.broker.catalog.get("shop/eu/orders") is None
        done = await browser.post("/ui/topics", sent_by(page))
        assert (done.status, done.location) == (303, "/ui/t/shop/eu/orders")
        topic = admin.broker.catalog.get("shop/eu/orders")
        assert topic is not None
        assert len(topic.partitions) == 3
        plain = await browser.get("/ui/topics/new?topic=mine&partitions=0")
        assert "magnetar-admin topics create mine" in plain.words
        assert "A plain topic Name mine" in plain.words
        assert (await browser.get("/ui/topics/old")).status == 404

    browse(test)


def test_who_may_make_no_topic_is_told_so_where_no_form_is() -> None:
    async def test(browser: Browser, _: Secured) -> None:
        assert await log_in(browser, "pat") == 303
        page = await browser.post("/ui/topics", {"topic": "shop/eu/mine", "partitions": "0"})
        assert page.status == 403, page.words
        assert "may not" in page.words
        assert "New topic" not in page.words

    browse_secured(test)
