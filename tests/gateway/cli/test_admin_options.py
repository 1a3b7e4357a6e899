"""What the verbs share: flags in front and behind, the forms of an answer, and how a failure is told."""

from __future__ import annotations

import errno
import json
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gateway.cli.admin_client import AdminError, Misused
from gateway.cli.admin_options import Options, Verbs, common, counted, pass_options
from tests.gateway.cli.conftest import Peer


def test_json_and_tables_wherever_the_flag_stands(peer: Peer) -> None:
    peer.says("GET", "clusters", ["standalone"])
    peer.says("GET", "persistent/public/default/x/stats", {"rate": 1, "magnetar": {"a": "b", "list": [1]}})
    assert json.loads(peer.run("--output", "json", "clusters", "list").stdout) == ["standalone"]
    assert json.loads(peer.run("clusters", "list", "--output", "json").stdout) == ["standalone"]
    assert peer.run("clusters", "list", "--output", "table").stdout == "cluster\n----------\nstandalone\n"
    assert peer.run("--output", "table", "topics", "stats", "x").stdout == (
        "name           value\n-------------  -----\nrate           1\nmagnetar.a     b\nmagnetar.list  [1]\n"
    )


def test_a_refusal_is_told_on_stderr_with_its_reason(peer: Peer) -> None:
    peer.says("PUT", "persistent/public/default/x", {"reason": "There is one."}, 409)
    result = peer.run("topics", "create", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "HTTP 409 Conflict\n\nReason: There is one.\n"
    peer.says("PUT", "persistent/public/default/x", {"reason": "There is one."}, 499)
    assert peer.run("topics", "create", "x").stderr == "HTTP 499\n\nReason: There is one.\n"


def failing(error: BaseException) -> click.Group:
    """A noun with one verb, which fails like this."""

    @click.group(cls=Verbs)
    def noun() -> None:
        pass

    @noun.command()
    def verb() -> None:
        raise error

    return noun


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (AdminError("It is gone.", 404), 1, "HTTP 404 Not Found\n\nReason: It is gone.\n"),
        (AdminError("It is odd.", 599), 1, "HTTP 599\n\nReason: It is odd.\n"),
        (AdminError("Nobody answers."), 1, "Nobody answers.\n"),
        (Misused("Say which."), 2, "Say which.\n"),
    ],
)
def test_a_failure_is_one_thing_on_stderr_and_an_exit_code(error: AdminError, code: int, said: str) -> None:
    result = CliRunner().invoke(failing(error), ["verb"])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


def test_a_full_disk_under_the_output_is_told_and_no_other_error_of_the_system_is_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given back after the test: the command lets go of it, for what is left in it would fail again at the exit
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    full = failing(OSError(errno.ENOSPC, "No space left on device"))
    assert full.main(["verb"], standalone_mode=False) == 1
    assert sys.stdout is None
    assert capsys.readouterr().err == "The output cannot be written: No space left on device.\n"
    with pytest.raises(PermissionError):
        failing(PermissionError(errno.EACCES, "Permission denied")).main(["verb"], standalone_mode=False)


def test_the_last_flag_counts_and_an_address_that_was_named_is_remembered() -> None:
    seen: list[tuple[str, bool, str]] = []

    @click.group()
    @common
    def root() -> None:
        pass

    @root.command()
    @common
    @pass_options
    def verb(options: Options) -> None:
        seen.append((options.url, options.url_is_named, options.output))

    for line in (
        "verb",
        "--admin-url a:1 verb",
        "--admin-url a:1 --output json verb --output table",
        "verb --admin-url b:2",
    ):
        assert CliRunner().invoke(root, line.split(), obj=Options()).exit_code == 0
    assert seen == [
        (Options().url, False, "text"),
        ("a:1", True, "text"),
        ("a:1", True, "table"),
        ("b:2", True, "text"),
    ]
    assert CliRunner().invoke(root, ["verb", "--output", "xml"], obj=Options()).exit_code == 2


@pytest.mark.parametrize(
    ("output", "value", "shown"),
    [
        ("text", [], ""),
        ("json", [], "[]\n"),
        ("table", [], "topic\n-----\n"),
        ("text", None, "null\n"),
        ("text", ["a"], "a\n"),
    ],
)
def test_a_list_without_anything_in_it_is_no_empty_line(
    output: str, value: Any, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Options(output=output).show(value, "topic")
    assert capsys.readouterr().out == shown


def test_a_write_says_a_sentence_to_people_and_the_same_facts_to_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Options().told("Deleted orders.", topic="orders", messages=3)
    Options(output="json").told("Deleted orders.", topic="orders", messages=3)
    sentence, rest = capsys.readouterr().out.split("\n", 1)
    assert sentence == "Deleted orders."
    assert json.loads(rest) == {"topic": "orders", "messages": 3}
    Options().show_map({"a": "b"})
    Options(output="json").show_map({"a": "b"})
    assert capsys.readouterr().out == 'a    b\n{\n  "a": "b"\n}\n'


def test_one_is_no_plural_and_many_are_read_in_thousands() -> None:
    assert [counted(n) for n in (0, 1, 2, 1234)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "1,234 messages",
    ]
    assert counted(1, "record") == "1 record"
