"""How `magnetar-admin` says who it is, and whom it trusts."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result

from gateway.cli.admin import main
from tests.gateway.cli.conftest import Peer

ADA = "Basic " + base64.b64encode(b"ada:secret").decode()


class Heard:
    """A server that keeps the Authorization of what it is asked, and whose certificate it was."""

    def __init__(self) -> None:
        self.said: list[str | None] = []
        self.shown: list[str] = []
        self.status = 200
        self.location = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.said.append(self.headers.get("Authorization"))
                if isinstance(self.connection, ssl.SSLSocket):
                    found: Any = self.connection.getpeercert() or {}
                    outer.shown.append(str(found.get("subject", "")))
                body = b'["standalone"]'
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A handshake that fails is what is tested."""

        self.server = Quiet(("127.0.0.1", 0), Handler)

    def url(self, scheme: str) -> str:
        return f"{scheme}://localhost:{self.server.server_address[1]}"

    def run(self, *arguments: str, scheme: str = "http", stdin: str = "", **env: str) -> Result:
        variables: dict[str, str | None] = {
            f"MAGNETAR_ADMIN_{name}": None for name in ("URL", "TOKEN", "USER", "PASSWORD")
        }
        variables |= {f"MAGNETAR_ADMIN_{name}": value for name, value in env.items()}
        flags = ["--admin-url", self.url(scheme), *arguments, "clusters", "list"]
        return CliRunner().invoke(main, flags, input=stdin, env=variables)


@pytest.fixture
def heard() -> Iterator[Heard]:
    server = Heard()
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


def test_nothing_is_said_unasked(heard: Heard) -> None:
    assert heard.run().exit_code == 0
    assert heard.said == [None]


def test_each_way_to_say_who_one_is(heard: Heard, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from.a.file\n")
    for arguments, stdin, env, said in (
        (["--token", "a.b.c"], "", {}, "Bearer a.b.c"),
        ([], "", {"TOKEN": "a.b.c"}, "Bearer a.b.c"),
        (["--token-file", str(file)], "", {}, "Bearer from.a.file"),
        # a flag goes before a variable
        (["--token-file", str(file)], "", {"TOKEN": "a.b.c"}, "Bearer from.a.file"),
        (["--user", "ada", "--password-stdin"], "secret\nmore", {}, ADA),
        (["--user", "ada"], "", {"PASSWORD": "secret"}, ADA),
        (["--user", "ada", "--password-stdin"], "secret\n", {"PASSWORD": "other"}, ADA),
        ([], "", {"USER": "ada", "PASSWORD": "secret"}, ADA),
        (["--token", "a.b.c"], "", {"USER": "ada", "PASSWORD": "secret"}, "Bearer a.b.c"),
        (["--user", "ada"], "", {"TOKEN": "a.b.c", "PASSWORD": "secret"}, ADA),
    ):
        result = heard.run(*arguments, stdin=stdin, **env)
        assert result.exit_code == 0, (arguments, result.output)
        assert heard.said[-1] == said, arguments


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--user", "ada"], "--password-stdin"),
        (["--user", "ada", "--password-stdin"], "nothing came"),
        (["--password-stdin"], "--user"),
        (["--user", "a:b", "--password-stdin"], "colon"),
        (["--token", "a\nb"], "no token"),
        (["--token", "ü"], "no token"),
    ],
)
def test_what_cannot_be_said_is_told_and_nobody_asked(heard: Heard, arguments: list[str], word: str) -> None:
    result = heard.run(*arguments)
    assert result.exit_code == 2
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert heard.said == []


def test_who_is_said_to_be_two_is_told_and_nobody_asked(heard: Heard) -> None:
    result = heard.run(TOKEN="a.b.c", USER="ada", PASSWORD="secret")
    assert result.exit_code == 2
    assert "MAGNETAR_ADMIN_TOKEN and MAGNETAR_ADMIN_USER both say who you are" in result.stderr
    result = heard.run("--token", "a.b.c", "--user", "ada", PASSWORD="secret")
    assert result.exit_code == 2
    assert "--token and --user both say who you are" in result.stderr
    assert heard.said == []


