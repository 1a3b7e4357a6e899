"""Who calls, as it says itself."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from gateway.admin import login
from gateway.admin.login import CHALLENGE, LoginError, Logins
from gateway.audit import Audit, Kind
from gateway.auth.errors import RefusedError
from gateway.peer import NOBODY, Identity
from tests.gateway.admin.raw_http import RawClient, request
from tests.gateway.admin.secured import (
    Passwords,
    Secured,
    Signed,
    basic,
    furnish,
    serve_secured,
)

HERE, THERE = "10.0.0.1", "10.0.0.2"
TOKEN = Identity("User:svc", "token", "shop/eu", expires_at=5_000)


class At:
    """Logins, and the time. `tried` counts what was really checked."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.users = Passwords(ada="right", eve="other")
        self.tokens = Signed(good=TOKEN, always=TOKEN._replace(principal="User:ever", expires_at=None))
        self.audit = Audit(1000, self.ms, lambda: self.seconds)
        self.logins = self.made()

    def ms(self) -> int:
        return int(self.seconds * 1000)

    def made(self, identity_of: Callable[[asyncio.BaseTransport], Identity] | None = None) -> Logins:
        return Logins(self.users, self.tokens, identity_of, self.audit, lambda: self.seconds, self.ms)

    async def who(self, said: str | None, host: str = HERE) -> Identity:
        return await self.logins.who(said, host, None)

    async def status(self, said: str, host: str = HERE) -> int:
        """Of a login that is refused."""
        with pytest.raises(LoginError) as refused:
            await self.logins.who(said, host, None)
        return refused.value.status


def run(test: Callable[[At], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(At())

    asyncio.run(main())


def test_each_way_to_say_who_one_is() -> None:
    async def test(at: At) -> None:
        assert await at.who(None) is NOBODY
        assert (await at.who(basic("ada", "right"))).principal == "User:ada"
        assert await at.who("Bearer good") == TOKEN
        # the scheme is not told by its case
        assert await at.who("bEaReR  good ") == TOKEN
        colons = base64.b64encode(b"eve:a:b").decode()
        at.users.passwords["eve"] = "a:b"
        assert (await at.who(f"Basic {colons}")).user == "eve"

    run(test)


@pytest.mark.parametrize(
    "said",
    [
        basic("ada", "wrong"), basic("nobody", "right"), "Bearer bad", "Bearer", "Bearer ", "Basic", "Basic !!!",
        "Basic YWRh", "Basic OnJpZ2h0", "Basic /w==", "Digest ada", "right", "", "Bearer " + "x" * 20_000,
    ],
)  # fmt: skip
def test_whatever_is_wrong_one_answer_is_told(said: str) -> None:
    async def test(at: At) -> None:
        with pytest.raises(LoginError) as refused:
            await at.who(said)
        assert refused.value.status == 401
        assert refused.value.reason == login.UNKNOWN
        assert refused.value.headers == CHALLENGE

    run(test)


def test_a_certificate_counts_where_nothing_is_said() -> None:
    async def test(at: At) -> None:
        shown = Identity("User:CN=ops", "SSL")
        transport = asyncio.Transport()
        at.logins = at.made(lambda asked: shown if asked is transport else NOBODY)
        assert await at.logins.who(None, HERE, transport) == shown
        assert await at.logins.who(None, HERE, asyncio.Transport()) is NOBODY
        ada = await at.logins.who(basic("ada", "right"), HERE, transport)
        assert ada.principal == "User:ada"

        def wrong(asked: asyncio.BaseTransport) -> Identity:
            raise RefusedError("no rule gives it a name")

        refusing = at.made(wrong)
        with pytest.raises(LoginError) as refused:
            await refusing.who(None, HERE, transport)
        assert (refused.value.status, refused.value.reason) == (401, login.UNKNOWN)
        # who says what is not so is not taken for who it is
        with pytest.raises(LoginError):
            await at.logins.who(basic("ada", "wrong"), HERE, transport)

    run(test)


def test_a_login_is_known_for_a_while() -> None:
    async def test(at: At) -> None:
        for _ in range(3):
            await at.who(basic("ada", "right"))
        # nor does it matter from where
        await at.who(basic("ada", "right"), THERE)
        assert at.users.asked == ["ada"]
        await at.status(basic("ada", "Right"))
        assert at.users.asked == ["ada"] * 2
        at.seconds = login.SECONDS
        await at.who(basic("ada", "right"))
        assert at.users.asked == ["ada"] * 3

    run(test)


def test_a_user_that_changes_is_checked_again_and_no_other() -> None:
    async def test(at: At) -> None:
        await at.who(basic("ada", "right"))
        await at.who(basic("eve", "other"))
        at.users.change("ada", "new")
        assert await at.status(basic("ada", "right")) == 401
        assert (await at.who(basic("ada", "new"))).user == "ada"
        await at.who(basic("eve", "other"))
        assert at.users.asked == ["ada", "eve", "ada", "ada"]

    run(test)


def test_what_was_checked_before_a_change_is_not_known_after_it() -> None:
    async def test(at: At) -> None:
        at.users.held = asyncio.Event()
        waiting = asyncio.ensure_future(at.who(basic("ada", "right")))
        while not at.users.asked:
            await asyncio.sleep(0)
        at.users.change("ada", "right")
        at.users.held.set()
        await waiting
        await at.who(basic("ada", "right"))
        assert at.users.asked == ["ada"] * 2

    run(test)


def test_a_token_is_known_until_it_ends() -> None:
    async def test(at: At) -> None:
        at.seconds = 4.9
        for _ in range(2):
            assert await at.who("Bearer good") == TOKEN
        assert at.tokens.asked == ["good"]
        # whether it is good a little longer, as clocks differ, is not for the server to say
        at.seconds = 5.0
        for _ in range(2):
            await at.who("Bearer good")
        assert at.tokens.asked == ["good"] * 3
        del at.tokens.tokens["good"]
        assert await at.status("Bearer good") == 401

    run(test)


def test_one_that_comes_many_times_at_once_is_checked_once() -> None:
    async def test(at: At) -> None:
        at.users.held = asyncio.Event()
        waiting = [asyncio.ensure_future(at.who(basic("ada", "right"))) for _ in range(50)]
        for _ in range(3):
            await asyncio.sleep(0)
        # who goes away does not end it for the others
        waiting[0].cancel()
        at.users.held.set()
        found = await asyncio.gather(*waiting[1:])
        assert {each.principal for each in found} == {"User:ada"}
        assert at.users.asked == ["ada"]

    run(test)


def test_an_address_fails_so_often_and_no_more() -> None:
    async def test(at: At) -> None:
        await at.who(basic("ada", "right"))
        for number in range(login.FAILURES):
            assert await at.status(basic("ada", f"{number}")) == 401
        asked = len(at.users.asked)
        assert await at.status(basic("ada", "more")) == 429
        assert await at.status("Bearer always") == 429
        assert len(at.users.asked) == asked, "a thread had to look at it"
        # who is known comes in, and so does another address
        await at.who(basic("ada", "right"))
        await at.who("Bearer always", THERE)
        at.seconds += 1
        assert await at.status(basic("ada", "more")) == 401
        assert await at.status(basic("ada", "more")) == 429
        at.seconds += 1
        # a good one costs nothing
        for number in range(3):
            at.users.change("eve", str(number))
            await at.who(basic("eve", str(number)))

    run(test)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True), ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False), ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)  # fmt: skip
