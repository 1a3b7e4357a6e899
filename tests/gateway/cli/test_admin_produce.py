"""`topics produce` against a gateway: what is sent and with what, where it went, and how failures are told."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from gateway.cli.admin_options import Options
from gateway.cli.admin_produce import LONGEST_DELAY_MS, InOrder, Sending, repeated
from gateway.cli.admin_records import Record
from gateway.config.group_table import GROUP_CONFIGS
from tests.gateway.cli.kafka import kafka_beside, topics


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with kafka_beside() as found:
        yield found


NO_COMPRESSION = {"compression.type": "none"}


def consumed(address: str, topic: str) -> list[tuple[str | None, str | None, dict[str, str]]]:
    """(key, value, headers) of each record."""
    found = topics("consume", topic, "-b", address, "--format", "json")
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    return [
        (row["key"], row["value"], {each["key"]: each["value"] for each in row["headers"]}) for row in rows
    ]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["a/b", "x"], "is no topic"),
        (["o" * 250, "x"], "at most 249 characters; this one has 250."),
        (["orders", "x", "--file", "y"], "not both"),
        (["orders", "x", "--delay", "5s", "--deliver-at", "0"], "not both"),
        (["orders", "x", "--delay", "soon"], "no time span"),
        (["orders", "x", "--deliver-at", "soon"], "no point in time"),
        (["orders", "x", "-H", "novalue"], "no header"),
        (["orders", "--file", "/nonexistent/file"], "cannot be read"),
        (["orders-partition-1", "x", "-p", "2"], "is partition 1"),
        (["orders", "x", "-K", ""], "separator"),
        (["orders", "x", "-K", r"\x4"], "means nothing in --key-separator"),
        (["orders", "x", "-b", "nowhere:0"], "no address"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(arguments: list[str], word: str) -> None:
    result = topics("produce", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
    assert result.stderr.count("\n") == 1


def test_every_message_gets_the_headers_and_the_key_that_it_has_none_of_its_own(address: str) -> None:
    lines = '{"key": "own", "value": 1, "headers": {"a": "b"}}\n{"value": 2}\n'
    done = topics(
        *("produce", "common", "-b", address, "--format", "json", "-k", "all", "-H", "colour=red"),
        *("--delay", "5s"),
        stdin=lines,
    )
    assert (done.exit_code, done.stdout) == (0, "partition 0 offset 0\npartition 0 offset 1\n")
    assert done.stderr == "2 messages stored.\n"
    fixed = {"colour": "red", "pulsar-deliver-after": "5000"}
    assert consumed(address, "common") == [("own", "1", {"a": "b", **fixed}), ("all", "2", fixed)]


def test_one_message_needs_no_summary_and_a_program_is_told_in_json(address: str) -> None:
    assert topics("produce", "one", "x", "-b", address).stderr == ""
    done = topics("produce", "one", "y", "-b", address, "--output", "json")
    told = json.loads(done.stdout)
    assert (told["topic"], told["partition"], told["offset"], done.stderr) == ("one", 0, 1, "")
    quiet = topics("produce", "one", "z", "-b", address, "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "1 message stored.\n")


def test_a_name_that_collides_is_told_however_soon_the_client_knows(address: str) -> None:
    """It says "unknown topic" at once of every message after the first that was refused."""
    assert topics("produce", "collides.b", "x", "-b", address).exit_code == 0
    sending = Sending(Options(timeout=30.0), "collides_b", None, "all", True, address, NO_COMPRESSION, ())
    said: list[str] = []
    sending._refused = lambda number, why: said.append(f"{number}: {why}")  # type: ignore[method-assign]
    for _ in range(2):
        sending.send(Record(value=b"x"))
        sending.flush()
    why = "Topic 'collides_b' collides with existing topics: collides.b (they differ only in '.' and '_')"
    assert said == [f"1: {why}", f"2: {why}"]


def test_what_a_policy_may_have_refused_is_told() -> None:
    with kafka_beside("maxProducersPerTopic=1") as address:
        first = Producer({"bootstrap.servers": address})
        first.produce("orders", b"x")
        assert first.flush(30) == 0
        done = topics("produce", "orders", "y", "-b", address)
        assert done.exit_code == 1
        assert "is not stored: a policy of orders forbids it: it is terminated (state of" in done.stderr
        assert "`magnetar-admin topics stats-internal orders-partition-0`" in done.stderr
        assert "`magnetar-admin topicPolicies list orders` shows both limits" in done.stderr


def test_a_compacted_topic_is_told_to_need_keys(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic("last", 1, config={"cleanup.policy": "compact"})])
    made["last"].result(30)
    done = topics("produce", "last", "x", "-b", address)
    assert done.exit_code == 1
    assert "cleanup.policy of last has compact): give it one with `--key`" in done.stderr
    assert topics("produce", "last", "x", "--key", "k", "-b", address).exit_code == 0


def test_a_message_without_an_acknowledgement_is_not_called_stored(address: str) -> None:
    done = topics("produce", "hope", "x", "y", "-b", address, "--acks", "0")
    assert (done.exit_code, done.stderr) == (0, "2 messages sent, unconfirmed.\n")
    assert done.stdout == "partition 0, unconfirmed\n" * 2


def test_what_stands_before_a_bad_line_is_sent(address: str) -> None:
    done = topics(
        "produce", "bad", "-b", address, "--format", "json", stdin='{"value": "good"}\n{"vaule": 1}\n'
    )
    assert (done.exit_code, done.stdout) == (1, "partition 0 offset 0\n")
    assert "Line 2 is no record" in done.stderr


def test_each_message_that_is_not_stored_is_named_up_to_ten_and_the_others_are_stored(
    address: str,
) -> None:
    assert topics("produce", "few", "x", "-b", address).exit_code == 0
    done = topics("produce", "few", "-n", "13", "y", "-p", "7", "-b", address)
    assert (done.exit_code, done.stdout) == (1, "")
    told = done.stderr.splitlines()
    assert told[:2] == [f"Message {n} is not stored: few has no partition 7." for n in (1, 2)]
    assert len(told) == 11
    assert told[-1] == "0 messages stored, 13 not stored."


def test_a_file_is_one_message_and_sent_so_many_times(address: str, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(b"two\nlines\n")
    done = topics("produce", "raw", "-b", address, "-f", str(file), "--format", "raw", "-n", "3", "-q")
    assert (done.exit_code, done.stderr) == (0, "3 messages stored.\n")
    assert consumed(address, "raw") == [(None, "two\nlines\n", {})] * 3


def test_a_tombstone_and_an_empty_message_are_told_apart(address: str) -> None:
    assert topics("produce", "empty", "-b", address, "-K", ":", stdin="k:\n").exit_code == 0
    assert topics("produce", "empty", "-b", address, "-K", "\\x3a", "-Z", stdin="k:\n").exit_code == 0
    assert consumed(address, "empty") == [("k", "", {}), ("k", None, {})]


def test_a_repetition_starts_from_what_was_read() -> None:
    """Headers are added to each record that is sent: the second time they must not be there already."""
    sent = []
    for record in repeated([Record(b"a", None, [("own", b"1")]), Record(b"b")], 2):
        record.headers = [*record.headers, ("more", b"2")]
        sent.append((record.value, [name for name, _ in record.headers]))
    assert sent == [(b"a", ["own", "more"]), (b"b", ["more"])] * 2


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
        result = topics("produce", "orders", "x", *flags, "-b", f"127.0.0.1:{unused.getsockname()[1]}")
    assert ("after 10 days" in result.stderr) is told


def test_lines_come_in_the_order_of_the_messages(capsys: pytest.CaptureFixture[str]) -> None:
    told = InOrder()
    told.tell(2, "two")
    told.tell(4, "four")
    assert capsys.readouterr().out == ""
    told.tell(1, "one", err=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("two\n", "one\n")
    told.tell(3, None)
    assert capsys.readouterr().out == "four\n"


def test_what_waits_for_a_message_of_which_nothing_is_known_is_told_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = InOrder()
    for number in (5, 3, 2):
        told.tell(number, str(number))
    told.rest()
    assert capsys.readouterr().out == "2\n3\n5\n"
