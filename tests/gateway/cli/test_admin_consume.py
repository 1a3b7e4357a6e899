"""`topics consume`: what it refuses, the forms in which records come out, and what is said at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.gateway.cli.kafka import kafka_beside, topics


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Three records in "fruit": a text with a key and a header, bytes that are no text, nothing."""
    lines = '{"key": "ada", "value": "3 apples", "headers": {"a": "b"}}\n{"valueBase64": "/w=="}\n{"value": null}\n'
    with kafka_beside() as found:
        sent = topics("produce", "fruit", "-b", found, "--format", "json", "-q", stdin=lines)
        assert sent.exit_code == 0, sent.stderr
        yield found


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-g", "a", "-s", "b"], "not both"),
        (["-g", "a", "-p", "1"], "--partition"),
        (["-g", "a", "--from", "17"], "reset-cursor"),
        (["-s", ""], "empty"),
        (["-g", ""], "empty"),
        (["--reject", "x"], "--share"),
        (["--release-every", "2"], "--share"),
        (["--ask"], "--share"),
        (["-s", "a", "--reject", "("], "no regular expression"),
        (
            ["--format", "xml"],
            "'xml' is no format: write human, json, value, raw, or a text with a field in it, such as %s.",
        ),
        (["--format", r"\xff\n"], r"'\xff\n' is no format: write human, json, value, raw, or a"),
        (["--format", "%z"], "means nothing"),
        (["--format", r"%s\q"], r"'\q' means nothing in --format. There are"),
        (["--wait", "long"], "no time span"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(arguments: list[str], word: str) -> None:
    result = topics("consume", "orders", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("value", b"3 apples\n\xff\n\n"),
        ("raw", b"3 apples\xff"),
        ("%o %k=%s;", b"0 ada=3 apples;1 =\xff;2 =;"),
    ],
)
def test_values_come_out_as_the_bytes_that_they_are(address: str, form: str, expected: bytes) -> None:
    result = topics("consume", "fruit", "-b", address, "--format", form)
    assert (result.exit_code, result.stdout_bytes, result.stderr) == (0, expected, "3 messages.\n")


def test_a_person_and_a_program_get_a_line_each(address: str) -> None:
    shown = topics("consume", "fruit", "-b", address, "-n", "1")
    assert shown.stdout.startswith("[0:0 ")
    assert shown.stdout.endswith("] ada: 3 apples {a=b}\n")
    assert shown.stderr == "1 message.\n"
    for flags in (["--format", "json"], ["--output", "json"]):
        rows = [
            json.loads(line) for line in topics("consume", "fruit", "-b", address, *flags).stdout.splitlines()
        ]
        assert [row["offset"] for row in rows] == [0, 1, 2]
        assert (rows[1]["valueBase64"], rows[2]["value"]) == ("/w==", None)
    # a form that was named goes before --output
    named = topics("consume", "fruit", "-b", address, "--output", "json", "--format", "value", "-n", "1")
    assert named.stdout == "3 apples\n"


def test_what_a_share_group_did_with_each_is_counted(address: str) -> None:
    flags = ["--share", "packing", "--from", "earliest", "--reject", "apples", "--release-every", "3"]
    result = topics("consume", "fruit", "-b", address, "-n", "3", "--format", "%o ", *flags)
    assert (result.exit_code, result.stdout) == (0, "0 1 2 ")
    assert result.stderr == "3 messages: 1 rejected, 1 accepted, 1 released.\n"


def test_a_partition_by_its_name_is_that_partition_and_no_other(address: str) -> None:
    assert topics("consume", "fruit-partition-0", "-b", address, "--format", "%p").stdout == "000"
    missing = topics("consume", "fruit-partition-1", "-b", address)
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "fruit has one partition, 0: there is no 1." in missing.stderr
