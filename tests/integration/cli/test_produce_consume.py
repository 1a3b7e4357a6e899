"""`magnetar-admin topics produce` and `consume` against a gateway, as a person in a shell uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from uuid import uuid4

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from gateway.cli.admin import main

pytestmark = pytest.mark.integration

ADMIN = [sys.executable, "-m", "gateway.cli.admin"]
PATIENCE = 60.0


class Shell:
    """Runs commands against one gateway, of which they know the admin port only."""

    def __init__(self, gateway: MagnetarPeer) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MAGNETAR_")}
        self.environ = {**kept, "MAGNETAR_ADMIN_URL": gateway.admin_url, "PYTHONUNBUFFERED": "1"}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """In this process: to start Python and its libraries for each would take longer than all that is asked."""
        done = CliRunner().invoke(main, ["topics", *arguments], input=stdin, env=self.environ)
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def said(self, *arguments: str, stdin: str = "") -> list[str]:
        """The lines of a command that succeeds."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def start(
        self, *arguments: str, stdin: int | None = None, front: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ADMIN, *front, "topics", *arguments],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environ,
        )  # fmt: skip


@pytest.fixture
def shell(gateway: MagnetarPeer) -> Shell:
    return Shell(gateway)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid4().hex[:8]}"


VALUE = "--format=%k=%s\\n"


