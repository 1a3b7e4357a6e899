"""Options in a file and in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pipeline.cli import main
from pipeline.config import defaults, hear
from pipeline.options import Pair


@pytest.fixture
def said() -> dict[str, Any]:
    return {}


@pytest.fixture
def commands(said: dict[str, Any]) -> click.Group:
    @click.group()
    @click.option("--config", type=click.Path(path_type=Path))
    @click.pass_context
    def group(context: click.Context, config: Path | None) -> None:
        if config is not None:
            context.default_map = defaults(group, config)

    @group.command()
    @click.option("--input", "source")
    @click.option("--topic", "topics", multiple=True)
    @click.option("--option", "options", type=Pair(), multiple=True)
    @click.option("--max-offsets", type=int, default=5)
    @click.option("--continuous", is_flag=True)
    def work(**options: Any) -> None:
        said.update(options)

    hear(group)
    return group


def test_what_is_typed_goes_before_the_environment_and_that_before_the_file(
    commands: click.Group, said: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[work]\ninput = 'file'\nmax-offsets = 1\ncontinuous = true\n")
    environment = {"MAGNETAR_PIPELINE_WORK_INPUT": "environ", "MAGNETAR_PIPELINE_WORK_MAX_OFFSETS": "2"}

    result = CliRunner().invoke(
        commands, ["--config", str(file), "work", "--input", "typed"], env=environment
    )

    assert result.exit_code == 0, result.output
    assert (said["source"], said["max_offsets"], said["continuous"]) == ("typed", 2, True)


def test_what_may_come_several_times(commands: click.Group, said: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[work]\ntopic = "t"\noption = { "kafka.a" = "x=y", "kafka.b" = 2 }\n')

    assert CliRunner().invoke(commands, ["--config", str(file), "work"]).exit_code == 0
    assert said["topics"] == ("t",)
    assert said["options"] == (("kafka.a", "x=y"), ("kafka.b", "2"))
    file.write_text('[work]\ntopic = ["t", "u"]\noption = ["kafka.a=1"]\n')
    assert CliRunner().invoke(commands, ["--config", str(file), "work"]).exit_code == 0
    assert said["topics"] == ("t", "u")
    assert said["options"] == (("kafka.a", "1"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[drane]\n", "table drane is no command; did you mean drain?"),
        ("[drain]\nbootstrp = 'h:1'\n", "drain.bootstrp is no option of drain; did you mean bootstrap?"),
        ("drain = 1\n", "table drain is no command"),
        ("[drain\n", "line 1"),
    ],
)
def test_what_is_no_option_is_named(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)

    result = CliRunner().invoke(main, ["--config", str(file), "drain", "--dry-run"])

    assert result.exit_code == 2
    assert sentence in result.output


def test_the_pipeline_reads_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[drain]\nbootstrap = 'no-address'\n")
    environment = {"MAGNETAR_PIPELINE_CONFIG": str(file), "MAGNETAR_PIPELINE_DRAIN_TOPIC": "t-s-QUEUE"}

    result = CliRunner().invoke(main, ["drain", "--dry-run"], env=environment)

    assert "--bootstrap no-address: expected host:port" in result.output
