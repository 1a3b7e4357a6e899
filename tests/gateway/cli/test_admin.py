"""`magnetar-admin` against a small HTTP server: its nouns, its flags, its help, and how failures are told."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli.admin import main
from tests.gateway.cli.conftest import Peer

FULL = "persistent://public/default/"


def test_other_nouns(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone", "other"])
    peer.says("GET", "brokers/configuration/runtime", {"clusterName": "standalone", "node.id": "1"})
    peer.says("GET", "brokers/standalone", ["127.0.0.1:8080"])
    peer.says("GET", "tenants", ["public"])
    peer.says("GET", "namespaces/public", ["public/default"])
    peer.says("GET", "namespaces/public/default/topics", [FULL + "a"])
    peer.says_text("brokers/health", "ok")
    peer.says_text("brokers/version", "0.1.0")
    for arguments, expected in (
        ("clusters list", "standalone\nother\n"),
        ("clusters list -c", "standalone(*)\nother\n"),
        ("brokers list standalone", "127.0.0.1:8080\n"),
        ("brokers get-runtime-config", "clusterName    standalone\nnode.id    1\n"),
        ("brokers healthcheck", "ok\n"),
        ("brokers version", "0.1.0\n"),
        ("tenants list", "public\n"),
        ("namespaces list public", "public/default\n"),
        ("namespaces topics public/default", FULL + "a\n"),
    ):
        result = peer.run(*arguments.split())
        assert (result.exit_code, result.stdout) == (0, expected)


def test_the_url_comes_from_the_environment(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone"])
    assert peer.run("clusters", "list", env={"MAGNETAR_ADMIN_URL": peer.url}).stdout == "standalone\n"
    bare = peer.url.removeprefix("http://")
    assert peer.run("clusters", "list", env={"MAGNETAR_ADMIN_URL": bare}).stdout == "standalone\n"


def test_a_gateway_that_does_not_run_is_one_plain_sentence() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = Peer().run("topics", "list", url=url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert url in result.stderr
    assert "magnetar serve" in result.stderr
    assert "--admin-url" in result.stderr


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in _commands(main)], ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(main, [*path, flag])
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


def test_the_help_teaches_with_examples() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    for word in ("Examples:", "MAGNETAR_ADMIN_URL", "create-partitioned-topic", "table"):
        assert word in text


def test_nouns_and_verbs_are_those_of_pulsar_admin() -> None:
    verbs = {" ".join(path) for path, command in _commands(main) if len(path) == 2}
    assert {
        "topics list", "topics create", "topics create-partitioned-topic", "topics delete", "topics stats",
        "topics delete-partitioned-topic", "topics stats-internal", "topics partitioned-stats",
        "topics partitioned-stats-internal", "topics get-partitioned-topic-metadata",
        "topics update-partitioned-topic", "topics list-partitioned-topics", "topics create-missed-partitions",
        "brokers healthcheck", "brokers version", "brokers list", "clusters list",
    } <= verbs  # fmt: skip


def test_it_imports_nothing_that_is_slow() -> None:
    """The gateway's own packages and aiohttp would cost more than the command itself."""
    code = """
import gateway.cli.admin, sys
slow = {"aiohttp", "asyncio", "confluent_kafka", "msgspec", "store", "semantics", "rocksdict", "uvloop"}
ours = ("gateway.broker", "gateway.wire", "gateway.admin")
print([name for name in sys.modules if name.split(".")[0] in slow or name.startswith(ours)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # tables, which take a millisecond or two, and how times are typed
    tables = ["backlog_quota", "moments", "policies", "policy_form", "policy_forms", "policy_rate_forms"]
    assert set(eval(done.stdout)) == {"semantics", *(f"semantics.{each}" for each in tables)}