class TestProduce:
    def test_arguments_keys_headers_and_where_each_is_stored(self, shell: Shell, topic: str) -> None:
        assert shell.said("produce", topic, "3 apples", "1 pear", "-k", "ada", "-H", "colour=red") == [
            "partition 0 offset 0", "partition 0 offset 1",
        ]  # fmt: skip
        found = [json.loads(line) for line in shell.said("consume", topic, "--format", "json")]
        assert [(each["key"], each["value"], each["headers"]) for each in found] == [
            ("ada", "3 apples", [{"key": "colour", "value": "red"}]),
            ("ada", "1 pear", [{"key": "colour", "value": "red"}]),
        ]

    def test_lines_with_keys_and_a_repetition(self, shell: Shell, topic: str) -> None:
        done = shell.run("produce", topic, "-K", ":", "-n", "2", "-q", "-z", "zstd", stdin="a:1\nb:2\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "4 messages stored.\n")
        assert shell.said("consume", topic, VALUE) == ["a=1", "b=2", "a=1", "b=2"]

    def test_what_one_topic_has_goes_to_another_as_json(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "x\ny", "-k", "k", "-H", "a=b")
        lines = shell.said("consume", topic, "--format", "json")
        stored = shell.said("produce", f"{topic}-2", "--format", "json", "--output", "json", stdin=lines[0])
        assert json.loads(stored[0])["offset"] == 0
        again = json.loads(shell.said("consume", f"{topic}-2", "--output", "json")[0])
        first = json.loads(lines[0])
        assert [again[name] for name in ("key", "value", "headers")] == [
            first[name] for name in ("key", "value", "headers")
        ]

    def test_a_partition_and_one_that_is_not_there(self, shell: Shell, topic: str) -> None:
        shell.said("create-partitioned-topic", topic, "-p", "3")
        assert shell.said("produce", topic, "x", "-p", "2") == ["partition 2 offset 0"]
        assert shell.said("produce", f"{topic}-partition-1", "y") == ["partition 1 offset 0"]
        assert shell.said("consume", f"{topic}-partition-1", "--format", "value") == ["y"]
        missing = shell.run("produce", topic, "x", "-p", "7")
        assert missing.returncode == 1
        assert f"{topic} has no partition 7" in missing.stderr
        assert shell.run("consume", topic, "-p", "7").returncode == 1

    def test_where_each_is_stored_is_told_in_the_order_of_the_messages(
        self, shell: Shell, topic: str
    ) -> None:
        shell.said("create-partitioned-topic", topic, "-p", "4")
        told = shell.said("produce", topic, *"abcdefgh")
        stored = {
            f"partition {partition} offset {offset}": value
            for partition, offset, value in map(
                str.split, shell.said("consume", topic, "--format", "%p %o %s\\n")
            )
        }
        assert [stored[line] for line in told] == list("abcdefgh")

    def test_what_stands_before_a_bad_line_is_sent_and_the_line_is_named(
        self, shell: Shell, topic: str
    ) -> None:
        done = shell.run("produce", topic, "--format", "json", stdin='{"value": "good"}\n{"vaule": 1}\n')
        assert done.returncode == 1
        assert done.stdout == "partition 0 offset 0\n"
        assert "Line 2 is no record: there is no field 'vaule'" in done.stderr
        assert shell.said("consume", topic, "--format", "value") == ["good"]

    def test_a_line_without_a_key_is_refused_unless_there_is_one_for_it(
        self, shell: Shell, topic: str
    ) -> None:
        done = shell.run("produce", topic, "-K", ":", stdin="ada:1\n2\nbob:3\n")
        assert (done.returncode, done.stdout) == (1, "partition 0 offset 0\n")
        assert "Line 2 has no key" in done.stderr
        shell.said("produce", topic, "-K", ":", "-k", "carl", stdin="2\nbob:3\n")
        assert shell.said("consume", topic, VALUE) == ["ada=1", "carl=2", "bob=3"]

    def test_a_name_that_collides_is_told_with_the_other(self, shell: Shell, topic: str) -> None:
        shell.said("produce", f"{topic}.b", "x")
        done = shell.run("produce", f"{topic}_b", "x")
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            f"Message 1 is not stored: Topic '{topic}_b' collides with existing topics: {topic}.b"
            in done.stderr
        )

    def test_a_message_that_is_too_large_is_told_and_the_others_are_stored(
        self, gateway: MagnetarPeer, shell: Shell, topic: str
    ) -> None:
        done = shell.run("produce", topic, stdin="small\n" + 29_000_000 * "x" + "\n")
        assert done.returncode == 1
        assert done.stdout == "partition 0 offset 0\n"
        assert done.stderr == (
            f"Message 2 is not stored: its 29,000,000 bytes are more than max.message.bytes of {topic} (5,242,880);"
            f" `kafka-configs.sh --bootstrap-server {gateway.bootstrap} --alter --topic {topic}"
            " --add-config max.message.bytes=29360128` raises it.\n"
            "1 message stored, 1 not stored.\n"
        )

    def test_messages_that_are_too_large_together_are_told_so(
        self, gateway: MagnetarPeer, shell: Shell, topic: str
    ) -> None:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        made = admin.create_topics([NewTopic(topic, 1, config={"max.message.bytes": "3000"})])
        made[topic].result(PATIENCE)
        done = shell.run("produce", topic, *[letter * 1500 for letter in "abc"], "-X", "linger.ms=500")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"packed with others into a batch above max.message.bytes of {topic} (3,000)" in done.stderr
        assert len(shell.said("produce", topic, *["abc" * 500] * 3, "-X", "batch.num.messages=1")) == 3

    def test_a_message_above_what_a_request_may_have_is_refused_at_once(
        self, own_gateway: Callable[..., MagnetarPeer], topic: str
    ) -> None:
        shell = Shell(own_gateway("--set", "socket.request.max.bytes=10000000"))
        done = shell.run("produce", topic, stdin=f"small\n{12_000_000 * 'x'}\nlast\n")
        assert (done.returncode, done.stdout) == (1, "partition 0 offset 0\npartition 0 offset 1\n")
        assert done.stderr == (
            "Message 2 is not stored: its 12,000,000 bytes are more than a request may have,"
            " socket.request.max.bytes of the gateway (10,000,000).\n2 messages stored, 1 not stored.\n"
        )
        # packed it is small
        assert shell.said("produce", topic, "-z", "zstd", stdin=f"{12_000_000 * 'x'}\n") == [
            "partition 0 offset 2"
        ]


