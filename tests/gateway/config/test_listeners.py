"""Addresses: how they are written, named and advertised, and which of them need --insecure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Listener, Settings
from gateway.config.listeners import Address, check_listeners, is_loopback, named, parse, resolve
from tests.gateway.config.refused import problems


class TestListeners:
    def test_addresses(self) -> None:
        settings = Settings.load(
            ["listeners=127.0.0.1:9092,[::1]:9093,localhost:0,IN://127.0.0.1:9094"],
            options={"admin.listen": "[::1]:8080"},
        )
        assert settings.listeners == [
            Listener("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),
            Listener("PLAINTEXT2", "::1", 9093, "::1", 9093),
            Listener("PLAINTEXT3", "localhost", 0, "localhost", 0),
            Listener("IN", "127.0.0.1", 9094, "127.0.0.1", 9094),
        ]
        assert str(settings.listeners[1]) == "[::1]:9093"
        assert str(settings.admin) == "[::1]:8080"
        assert Settings.load(["admin.listen="]).admin is None

    def test_advertised_by_name_and_by_position(self) -> None:
        settings = Settings.load(
            ["listeners=127.0.0.1:1,OUT://127.0.0.1:2,127.0.0.1:3", "advertised.listeners=a:4,OUT://b:5"]
        )
        assert [(each.advertised_host, each.advertised_port) for each in settings.listeners] == [
            ("a", 4),
            ("b", 5),
            ("127.0.0.1", 3),
        ]

    def test_everywhere_advertises_the_name_of_the_machine(self) -> None:
        import socket

        (listener,) = Settings.load(["insecure=true", "listeners=:9092"]).listeners
        assert (listener.host, listener.advertised_host) == ("", socket.gethostname())

    @pytest.mark.parametrize(
        "address", [":9092", "0.0.0.0:9092", "[::]:9092", "10.0.0.1:1", "kafka.example:1"]
    )
    @pytest.mark.parametrize("option", ["listeners", "admin.listen"])
    def test_what_others_can_reach_needs_insecure(self, address: str, option: str) -> None:
        (problem,) = problems(options={option: address})
        flag = {"listeners": "--listen", "admin.listen": "--admin"}[option]
        assert problem.startswith(f"{flag}: other machines can reach {address}, and ")
        assert "--insecure" in problem
        Settings.load(options={option: address, "insecure": "true"})

    @pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "localhost:1"])
    def test_loopback_needs_nothing(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        Settings.load(options={"listeners": address, "admin.listen": f"{host}:{int(port) * 2}"})

    @pytest.mark.parametrize(
        ("flag", "said"),
        [
            ("listeners=9092", 'must be host:port, [IPv6]:port or NAME://host:port, and "9092" is not'),
            ("listeners=::1:9092", "must be host:port"),
            ("listeners=[nonsense]:1", "must have an IPv6 address in the brackets"),
            ("listeners=127.0.0.1:70000", "must have a port from 0 to 65535"),
            ("listeners=127.0.0.1:1,127.0.0.1:1", "must name each address once"),
            ("listeners=A://127.0.0.1:1,A://127.0.0.1:2", "must have different names, and A is there twice"),
            ("listeners=", "must name one address at least"),
            ("listeners=127.0.0.1:1,,127.0.0.1:2", "must have something between all commas"),
            ("advertised.listeners=0.0.0.0:1", "must hold names that clients can reach"),
            (
                "advertised.listeners=X://a:1",
                "advertises X, and there is no listener of that name (PLAINTEXT)",
            ),
            ("admin.listen=A://127.0.0.1:1", "must be host:port without a name"),
        ],
    )
    def test_bad_addresses(self, flag: str, said: str) -> None:
        (problem,) = problems(flag)
        assert said in problem


@given(
    st.sampled_from(["", "a", "kafka.example", "127.0.0.1", "::", "::1", "fe80::1%eth0"]),
    st.integers(0, 65535),
)
def test_an_address_that_was_written_is_read_again(host: str, port: int) -> None:
    address = Address(host, port)
    assert parse(str(address)) == (None, address)
    assert parse(f"IN.a_b-1://{address}") == ("IN.a_b-1", address)


@pytest.mark.parametrize(
    "text", ["", "a", ":", "a:", "a b:1", "a/b:1", "://a:1", "a:1:2", "a:123456", "a:-1", "[::1]"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(text)
    assert str(refused.value) == f'must be host:port, [IPv6]:port or NAME://host:port, and "{text}" is not'


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.255.254", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("128.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("", False),
        ("localhost.example", False),
        # a name may lead anywhere
        ("my-machine", False),
    ],
)
def test_what_only_this_machine_can_reach(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_names_are_given_by_position_where_nobody_gives_them() -> None:
    assert list(named(["a:1", "X://b:2", "c:3"])) == ["PLAINTEXT", "X", "PLAINTEXT3"]
    with pytest.raises(ValueError, match="must have different names, and PLAINTEXT2 is there twice"):
        named(["PLAINTEXT2://a:1", "b:2"])


def test_a_listener_advertises_the_port_that_was_bound_unless_it_says_otherwise() -> None:
    (first, second) = resolve(["127.0.0.1:0", "OUT://127.0.0.1:0"], ["OUT://kafka.example:9092"])
    assert first == Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
    assert second == Listener("OUT", "127.0.0.1", 0, "kafka.example", 9092)


def test_a_free_port_may_be_asked_for_twice() -> None:
    assert check_listeners(("127.0.0.1:0", "127.0.0.1:0")) is None
    assert check_listeners(("127.0.0.1:7", "B://127.0.0.1:7")) == "must name each address once"
