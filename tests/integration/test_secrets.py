"""No secret is told: a gateway gets one in every place that there is for one, all of them are used and misused over
Kafka, HTTP and by the command line, and then everything that it says or keeps is searched for each.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import free_port
from compat.peers.secured import Secured
from compat.tools import PROJECT
from gateway.cli.admin import main as magnetar_admin
from gateway.cli.main import main as magnetar
from tests.gateway.auth.jwt_making import RSA_KEY, token
from tests.gateway.auth.known import ScramClient
from tests.proofs.fuzz import logins
from tests.proofs.fuzz.frames import sized

pytestmark = pytest.mark.integration

ADA, BOB = "ada", "bob"
"""The super-user; somebody without rights."""

BREAKS = """
import sys
if "serve" in sys.argv:
    from gateway.broker import users

    right = users.Users.identify_password

    async def broken(self, name, password, mechanism_hint):
        if name == "broken":
            raise RuntimeError("planted")
        return await right(self, name, password, mechanism_hint)

    users.Users.identify_password = broken
"""


class World:
    """A gateway's secrets, by what they are, and where it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets: dict[str, str] = {}
        self.secured = Secured(folder / "tls")
        self.secured.prepare()
        self.encrypted, self.plain = free_port(), free_port()
        self.token_key = secrets.token_bytes(32)
        self.secrets["the key of tokens"] = base64.b64encode(self.token_key).decode()
        self._stores()
        users = folder / "users"
        users.write_text(
            f"{ADA}:{self.new('the password of ada')}\n{BOB}:{self.new('the password of bob')}\n"
        )
        users.chmod(0o600)
        self.config = folder / "magnetar.toml"
        self.config.write_text(
            "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in self._settings(users).items())
        )
        self.config.chmod(0o600)

    def new(self, what: str) -> str:
        """A secret that nothing else is like."""
        made = self.secrets[what] = f"S3{secrets.token_hex(12)}"
        return made

    def _stores(self) -> None:
        key: Any = load_pem_private_key(self.secured.key.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(self.secured.certificate.read_bytes())
        locked = BestAvailableEncryption(self.new("the password of the keystore").encode())
        (self.folder / "key.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"gateway", key, certificate, None, locked)
        )
        ca = x509.load_pem_x509_certificate(self.secured.ca.read_bytes())
        locked = BestAvailableEncryption(self.new("the password of the truststore").encode())
        (self.folder / "ca.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"ca", None, None, [ca], locked)
        )

    def _settings(self, users: Path) -> dict[str, str]:
        here = "127.0.0.1"
        return {
            "listeners": f"SASL_SSL://{here}:{self.encrypted},SASL_PLAINTEXT://{here}:{self.plain}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "sasl.plain.insecure": "true",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.folder / "key.p12"),
            "ssl.keystore.password": self.secrets["the password of the keystore"],
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.folder / "ca.p12"),
            "ssl.truststore.password": self.secrets["the password of the truststore"],
            "ssl.client.auth": "requested",
            "token.secret.key": self.secrets["the key of tokens"],
            "users.file": str(users),
            "super.users": f"User:{ADA}",
            "log.level": "debug",
            "audit.max.per.second": "1000",
        }

    def token(self, what: str, subject: str, **more: Any) -> str:
        """One that is good; its signature is what nobody else may have."""
        made = token({"alg": "HS256"}, {"sub": subject, **more}, self.token_key)
        self.secrets[what] = made.rpartition(".")[2]
        return made

    def needles(self) -> dict[str, bytes]:
        """What is searched for."""
        found = {what: secret.encode() for what, secret in self.secrets.items()}
        for name in (ADA, BOB):
            said = f"{name}:{self.secrets[f'the password of {name}']}"
            found[f"Basic of {name}"] = base64.b64encode(said.encode())
        return found


# -- use and misuse ----------------------------------------------------------------------------------------------------