class TestConsume:
    def test_a_message_above_what_the_client_takes_by_default(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "-z", "zstd", stdin=f"{101_000_000 * 'x'}\n")
        assert shell.said("consume", topic, "--format", "%S\\n") == ["101000000"]
        done = shell.run("consume", topic, "-X", "receive.message.max.bytes=100000000", "--format", "%S\\n")
        assert (done.returncode, done.stdout) == (1, "")
        assert "-X receive.message.max.bytes=2000000000" in done.stderr

    def test_where_to_begin(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, *"abcde")
        for start, expected in (
            ("earliest", "abcde"), ("latest", ""), ("3", "de"), ("-2", "de"), ("-99", "abcde"), ("99", ""),
            ("1h", "abcde"), ("2000-01-01T00:00:00Z", "abcde"), ("2100-01-01", ""),
        ):  # fmt: skip
            found = shell.said("consume", topic, "--from", start, "--format", "value")
            assert "".join(found) == expected, start
        assert shell.said("consume", topic, "-n", "2", "--format", "value") == ["a", "b"]
        assert shell.run("consume", topic, "--format", "raw").stdout == "abcde"

    def test_a_topic_that_is_not_there_is_told_and_not_made(self, shell: Shell, topic: str) -> None:
        for flags in ([], ["--group", topic], ["--share", topic]):
            done = shell.run("consume", topic, *flags)
            assert done.returncode == 1
            assert f"There is no topic {topic}" in done.stderr
        assert not [name for name in shell.said("list") if topic in name]

    def test_a_group_goes_on_where_it_was(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, *"abcde")
        group = ["--group", f"g-{topic}", "--wait", "30s", "--format", "value"]
        assert shell.said("consume", topic, *group, "-n", "2") == ["a", "b"]
        assert shell.said("consume", topic, *group) == ["c", "d", "e"]
        assert shell.said("consume", topic, *group) == []

    def test_following_ends_clean_with_ctrl_c(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "first")
        following = shell.start("consume", topic, "--follow", "--format", "value")
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        shell.said("produce", topic, "second")
        assert following.stdout.readline() == "second\n"
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=PATIENCE)
        assert (following.returncode, said) == (0, "2 messages.\n")

    def test_following_from_an_offset_that_is_to_come_waits_for_it(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "0", "1")
        following = shell.start("consume", topic, "--from", "4", "--follow", "-n", "1", "--format", "value")
        assert following.stderr is not None
        assert following.stderr.readline() == (
            f"Waiting for offset 4 of partition 0: {topic} has none from 2 on yet.\n"
        )
        shell.said("produce", topic, *"23456")
        assert following.communicate(timeout=PATIENCE)[0] == "4\n"

    def test_a_reader_that_has_had_enough_gets_no_traceback(self, shell: Shell, topic: str) -> None:
        # far more than a pipe holds
        shell.said("produce", topic, "x" * 1000, "-n", "2000", "-q")
        piped = shell.start("consume", topic, "--format", "value")
        assert piped.stdout is not None
        assert piped.stdout.readline() == "x" * 1000 + "\n"
        piped.stdout.close()
        assert piped.stderr is not None
        said = piped.stderr.read()
        assert piped.wait(PATIENCE) != 0
        piped.stderr.close()
        assert "Traceback" not in said


