"""The Kafka side of `magnetar-admin`: where the gateway's Kafka port is, and the client library.

Everything of confluent-kafka (librdkafka) goes through here and is imported when a command needs it: it takes 0.1 s,
and neither the gateway nor any other verb wants it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from gateway.cli.admin_client import HOME, AdminError, Misused, pair
from gateway.cli.admin_options import Options

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT = 9092
CONNECT_SECONDS = 5.0

MAX_NAME = 249
"""Characters of a topic's name."""

_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})\Z")


def kafka_options(command: F) -> F:
    """The flags that say where Kafka is."""
    command = click.option(
        "-X", "--property", "settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of librdkafka, for example -X linger.ms=100.",
    )(command)  # fmt: skip
    return click.option(
        "-b", "--bootstrap", envvar="MAGNETAR_BOOTSTRAP", metavar="HOST:PORT",
        help="The gateway's Kafka address; also from MAGNETAR_BOOTSTRAP. Without it the admin port is asked;"
        " if it does not answer, port 9092 of the same host is tried.",
    )(command)  # fmt: skip


def library() -> Any:
    """confluent_kafka. Raises AdminError with what to install."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise AdminError(
            f"This needs the Kafka client library, which cannot be loaded ({error})."
            " Install it with `pip install 'confluent-kafka>=2.16.1'`."
        ) from None
    return confluent_kafka


def named(topic: str) -> tuple[str, int | None]:
    """A Kafka topic, and the partition when the name is Pulsar's of one partition. Raises AdminError."""
    local = topic.removeprefix(HOME)
    if "/" in local:
        local = topic.removeprefix("public/default/")
    if "/" not in local and len(local) > MAX_NAME:
        raise Misused(f"A topic's name has at most {MAX_NAME} characters; this one has {len(local)}.")
    if "/" in local or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", local):
        raise Misused(
            f"{topic!r} is no topic here: write orders, or {HOME}orders. There is only public/default for now."
        )
    match = _PARTITION.match(local)
    return (match[1], int(match[2])) if match else (local, None)


def bootstrap_of(options: Options, given: str | None) -> str:
    """Where Kafka clients connect. Raises AdminError when nothing listens there."""
    address = given
    if not address:
        try:
            answer = options.client().get("magnetar/kafka")
            address = str(answer["bootstrap"]) if isinstance(answer, dict) else None
        except (AdminError, KeyError):
            address = None
    if not address:
        url = options.url if "://" in options.url else f"http://{options.url}"
        try:
            host = urlsplit(url).hostname or "127.0.0.1"
        except ValueError:
            host = "127.0.0.1"
        address = f"[{host}]:{DEFAULT_PORT}" if ":" in host else f"{host}:{DEFAULT_PORT}"
    _check_reached(address)
    return address


def _check_reached(bootstrap: str) -> None:
    """A plain connection, since librdkafka would try for a minute before it says what is wrong."""
    why = ""
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon:
            host, port = address.strip(), str(DEFAULT_PORT)
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise Misused(f"{address!r} is no address of a Kafka port: write it like 127.0.0.1:9092.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
            return
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    raise AdminError(
        f"No Kafka port answers at {bootstrap} ({why.lower()}). Start a gateway with `magnetar serve` or"
        " `make run`, or name another with --bootstrap or MAGNETAR_BOOTSTRAP."
    )


def configuration(bootstrap: str, own: dict[str, Any], settings: tuple[str, ...]) -> dict[str, Any]:
    """What a client is made with: `own`, and over it what -X says. Raises AdminError."""
    found: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "client.id": "magnetar-admin",
        "log_level": 0,
        **own,
    }
    for text in settings:
        name, value = pair(text, "setting")
        found[name.strip()] = value
    return found


def made(kind: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """A client. Raises AdminError for a setting that the library does not take."""
    kafka = library()
    try:
        return kind(config)
    except (kafka.KafkaException, ValueError, TypeError) as error:
        raise Misused(f"The client cannot be made: {reason(error)}.") from None


def begin_at(bootstrap: str, group: str, start: str, timeout: float) -> None:
    """Say where a share group begins on topics that it has not begun: Kafka's config of the group, which stays.

    `start` is earliest or latest. Raises AdminError.
    """
    kafka = library()
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("share.auto.offset.reset", start, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    # held by a name, for its answers come only as long as it is there
    client = AdminClient(configuration(bootstrap, {}, ()))
    try:
        for answer in client.incremental_alter_configs([resource]).values():
            answer.result(timeout)
    except (kafka.KafkaException, TimeoutError) as error:
        raise AdminError(f"{group} cannot be told to begin at {start}: {reason(error)}.") from None


def reason(error: BaseException | Any) -> str:
    """What a KafkaError or KafkaException says, for a person, without a last full stop."""
    found = error.args[0] if isinstance(error, BaseException) and error.args else error
    said = found.str() if hasattr(found, "str") else str(found)
    return str(said).strip().rstrip(".")


def json_line(value: dict[str, Any]) -> str:
    """An object on one line, as streams have it."""
    return json.dumps(value, ensure_ascii=False)
