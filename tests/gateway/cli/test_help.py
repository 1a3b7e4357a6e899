"""Every command teaches: what it does, and what each of its options means."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from gateway.cli.admin import main as magnetar_admin
from gateway.cli.main import main as magnetar
from pipeline.cli import main as magnetar_pipeline


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, by what a person types."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        # also those whose modules are brought in when they are asked for
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from commands(below, f"{name} {each}")


ALL = {
    name: command
    for program, top in (
        ("magnetar", magnetar),
        ("magnetar-admin", magnetar_admin),
        ("magnetar-pipeline", magnetar_pipeline),
    )
    for name, command in commands(top, program)
}


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_left_unsaid(name: str) -> None:
    command = ALL[name]
    assert (command.help or "").strip()
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    assert [each.name for each in options if not each.help] == []