class TestAnOutage:
    """The gateway goes away while somebody reads."""

    def _shell(self, gateway: MagnetarPeer, topic: str) -> Shell:
        shell = Shell(gateway)
        # far more than a pipe and the client's buffer hold
        shell.said("produce", topic, "x" * 100_000, "-n", "1000", "-q")
        return shell

    @pytest.mark.parametrize("flags", [[]])
    def test_a_reader_that_cannot_go_on_says_so(
        self, own_gateway: Callable[..., MagnetarPeer], topic: str, flags: list[str]
    ) -> None:
        gateway = own_gateway()
        shell = self._shell(gateway, topic)
        reading = shell.start(
            "consume", topic, *flags, "--format", "raw", "-X", "queued.max.messages.kbytes=1000",
            front=["--request-timeout", "0.5"],
        )  # fmt: skip
        assert reading.stdout is not None
        reading.stdout.read(1)
        gateway.kill()
        _, said = reading.communicate(timeout=PATIENCE)
        assert reading.returncode == 1
        assert f"{gateway.bootstrap} does not answer any more" in said.splitlines()[-1]

    @pytest.mark.parametrize("flags", [[], ["--share", "s"]])
    def test_who_follows_is_told_once_and_goes_on(
        self, own_gateway: Callable[..., MagnetarPeer], topic: str, flags: list[str]
    ) -> None:
        gateway = own_gateway()
        shell = Shell(gateway)
        shell.said("produce", topic, "first")
        if "--share" in flags:
            flags = [*flags, "--from", "earliest"]
        following = shell.start("consume", topic, *flags, "--follow", "--format", "value")
        assert following.stdout is not None
        assert following.stderr is not None
        assert following.stdout.readline() == "first\n"
        gateway.kill()
        away = f"{gateway.bootstrap} does not answer any more. Trying until Ctrl-C.\n"
        while (line := following.stderr.readline()) != away:
            # the share group's first record was shown, and its acknowledgement did not arrive
            assert "not all was settled" in line
        gateway.start()
        assert following.stderr.readline() == f"{gateway.bootstrap} answers again.\n"
        shell.said("produce", topic, "second")
        while (line := following.stdout.readline()) != "second\n":
            assert line == "first\n"
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=PATIENCE)
        assert (following.returncode, "does not answer" in said) == (0, False), said


class TestShare:
    def test_rules_settle_each_message(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "3 apples", "1 pear", "2 plums")
        group = ["--share", f"s-{topic}", "--wait", "30s"]
        found = shell.run(
            "consume", topic, *group, "--from", "earliest", "-n", "3", "--reject", "pear", "--release", "plums",
            "--format", "%s %d\\n",
        )  # fmt: skip
        assert found.stdout.splitlines() == ["3 apples 1", "1 pear 1", "2 plums 1"]
        assert found.stderr == "3 messages: 1 accepted, 1 rejected, 1 released.\n"
        # what was released comes again and says so; what was rejected is a dead letter
        assert shell.said("consume", topic, *group, "-n", "1", "--format", "%s %d\\n") == ["2 plums 2"]
        assert shell.said("consume", f"{topic}-s-{topic}-DLQ", "--format", "value") == ["1 pear"]

    def test_keys_settle_each_message_and_quitting_gives_the_last_back(
        self, shell: Shell, topic: str
    ) -> None:
        shell.said("produce", topic, "one", "two", "three")
        group = ["--share", f"s-{topic}", "--wait", "30s", "--format", "%s %d\\n"]
        asked = shell.run("consume", topic, *group, "--from", "earliest", "--ask", stdin="axq")
        assert asked.stdout.splitlines() == ["one 1", "two 1", "three 1"]
        assert "accepted" in asked.stderr
        assert asked.stderr.endswith("3 messages: 1 accepted, 1 rejected, 1 released.\n")
        assert shell.said("consume", topic, *group, "-n", "1") == ["three 2"]

    def test_ctrl_c_at_the_first_question_has_settled_nothing(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "one")
        group = ["--share", f"s-{topic}", "--from", "earliest", "--wait", "30s"]
        asking = shell.start("consume", topic, *group, "--ask", stdin=subprocess.PIPE)
        assert asking.stderr is not None
        question = ""
        while not question.endswith("quit [q]? "):
            question += asking.stderr.read(1)
        asking.send_signal(signal.SIGINT)
        out, said = asking.communicate(timeout=PATIENCE)
        assert (asking.returncode, "one" in out) == (130, True)
        assert said.splitlines()[-1] == "1 message."

    def test_a_delayed_message_comes_to_a_share_group_when_it_is_due(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "later", "--delay", "1s")
        shell.said("produce", topic, "never", "--deliver-at", "2100-01-01")
        shell.said("produce", topic, "now")
        group = ["--share", f"s-{topic}", "--wait", "30s", "--from", "earliest", "--format", "value"]
        assert sorted(shell.said("consume", topic, *group, "-n", "2")) == ["later", "now"]

    def test_what_a_closed_pipe_did_not_show_comes_again(self, shell: Shell, topic: str) -> None:
        # far more than a pipe holds
        lines = "".join(f"{number:04}{'x' * 10_000}\n" for number in range(100))
        assert len(shell.said("produce", topic, stdin=lines)) == 100
        group = ["--share", f"s-{topic}", "--wait", "30s", "--from", "earliest", "--format", "value"]
        piped = shell.start("consume", topic, *group, "--release-every", "1000")
        assert piped.stdout is not None
        first = piped.stdout.readline()
        piped.stdout.close()
        assert piped.stderr is not None
        piped.stderr.read()
        piped.stderr.close()
        assert piped.wait(PATIENCE) != 0
        (again,) = shell.said("consume", topic, *group, "-n", "1")
        assert first < again

    def test_a_new_group_that_sees_nothing_is_told_what_to_do(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "before")
        done = shell.run("consume", topic, "--share", f"s-{topic}", "--wait", "1s")
        assert (done.returncode, done.stdout) == (0, "")
        # the read itself has given the group its place: to say --from earliest now changes nothing
        again = shell.run("consume", topic, "--share", f"s-{topic}", "--from", "earliest", "--wait", "1s")
        assert (again.returncode, again.stdout) == (0, "")
        advice = f"topics reset-cursor {topic} -s s-{topic} -m earliest"
        assert f"`magnetar-admin {advice}`" in done.stderr
        assert f"`magnetar-admin {advice}`" in again.stderr
        shell.said(*advice.split()[1:])
        group = ["--share", f"s-{topic}", "--wait", "30s", "--format", "value"]
        assert shell.said("consume", topic, *group, "-n", "1") == ["before"]