def over_kafka(world: World) -> None:
    """Each mechanism, rightly and wrongly, and secrets where they should not be said."""
    ada, bob = world.secrets["the password of ada"], world.secrets["the password of bob"]
    good, ended = world.token("a token", ADA), world.token("a token that has ended", ADA, exp=1)
    stranger = token({"alg": "RS256"}, {"sub": ADA}, RSA_KEY)
    world.secrets["a token of a stranger"] = stranger.rpartition(".")[2]
    guess = world.new("a wrong password").encode()
    newline = world.new("a password with a newline").encode()
    bare = world.new("a password as a bare token").encode()
    early = world.new("a password before the handshake").encode()
    broken = world.new("a password that breaks the login").encode()
    halves = world.new("a password in a message that is none").encode()
    plain, handshake, say = b"\0%s\0%s", logins.handshake, logins.say
    exchanges = (
        (handshake("PLAIN"), say(plain % (BOB.encode(), bob.encode()))),
        (handshake("PLAIN"), say(plain % (ADA.encode(), guess))),
        (handshake("PLAIN"), say(plain % (b"nobody", guess))),
        (handshake("PLAIN"), say(plain % (ADA.encode(), newline + b"\r\nINFO all is well"))),
        (handshake("PLAIN"), say(plain % (ADA.encode(), newline * 90))),
        (handshake("PLAIN"), say(ADA.encode() + plain % (BOB.encode(), bob.encode()))),
        (handshake("PLAIN"), say(b"ada:" + halves)),
        (handshake("PLAIN"), say(b"\0ada\0\0" + halves)),
        (handshake("PLAIN"), say(b"\0ada\0\xff" + halves)),
        (handshake("PLAIN"), say(plain % (b"broken", broken))),
        (handshake("PLAIN"), say(plain % (b"public/default", b"token:" + good.encode()))),
        (handshake("PLAIN"), say(plain % (b"public/default", b"token:" + ended.encode()))),
        (handshake("PLAIN"), say(plain % (ADA.encode(), b"token:" + stranger.encode()))),
        (handshake("PLAIN", 0), sized(plain % (ADA.encode(), bare))),
        (handshake("PLAIN", 0), plain % (ADA.encode(), bare)),
        (say(plain % (ADA.encode(), early)),),
        (plain % (ADA.encode(), early),),
        (handshake("OAUTHBEARER"), say(b"n,,\x01auth=Bearer " + good.encode() + b"\x01\x01")),
        (handshake("OAUTHBEARER"), say(b"n,,\x01auth=Bearer " + ended.encode() + b"\x01\x01"), say(b"\x01")),
        (
            handshake("OAUTHBEARER"),
            say(b"n,,\x01auth=Bearer " + stranger.encode() + b"\x01\x01"),
            say(b"\x01"),
        ),
        (handshake("OAUTHBEARER"), say(b"auth=Bearer " + good.encode())),
        (handshake("SCRAM-SHA-256"), say(b"n,,n=ada,r=abc,password=" + halves), say(halves)),
        (handshake("SCRAM-SHA-512"), say(ScramClient("SCRAM-SHA-512", ADA, ada).first), say(halves)),
    )
    # each that is refused waits for a moment
    with ThreadPoolExecutor(8) as threads:
        for over_tls in (True, False):
            speak = partial(spoken, world, over_tls=over_tls)
            list(threads.map(speak, map(b"".join, exchanges)))
    # in clear, to who speaks TLS
    spoken(world, handshake("PLAIN") + say(plain % (ADA.encode(), early)), False, world.encrypted)
    admin = AdminClient(librdkafka(world, ADA))
    admin.list_topics(timeout=20)
    change = UserScramCredentialUpsertion(
        "carol",
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
        world.new("a password by Kafka").encode(),
    )
    admin.alter_user_scram_credentials([change])["carol"].result(20)
    refused = UserScramCredentialUpsertion(
        "carol,ada",
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
        world.new("one refused").encode(),
    )
    with pytest.raises(KafkaException):
        admin.alter_user_scram_credentials([refused])["carol,ada"].result(20)


def spoken(world: World, said: bytes, over_tls: bool, port: int = 0) -> bytes:
    """What is answered until the end, or for half a second."""
    heard = bytearray()
    where = "127.0.0.1", port or (world.encrypted if over_tls else world.plain)
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.create_connection(where, 5))
        if over_tls:
            context = ssl.create_default_context(cafile=str(world.secured.ca))
            sock = stack.enter_context(context.wrap_socket(sock, server_hostname="127.0.0.1"))
        sock.settimeout(0.5)
        sock.sendall(said)
        while data := sock.recv(1 << 16):
            heard += data
    return bytes(heard)