def test_addresses_that_one_client_may_have_count_together(one: str, other: str, same: bool) -> None:
    async def test(at: At) -> None:
        for number in range(login.FAILURES):
            await at.status(f"Bearer {number}", one)
        assert await at.status("Bearer more", other) == (429 if same else 401)

    run(test)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "KNOWN", 2)
    monkeypatch.setattr(login, "ADDRESSES", 2)
    monkeypatch.setattr(login, "AT_ONCE", 2)

    async def test(at: At) -> None:
        for number in range(5):
            at.users.passwords[f"u{number}"] = "x"
            await at.who(basic(f"u{number}", "x"), f"10.0.1.{number}")
        assert len(at.logins._known) <= 2
        assert len(at.logins._failures._room) <= 2
        at.users.held = asyncio.Event()
        waiting = [
            asyncio.ensure_future(at.who(basic("ada", str(each)), f"10.0.2.{each}")) for each in range(2)
        ]
        await asyncio.sleep(0)
        assert await at.status(basic("ada", "right")) == 503
        at.users.held.set()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(test)


def test_no_secret_is_kept() -> None:
    """Not as the key of what is known, nor in what is told."""

    async def test(at: At) -> None:
        secret = "a-secret-of-adas"
        at.users.passwords["ada"] = secret
        header = basic("ada", secret)
        await at.who(header)
        await at.status(basic("ada", secret + "!"))
        kept = repr(at.logins._known) + repr(at.audit.last(10))
        assert secret not in kept
        assert header.split()[1] not in kept
        assert header.encode() not in at.logins._known

    run(test)


def test_who_goes_away_while_a_login_fails_leaves_no_complaint(caplog: pytest.LogCaptureFixture) -> None:
    async def test(at: At) -> None:
        at.users.held = asyncio.Event()
        waiting = asyncio.ensure_future(at.who(basic("ada", "wrong")))
        while not at.users.asked:
            await asyncio.sleep(0)
        waiting.cancel()
        at.users.held.set()
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()

    with caplog.at_level(logging.ERROR):
        run(test)
    assert not caplog.records


