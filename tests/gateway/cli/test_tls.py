"""`magnetar tls self-signed`: what it makes, what it leaves alone, and what it tells."""

from __future__ import annotations

import re
import shlex
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from gateway.auth import certificates
from gateway.auth.context import REQUIRED, load
from gateway.cli.main import main
from gateway.clock import SystemClock
from tests.gateway.pki import settings


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["tls", "self-signed", str(folder), *arguments])


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_gateway_can_be_started_with_what_it_makes(tmp_path: Path) -> None:
    done = run(tmp_path / "tls", "--host", "kafka.example", "--host", "10.0.0.5")
    assert done.exit_code == 0, done.output
    names = certificates.names_of(read(tmp_path / "tls" / "server.pem"))
    assert {"kafka.example", "10.0.0.5", "localhost", "127.0.0.1", "::1"} < set(names)
    flags = re.findall(r"--tls-(cert|key) (\S+)", done.output)
    kinds = {"cert": "certificate", "key": "key"}
    loaded = load(
        settings(*(f"ssl.{kinds[kind]}.location={path}" for kind, path in flags)), SystemClock().wall_ms()
    )
    assert 824 * 86_400_000 < loaded.ends_at - SystemClock().wall_ms() <= 825 * 86_400_000


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    run(tmp_path, "--client", "ada")
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    private = {"ca-key.pem", "server-key.pem", "ada-key.pem", "ada-keystore.pem"}
    assert set(found) == private | {"ca.pem", "server.pem", "ada.pem"}
    assert {name for name, mode in found.items() if mode == 0o600} == private


def test_nothing_is_overwritten_unless_told_and_the_ca_never_is(tmp_path: Path) -> None:
    run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(tmp_path)
    assert done.exit_code == 1
    assert "server.pem and server-key.pem already: add --force" in done.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run(tmp_path, "--force", "--days", "7").exit_code == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in after if after[name] == before[name]} == {"ca.pem", "ca-key.pem"}


def test_a_client_comes_later_by_the_same_ca(tmp_path: Path) -> None:
    run(tmp_path)
    server = (tmp_path / "server.pem").read_bytes()
    done = run(tmp_path, "--client", "ada", "--client", "bob@example")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "server.pem").read_bytes() == server
    ca = [read(tmp_path / "ca.pem")]
    for name in ("ada", "bob@example"):
        found = read(tmp_path / f"{name}.pem")
        assert found.subject.rfc4514_string() == f"CN={name}"
        found.verify_directly_issued_by(ca[0])
        # Java wants both in one file
        both = settings(f"ssl.keystore.location={tmp_path / f'{name}-keystore.pem'}")
        assert certificates.own(both, SystemClock().wall_ms()).leaf == found
    assert run(tmp_path, "--client", "ada").exit_code == 1
    asking = [
        f"ssl.certificate.location={tmp_path / 'server.pem'}", f"ssl.key.location={tmp_path / 'server-key.pem'}",
        f"ssl.ca.location={tmp_path / 'ca.pem'}", "ssl.client.auth=required",
    ]  # fmt: skip
    command = done.output[done.output.index("magnetar serve") :].replace("\\\n", "")
    words = shlex.split(command.splitlines()[0])
    said = [after for word, after in pairwise(words) if word == "--set"]
    assert words[words.index("--tls-ca") + 1] == str(tmp_path / "ca.pem")
    # whoever has no rights could give none
    assert settings(*said).super_users == {"User:CN=ada"}
    assert "ssl.client.auth=required" in said
    assert REQUIRED in load(settings(*asking), SystemClock().wall_ms()).contexts


def test_a_client_that_comes_anew_leaves_the_certificate_of_the_gateway(tmp_path: Path) -> None:
    run(tmp_path, "--host", "kafka.example", "--client", "ada")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "add --force" in run(tmp_path, "--client", "ada").output
    assert run(tmp_path, "--client", "ada", "--force").exit_code == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"ada.pem", "ada-key.pem", "ada-keystore.pem"}


def test_hosts_are_not_left_out_silently_beside_a_certificate_that_is_there(tmp_path: Path) -> None:
    run(tmp_path)
    done = run(tmp_path, "--client", "ada", "--host", "kafka.example")
    assert done.exit_code == 1
    assert "has server.pem already, and --host is for a new one" in done.output
    assert not (tmp_path / "ada.pem").exists()
    assert run(tmp_path, "--client", "ada", "--host", "kafka.example", "--force").exit_code == 0
    assert "kafka.example" in certificates.names_of(read(tmp_path / "server.pem"))


def test_where_there_is_a_ca_and_no_gateway_a_client_is_made_alone(tmp_path: Path) -> None:
    run(tmp_path)
    for name in ("server.pem", "server-key.pem"):
        (tmp_path / name).unlink()
    done = run(tmp_path, "--client", "ada")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "server.pem").exists()
    assert "magnetar serve" not in done.output


def test_every_kind_of_client_is_told_what_to_set(tmp_path: Path) -> None:
    told = run(tmp_path, "--client", "ada").output
    for each in (
        f"ssl.ca.location={tmp_path / 'ca.pem'}",
        f"ssl.key.location={tmp_path / 'ada-key.pem'}",
        f"ssl.truststore.location={tmp_path / 'ca.pem'}",
        f"ssl.keystore.location={tmp_path / 'ada-keystore.pem'}",
        f'.option("kafka.ssl.keystore.location", "{tmp_path / "ada-keystore.pem"}")',
        f'ssl_cafile="{tmp_path / "ca.pem"}"',
        f'"ssl.certificate.location": "{tmp_path / "ada.pem"}"',
    ):
        assert each in told


@pytest.mark.parametrize("name", ["../eve", "ca", "server", "x-key", "-x", "", "a,b", "a/b", "x" * 64])
def test_names_of_clients_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    done = run(tmp_path / "tls", f"--client={name}")
    assert done.exit_code == 2
    assert "is no name for a client here" in done.output
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize(
    "host", ["bücher.example", "bad host!", "", "a..b", "-a.example", "a/b", "x" * 64, "a.*"]
)
def test_a_host_that_is_none_is_refused(tmp_path: Path, host: str) -> None:
    done = run(tmp_path / "tls", "--host", host)
    assert done.exit_code == 2
    assert "is no name of a host" in done.output
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize("host", ["*.shop.example", "10.0.0.5", "::2", "my_host", "xn--bcher-kva.example"])
def test_hosts_that_are_some_are_taken(tmp_path: Path, host: str) -> None:
    done = run(tmp_path, "--host", host)
    assert (done.exit_code, f"for {host}, localhost" in done.output) == (0, True)


def test_half_a_ca_and_folders_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    run(tmp_path / "tls")
    (tmp_path / "tls" / "ca-key.pem").unlink()
    done = run(tmp_path / "tls", "--client", "ada")
    assert done.exit_code == 1
    assert "cannot be used as a CA" in done.output
    (tmp_path / "file").write_bytes(b"")
    done = run(tmp_path / "file" / "below")
    assert done.exit_code == 1
    assert "cannot be written" in done.output