def librdkafka(world: World, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{world.encrypted}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(world.secured.ca),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": world.secrets[f"the password of {user}"],
    }


def over_http(world: World, gateway: MagnetarPeer) -> dict[str, bytes]:
    """Headers, addresses and bodies, rightly and wrongly; the answers."""
    good = world.token("a token over HTTP", ADA)
    basic = f"Basic {basic_of(ADA, world.secrets['the password of ada'])}"
    wrong = world.new("a wrong password over HTTP")
    answers: dict[str, bytes] = {}
    for number, headers in enumerate(
        (
            {"Authorization": basic},
            {"Authorization": f"Basic {basic_of(BOB, world.secrets['the password of bob'])}"},
            {"Authorization": f"Bearer {good}"},
            {"Authorization": f"Bearer {good}x"},
            {"Authorization": f"Basic {basic_of(ADA, wrong)}"},
            {"Authorization": f"Basic {wrong}"},
            {"Authorization": f"Bearer {wrong}"},
            {"Authorization": wrong},
            {"Authorization": f"Digest password={wrong}"},
            {"Authorization": basic, "Cookie": f"session={wrong}"},
        )
    ):
        for path in ("/admin/v2/tenants", f"/admin/v2/clusters?token={wrong}", "/nowhere"):
            answers[f"{path[:18]} {number}"] = asked(gateway, "GET", path, headers)
    by_http = world.new("a password by HTTP")
    for who in ({"Authorization": basic}, {"Authorization": f"Bearer {wrong}"}):
        for path, body in (
            ("/admin/v2/magnetar/users/dan", {"password": by_http}),
            ("/admin/v2/magnetar/users/dan,x", {"password": by_http}),
            ("/admin/v2/magnetar/users/dan", {"passwort": by_http}),
            ("/admin/v2/magnetar/users/dan", by_http),
            ("/admin/v2/magnetar/users/dan", {"password": by_http * 100}),
        ):
            headers = {**who, "Content-Type": "application/json"}
            answers[f"PUT {path}"] = asked(gateway, "PUT", path, headers, json.dumps(body).encode())
    for path in (
        "/metrics",
        "/admin/v2/brokers/configuration/runtime",
        "/admin/v2/brokers/configuration/values",
        "/admin/v2/magnetar/users",
        "/admin/v2/magnetar/users/ada",
        "/admin/v2/magnetar/audit?limit=3000",
    ):
        answers[path] = asked(gateway, "GET", path, {"Authorization": basic})
    return answers


