"""Which line of `magnetar-admin` the audit has of what a page does."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from gateway.cli.admin import main
from gateway.console.commands import CUT, command_of

T = ("persistent", "public", "default", "orders")
S = (*T, "subscription", "billing")


@pytest.mark.parametrize(
    ("method", "path", "body", "line"),
    [
        ("POST", (*S, "skip_all"), None, "topics clear-backlog orders -s billing"),
        ("POST", (*S, "resetcursor", "170"), None, "topics reset-cursor orders -s billing …"),
        ("DELETE", S, None, "topics unsubscribe orders -s billing"),
        ("DELETE", T, None, "topics delete orders"),
        ("DELETE", (*T, "partitions"), None, "topics delete-partitioned-topic orders"),
        ("PUT", T, {}, "topics create orders"),
        ("PUT", (*T, "partitions"), 3, "topics create-partitioned-topic orders -p 3"),
        (
            "DELETE",
            ("non-persistent", "shop", "eu", "a b"),
            None,
            "topics delete 'non-persistent://shop/eu/a b'",
        ),
        (
            "POST",
            (*S, "magnetar", "act"),
            {"do": "settle", "messages": ["1:2:0:3", "1:2:0:4"], "plan": "p"},
            "subscriptions act settle orders -s billing -m 1:2:0:3 -m 1:2:0:4",
        ),
        (
            "POST",
            (*S, "magnetar", "act"),
            {"do": "take-back", "filter": {"text": "hush"}},
            "subscriptions act take-back orders -s billing …",
        ),
        ("POST", (*S, "magnetar", "replay"), {"plan": "p"}, "dead-letters replay orders -s billing …"),
        (
            "POST",
            (*S, "magnetar", "replay"),
            {"edits": {"0:1": {"value": "hush"}}},
            "dead-letters edit orders 0:1 -s billing …",
        ),
        ("POST", (*S, "magnetar", "discard"), {"plan": ""}, "dead-letters discard orders -s billing"),
        ("POST", ("magnetar", "jobs", "7", "stop"), None, "jobs stop 7"),
        ("GET", S, None, ""),
        ("PUT", S, None, ""),
        ("POST", (*S, "magnetar", "watch"), {"key": "hush"}, ""),
        ("POST", ("tenants", "shop"), {}, ""),
    ],
)
def test_the_line_of_a_call(method: str, path: tuple[str, ...], body: Any, line: str) -> None:
    found = command_of(method, path, body)
    assert found == (f"magnetar-admin {line}" if line else "")
    if line:
        group, verb, *words = shlex.split(line)
        command = main.commands[group].commands[verb]  # type: ignore[attr-defined]
        # what is left out is said by some option, and the rest is as the verb takes it; below its group, since a
        # command remembers its -h from whoever first asked for it
        above = click.Context(main, **main.context_settings)
        command.make_context(verb, [word for word in words if word != CUT], parent=above)


def test_many_ids_are_not_named() -> None:
    body = {"do": "settle", "messages": [f"1:{number}" for number in range(6)]}
    assert command_of("POST", (*S, "magnetar", "act"), body).endswith("-s billing …")
    body["messages"].pop()  # type: ignore[attr-defined]
    assert command_of("POST", (*S, "magnetar", "act"), body).endswith(
        " ".join(f"-m 1:{number}" for number in range(5))
    )
