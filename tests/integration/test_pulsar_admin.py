"""A short form of `make compat-admin`: some nouns of Pulsar's own pulsar-admin against a gateway of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
import uvloop

from compat.admin.cases import load
from compat.admin.judge import Verdict
from compat.admin.run import Results, missing, prepare, run
from compat.admin.servers import Server, started
from compat.admin.told import differences
from compat.admin.tool import Said, Tool
from gateway.peer import Identity
from tests.gateway.admin.secured import furnish, secured

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with started("magnetar") as server:
        prepare(server)
        yield server


@pytest.mark.parametrize(
    ("noun", "names"),
    [
        ("tenants", ()),
        ("brokers", ("list", "healthcheck", "shutdown")),
        ("clusters", ("list",)),
        ("namespaces", ("subscription-types-enabled", "max-topics-per-namespace")),
        ("topics", ("create", "stats-internal", "shadow-topics", "create-shadow-topic")),
        # one that is served, and one that cannot be set
        ("topicPolicies", ("retention", "persistence")),
    ],
)
def test_what_is_not_served_is_refused_and_nothing_is_wrong(
    server: Server, noun: str, names: tuple[str, ...]
) -> None:
    results = Results()
    for case in load(noun):
        if not names or case.name in names:
            results.add(case, run(case, server))
    # a verb is not wrong, and what the page says of it
    assert differences(results) == []
    verdicts = {verb: (verdict, why) for _, verb, verdict, why in results.verdicts()}
    assert [each for each in verdicts.items() if each[1][0] is Verdict.WRONG] == []
    assert Verdict.SERVED in {verdict for verdict, _ in verdicts.values()}


def test_every_verb_of_the_tool_has_a_case(server: Server) -> None:
    nouns = ("topics", "namespaces", "topicPolicies")
    assert missing(server.tool.model(), {noun: load(noun) for noun in nouns}) == []


def test_a_command_that_does_not_end_costs_its_jvm_and_not_the_next_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # it takes connections and says nothing
        taken: list[socket.socket] = []
        threading.Thread(target=lambda: taken.append(silent.accept()[0]), daemon=True).start()
        with Tool(f"http://127.0.0.1:{silent.getsockname()[1]}") as tool:
            assert tool.run(["topics", "nonsense"]).code == 1
            hung = tool.run(["tenants", "list"], deadline=2)
            assert hung.code is None
            said = tool.run(["topics", "nonsense"])
            assert said.code == 1
            assert "nonsense" in said.err
        for connection in taken:
            connection.close()


@pytest.fixture
def asking() -> Iterator[str]:
    """The URL of an admin server that asks who calls. Ada looks after the tenant shop, Eve after another."""
    begun: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with secured() as at:
            await furnish(at)
            at.tokens.tokens["the.super.user"] = Identity("User:root", "token")
            stop = asyncio.Event()
            begun.set_result((at.admin.server.url, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    url, loop, stop = begun.result(30)
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join()


def test_the_tool_says_who_it_is_by_a_token_and_by_a_password(server: Server, asking: str) -> None:
    plugins = "org.apache.pulsar.client.impl.auth.Authentication"

    def by_token(token: str) -> list[str]:
        return ["--auth-plugin", f"{plugins}Token", "--auth-params", f"token:{token}"]

    def by_password(name: str, password: str) -> list[str]:
        params = json.dumps({"userId": name, "password": password})
        return ["--auth-plugin", f"{plugins}Basic", "--auth-params", params]

    def run(said: list[str], *command: str) -> Said:
        return server.tool.run(["--admin-url", asking, *said, *command], fresh=True)

    assert run(by_token("the.super.user"), "tenants", "list").out.split() == ["other", "public", "shop"]
    assert run(by_password("ada", "adaada"), "namespaces", "create", "shop/us").code == 0
    refused = run(by_password("eve", "eveeve"), "namespaces", "list", "shop")
    assert refused.code == 1
    assert "User:eve may not do this: it takes an admin of the tenant." in refused.err
    for wrong in (by_token("another"), by_password("ada", "wrong")):
        assert "not known here" in run(wrong, "tenants", "list").err
    assert "who does not say who it is" in run([], "tenants", "list").err