def asked(
    gateway: MagnetarPeer, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> bytes:
    """The answer: its head and its body."""
    request = urllib.request.Request(gateway.admin_url + path, body, dict(headers), method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        found: bytes = str(answer.headers).encode() + answer.read()
        return found


def basic_of(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


def by_command(world: World, gateway: MagnetarPeer) -> dict[str, bytes]:
    """The tools' output."""
    runner = CliRunner(env={"MAGNETAR_CONFIG": None})
    ada = world.secrets["the password of ada"]
    admin = ("--admin-url", gateway.admin_url, "--user", ADA, "users")
    env = {"MAGNETAR_ADMIN_PASSWORD": ada}
    made, other = world.new("a password by the tool"), world.new("another by the tool")
    calls: dict[str, Result] = {
        "create": runner.invoke(magnetar_admin, [*admin, "create", "fay", "--password-stdin"], made, env),
        "passwd": runner.invoke(magnetar_admin, [*admin, "passwd", "fay", "--password-stdin"], other, env),
        "not made": runner.invoke(magnetar_admin, [*admin, "create", "a,b", "--password-stdin"], other, env),
        "list": runner.invoke(magnetar_admin, [*admin, "list"], env=env),
        "wrong": runner.invoke(
            magnetar_admin,
            [*admin, "list"],
            env={"MAGNETAR_ADMIN_PASSWORD": world.new("a wrong one by the tool")},
        ),
    }
    config = ["config", "--config", str(world.config)]
    for what, more in {
        "config": [],
        "config changed": ["--changed"],
        "config toml": ["--format", "toml"],
        "config explained": ["ssl.keystore.password", "ssl.truststore.password", "token.secret.key"],
    }.items():
        calls[what] = runner.invoke(magnetar, [*config, *more])
    assert [calls[what].exit_code for what in calls] == [0, 0, 1, 0, 1, 0, 0, 0, 0]
    return {what: (result.stdout + result.stderr).encode() for what, result in calls.items()}


def described(world: World) -> dict[str, bytes]:
    """What DescribeConfigs says of the broker, and that secrets have no value there."""
    admin = AdminClient(librdkafka(world, ADA))
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    entries = future.result(20)
    hidden = {name for name, entry in entries.items() if entry.is_sensitive}
    assert hidden >= {"ssl.keystore.password", "ssl.truststore.password", "token.secret.key"}
    assert {entries[name].value for name in hidden} == {None}
    return {"DescribeConfigs": repr({name: entry.value for name, entry in entries.items()}).encode()}


# -- the search --------------------------------------------------------------------------------------------------------


def told(needles: Mapping[str, bytes], places: Mapping[str, bytes]) -> list[str]:
    """Which secret stands where."""
    return [
        f"{what} in {where}: {text[max(0, text.index(needle) - 80) : text.index(needle) + 20]!r}"
        for where, text in places.items()
        for what, needle in needles.items()
        if needle in text
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_in_anything_that_is_told_or_kept(tmp_path: Path, form: str) -> None:
    world = World(tmp_path)
    plant = tmp_path / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(BREAKS)
    environ = {"PYTHONPATH": f"{plant}:{PROJECT}"}
    gateway = Quiet("--config", str(world.config), "--log-format", form, directory=tmp_path, environ=environ)
    with gateway:
        over_kafka(world)
        places = {**over_http(world, gateway), **by_command(world, gateway), **described(world)}
        gateway.stop()
    log = gateway.log()
    places |= {"the log": log.encode(), "standard output": "\n".join(gateway.lines).encode()}
    places |= {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in gateway.data.rglob("*")
        if path.is_file()
    }
    # all of it has happened; the same failure of a login is told once a minute, and these are 19
    assert len(re.findall("a login failed", log)) >= 19
    assert "a login broke" in log
    assert "planted" in log
    assert b"fay" in places["list"]
    assert b"dan" in places["/admin/v2/magnetar/users"]
    assert b"login by PLAIN" in places["/admin/v2/magnetar/audit?limit=3000"]
    assert len(world.needles()) > 20
    assert told(world.needles(), places) == []
    # and nobody has written a line of its own
    assert not [line for line in log.splitlines() if line.startswith("INFO all is well")]


class Quiet(MagnetarPeer):
    """One whose listeners are said by its file of settings alone."""

    @property
    def arguments(self) -> list[str]:
        return ["serve", "--admin", f"{self.host}:{self.admin_port}", "--data", str(self.data), *self.flags]


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("ssl.keystore.password", "the password of the keystore"),
        ("token.secret.key", "the key of tokens"),
        ("users.file", "the password of ada"),
    ],
)
def test_a_gateway_that_does_not_start_says_why_and_not_with_what(
    tmp_path: Path, setting: str, what: str
) -> None:
    world = World(tmp_path)
    wrong = f"W7{secrets.token_hex(12)}"
    if setting == "users.file":
        (tmp_path / "users").write_text(f"{ADA}:{world.secrets[what]}\nno colon here {wrong}\n")
    else:
        text = world.config.read_text()
        # the key of tokens is no base64 with this
        bad = wrong if setting == "ssl.keystore.password" else f"{wrong}!"
        world.config.write_text(text.replace(world.secrets[what], bad))
    result = CliRunner(env={"MAGNETAR_CONFIG": None}).invoke(
        magnetar, ["serve", "--config", str(world.config), "--admin", "", "--data", str(tmp_path / "data")]
    )
    said = result.stdout + result.stderr
    assert result.exit_code == 1
    assert setting.rpartition(".")[0].split(".")[0] in said or "users" in said
    assert told({**world.needles(), "the wrong one": wrong.encode()}, {"what it says": said.encode()}) == []
