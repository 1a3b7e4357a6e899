"""compose.secured.yaml starts a gateway with TLS and logins, its first user, and a Prometheus that may scrape it."""

from __future__ import annotations

import importlib.util
import re
import ssl
import stat
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import free_port
from gateway.admin.hosts import check_host, own_names
from gateway.config import Settings
from tests.docker.test_docker import DOCKER, ROOT, last_stage, settings_of, steps

COMPOSE = DOCKER / "compose.secured.yaml"
SCRIPT = DOCKER / "secured.py"


@pytest.fixture(scope="module")
def secured() -> ModuleType:
    spec = importlib.util.spec_from_file_location("secured", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(secured: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the service `files` makes."""
    place = tmp_path_factory.mktemp("secured")
    _, _, *hosts = services()["files"]["command"]
    assert secured.main(["files", str(place), *hosts]) == 0
    return place


def services(**environ: str) -> dict[str, Any]:
    """The services, as they are with these variables."""

    def meant(found: re.Match[str]) -> str:
        return environ.get(found[1], found[2])

    text = re.sub(r"\$\{(\w+):-([^}]*)\}", meant, COMPOSE.read_text())
    assert "$" not in text
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def settings(folder: Path, **environ: str) -> Settings:
    """Those that the gateway of the compose file starts with; `folder` has what is at /secured there."""
    words = [word.replace("/secured", str(folder)) for word in services(**environ)["gateway"]["command"]]
    return settings_of(words)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_every_client_has_to_log_in_over_tls(folder: Path) -> None:
    found = settings(folder)

    assert [(each.tls, each.sasl) for each in found.listeners] == [(True, True), (True, True)]
    assert (found.authorization, found.admin_authentication, found.admin_tls) == (True, True, True)
    assert found.super_users == frozenset({"User:admin"})


def test_each_side_is_told_a_name_that_is_in_the_certificate(secured: ModuleType, folder: Path) -> None:
    found = settings(folder, MAGNETAR_HOST="localhost")

    told = {each.name: (each.advertised_host, each.advertised_port) for each in found.listeners}
    assert told == {"OUTSIDE": ("localhost", 9093), "INSIDE": ("gateway", 29093)}
    assert {host for host, _ in told.values()} <= secured.names(folder / "server.pem")
    elsewhere = settings(folder, MAGNETAR_HOST="kafka.example").listeners[0]
    assert elsewhere.advertised_host == "kafka.example"
    assert services(MAGNETAR_HOST="kafka.example")["files"]["command"][-1] == "kafka.example"


def test_nothing_is_published_to_a_network_unasked() -> None:
    for name, service in services().items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
    wide = services(MAGNETAR_PUBLISH="0.0.0.0")
    assert wide["gateway"]["ports"] == ["0.0.0.0:9093:9093", "0.0.0.0:8080:8080"]
    # whoever asks nobody who they are stays at home
    assert wide["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]


def test_services_run_what_the_image_has() -> None:
    copied = [step.rest.split() for step in steps(DOCKER / "Dockerfile") if step.word == "COPY"]
    for name in ("files", "rights"):
        program = services()[name]["entrypoint"][-1]
        assert ["docker/secured.py", program] in copied
        assert services()[name]["command"][:2] == [name, "/secured"]
    # a volume belongs to whom its folder in the image belongs
    assert any(
        re.search(r"install -d -o magnetar .* /secured\b", step.rest)
        for step in steps(DOCKER / "Dockerfile")
        if step.word == "RUN"
    )
    assert services()["rights"]["command"][2] == "gateway:29093"
    volumes = yaml.safe_load(COMPOSE.read_text())["volumes"]
    for service in services().values():
        if "build" in service:
            assert ROOT / service["build"]["dockerfile"] == DOCKER / "Dockerfile"
            assert "HEALTHCHECK" in last_stage(DOCKER / "Dockerfile")
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in volumes or (DOCKER / source).is_dir()
        for other in service.get("depends_on", {}):
            assert other in services()


def test_prometheus_shows_its_token_over_tls(folder: Path) -> None:
    config = yaml.safe_load((DOCKER / "prometheus" / "secured.yml").read_text())
    plain = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    ((target,),) = [each["targets"] for each in job["static_configs"]]
    found = settings(folder)

    assert found.admin is not None
    assert target == f"gateway:{found.admin.port}"
    check_host(target, own_names(found))
    for path in (job["tls_config"]["ca_file"], job["authorization"]["credentials_file"]):
        file = Path(path.replace("/secured", str(folder)))
        # in its container it is another user
        assert mode(file) & stat.S_IROTH
    assert (job["scheme"], job["job_name"]) == ("https", plain["scrape_configs"][0]["job_name"])
    assert {name: config[name] for name in ("global", "rule_files")} == {
        name: plain[name] for name in ("global", "rule_files")
    }
    command = services()["prometheus"]["command"]
    assert "--config.file=/etc/prometheus/secured.yml" in command


def test_secrets_are_for_the_gateway_alone_and_stay(secured: ModuleType, folder: Path) -> None:
    public = {"ca.pem", "server.pem", "prometheus.token", "rights.given"}
    before = {each.name: each.read_bytes() for each in folder.iterdir()}

    assert {name for name in before if mode(folder / name) & 0o077} == public & set(before)
    assert secured.main(["files", str(folder), "gateway", "localhost"]) == 0
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_another_name_makes_another_certificate_by_the_same_ca(secured: ModuleType, tmp_path: Path) -> None:
    secured.certificates(tmp_path, ["gateway", "localhost"])
    ca, server = (tmp_path / "ca.pem").read_bytes(), tmp_path / "server.pem"
    assert "kafka.example" not in secured.names(server)

    secured.certificates(tmp_path, ["gateway", "kafka.example"])

    assert {"gateway", "kafka.example"} <= secured.names(server)
    assert (tmp_path / "ca.pem").read_bytes() == ca


def test_what_is_no_command_is_told(secured: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert secured.main(["files", "somewhere"]) == 2
    assert "files FOLDER HOST" in capsys.readouterr().out


class Composed(MagnetarPeer):
    """The gateway of the compose file, but for the container: on ports of 127.0.0.1, with files of another folder."""

    def __init__(self, folder: Path, directory: Path) -> None:
        super().__init__(directory=directory)
        self.inside = free_port()
        self._places = {
            "OUTSIDE://0.0.0.0:9093": f"OUTSIDE://{self.bootstrap}",
            "INSIDE://0.0.0.0:29093": f"INSIDE://{self.host}:{self.inside}",
            "gateway:29093": f"{self.host}:{self.inside}",
            "localhost:9093": self.bootstrap,
            "0.0.0.0:8080": f"0.0.0.0:{self.admin_port}",
            "/secured": str(folder),
        }

    @property
    def arguments(self) -> list[str]:
        words = []
        for word in services()["gateway"]["command"]:
            for said, here in self._places.items():
                word = word.replace(said, here)
            words.append(word)
        return [*words, "--data", str(self.data)]


def scrape(gateway: Composed, folder: Path, token: str = "") -> int:
    """The status of what Prometheus is answered."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    asked = urllib.request.Request(f"https://localhost:{gateway.admin_port}/metrics")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, context=context, timeout=30) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.integration
def test_the_first_user_logs_in_and_prometheus_scrapes(
    secured: ModuleType, folder: Path, tmp_path: Path
) -> None:
    token = (folder / "prometheus.token").read_text()
    with Composed(folder, tmp_path) as gateway:
        refused = [
            scrape(gateway, folder),
            scrape(gateway, folder, token + "x"),
            scrape(gateway, folder, token),
        ]
        assert refused == [401, 401, 403]

        # as the first user, by the file that is for people, too
        assert secured.main(["rights", str(folder), f"{gateway.host}:{gateway.inside}"]) == 0

        assert scrape(gateway, folder, token) == 200
        assert "users were made of users.file" in gateway.log()
    # once: the gateway is not asked again
    assert secured.main(["rights", str(folder), "127.0.0.1:1"]) == 0
