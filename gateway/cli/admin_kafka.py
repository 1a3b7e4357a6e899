"""The Kafka side of `magnetar-admin`: where the gateway's Kafka port is, and the client library.

Everything of confluent-kafka (librdkafka) goes through here and is imported when a command needs it: it takes 0.1 s,
and neither the gateway nor any other verb wants it.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.cli.admin_client import HOME, AdminError, Misused, pair
from gateway.cli.admin_entrance import why_closed
from gateway.cli.admin_options import Options
from gateway.cli.admin_records import quoted
from gateway.cli.client_config import ClientConfigError, parse, translated

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

DEFAULT_PORT = 9092
DEFAULT_BOOTSTRAP = f"127.0.0.1:{DEFAULT_PORT}"
CONNECT_SECONDS = 5.0
NO_KAFKA_SECONDS = 10.0
"""How long nothing may answer like Kafka before it is said that nobody there speaks it."""
LOOK_SECONDS = 5.0
"""How long a look at a config may take that only makes a sentence better."""
STEP_SECONDS = 0.2
"""The longest that Ctrl-C has to wait."""

MAX_NAME = 249
"""Characters of a topic's name."""

_SERVERS, _PROTOCOL = "bootstrap.servers", "security.protocol"
_HTTP_AS_A_LENGTH = f" {int.from_bytes(b'HTTP', 'big')} "

_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})\Z")


