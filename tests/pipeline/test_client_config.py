"""A file of client settings: what Spark is told of it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.cli import main
from pipeline.client_config import options_of
from pipeline.options import chosen

LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="a=b:c d";'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("security.protocol=SASL_SSL\n", {"security.protocol": "SASL_SSL"}),
        (f"sasl.jaas.config={LOGIN}", {"sasl.jaas.config": LOGIN}),
        ("# a=b\n\n  ! c\n  a = b  \r\n", {"a": "b"}),
        ("a : b\nc d", {"a": "b", "c": "d"}),
        (
            "ssl.endpoint.identification.algorithm=\na=b",
            {"ssl.endpoint.identification.algorithm": "", "a": "b"},
        ),
        ("a=b,\\\n   c\nd=e", {"a": "b,c", "d": "e"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (r"a\ b=\u00e9\tC\:\\ada", {"a b": "é\tC:\\ada"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_it_is_read_as_java_reads_it(file: Path, text: str, found: dict[str, str]) -> None:
    file.write_bytes(text.encode())

    assert options_of(file) == {f"kafka.{name}": value for name, value in found.items()}


def test_what_spark_decides_is_left_to_it(file: Path) -> None:
    file.write_text(
        "bootstrap.servers=h:1\ngroup.id=g\nauto.offset.reset=earliest\nenable.auto.commit=true\n"
        "key.deserializer=k\nvalue.serializer=v\ninterceptor.classes=i\nclient.id=c\nisolation.level=x\n"
    )

    assert options_of(file) == {"kafka.client.id": "c", "kafka.isolation.level": "x"}


def test_what_is_typed_goes_before_the_file(file: Path) -> None:
    file.write_text("a=file\nb=file\n")

    assert chosen(file, [("kafka.b", "typed"), ("minPartitions", "2")]) == {
        "kafka.a": "file",
        "kafka.b": "typed",
        "minPartitions": "2",
    }
    assert chosen(None, [("kafka.b", "typed")]) == {"kafka.b": "typed"}


def test_a_line_that_says_nothing_is_named_and_not_shown(file: Path) -> None:
    file.write_text("a=b\\\nc\n\npassword-of-ada\n")

    with pytest.raises(click.UsageError, match="line 4: write name=value") as raised:
        options_of(file)
    assert "password-of-ada" not in raised.value.message


@pytest.mark.parametrize(
    "command",
    [
        "archive --bootstrap 127.0.0.1:1 --topic t --output o",
        "replay --bootstrap 127.0.0.1:1 --input i --to t",
        "drain --bootstrap 127.0.0.1:1 --topic t-s-QUEUE --output o",
    ],
)
def test_each_command_reads_the_file_before_spark_starts(command: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    sentence = f"--client-config {nowhere}: No such file or directory."
    name = command.split()[0]
    config = tmp_path / "pipeline.toml"
    config.write_text(f"[{name}]\nclient-config = {str(nowhere)!r}\n")

    for arguments, environment in (
        ([*command.split(), "--client-config", str(nowhere)], {}),
        (command.split(), {f"MAGNETAR_PIPELINE_{name.upper()}_CLIENT_CONFIG": str(nowhere)}),
        (["--config", str(config), *command.split()], {}),
    ):
        result = CliRunner().invoke(main, arguments, env=environment)
        assert (result.exit_code, sentence in result.output) == (2, True), result.output


def test_a_file_that_is_no_text(file: Path) -> None:
    file.write_bytes(b"a=\xff\n")

    with pytest.raises(click.UsageError, match="not UTF-8"):
        options_of(file)
