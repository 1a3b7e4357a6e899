"""Users over HTTP: made, changed, shown without anything secret, deleted."""

from __future__ import annotations

import json
import logging

import pytest

from gateway.auth.credentials import SHA_256, SHA_512, check
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin, Answer

USERS = "/admin/v2/magnetar/users"


async def ask(admin: Admin, method: str, path: str, body: object = None) -> Answer:
    return await admin.ask(method, USERS + path, None if body is None else json.dumps(body))


def shown(name: str, home: str | None, *mechanisms: str, iterations: int = 4096) -> dict[str, object]:
    credentials = dict.fromkeys(mechanisms, iterations)
    return {"name": name, "principal": f"User:{name}", "home": home, "credentials": credentials}


def test_a_user_is_made_changed_and_deleted(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "magnetar")

    async def test(admin: Admin) -> None:
        users = admin.broker.users
        told: list[str] = []
        users.watchers.append(told.append)
        assert (await ask(admin, "GET", "")).json == []
        await admin.ask("PUT", "/admin/v2/tenants/shop", "{}")
        await admin.ask("PUT", "/admin/v2/namespaces/shop/eu")
        made = await ask(admin, "PUT", "/ada", {"password": "open sesame", "home": "shop/eu"})
        assert (made.status, made.body) == (204, b"")
        assert (await ask(admin, "GET", "/ada")).json == shown("ada", "shop/eu", SHA_256, SHA_512)
        assert (await ask(admin, "PUT", "/a%2Fb")).status == 204
        assert [each["name"] for each in (await ask(admin, "GET", "")).json] == ["a/b", "ada"]
        assert (await ask(admin, "GET", "/a%2Fb")).json == shown("a/b", None)
        body = {"password": "another one", "iterations": 8192}
        assert (await ask(admin, "POST", "/ada/password", body)).status == 204
        row = users.get("ada")
        assert row is not None
        assert check(row.verifiers[SHA_512], "another one")
        assert (await ask(admin, "POST", "/ada/home", {"home": None})).status == 204
        assert (await ask(admin, "GET", "/ada")).json == shown("ada", None, SHA_256, SHA_512, iterations=8192)
        assert (await ask(admin, "DELETE", "/ada")).status == 204
        assert (await ask(admin, "GET", "/ada")).status == 404
        assert told == ["ada", "a/b", "ada", "ada", "ada"]

    serve(test)
    # each change has one line, which says who made it
    told = [
        each.name for each in caplog.records if each.levelno >= logging.INFO and "ada" in str(each.__dict__)
    ]
    assert told == ["magnetar.audit"] * 4
    assert not any(secret in caplog.text for secret in ("sesame", "another one"))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "/old", {"password": "sesame"}, 409, "already"),
        ("PUT", "/a,b", {"password": "sesame"}, 412, "comma"),
        ("PUT", "/eve", {"password": ""}, 412, "empty"),
        ("PUT", "/eve", {"password": "s" * 2000}, 412, "1024"),
        ("PUT", "/eve", {"password": 7}, 400, "in quotes"),
        ("PUT", "/eve", {"password": None}, 400, "in quotes"),
        ("PUT", "/eve", {"password": "sesame", "iterations": 100}, 412, "4096"),
        ("PUT", "/eve", {"password": "sesame", "iterations": True}, 400, "number"),
        ("PUT", "/eve", {"pasword": "sesame"}, 400, "nothing but password, home, iterations"),
        ("PUT", "/eve", ["sesame"], 400, "an object"),
        ("PUT", "/eve", {"home": "nowhere/at"}, 412, "namespaces create nowhere/at"),
        ("PUT", "/eve", {"home": "shop"}, 412, "tenant/namespace"),
        ("PUT", "/eve", {"home": 7}, 400, "in quotes"),
        ("POST", "/eve/password", {"password": "sesame"}, 404, "no user 'eve'"),
        ("POST", "/old/password", {}, 400, "says a password"),
        ("POST", "/eve/home", {"home": None}, 404, "no user 'eve'"),
        ("POST", "/old/home", {}, 400, "The body says"),
        ("POST", "/old/home", {"home": "a.b/c"}, 412, "tenant/namespace"),
        ("DELETE", "/eve", None, 404, "no user 'eve'"),
        ("GET", "/eve", None, 404, "no user 'eve'"),
    ],
)
def test_what_is_refused(serve: Serve, method: str, path: str, body: object, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        assert (await ask(admin, "PUT", "/old")).status == 204
        answer = await ask(admin, method, path, body)
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json
        assert "sesame" not in answer.body.decode()
        assert (await ask(admin, "GET", "")).json == [shown("old", None)]

    serve(test)
