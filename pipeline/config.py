"""Options from a TOML file and from the environment, under the names that they have on the command line.

    [drain]
    bootstrap = "localhost:9092"
    continuous = true
    client-config = "client.properties"
    option = { "kafka.fetch.max.bytes" = "1000000" }

What is typed goes before the environment (MAGNETAR_PIPELINE_DRAIN_BOOTSTRAP), and that before the file.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

import click

PREFIX = "MAGNETAR_PIPELINE"


def flag(option: click.Option) -> str:
    """An option's name on the command line, without dashes before it."""
    return max(option.opts, key=len).lstrip("-")


def hear(commands: click.Group) -> None:
    """Let each option of each command be said in the environment."""
    for name, command in commands.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and option.envvar is None:
                option.envvar = f"{PREFIX}_{name}_{flag(option)}".replace("-", "_").upper()


def defaults(commands: click.Group, file: Path) -> dict[str, Any]:
    """Click's default map from a file. Raises `click.UsageError` for what is no option of a command."""
    try:
        found = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"--config {file}: {error}") from None
    result: dict[str, Any] = {}
    for table, values in found.items():
        if table not in commands.commands or not isinstance(values, dict):
            raise click.UsageError(
                f"--config {file}: {_unknown(table, commands.commands, 'table', 'command')}"
            )
        options = {
            flag(each): each
            for each in commands.commands[table].params
            if isinstance(each, click.Option) and each.name != "help"
        }
        result[table] = {}
        for name, value in values.items():
            if name not in options:
                raise click.UsageError(
                    f"--config {file}: {_unknown(name, options, table + '.', f'option of {table}')}"
                )
            option = options[name]
            if option.name is not None:
                result[table][option.name] = _many(value) if option.multiple else value
    return result


def _many(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [f"{name}={text}" for name, text in value.items()]
    return value if isinstance(value, list) else [value]


def _unknown(name: str, known: Any, where: str, what: str) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{where}{'' if where.endswith('.') else ' '}{name} is no {what}{hint}"
