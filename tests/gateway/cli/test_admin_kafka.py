"""`topics produce` and `topics consume` before they have a gateway: what they refuse, and where they look for one."""

from __future__ import annotations

import re
import socket

import pytest
from click.testing import CliRunner, Result

from gateway.cli.admin import main
from gateway.cli.admin_client import AdminError
from gateway.cli.admin_kafka import bootstrap_of, configuration, named
from gateway.cli.admin_options import Options
from gateway.cli.admin_produce import LONGEST_DELAY_MS
from gateway.cli.admin_records import Record
from gateway.cli.admin_settling import Rules, asked
from gateway.config.group_table import GROUP_CONFIGS


def run(*arguments: str) -> Result:
    env = {"MAGNETAR_ADMIN_URL": None, "MAGNETAR_BOOTSTRAP": None}
    return CliRunner().invoke(main, ["topics", *arguments], env=env)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["produce", "a/b", "x"], "no topic here"),
        (["produce", "o" * 250, "x"], "at most 249 characters; this one has 250."),
        (["produce", "orders", "x", "--file", "y"], "not both"),
        (["produce", "orders", "x", "--delay", "5s", "--deliver-at", "0"], "not both"),
        (["produce", "orders", "x", "--delay", "soon"], "no time span"),
        (["produce", "orders", "x", "--deliver-at", "soon"], "no point in time"),
        (["produce", "orders", "x", "-H", "novalue"], "no header"),
        (["produce", "orders", "--file", "/nonexistent/file"], "cannot be read"),
        (["produce", "orders-partition-1", "x", "-p", "2"], "is partition 1"),
        (["produce", "orders", "x", "-b", "nowhere:0"], "no address"),
        (["consume", "orders", "-g", "a", "-s", "b"], "not both"),
        (["consume", "orders", "-g", "a", "-p", "1"], "--partition"),
        (["consume", "orders", "-g", "a", "--from", "17"], "reset-cursor"),
        (["consume", "orders", "-s", ""], "empty"),
        (["consume", "orders", "--reject", "x"], "--share"),
        (["consume", "orders", "--ask"], "--share"),
        (["consume", "orders", "-s", "a", "--reject", "("], "no regular expression"),
        (["consume", "orders", "--format", "xml"], "no format"),
        (["consume", "orders", "--format", "%z"], "means nothing"),
        (["consume", "orders", "--wait", "long"], "no time span"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(arguments: list[str], word: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--delay", "30d"], True),
        (["--deliver-at", "4102444800000"], True),
        (["--delay", "10d"], False),
        (["--deliver-at", "1700000000000"], False),
        ([], False),
    ],
)
def test_a_delay_that_groups_cut_short_is_told(flags: list[str], told: bool) -> None:
    assert GROUP_CONFIGS["pulsar.delayed.delivery.max.delay.ms"].setting.default == LONGEST_DELAY_MS
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = run("produce", "orders", "x", *flags, "-b", f"127.0.0.1:{unused.getsockname()[1]}")
    assert ("after 10 days" in result.stderr) is told


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
    for wrong in ("", "shop/eu/orders", "non-persistent://public/default/a", "a b", "x" * 250):
        with pytest.raises(AdminError):
            named(wrong)


def test_without_an_admin_port_kafka_is_looked_for_on_the_same_host() -> None:
    """A name that exists nowhere (RFC 2606), so that the sentence says where it was looked for."""
    with pytest.raises(AdminError, match=re.escape("gateway.invalid:9092")):
        bootstrap_of(Options("http://gateway.invalid:8080"), None)


def test_settings_of_the_client_go_over_ours() -> None:
    found = configuration("a:1", {"acks": "all"}, ("acks=1", "linger.ms=3=4"))
    assert (found["acks"], found["linger.ms"], found["bootstrap.servers"]) == ("1", "3=4", "a:1")
    with pytest.raises(AdminError):
        configuration("a:1", {}, ("acks",))


class TestRules:
    def test_reject_goes_before_release_and_else_all_is_accepted(self) -> None:
        rules = Rules(re.compile(b"bad"), re.compile(b"a"))
        values = [b"bad", b"later", b"ok", None]
        assert [rules.decide(Record(value), _no_key) for value in values] == [
            "rejected", "released", "accepted", "accepted",
        ]  # fmt: skip

    def test_every_nth(self) -> None:
        rules = Rules(reject_every=6, release_every=2)
        found = [rules.decide(Record(b""), _no_key) for _ in range(6)]
        assert found == ["accepted", "released", "accepted", "released", "accepted", "rejected"]

    def test_a_key_decides(self) -> None:
        keys = iter(["A", "r", "?", "x", "q", ""])
        assert [asked(lambda: next(keys)) for _ in range(5)] == [
            "accepted",
            "released",
            "rejected",
            None,
            None,
        ]

    def test_ctrl_c_at_the_question(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            asked(lambda: "\x03")


def _no_key() -> str:
    raise AssertionError("nobody is asked")