def test_a_file_that_has_no_token_is_told(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("empty", "binary", "absent"):
        result = heard.run("--token-file", str(tmp_path / name))
        assert result.exit_code == 1
        assert f"{name} " in result.stderr


@pytest.mark.parametrize(
    ("status", "reason", "arguments", "word"),
    [
        (401, "No.", [], "--token-file FILE"),
        (401, "No.", ["--token", "a.b.c"], "has it not ended"),
        (401, "No.", ["--user", "ada"], "password that of ada"),
        (403, "It takes the right to consume.", ["--user", "ada"], "grant-permission"),
        (403, "It takes a super-user.", ["--user", "ada"], "somebody who may"),
    ],
)
def test_a_refusal_says_what_to_do(
    peer: Peer, status: int, reason: str, arguments: list[str], word: str
) -> None:
    peer.says("GET", "clusters", {"reason": reason}, status)
    env = {"MAGNETAR_ADMIN_URL": peer.url, "MAGNETAR_ADMIN_PASSWORD": "secret"}
    result = peer.run(*arguments, "clusters", "list", env=env)
    assert result.exit_code == 1
    assert f"Reason: {reason} " in result.stderr
    assert word in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize(
    ("status", "reason", "topic", "told"),
    [
        (403, "It takes the right to use the topic.", "orders", "tenant/namespace/orders."),
        (404, "There is no topic persistent://public/default/a.b.c.d.", "a.b.c.d", "Write a/b/c.d."),
        (404, "There is no topic persistent://public/default/a.b.", "a.b", None),
        (404, "There is no policy.", "a.b.c", None),
        (403, "It takes the right to use the topic.", "shop/eu/orders", None),
    ],
)
def test_a_topic_of_public_default_may_be_meant_elsewhere(
    peer: Peer, status: int, reason: str, topic: str, told: str | None
) -> None:
    """Over Kafka a client calls topics of its home, and by a dotted name of others, so."""
    where = topic if "/" in topic else f"public/default/{topic}"
    peer.says("GET", f"persistent/{where}/permissions", {"reason": reason}, status)
    env = {"MAGNETAR_ADMIN_URL": peer.url, "MAGNETAR_ADMIN_PASSWORD": "secret"}
    result = peer.run("--user", "bob", "topics", "permissions", topic, env=env)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert told in result.stderr if told else "rite " not in result.stderr


def test_nor_need_the_topic_be_meant_that_is_written_to(peer: Peer) -> None:
    peer.says("GET", "magnetar/kafka", {"reason": "It takes the right to use the topic."}, 403)
    env = {"MAGNETAR_ADMIN_URL": peer.url, "MAGNETAR_ADMIN_PASSWORD": "secret"}
    assert "rite a topic" in peer.run("--user", "bob", "topics", "produce", "orders", "x", env=env).stderr
    assert (
        "rite a" not in peer.run("--user", "bob", "topics", "produce", "shop/eu/orders", "x", env=env).stderr
    )


# -- TLS


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(ca: trustme.CA, tmp_path: Path) -> Path:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    shown = ca.issue_cert("ada@example.org", common_name="ada")
    shown.private_key_pem.write_to_path(tmp_path / "ada-key.pem")
    shown.cert_chain_pems[0].write_to_path(tmp_path / "ada.pem")
    shown.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    return tmp_path


def speak_tls(heard: Heard, ca: trustme.CA, name: str = "localhost") -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(name).configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    heard.server.socket = context.wrap_socket(heard.server.socket, server_side=True)


def test_a_gateway_is_trusted_by_its_ca(heard: Heard, ca: trustme.CA, files: Path) -> None:
    speak_tls(heard, ca)
    assert heard.run("--tls-ca", str(files / "ca.pem"), "--token", "a.b.c", scheme="https").exit_code == 0
    for arguments in ([], ["--tls-ca", str(files / "other.pem")]):
        result = heard.run(*arguments, "--token", "a.b.c", scheme="https")
        assert result.exit_code == 1
        assert "--tls-ca" in result.stderr
    assert heard.said == ["Bearer a.b.c"]


def test_a_gateway_is_trusted_by_its_name(heard: Heard, ca: trustme.CA, files: Path) -> None:
    speak_tls(heard, ca, "elsewhere.example")
    result = heard.run("--tls-ca", str(files / "ca.pem"), scheme="https")
    assert result.exit_code == 1
    assert "a name that stands in it" in result.stderr


def test_a_certificate_says_who_one_is(heard: Heard, ca: trustme.CA, files: Path) -> None:
    speak_tls(heard, ca)
    trusted = ["--tls-ca", str(files / "ca.pem")]
    for shown in (
        ["--tls-cert", str(files / "ada.pem"), "--tls-key", str(files / "ada-key.pem")],
        ["--tls-cert", str(files / "both.pem")],
    ):
        assert heard.run(*trusted, *shown, scheme="https").exit_code == 0
        assert "ada" in heard.shown[-1]


def test_https_to_a_port_without_tls_is_told(heard: Heard) -> None:
    result = heard.run(scheme="https")
    assert result.exit_code == 1
    assert "write http://" in result.stderr


def test_a_port_that_ends_a_connection_without_a_word_may_speak_tls() -> None:
    """As the gateway's does; Python's server of above answers in TLS."""
    with socket.create_server(("127.0.0.1", 0)) as port:

        def end() -> None:
            with port.accept()[0] as taken:
                taken.recv(65536)

        thread = threading.Thread(target=end)
        thread.start()
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        result = CliRunner().invoke(main, ["--admin-url", url, "clusters", "list"])
        thread.join()
    assert result.exit_code == 1
    assert "write https://" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--tls-ca", "{}/none.pem"], "no such file"),
        (["--tls-ca", "{}/ada-key.pem"], "PEM"),
        (["--tls-cert", "{}/ada.pem"], "--tls-key"),
        (["--tls-key", "{}/ada-key.pem"], "--tls-cert"),
        (["--tls-cert", "{}/ada.pem", "--tls-key", "{}/none.pem"], "no such file"),
    ],
)
def test_files_that_cannot_be_used_are_told(
    heard: Heard, files: Path, arguments: list[str], word: str
) -> None:
    result = heard.run(*(each.format(files) for each in arguments), scheme="https")
    assert result.exit_code == 2
    assert word in result.stderr


def test_who_one_is_goes_along_with_a_redirect_but_not_out_of_tls(
    heard: Heard, ca: trustme.CA, files: Path
) -> None:
    there = Heard()
    thread = threading.Thread(target=there.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        heard.status, heard.location = 307, there.url("http") + "/admin/v2/clusters"
        assert heard.run("--token", "a.b.c").exit_code == 0
        assert there.said == ["Bearer a.b.c"]
        speak_tls(heard, ca)
        assert heard.run("--tls-ca", str(files / "ca.pem"), "--token", "a.b.c", scheme="https").exit_code == 0
        assert there.said[1:] == [None]
    finally:
        there.server.shutdown()
        thread.join()
        there.server.server_close()