def kafka_options(command: F) -> F:
    """The flags that say where Kafka is, and how one gets in."""

    def read(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
        if name is not None:
            context.find_root().ensure_object(Options).client_config = client_config(name)

    command = click.option(
        "--client-config", metavar="FILE", callback=read, expose_value=False,
        help="Settings of Kafka's clients, a name=value a line, as Kafka's own tools take them: security.protocol, "
        "sasl.mechanism, sasl.jaas.config, …; -X goes before them. Without --bootstrap its bootstrap.servers say "
        "where Kafka is, or the admin port tells a listener that speaks its security.protocol.",
    )(command)  # fmt: skip
    command = click.option(
        "-X", "--property", "settings", multiple=True, metavar="NAME=VALUE",
        help="A setting of librdkafka, for example -X linger.ms=100.",
    )(command)  # fmt: skip
    return click.option(
        "-b", "--bootstrap", envvar="MAGNETAR_BOOTSTRAP", metavar="HOST:PORT",
        help="The gateway's Kafka address; also from MAGNETAR_BOOTSTRAP. Without it the admin port is asked;"
        f" if none is named and the default one does not answer, {DEFAULT_BOOTSTRAP} is tried.",
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


def check_output(options: Options) -> None:
    """Raises AdminError for a form that streams do not have."""
    if options.output == "table":
        raise Misused("Messages come one by one, and not as a table: --output is text or json here.")


def named(topic: str) -> tuple[str, int | None]:
    """A Kafka topic, and the partition when the name is Pulsar's of one partition. Raises AdminError."""
    # the domain is no part of what Kafka's clients say
    local = topic.removeprefix("non-").removeprefix("persistent://") if "://" in topic else topic
    local = local.removeprefix("public/default/")
    parts = local.split("/")
    if len(parts) == 3 and all(parts):
        # as Kafka clients call a topic of another namespace
        local = ".".join(parts)
    elif len(parts) != 1:
        raise Misused(f"{topic!r} is no topic: write orders, shop/eu/orders or {HOME}orders.")
    if len(local) > MAX_NAME:
        raise Misused(f"A topic's name has at most {MAX_NAME} characters; this one has {len(local)}.")
    if local in ("", ".", "..") or not re.fullmatch(r"[a-zA-Z0-9._-]+", local):
        raise Misused(
            f"{quoted(local)} is no legal topic name: use 1 to {MAX_NAME} of the characters a-z, A-Z, 0-9,"
            " '.', '_' and '-', and not '.' or '..'."
        )
    match = _PARTITION.match(local)
    return (match[1], int(match[2])) if match else (local, None)


def place_of(
    options: Options, given: str | None, topic: str, settings: tuple[str, ...] = ()
) -> tuple[str, str]:
    """Where Kafka clients of a topic connect, and what they call it there: without its namespace, if that has a
    listener of its own. It is what is `given`, else what --client-config says, else a listener that speaks the protocol
    which `settings` (of -X) or that file say. Raises AdminError when nothing listens there.
    """
    file = options.client_config
    own = {name.strip(): value for name, value in (pair(each, "setting") for each in settings)}
    # as clients that are told nothing else do. Without a file what a port wants is said when it lets nobody in
    protocol = own.get(_PROTOCOL) or file.get(_PROTOCOL) or ("PLAINTEXT" if file else "")
    address = given or file.get(_SERVERS)
    address, name = (address, topic) if address else _told(options, topic, protocol)
    _check_reached(address)
    return address, name


def _told(options: Options, topic: str, protocol: str) -> tuple[str, str]:
    """The Kafka address that the admin port tells, and the topic's name there. Who has named an admin address means
    that gateway and no other.

    Raises AdminError.
    """
    spoken = {"protocol": protocol} if protocol else {}
    try:
        answer = options.client().get("magnetar/kafka", topic=topic, **spoken)
        if isinstance(answer, dict) and "bootstrap" in answer:
            return str(answer["bootstrap"]), str(answer.get("topic", topic))
        why = f"{options.url} does not say where its Kafka port is."
    except Misused:
        raise
    except AdminError as error:
        why = error.reason
        if error.status == 404 and protocol:
            # a gateway answers: another one is not meant
            raise AdminError(
                f"{why} Say security.protocol with --client-config or -X.", error.status
            ) from None
    if options.url_is_named:
        raise AdminError(f"{why} With --bootstrap HOST:PORT no admin port is asked.")
    click.echo(f"Trying {DEFAULT_BOOTSTRAP}, for no admin port answers at {options.url}.", err=True)
    return DEFAULT_BOOTSTRAP, topic


def _check_reached(bootstrap: str) -> None:
    """A plain connection, since librdkafka would try for a minute before it says what is wrong."""
    why = ""
    for address in bootstrap.split(","):
        place = _parts(address)
        try:
            socket.create_connection(place, CONNECT_SECONDS).close()
            return
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    raise AdminError(
        f"No Kafka port answers at {bootstrap} ({why.lower()}). Start a gateway with `magnetar serve` or"
        " `make run`, or name another with --bootstrap or MAGNETAR_BOOTSTRAP."
    )


def _parts(address: str) -> tuple[str, int]:
    """Host and port of an address. Raises Misused."""
    host, colon, port = address.strip().rpartition(":")
    if not colon:
        host, port = address.strip(), str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Misused(f"{address!r} is no address of a Kafka port: write it like 127.0.0.1:9092.")
    return host.strip("[]"), int(port)


def configuration(bootstrap: str, own: dict[str, Any], settings: tuple[str, ...]) -> dict[str, Any]:
    """What a client is made with: `own`, and over it what -X says. Raises AdminError."""
    found: dict[str, Any] = {
        "client.id": "magnetar-admin",
        "log_level": 0,
        **_from_file(),
        _SERVERS: bootstrap,
        **own,
    }
    for text in settings:
        name, value = pair(text, "setting")
        found[name.strip()] = value
    return found


def _from_file() -> dict[str, str]:
    """What --client-config says, which holds for every client of a command."""
    context = click.get_current_context(silent=True)
    options = context.find_object(Options) if context is not None else None
    return options.client_config if options is not None else {}


def client_config(name: str) -> dict[str, str]:
    """The settings in a file, in librdkafka's words. Raises AdminError."""
    try:
        return translated(parse(Path(name).read_text()))
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise Misused(f"--client-config {name} cannot be read ({why}).") from None
    except ClientConfigError as error:
        raise Misused(f"--client-config {name}: {error}") from None


def made(kind: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """A client. Raises AdminError for a setting that the library does not take."""
    kafka = library()
    try:
        return kind(config)
    except (kafka.KafkaException, ValueError, TypeError) as error:
        raise Misused(f"The client cannot be made: {reason(error)}.") from None


class Watch:
    """What the client library tells of its connections, to whoever polls the client."""

    def __init__(self) -> None:
        # whether there ever was a connection on which somebody speaks Kafka
        self.reached = False
        # since when there is none, by time.monotonic()
        self.down_since: float | None = None
        self._why = ""
        self._login_refused = False

    def settings(self) -> dict[str, Any]:
        """For the client that is watched."""
        return {"error_cb": self._failed, "stats_cb": self._states, "statistics.interval.ms": 1000}

    def heard(self) -> None:
        """Something has come from there."""
        self.reached = True
        self.down_since = None

    @property
    def why(self) -> str:
        """What went wrong last: for a person, and without the connection's name and age."""
        if _HTTP_AS_A_LENGTH in self._why:
            return "it speaks HTTP"
        said = re.sub(r" \(after [0-9]+ms in state [A-Z_]+.*\)", "", self._why)
        return re.sub(r"^\S+/\S+: ", "", said) or "nothing that is Kafka's comes from there"

    def no_kafka(self, bootstrap: str) -> AdminError:
        """What to say of a port from which nothing came. It may look there, for a second or two."""
        if self._login_refused:
            return AdminError(f"{bootstrap} refused the login: {self.why}.")
        if not self._why or self._why.endswith("Disconnected"):
            protocol = _from_file().get(_PROTOCOL, "PLAINTEXT")
            found = why_closed(*_parts(bootstrap.split(",")[0]), protocol)
            if found is not None:
                return AdminError(f"{bootstrap} does not answer like a Kafka port: {found[0]}. {found[1]}")
        return AdminError(f"{bootstrap} does not answer like a Kafka port: {self.why}.")

    def _failed(self, error: Any) -> None:
        if error.code() != library().KafkaError._ALL_BROKERS_DOWN:
            refused = error.code() == library().KafkaError._AUTHENTICATION
            if refused or not self._login_refused:
                # what comes of a refused login says less
                self._why, self._login_refused = reason(error), refused
        elif self.down_since is None:
            self.down_since = time.monotonic()

    def _states(self, text: str) -> None:
        if any(broker["state"] == "UP" for broker in json.loads(text)["brokers"].values()):
            self.heard()
        elif self.reached and self.down_since is None:
            # It was said once, and then something came that had been received before.
            self.down_since = time.monotonic()


def answered(ask: Callable[[float], T], timeout: float) -> T:
    """What `ask(seconds)` returns, asked in short steps so that Ctrl-C is heard.

    Raises KafkaException: sooner than after `timeout` where there is no connection that speaks Kafka.
    """
    kafka = library()
    began = time.monotonic()
    step = STEP_SECONDS
    while True:
        try:
            return ask(step)
        except kafka.KafkaException as error:
            code = error.args[0].code()
            if code == kafka.KafkaError._TIMED_OUT:
                # somebody is there, and needs longer than a step
                patience, step = timeout, step * 2
            elif code == kafka.KafkaError._TRANSPORT:
                patience = min(timeout, NO_KAFKA_SECONDS)
            else:
                raise
            if time.monotonic() - began >= patience:
                raise


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


def why_not_made(bootstrap: str, topic: str) -> str:
    """Why the gateway does not make a topic of this name, as it says itself; empty where it says nothing."""
    kafka = library()
    from confluent_kafka.admin import AdminClient, NewTopic

    # held by a name, for its answers come only as long as it is there
    client = AdminClient(configuration(bootstrap, {}, ()))
    try:
        client.create_topics([NewTopic(topic, -1)], validate_only=True)[topic].result(LOOK_SECONDS)
    except (kafka.KafkaException, TimeoutError) as error:
        return reason(error) if code(error) == kafka.KafkaError.TOPIC_EXCEPTION else ""
    return ""


def topic_limit(bootstrap: str, topic: str) -> int | None:
    """max.message.bytes of a topic; None where that cannot be known soon."""
    return _number(bootstrap, "TOPIC", topic, "max.message.bytes")


def request_limit(bootstrap: str) -> int | None:
    """socket.request.max.bytes of the gateway; None where that cannot be known soon."""
    kafka = library()
    client = made(kafka.Consumer, configuration(bootstrap, {"group.id": "magnetar-admin"}, ()))
    try:
        brokers = answered(lambda seconds: client.list_topics(timeout=seconds).brokers, LOOK_SECONDS)
    except kafka.KafkaException:
        return None
    finally:
        client.close()
    return _number(bootstrap, "BROKER", str(min(brokers)), "socket.request.max.bytes") if brokers else None


def _number(bootstrap: str, kind: str, name: str, config: str) -> int | None:
    """A config that is a number."""
    kafka = library()
    from confluent_kafka.admin import AdminClient, ConfigResource

    # held by a name, for its answers come only as long as it is there
    client = AdminClient(configuration(bootstrap, {}, ()))
    try:
        (answer,) = client.describe_configs([ConfigResource(ConfigResource.Type[kind], name)]).values()
        return int(answer.result(LOOK_SECONDS)[config].value)
    except (kafka.KafkaException, TimeoutError, KeyError, ValueError):
        return None


def reason(error: BaseException | Any) -> str:
    """What a KafkaError or KafkaException says, for a person, without a last full stop."""
    found = _inner(error)
    said = found.str() if hasattr(found, "str") else str(found)
    return str(said).strip().rstrip(".")


def code(error: BaseException | Any) -> int | None:
    """The code of a KafkaError or KafkaException."""
    found = _inner(error)
    return int(found.code()) if hasattr(found, "code") else None


def _inner(error: BaseException | Any) -> Any:
    return error.args[0] if isinstance(error, BaseException) and error.args else error


def json_line(value: dict[str, Any]) -> str:
    """An object on one line, as streams have it."""
    return json.dumps(value, ensure_ascii=False)
