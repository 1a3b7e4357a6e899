"""Pulsar as a peer: its jars are those of the list, it keeps to 127.0.0.1, and a start that fails says why."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from compat.peers.maven import JarsError
from compat.peers.process import PeerError
from compat.peers.pulsar import jars, peer
from compat.peers.pulsar.peer import PulsarPeer, serves


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two jars and the list of them."""
    lines = []
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_text(name)
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "list").write_text("".join(lines))
    return tmp_path


def test_the_jars_of_the_list_are_taken(folder: Path) -> None:
    jars.verify(folder, folder / "list")


@pytest.mark.parametrize(("name", "text"), [("a.jar", "forged"), ("b.jar", None), ("c.jar", "new")])
def test_a_jar_that_differs_is_refused(folder: Path, name: str, text: str | None) -> None:
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    with pytest.raises(JarsError, match=f"1 of them: {name}"):
        jars.verify(folder, folder / "list")


def test_the_list_is_of_the_version_that_the_pom_pins() -> None:
    listed = {line.split()[1] for line in jars.HASHES.read_text().splitlines()}
    for artefact in ("pulsar-broker", "pulsar-client-original", "managed-ledger", "pulsar-metadata"):
        assert f"{artefact}-{jars.pulsar_version()}.jar" in listed


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in Java's place, that prints its arguments and ends."""
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(peer, "find_java", lambda: str(program))
    monkeypatch.setattr(peer, "classpath", lambda: "jars/*")
    return tmp_path


def test_a_start_that_fails_says_what_it_printed(fake: Path) -> None:
    pulsar = PulsarPeer(directory=fake / "data")
    with pytest.raises(PeerError, match=r"(?s)code 3 .*PulsarStandaloneStarter.*--no-functions-worker"):
        pulsar.start()
    with pytest.raises(PeerError, match="not running"):
        _ = pulsar.pid


def test_its_own_folder_goes_with_it(fake: Path) -> None:
    pulsar = PulsarPeer()
    with pytest.raises(PeerError), pulsar:
        pass
    assert not pulsar.directory.exists()


def test_it_keeps_to_this_machine_and_to_its_ports(fake: Path) -> None:
    pulsar = PulsarPeer(directory=fake / "data", heap="1g", settings={"journalSyncData": "true"})
    pulsar.prepare()
    text = (fake / "data" / "standalone.conf").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert (settings["bindAddress"], settings["listeningInterface"]) == ("127.0.0.1", "lo")
    assert pulsar.service_url == f"pulsar://127.0.0.1:{settings['brokerServicePort']}"
    assert pulsar.admin_url == f"http://127.0.0.1:{settings['webServicePort']}"
    assert settings["journalSyncData"] == "true"
    # the bookie's port is part of its name in the metadata: a restart that changes it finds no ledger
    command = pulsar.command()
    pulsar.prepare()
    assert pulsar.command() == command
    assert (fake / "data" / "standalone.conf").read_text() == text
    assert "-Xmx1g" in command


class Admin(BaseHTTPRequestHandler):
    answer = (200, b"[]")

    def do_GET(self) -> None:
        code, text = self.answer if self.path == "/admin/v2/namespaces/public" else (404, b"")
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def admin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Admin) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("answer", "there"),
    [
        ((200, b'["public/default"]'), True),
        ((200, b'["public/functions"]'), False),
        ((404, b'{"reason":"Tenant not found"}'), False),
        ((200, b"<html>"), False),
    ],
)
def test_it_serves_once_the_default_namespace_is_there(
    admin: str, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, bytes], there: bool
) -> None:
    monkeypatch.setattr(Admin, "answer", answer)
    assert serves(admin) is there


def test_nobody_there_serves_nothing(admin: str) -> None:
    assert not serves("http://127.0.0.1:1")
