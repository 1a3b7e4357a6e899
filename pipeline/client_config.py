"""A file of client settings, as Kafka's own tools take it, as options of Spark's Kafka source and sink.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-256
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="…";
    ssl.truststore.type=PEM
    ssl.truststore.location=ca.pem

So no password stands on a command line, where everybody on the machine sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SETTING = re.compile(r"((?:\\.|[^\\\s=:])+)(?:\s*[=:]\s*(.*)|\s+(.+))", re.DOTALL)
_DECIDED = re.compile(
    r"bootstrap\.servers|group\.id|auto\.offset\.reset|enable\.auto\.commit|interceptor\.classes"
    r"|(?:key|value)\.(?:de)?serializer"
)
"""What --bootstrap and Spark decide: Spark refuses most of these. A file that other programs use may have them."""


def options_of(file: Path) -> dict[str, str]:
    """Spark's Kafka options (`kafka.` and a setting's name). Raises `click.UsageError`, which shows no value."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is not UTF-8"
        raise click.UsageError(f"--client-config {file}: {reason}.") from None
    found: dict[str, str] = {}
    for number, line in _lines(text):
        match = _SETTING.fullmatch(line)
        if match is None:
            raise click.UsageError(f"--client-config {file}, line {number}: write name=value.")
        name = _plain(match[1])
        if not _DECIDED.fullmatch(name):
            found[f"kafka.{name}"] = _plain((match[2] or match[3] or "").rstrip())
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Java's logical lines, with the number of the first line of each: no comments, and \\ before an end goes on."""
    whole, began = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.rstrip("\r").lstrip(" \t\f")
        if not whole:
            if not bare or bare[0] in "#!":
                continue
            began = number
        whole += bare
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield began, whole
        whole = ""
    if whole:
        yield began, whole


def _plain(text: str) -> str:
    """A name or a value without its escapes."""

    def meant(found: re.Match[str]) -> str:
        said = found[1]
        return chr(int(said[1:], 16)) if len(said) == 5 else _ESCAPES.get(said, said)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meant, text, flags=re.DOTALL)
