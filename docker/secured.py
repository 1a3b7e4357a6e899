"""What compose.secured.yaml needs beside the gateway: files for its first start, and the right of Prometheus.

    python secured.py files FOLDER HOST...      certificates for these names, the first user, a token for Prometheus
    python secured.py rights FOLDER HOST:PORT   once the gateway serves: Prometheus may read its metrics

What is there stays. A certificate that lacks one of the names is made anew by the same CA.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from gateway.cli.client_config import parse, translated
from gateway.cli.main import main as magnetar

ADMIN = "admin"
PROMETHEUS = "prometheus"
TIMEOUT = 30.0
"""Seconds for an answer of the gateway."""


def files(folder: Path, hosts: Sequence[str]) -> None:
    """All files that the gateway, its first user and Prometheus are started with."""
    certificates(folder, hosts)
    users, client = folder / "users", folder / f"{ADMIN}.properties"
    if not users.exists():
        password = secrets.token_urlsafe(24)
        write(client, properties(password, (folder / "ca.pem").read_text()))
        # the last: whoever stopped in between begins anew
        write(users, f"{ADMIN}:{password}\n")
    key, token = folder / "secret.key", folder / f"{PROMETHEUS}.token"
    if not key.exists():
        run("tokens", "create-secret-key", "--output", str(key))
    if not token.exists():
        said = run("tokens", "create", "--subject", PROMETHEUS, "--secret-key", f"file://{key}")
        # Prometheus is another user in its container; the folder is in these containers only
        write(token, said.strip(), mode=0o644)


def certificates(folder: Path, hosts: Sequence[str]) -> None:
    """A CA, and the gateway's certificate for these names."""
    server = folder / "server.pem"
    wanted = [word for host in hosts for word in ("--host", host)]
    if not server.exists():
        run("tls", "self-signed", str(folder), *wanted)
    elif not set(hosts) <= names(server):
        run("tls", "self-signed", str(folder), *wanted, "--force")


def names(certificate: Path) -> set[str]:
    """What a certificate is for."""
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    their = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in their}


def properties(password: str, ca: str) -> str:
    """What Kafka's tools, Spark and magnetar-admin are told, to be the first user: all of it in one file."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = (
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-256",
        f'sasl.jaas.config={module} required username="{ADMIN}" password="{password}";',
        "ssl.truststore.type=PEM",
        "ssl.truststore.certificates=" + ca.strip().replace("\n", "\\n"),
    )
    return "\n".join(lines) + "\n"


def rights(folder: Path, bootstrap: str) -> None:
    """Let Prometheus describe the cluster, which is what its metrics take. Once: an admin may take that back."""
    done = folder / "rights.given"
    if done.exists():
        return
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    login = translated(parse((folder / f"{ADMIN}.properties").read_text()))
    client = AdminClient({"bootstrap.servers": bootstrap, **login})
    row = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        f"User:{PROMETHEUS}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    for made in client.create_acls([row], request_timeout=TIMEOUT).values():
        made.result(TIMEOUT)
    write(done, "")


def run(*arguments: str) -> str:
    """What `magnetar` prints. It ends this process where it says no."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        magnetar(list(arguments), prog_name="magnetar", standalone_mode=False)
    return said.getvalue()


def write(file: Path, text: str, mode: int = 0o600) -> None:
    """Whole or not at all."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        out.write(text)
    new.chmod(mode)
    new.replace(file)


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    match arguments:
        case ["files", folder, *hosts] if hosts:
            files(Path(folder), hosts)
        case ["rights", folder, bootstrap]:
            rights(Path(folder), bootstrap)
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
