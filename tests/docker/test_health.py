"""The image's health check: it asks the gateway that runs, where that one was told to listen."""

from __future__ import annotations

import importlib.util
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
import trustme

from compat.peers.magnetar import MagnetarPeer

HEALTH = Path(__file__).parents[2] / "docker" / "health.py"


@pytest.fixture(scope="module")
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health", HEALTH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def processes(folder: Path, *lines: str) -> Path:
    """A /proc with these command lines, as process 1, 2 and so on."""
    for number, line in enumerate(lines, 1):
        place = folder / str(number)
        place.mkdir()
        (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in line.split(" ")))
    return folder


class Answers(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        assert self.path == "/health/ready"
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def ready(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port; with the parameter "tls" it speaks that, with a certificate for another name."""
    Answers.status = 200
    server = HTTPServer(("127.0.0.1", 0), Answers)
    if getattr(request, "param", "") == "tls":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("gateway.example").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "before",
    ["/opt/magnetar/bin/python /opt/magnetar/bin/magnetar serve", "/sbin/docker-init -- magnetar serve"],
)
def test_it_follows_the_admin_address(health: ModuleType, tmp_path: Path, ready: int, before: str) -> None:
    line = f"{before} --listen 0.0.0.0:9092 --insecure --admin 0.0.0.0:{ready}"

    assert health.main(processes(tmp_path, line, "python /opt/magnetar/health.py")) == 0
    Answers.status = 503
    assert health.main(tmp_path) == 1


@pytest.mark.parametrize("ready", ["tls"], indirect=True)
def test_it_asks_over_tls_where_the_gateway_speaks_it(health: ModuleType, tmp_path: Path, ready: int) -> None:
    line = f"magnetar serve --insecure --admin 0.0.0.0:{ready} --tls-cert x.pem --tls-key x-key.pem"
    assert health.main(processes(tmp_path, line)) == 0
    Answers.status = 503
    assert health.main(tmp_path) == 1


def test_it_follows_a_setting_and_a_variable(
    health: ModuleType, tmp_path: Path, ready: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_variable = processes(tmp_path, "magnetar serve")
    monkeypatch.setenv("MAGNETAR_ADMIN_LISTEN", f"127.0.0.1:{ready}")
    assert health.main(by_variable) == 0
    monkeypatch.delenv("MAGNETAR_ADMIN_LISTEN")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "cmdline").write_bytes(b"x\0")
    (tmp_path / "1" / "cmdline").write_bytes(
        f"magnetar\0serve\0--set\0admin.listen=127.0.0.1:{ready}\0".encode()
    )
    assert health.main(tmp_path) == 0


def test_without_http_it_knocks_at_the_kafka_port(health: ModuleType, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"magnetar serve --listen 127.0.0.1:{port} --set admin.listen="
        assert health.main(processes(tmp_path, line)) == 0
    assert health.main(tmp_path) == 1


def test_without_a_gateway_it_is_not_healthy(
    health: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert health.main(processes(tmp_path, "magnetar config", "python health.py")) == 1
    assert capsys.readouterr().out == "no magnetar serve runs here\n"


@pytest.mark.integration
def test_a_gateway_that_runs_is_found(tmp_path: Path) -> None:
    """As the image runs it, but for the container."""
    with MagnetarPeer(directory=tmp_path) as gateway:
        place = tmp_path / "proc" / "1"
        place.mkdir(parents=True)
        command = ["magnetar", "serve", "--admin", gateway.admin_url.removeprefix("http://")]
        (place / "cmdline").write_bytes("\0".join(command).encode() + b"\0")
        code = f"import sys; sys.path.insert(0, {str(HEALTH.parent)!r}); import health; from pathlib import Path\n"
        code += f"sys.exit(health.main(Path({str(place.parent)!r})))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 1
