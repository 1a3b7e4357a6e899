"""`magnetar-admin users`: what is asked of the gateway, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

ADA = {"name": "ada", "principal": "User:ada", "home": "shop/eu", "credentials": {"SCRAM-SHA-256": 4096}}
BOB: dict[str, Any] = {"name": "bob", "principal": "User:bob", "home": None, "credentials": {}}


@pytest.mark.parametrize(
    ("arguments", "stdin", "method", "path", "body", "said"),
    [
        ("create ada", "s\ns\n", "PUT", "ada", {"password": "s"}, "Created user ada."),
        (
            "create ada --home shop/eu --password-stdin --iterations 8192", "two words\n", "PUT", "ada",
            {"home": "shop/eu", "password": "two words", "iterations": 8192}, "Created user ada.",
        ),
        ("create a/b --no-password", "", "PUT", "a%2Fb", {}, "Created user a/b."),
        ("passwd ada --password-stdin", "s", "POST", "ada/password", {"password": "s"},
         "The password of ada is another now."),
        ("set-home ada shop/eu", "", "POST", "ada/home", {"home": "shop/eu"}, "ada is at home in shop/eu."),
        ("set-home ada", "", "POST", "ada/home", {"home": None}, "ada is at home nowhere."),
        ("delete ada", "", "DELETE", "ada", None, "Deleted user ada."),
    ],
)  # fmt: skip
def test_writes_say_what_they_did(
    peer: Peer, arguments: str, stdin: str, method: str, path: str, body: Any, said: str
) -> None:
    result = peer.run("users", *arguments.split(), stdin=stdin)
    assert (result.exit_code, result.stdout) == (0, said + "\n"), result.stderr
    asked, target, sent = peer.asked[-1]
    assert (asked, target) == (method, "/admin/v2/magnetar/users/" + path)
    assert (json.loads(sent) if sent else None) == body


def test_users_are_listed(peer: Peer) -> None:
    peer.says("GET", "magnetar/users", [ADA, BOB])
    assert peer.run("users", "list").stdout == "ada\nbob\n"
    assert json.loads(peer.run("--output", "json", "users", "list").stdout) == [ADA, BOB]
    table = peer.run("--output", "table", "users", "list").stdout.splitlines()
    assert [line.split() for line in table if "ada" in line] == [["ada", "shop/eu", "SCRAM-SHA-256"]]


def test_one_is_shown(peer: Peer) -> None:
    peer.says("GET", "magnetar/users/ada", ADA)
    assert json.loads(peer.run("users", "show", "ada").stdout) == ADA


def test_what_cannot_be(peer: Peer) -> None:
    for arguments in (["create", ""], ["delete", ""], ["show", ""]):
        result = peer.run("users", *arguments)
        assert (result.exit_code, result.stderr) == (2, "A user has a name.\n")
    mismatched = peer.run("users", "create", "ada", stdin="one\ntwo\n")
    assert mismatched.exit_code == 1
    assert peer.run("users", "passwd", "ada", "--password-stdin").exit_code == 2
    assert peer.asked == []
