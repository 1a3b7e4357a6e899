"""`topics produce` and `topics consume` before they have a gateway: what they refuse, and where they look for one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError

from gateway.cli import admin_kafka
from gateway.cli.admin import main
from gateway.cli.admin_client import AdminError
from gateway.cli.admin_kafka import client_config, configuration, named, place_of
from gateway.cli.admin_options import Options
from tests.gateway.cli.conftest import Peer


def run(*arguments: str, seconds: float = 60.0) -> Result:
    env = {"MAGNETAR_ADMIN_URL": None, "MAGNETAR_BOOTSTRAP": None}
    return CliRunner().invoke(main, ["--request-timeout", str(seconds), "topics", *arguments], env=env)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        *[
            (
                ["produce", name, "x"],
                f"'{name}' is no legal topic name: use 1 to 249 of the characters a-z, A-Z,",
            )
            for name in ("bad topic", "ünicode", "a:b", ".", "..", "")
        ],
        (["produce", "bad\nname", "x"], r"'bad\nname' is no legal"),
        (["consume", "persistent://public/default/a:b"], "'a:b' is no legal topic name"),
        (["consume", "orders", "--output", "table"], "--output is text or json here."),
        (["produce", "orders", "x", "--output", "table"], "--output is text or json here."),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(arguments: list[str], word: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_help_says_that_a_bare_number_is_seconds(verb: str) -> None:
    assert "a bare number means seconds" in " ".join(run(verb, "--help").stdout.split())


@pytest.mark.parametrize("verb", [["produce", "orders", "x"], ["consume", "orders"]])
def test_a_port_that_nobody_listens_on_is_told_at_once_with_what_to_do(verb: list[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = run(*verb, "-b", f"127.0.0.1:{unused.getsockname()[1]}")
    assert result.exit_code == 1
    for word in ("connection refused", "magnetar serve", "--bootstrap", "MAGNETAR_BOOTSTRAP"):
        assert word in result.stderr


def test_topics_by_kafkas_names_and_by_pulsars() -> None:
    for text in ("orders", "public/default/orders", "persistent://public/default/orders"):
        assert named(text) == ("orders", None)
    assert named("persistent://public/default/orders-partition-3") == ("orders", 3)
    assert named("a.b-partition-03") == ("a.b-partition-03", None)
    for text in (
        "shop/eu/orders",
        "persistent://shop/eu/orders",
        "non-persistent://shop/eu/orders",
        "shop.eu.orders",
    ):
        assert named(text) == ("shop.eu.orders", None)
    assert named("shop/eu/orders-partition-3") == ("shop.eu.orders", 3)
    for wrong in (
        "",
        "eu/orders",
        "a/b/c/d",
        "shop//orders",
        "other://public/default/a",
        "a b",
        "x" * 250,
    ):
        with pytest.raises(AdminError):
            named(wrong)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


@pytest.fixture
def kafka_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Somebody listens where Kafka is looked for when nobody says where."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(admin_kafka, "DEFAULT_BOOTSTRAP", address)
        yield address


@pytest.mark.parametrize("verb", [["produce", "orders", "x"], ["consume", "orders"]])
@pytest.mark.parametrize("by", ["flag", "flag behind the verb", "environment"])
def test_a_gateway_that_was_named_and_does_not_answer_is_not_swapped_for_another(
    verb: list[str], by: str, closed_port: int, kafka_here: str
) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    in_front = ["--admin-url", url] if by == "flag" else []
    behind = ["--admin-url", url] if by == "flag behind the verb" else []
    env = {"MAGNETAR_ADMIN_URL": url if by == "environment" else None, "MAGNETAR_BOOTSTRAP": None}
    result = CliRunner().invoke(main, [*in_front, "topics", *verb, *behind], env=env)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"No gateway answers at {url}" in result.stderr
    assert "--bootstrap" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_admin_address_that_is_none_is_a_wrong_use() -> None:
    result = CliRunner().invoke(main, ["--admin-url", "http://:0", "topics", "produce", "orders", "x"])
    assert (result.exit_code, "no address of a gateway" in result.stderr) == (2, True)


def test_without_a_named_admin_port_kafka_is_looked_for_here_and_that_is_said(
    closed_port: int, kafka_here: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(f"http://127.0.0.1:{closed_port}")
    assert place_of(options, None, "orders") == (kafka_here, "orders")
    said = capsys.readouterr().err
    assert (said.count("\n"), kafka_here in said, options.url in said) == (1, True, True)
    # who says where Kafka is need not be told
    assert place_of(options, kafka_here, "orders") == (kafka_here, "orders")
    assert capsys.readouterr().err == ""


class TestNoKafka:
    """Somebody listens, and does not speak Kafka."""

    @pytest.mark.parametrize("flags", [[], ["--group", "g"], ["--share", "s"]])
    def test_consume_says_so(self, flags: list[str], mute: socket.socket) -> None:
        result = run("consume", "orders", "-b", _address(mute), *flags, seconds=0.5)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"{_address(mute)} does not answer like a Kafka port: ")
        assert "nothing that is Kafka's" in result.stderr
        assert result.stderr.count("\n") == 1

    def test_produce_says_so(self, mute: socket.socket) -> None:
        result = run("produce", "orders", "hi", "-b", _address(mute), seconds=0.5)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"{_address(mute)} does not answer like a Kafka port: " in result.stderr

    @pytest.mark.parametrize("verb", [["consume", "orders"], ["produce", "orders", "hi"]])
    def test_it_does_not_take_as_long_as_an_answer_may(
        self, verb: list[str], mute: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(admin_kafka, "NO_KAFKA_SECONDS", 0.5)
        result = run(*verb, "-b", _address(mute), seconds=100_000.0)
        assert (result.exit_code, "does not answer like a Kafka port" in result.stderr) == (1, True)

    @pytest.mark.parametrize("flags", [[], ["--group", "g"], ["--share", "s"]])
    def test_ctrl_c_is_heard(self, flags: list[str], mute: socket.socket) -> None:
        command = [sys.executable, "-m", "gateway.cli.admin", "--request-timeout", "100000", "topics"]
        process = subprocess.Popen(
            [*command, "consume", "orders", "-b", _address(mute), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # the command looks whether anybody is there; then the client comes
        held = [mute.accept() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, "0 messages.\n")
        for each, _ in held:
            each.close()

    def test_what_the_library_knows_is_told_without_its_own_words(self) -> None:
        watch = admin_kafka.Watch()
        for said, why in (
            (
                "ssl://127.0.0.1:1/bootstrap: SSL handshake failed: wrong version number"
                " (after 11ms in state SSL_HANDSHAKE, 3 identical error(s) suppressed)",
                "SSL handshake failed: wrong version number",
            ),
            (
                "127.0.0.1:1/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): increase"
                " receive.message.max.bytes",
                "it speaks HTTP",
            ),
        ):
            watch.settings()["error_cb"](KafkaError(KafkaError._TRANSPORT, said))
            assert watch.no_kafka("a:1").reason == f"a:1 does not answer like a Kafka port: {why}."


def test_what_was_received_before_does_not_hide_that_nobody_is_there_any_more() -> None:
    watch = admin_kafka.Watch()
    told = watch.settings()
    told["stats_cb"]('{"brokers": {"a": {"state": "TRY_CONNECT"}}}')
    assert watch.down_since is None, "nobody was reached yet"
    watch.heard()
    told["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert watch.down_since is not None
    watch.heard()
    assert watch.down_since is None
    told["stats_cb"]('{"brokers": {"a": {"state": "DOWN"}, "b": {"state": "TRY_CONNECT"}}}')
    assert watch.down_since is not None, "it is said once only"
    told["stats_cb"]('{"brokers": {"a": {"state": "DOWN"}, "b": {"state": "UP"}}}')
    assert watch.down_since is None


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_settings_of_the_client_go_over_ours() -> None:
    found = configuration("a:1", {"acks": "all"}, ("acks=1", "linger.ms=3=4"))
    assert (found["acks"], found["linger.ms"], found["bootstrap.servers"]) == ("1", "3=4", "a:1")
    with pytest.raises(AdminError):
        configuration("a:1", {}, ("acks",))


class TestClientConfig:
    """`--client-config FILE`."""

    def test_it_holds_for_each_client_and_x_goes_before_it(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text("bootstrap.servers=elsewhere:1\nsecurity.protocol=SSL\nsasl.mechanism=PLAIN\n")
        with click.Context(main, obj=Options(client_config=client_config(str(file)))):
            found = configuration("here:9092", {"group.id": "g"}, ("sasl.mechanism=SCRAM-SHA-256",))
        wanted = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "group.id")
        assert {name: found[name] for name in wanted} == {
            "bootstrap.servers": "here:9092",
            "security.protocol": "SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "group.id": "g",
        }
        assert "security.protocol" not in configuration("here:9092", {}, ())

    def test_it_says_where_kafka_is_unless_a_flag_does(self, kafka_here: str, closed_port: int) -> None:
        nobody = f"127.0.0.1:{closed_port}"
        options = Options(client_config={"bootstrap.servers": kafka_here})
        assert place_of(options, None, "orders") == (kafka_here, "orders")
        options = Options(client_config={"bootstrap.servers": nobody})
        assert place_of(options, kafka_here, "orders") == (kafka_here, "orders")
        with pytest.raises(AdminError, match=nobody):
            place_of(options, None, "orders")

    @pytest.mark.parametrize(
        ("file", "settings", "asked"),
        [
            ({"security.protocol": "SASL_SSL"}, (), "SASL_SSL"),
            ({"security.protocol": "SASL_SSL"}, ("security.protocol=SSL",), "SSL"),
            ({"client.rack": "a"}, (), "PLAINTEXT"),
            ({}, (), None),
        ],
    )
    def test_the_admin_port_is_asked_for_a_listener_that_speaks_what_the_client_does(
        self, peer: Peer, kafka_here: str, file: dict[str, str], settings: tuple[str, ...], asked: str | None
    ) -> None:
        peer.says("GET", "magnetar/kafka", {"bootstrap": kafka_here})
        options = Options(peer.url, url_is_named=True, client_config=file)
        assert place_of(options, None, "orders", settings) == (kafka_here, "orders")
        ((_, path, _),) = peer.asked
        assert parse_qs(urlsplit(path).query).get("protocol") == (asked and [asked])

    @pytest.mark.parametrize("named", [True, False])
    def test_that_no_listener_speaks_it_is_told(self, peer: Peer, kafka_here: str, named: bool) -> None:
        why = "No Kafka listener of this gateway speaks SSL; what is spoken is PLAINTEXT."
        peer.says("GET", "magnetar/kafka", {"reason": why}, 404)
        options = Options(peer.url, url_is_named=named, client_config={"security.protocol": "SSL"})
        with pytest.raises(AdminError, match=why):
            place_of(options, None, "orders")

    @pytest.mark.parametrize("verb", [["consume", "orders"], ["produce", "orders", "hi"]])
    def test_what_the_library_does_not_take_is_told(self, verb: list[str], tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text("no.such.setting=1\n")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            result = run(*verb, "-b", address, "--client-config", str(file))
        assert result.exit_code == 2
        assert "no.such.setting" in result.stderr

    @pytest.mark.parametrize("verb", [["consume", "orders"], ["produce", "orders", "hi"]])
    def test_a_file_that_cannot_be_used_is_told(self, verb: list[str], tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        for text, word in (
            (None, "no such file"),
            ("nonsense", "write name=value"),
            ("ssl.keystore.location=x", "keytool"),
        ):
            if text is not None:
                file.write_text(text)
            result = run(*verb, "--client-config", str(file))
            assert result.exit_code == 2
            assert word in result.stderr
