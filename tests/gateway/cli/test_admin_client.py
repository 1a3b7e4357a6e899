"""What `magnetar-admin` asks, follows and takes for an answer."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from gateway.cli.admin import main
from tests.gateway.cli.conftest import Peer

P = "/admin/v2/persistent/public/default/"


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (502, b"<html>bad gateway</html>", "bad gateway"),
        (500, b"", "500"),
        (404, b'{"x":1}', "x"),
        (200, b"{", "Magnetar"),
    ],
)
def test_answers_that_no_gateway_gives_are_told_too(peer: Peer, status: int, body: bytes, word: str) -> None:
    peer.answers["GET", "/admin/v2/clusters"] = (status, {"Content-Type": "application/json"}, body)
    result = peer.run("clusters", "list")
    assert result.exit_code == 1
    assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_a_redirect_is_followed_with_method_and_body(peer: Peer) -> None:
    there = peer.url + "/admin/v2/persistent/public/default/moved"
    peer.answers["PUT", P + "x"] = (307, {"Location": there}, b"")
    assert peer.run("topics", "create", "x").exit_code == 0
    assert peer.asked[-1] == ("PUT", P + "moved", "{}")


def test_redirects_in_a_circle_end(peer: Peer) -> None:
    peer.answers["GET", "/admin/v2/clusters"] = (307, {"Location": peer.url + "/admin/v2/clusters"}, b"")
    result = peer.run("clusters", "list")
    assert result.exit_code == 1
    assert "307" in result.stderr


def test_a_kafka_port_or_a_silent_one_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(
            main, ["--admin-url", url, "--request-timeout", "0.05", "clusters", "list"]
        )
    assert result.exit_code == 1
    assert "0.05 seconds" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "ftp://x",
        "http://a:notaport",
        "http://[::1",
        "http://a:0",
        "http://a b",
        "http://ü",
        "a\nb",
    ],
)
def test_what_is_no_url_is_told(url: str) -> None:
    result = CliRunner().invoke(main, ["--admin-url", url, "clusters", "list"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
