"""A gateway that asks who its clients are, over TLS and without, under attack by those who are nobody and by one who
has no rights; the witness has logged in over TLS, and logs in again and again.

Beside what `live.py` says of any gateway: nobody got in, and nothing that eve asked for was done.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import socket
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import free_port
from compat.peers.secured import Secured
from tests.gateway.auth.jwt_making import token
from tests.proofs.fuzz import frames, intruders, live
from tests.proofs.fuzz.intruders import EVE, GOT_IN, WITNESS

MIB = 1 << 20
MEMORY_LIMIT = 400 * MIB
"""90 MiB idle with two clients, 16 of tail cache, twice memory.max.bytes, and what OpenSSL and uvloop hold of 400
connections over TLS: some 50 KiB each, and 256 KiB of those that are read at once."""
SETTINGS: dict[str, str | int] = {
    "memory.max.bytes": 64 * MIB,
    "store.tail.cache.bytes": 16 * MIB,
    "max.connections": 400,
    "max.connections.per.ip": 80,
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
    "sasl.plain.insecure": "true",
    # the witness logs in again while it works
    "connections.max.reauth.ms": 15_000,
    "sasl.login.timeout.ms": 4000,
    "ssl.handshake.timeout.ms": 4000,
    "group.max.session.timeout.ms": 60_000,
}
"""Small bounds, so that what is not bounded shows."""


def run(seed: object, seconds: float, crowds: live.Crowds = intruders.CROWDS) -> bool:
    """Attack for so long, print what was seen; True when nothing was wrong."""
    with tempfile.TemporaryDirectory(prefix="magnetar-fuzz-gate-") as folder:
        figures = attacked(Path(folder), seed, seconds, crowds)
    live.show(figures, "gate")
    return not figures.wrong


def attacked(
    folder: Path, seed: object, seconds: float, crowds: live.Crowds, *, quiet: bool = False
) -> live.Figures:
    """Everything, in that folder."""
    passwords = {WITNESS: secrets.token_urlsafe(16), EVE: secrets.token_urlsafe(16)}
    secured = Secured(folder / "tls", users=passwords, super_users=(f"User:{WITNESS}",), authorizer=True)
    key = rsa.generate_private_key(65_537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "public.pem").write_bytes(public)
    (folder / "secret.key").write_bytes(secrets.token_bytes(32))
    plain = f"127.0.0.1:{free_port()}"
    with _silent() as port:
        settings = {
            **SETTINGS,
            "token.public.key": f"file://{folder}/public.pem",
            "token.secret.key": f"file://{folder}/secret.key",
            # an issuer that takes the question and never answers
            "sasl.oauthbearer.jwks.endpoint.url": f"https://127.0.0.1:{port}/keys",
            "sasl.oauthbearer.allowed.urls": f"https://127.0.0.1:{port}/keys",
        }
        gateway = MagnetarPeer(
            "--listen", f"SASL_PLAINTEXT://{plain}", directory=folder, settings=settings, secured=secured
        )

        def ready() -> live.Scene:
            clients = {"bootstrap.servers": gateway.bootstrap, **secured.librdkafka(WITNESS)}
            where = intruders.Where(
                gateway.bootstrap,
                plain,
                gateway.admin_url,
                public,
                passwords[EVE],
                token({"alg": "RS256"}, {"sub": EVE}, key),
                live.topics(clients),
            )
            basic = base64.b64encode(f"{WITNESS}:{passwords[WITNESS]}".encode()).decode()
            headers = {"Authorization": f"Basic {basic}"}
            return live.Scene(gateway, intruders.main, (where,), clients, headers, MEMORY_LIMIT)

        return live.watched(gateway, ready, seed, seconds, crowds, quiet=quiet, also=_nobody_got_in)


@contextlib.contextmanager
def _silent() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def _nobody_got_in(scene: live.Scene, figures: live.Figures) -> None:
    """What the gateway itself says of who came in and what is there."""
    if count := figures.counts[GOT_IN]:
        figures.wrong.append(f"somebody got in, {count} times")
    asked = urllib.request.Request(
        f"{scene.gateway.admin_url}/admin/v2/magnetar/audit?kind=login", headers=dict(scene.headers)
    )
    came = {entry["who"] for entry in json.load(urllib.request.urlopen(asked, timeout=30))}
    if strange := came - {f"User:{WITNESS}", f"User:{EVE}"}:
        figures.wrong.append(f"these logged in: {', '.join(sorted(strange))}")
    admin = AdminClient(dict(scene.clients))
    found = set(admin.list_topics(timeout=30).topics) - set(frames.INTERNAL)
    found = {name for name in found if not name.startswith("witness-")}
    if found != set(frames.TOPICS):
        figures.wrong.append(f"topics are {', '.join(sorted(found))}")
    groups = {each.group_id for each in admin.list_consumer_groups().result(30).valid}
    if strange := {name for name in groups if not name.startswith("witness-")} - set(frames.SHARE_GROUPS):
        figures.wrong.append(f"groups were made: {', '.join(sorted(strange))}")
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    if rows := admin.describe_acls(anything).result(30):
        figures.wrong.append(f"rights were given: {rows[:3]}")
    users = set(admin.describe_user_scram_credentials().result(30))
    if users != {WITNESS, EVE}:
        figures.wrong.append(f"users are {', '.join(sorted(users))}")