class TestWhatCannotBe:
    def test_an_output_on_a_full_disk_is_a_sentence(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "3 apples", "-q")
        for arguments in (["consume", topic], ["stats", topic], ["consume", topic, "--group", topic]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run(
                    [*ADMIN, "topics", *arguments],
                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, env=shell.environ, check=False,
                )  # fmt: skip
            assert done.returncode == 1, arguments
            assert done.stderr == "The output cannot be written: No space left on device.\n", arguments

    def test_a_group_of_the_other_kind_is_said_to_be_one(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "3 apples", "-q")
        shell.said("consume", topic, "--group", f"{topic}-group")
        shell.said("consume", topic, "--share", f"{topic}-share", "--from", "earliest")
        done = shell.run("consume", topic, "--share", f"{topic}-group")
        assert (done.returncode, "read with --group" in done.stderr) == (1, True), done.stderr
        done = shell.run("consume", topic, "--group", f"{topic}-share")
        assert (done.returncode, "read it with --share" in done.stderr) == (1, True), done.stderr

    def test_a_subscription_that_lanes_serve_is_said_to_be_one(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "3 apples", "-q")
        shell.said(
            "create-subscription", topic, "-s", "w", "-m", "earliest", "--type", "shared", "--lanes", "2"
        )
        better = f"consume {topic}-w-QUEUE --group w"
        # before its group has members, and after
        for _ in range(2):
            done = shell.run("consume", topic, "--share", "w")
            assert (done.returncode, better in done.stderr) == (1, True), done.stderr
            done = shell.run("consume", topic, "--group", "w", "--format", "value")
            assert (done.returncode, better in done.stderr) == (0, True), done.stderr
        assert "nothing was acknowledged here" in done.stderr
        shell.said(*better.split())

    def test_a_partition_that_is_not_there(self, shell: Shell, topic: str) -> None:
        shell.said("produce", topic, "3 apples", "-q")
        done = shell.run("consume", topic, "-p", "7")
        assert (done.returncode, done.stderr) == (1, f"{topic} has one partition, 0: there is no 7.\n")