def test_logins_are_told() -> None:
    async def test(at: At) -> None:
        for _ in range(2):
            await at.who("Bearer good")
        await at.status(basic("ada", "wrong"))
        refused, came = at.audit.last(10)
        assert (came.kind, came.who, came.host, came.what) == (Kind.LOGIN, "User:svc", HERE, "token")
        assert (refused.kind, refused.who, refused.what) == (Kind.REFUSED, "ada", "login by Basic")
        assert refused.outcome == "wrong password"

    run(test)


def test_users_are_watched_until_the_server_stops() -> None:
    async def test(at: At) -> None:
        assert len(at.users.watchers) == 1
        at.logins.close()
        assert not at.users.watchers

    run(test)


# -- over HTTP


def test_who_says_nothing_is_asked() -> None:
    async def test(at: Secured) -> None:
        answer = await at.ask(None, "GET", "/admin/v2/clusters")
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == CHALLENGE["WWW-Authenticate"]
        assert "Bearer" in answer.json["reason"]
        assert (await at.ask("cora", "GET", "/admin/v2/clusters")).json == ["standalone"]
        for path in ("/health/live", "/health/ready"):
            assert (await at.ask(None, "GET", path)).body == b"ok"
        # not even what is not there is told apart
        for path in ("/admin/v2/none", "/admin/v3/functions/a/b", "/none", "/metrics"):
            assert (await at.ask(None, "GET", path)).status == 401

    serve_secured(test)


def test_a_token_over_http_and_what_pulsars_clients_say_beside_it() -> None:
    async def test(at: Secured) -> None:
        at.tokens.tokens["good"] = Identity("User:root", "token")
        for method in ("token", "basic", "nonsense"):
            headers = {"Authorization": "Bearer good", "X-Pulsar-Auth-Method-Name": method}
            assert (await at.admin.ask("GET", "/admin/v2/tenants", **headers)).json == ["public"]

    serve_secured(test)


def test_metrics_take_a_super_user_or_the_right_to_describe_the_cluster() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        for who, status in (("root", 200), ("mona", 200), ("ada", 403), ("cora", 403), (None, 401)):
            answer = await at.ask(who, "GET", "/metrics")
            assert answer.status == status, who
            assert (b"magnetar_" in answer.body) == (status == 200)

    serve_secured(test)


def test_what_is_repeated_over_one_connection_is_asked_for_each_time() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        client = await RawClient.to(at.admin.server.address)
        path = "/admin/v2/namespaces/shop/eu/messageTTL"

        def asked(who: str | None) -> bytes:
            return request("GET", path, b"", *([f"Authorization: {basic(who)}"] if who else []))

        assert [(await client.ask(asked("ada"))).status for _ in range(3)] == [200] * 3
        assert (await client.ask(asked("eve"))).status == 403
        assert (await client.ask(asked(None))).status == 401
        assert (await client.ask(asked("ada"))).status == 200
        # in the very bytes that were good before
        change = await at.ask("root", "POST", "/admin/v2/tenants/shop", '{"adminRoles": ["eve"]}')
        assert change.status == 204
        assert (await client.ask(asked("ada"))).status == 403
        users = at.admin.broker.users
        verifiers = await users.hashed("another")
        await users.alter("eve", lambda row: msgspec.structs.replace(row, verifiers=verifiers))
        assert (await client.ask(asked("eve"))).status == 401
        client.close()

    serve_secured(test)


def test_of_who_may_not_no_body_is_read() -> None:
    async def test(at: Secured) -> None:
        for headers in ([], [f"Authorization: {basic('cora')}"]):
            client = await RawClient.to(at.admin.server.address)
            head = request("PUT", "/admin/v2/tenants/shop", b"x" * 1_000_000, *headers)[:-1_000_000]
            answer = await client.ask(head)
            # the answer is there before the body
            assert answer.status == (403 if headers else 401)
            assert b"Connection: close" in answer.head
            with contextlib.suppress(ConnectionError):
                await client.send(b"x" * 100_000)
                assert await client.ended()
            client.close()

    serve_secured(test)


def test_who_may_not_is_not_told_to_go_on_with_its_body() -> None:
    async def test(at: Secured) -> None:
        head = request("PUT", "/admin/v2/tenants/shop", b"{}", "Expect: 100-continue")[:-2]
        client = await RawClient.to(at.admin.server.address)
        assert (await client.ask(head)).status == 401
        client.close()
        client = await RawClient.to(at.admin.server.address)
        root = head[:-2] + f"Authorization: {basic('root')}\r\n\r\n".encode()
        assert (await client.ask(root)).head.startswith(b"HTTP/1.1 100 ")
        assert (await client.ask(b"{}")).status == 204
        client.close()

    serve_secured(test)


def test_a_page_of_another_site_may_not_use_the_password_that_a_browser_has() -> None:
    async def test(at: Secured) -> None:
        path = "/admin/v2/tenants/shop"
        assert (await at.ask("root", "PUT", path, "{}", Origin="https://evil.example")).status == 403
        assert (await at.ask("root", "PUT", path, "{}", Origin=at.admin.server.url)).status == 204

    serve_secured(test)
