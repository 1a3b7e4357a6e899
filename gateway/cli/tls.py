"""`magnetar tls`: certificates to try TLS out with."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import STARTED_BADLY, USED_BADLY, say

if TYPE_CHECKING:
    from gateway.auth.issuing import Pair

DAYS = 825
"""What macOS takes at most."""

_HOST = re.compile(
    r"(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
)
LONGEST_HOST = 253
"""Characters of a name in DNS."""
_CLIENT = re.compile(r"[A-Za-z0-9@_+][A-Za-z0-9@_.+-]{0,62}")
_TAKEN = ("ca", "ca-key", "server", "server-key")


@click.group()
def tls() -> None:
    """Make certificates for listeners that speak TLS."""


@tls.command(
    "self-signed",
    epilog="""\b
    Examples:
      magnetar tls self-signed tls
      magnetar tls self-signed tls --host kafka.example --host 10.0.0.5
      magnetar tls self-signed tls --client ada

    The first makes, in the folder tls: ca.pem and ca-key.pem, a certificate authority that clients are to trust, and
    server.pem and server-key.pem, which the gateway shows. Then:

    \b
      magnetar serve --listen SSL://127.0.0.1:9092 --tls-cert tls/server.pem --tls-key tls/server-key.pem

    With --client the same CA signs a certificate by which the gateway knows a client (User:CN=ada), if it is started
    with --tls-ca tls/ca.pem --set ssl.client.auth=required. It asks for rights then: --set super.users=User:CN=ada
    gives them all to ada, who gives them to others.

    A CA that is there is used again. With it --client makes that client's files alone, and --force puts new ones in
    their place; the gateway's own are made anew by --force without --client, or with --host.

    Whoever has ca-key.pem can make certificates that your clients and your gateway trust: keep it to yourself, and take
    the certificates of your own CA where there is one.
    """,
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or address by which clients reach the gateway; may be given several times. localhost, 127.0.0.1, ::1 "
    "and the name of this machine are there in any case.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make a certificate for a client of this name; may be given several times.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=DAYS,
    show_default=True,
    help="How long certificates are valid.",
)
@click.option(
    "--force", is_flag=True, help="Put new certificates in the place of old ones, by the CA that is there."
)
def self_signed(
    folder: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int, force: bool
) -> None:
    """Make a CA and a certificate for this gateway, in DIR; print what clients are to be told."""
    for name in clients:
        if not _CLIENT.fullmatch(name) or name in _TAKEN or name.endswith(("-key", "-keystore")):
            say(
                f"{name} is no name for a client here: letters, digits and @ _ . + - make one, and {', '.join(_TAKEN)} "
                "are taken."
            )
            sys.exit(USED_BADLY)
    for name in hosts:
        if not is_host(name):
            say(
                f"{name!r} is no name of a host: letters, digits and - make one, with dots between its parts, or it is "
                "an address. A name in other letters is said as DNS has it (xn--...)."
            )
            sys.exit(USED_BADLY)
    try:
        _make(folder, hosts, clients, days, force)
    except OSError as error:
        say(f"{error.filename or folder} cannot be written: {error.strerror}.")
        sys.exit(STARTED_BADLY)


def is_host(name: str) -> bool:
    """Whether it is an address, or a name that a certificate can be for; its first part may be `*`."""
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return len(name) <= LONGEST_HOST and _HOST.fullmatch(name) is not None


def _make(folder: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int, force: bool) -> None:
    from gateway.auth import issuing

    now = datetime.datetime.now(datetime.UTC)
    folder.mkdir(parents=True, exist_ok=True)
    # a certificate that a gateway shows stays, with its names, where it is a client that is wanted
    server = bool(hosts) or not clients or not (folder / "ca.pem").exists()
    if not force:
        if hosts and clients and (folder / "server.pem").exists():
            say(
                f"{folder} has server.pem already, and --host is for a new one: leave --host out, or add --force to "
                "put new certificates in the place of all that you name."
            )
            sys.exit(STARTED_BADLY)
        wanted = [*(("server", "server-key") if server else ()), *clients]
        there = [name for each in wanted if (folder / (name := f"{each}.pem")).exists()]
        if there:
            say(
                f"{folder} has {' and '.join(there)} already: add --force to put new ones in their place, or name "
                "another folder."
            )
            sys.exit(STARTED_BADLY)
    ca = _authority(folder, now)
    if server:
        own = ("localhost", "127.0.0.1", "::1", *filter(is_host, [socket.gethostname()]))
        names = list(dict.fromkeys((*hosts, *own)))
        try:
            pair = issuing.server(ca, names, now, days)
        except ValueError as error:
            say(f"One of {', '.join(names)} is no name of a host: {error}.")
            sys.exit(USED_BADLY)
        _keep(folder, "server", pair)
        click.echo(
            f"made {folder / 'server.pem'} for {', '.join(names)}, {days} days; {folder / 'server-key.pem'}"
        )
    for name in clients:
        pair = issuing.client(ca, name, now, days)
        _keep(folder, name, pair)
        _write(folder / f"{name}-keystore.pem", pair.key_pem + pair.certificate_pem, private=True)
        click.echo(
            f"made {folder / f'{name}.pem'} for User:CN={name}, {days} days, its key, and both for Java"
        )
    click.echo(_told(folder, clients))


def _authority(folder: Path, now: datetime.datetime) -> Pair:
    """The CA of a folder, made where there is none."""
    from gateway.auth import issuing

    certificate, key = folder / "ca.pem", folder / "ca-key.pem"
    if not certificate.exists() and not key.exists():
        ca = issuing.authority(f"Magnetar CA of {socket.gethostname()}"[:64], now)
        _keep(folder, "ca", ca)
        click.echo(f"made {certificate}, which clients are to trust, and {key}, which nobody else may have")
        return ca
    try:
        return issuing.read(certificate.read_bytes(), key.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        say(
            f"{certificate} and {key} cannot be used as a CA: {error}. Move both away to have new ones, or name "
            "another folder."
        )
        sys.exit(STARTED_BADLY)


def _keep(folder: Path, name: str, pair: Pair) -> None:
    # a gateway that looks in between finds a pair that does not fit, and keeps what it has until the next look
    _write(folder / f"{name}-key.pem", pair.key_pem, private=True)
    _write(folder / f"{name}.pem", pair.certificate_pem, private=False)


def _write(path: Path, data: bytes, *, private: bool) -> None:
    """Whole or not at all; a private file is for its owner only, from its first byte on."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as file:
        file.write(data)
    new.replace(path)


def _told(folder: Path, clients: tuple[str, ...]) -> str:
    """What the gateway and its clients are to be told."""
    where = folder.absolute()
    # rights are asked for where certificates are: else the first client could do nothing, and nobody give it rights
    ask = (
        f" \\\n    --tls-ca {folder / 'ca.pem'} --set ssl.client.auth=required --set super.users=User:CN={clients[0]}"
        if clients
        else ""
    )
    lines = []
    if (folder / "server.pem").exists():
        lines += [
            "",
            "The gateway:",
            f"  magnetar serve --listen SSL://127.0.0.1:9092 --tls-cert {folder / 'server.pem'} --tls-key "
            f"{folder / 'server-key.pem'}{ask}",
        ]
    for name in clients or (None,):
        pem = None if name is None else where / f"{name}.pem"
        key = None if name is None else where / f"{name}-key.pem"
        both = None if name is None else where / f"{name}-keystore.pem"
        ca = where / "ca.pem"
        own = "" if name is None else f" as {name}"
        lines += [
            "",
            f"librdkafka{own} (confluent-kafka, kcat, node-rdkafka, Confluent's .NET and Go):",
            "  security.protocol=SSL",
            f"  ssl.ca.location={ca}",
            *([f"  ssl.certificate.location={pem}", f"  ssl.key.location={key}"] if name else []),
            "",
            f"Java{own}, in a properties file:",
            "  security.protocol=SSL",
            "  ssl.truststore.type=PEM",
            f"  ssl.truststore.location={ca}",
            *(["  ssl.keystore.type=PEM", f"  ssl.keystore.location={both}"] if name else []),
            "",
            f"Spark{own}:",
            '  .option("kafka.security.protocol", "SSL")',
            '  .option("kafka.ssl.truststore.type", "PEM")',
            f'  .option("kafka.ssl.truststore.location", "{ca}")',
            *(
                [
                    '  .option("kafka.ssl.keystore.type", "PEM")',
                    f'  .option("kafka.ssl.keystore.location", "{both}")',
                ]
                if name
                else []
            ),
            "",
            f"Python{own}, confluent-kafka:",
            f'  Producer({{"bootstrap.servers": "localhost:9092", "security.protocol": "SSL", "ssl.ca.location": "{ca}"'
            + (f', "ssl.certificate.location": "{pem}", "ssl.key.location": "{key}"' if name else "")
            + "})",
            f"Python{own}, kafka-python:",
            f'  KafkaProducer(bootstrap_servers="localhost:9092", security_protocol="SSL", ssl_cafile="{ca}"'
            + (f', ssl_certfile="{pem}", ssl_keyfile="{key}"' if name else "")
            + ")",
        ]
    return "\n".join(lines)
