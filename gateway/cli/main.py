"""`magnetar`: start a gateway, show its settings, check its store.

What a command needs is imported inside it, so that `magnetar --help` and the start of a gateway cost little.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.config import SETTINGS, Settings, SettingsError
from gateway.version import VERSION

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])

STARTED_BADLY = 1
"""Exit code when the settings are fine but the gateway cannot start, or a check found damage."""
USED_BADLY = 2
"""Exit code for wrong flags and settings; click uses the same."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="magnetar %(version)s")
def main() -> None:
    """Magnetar: a gateway for Kafka clients, with Pulsar's messaging semantics.

    \b
    Start one:             magnetar serve
    See what can be set:   magnetar config
    """


def settings_options(command: F) -> F:
    """The flags that give settings, the same for every command that reads them."""
    for option in reversed(
        [
            click.option(
                "--listen",
                "listeners",
                multiple=True,
                metavar="HOST:PORT",
                help="Address for Kafka clients; may be given several times, and as NAME://host:port. Port 0 "
                "picks a free one. [default: 127.0.0.1:9092]",
            ),
            click.option(
                "--admin",
                metavar="HOST:PORT",
                help="Address for HTTP: admin API, metrics, health. [default: 127.0.0.1:8080]",
            ),
            click.option("--data", metavar="DIR", help="Folder that holds everything. [default: data]"),
            click.option(
                "--durability",
                metavar="os|fsync",
                help="What an acknowledgement survives: the death of the process (os), a power cut (fsync). "
                "[default: os]",
            ),
            click.option(
                "--config", "file", metavar="FILE", help="TOML file with settings. [env: MAGNETAR_CONFIG]"
            ),
            click.option(
                "--set",
                "sets",
                multiple=True,
                metavar="NAME=VALUE",
                help='Any setting of "magnetar config"; may be given several times.',
            ),
            click.option(
                "--insecure",
                is_flag=True,
                help="Allow addresses that other machines can reach, though nothing asks for a password yet.",
            ),
            click.option(
                "--log-level", metavar="LEVEL", help="debug, info, warning or error. [default: info]"
            ),
            click.option(
                "--log-format", metavar="text|json", help="For people or for machines. [default: text]"
            ),
        ]
    ):
        command = option(command)
    return command


def load(
    *,
    listeners: tuple[str, ...] = (),
    admin: str | None = None,
    data: str | None = None,
    durability: str | None = None,
    file: str | None = None,
    sets: tuple[str, ...] = (),
    insecure: bool = False,
    log_level: str | None = None,
    log_format: str | None = None,
) -> Settings:
    """Settings from the flags, the environment and the file. Says what is wrong and exits with 2."""
    options = {
        "listeners": ",".join(listeners) or None,
        "admin.listen": admin,
        "data": data,
        "durability": durability,
        "insecure": "true" if insecure else None,
        "log.level": log_level,
        "log.format": log_format,
    }
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings.load(sets, _file(file), os.environ, given)
    except SettingsError as error:
        for problem in error.problems:
            say(problem)
        sys.exit(USED_BADLY)


def _file(given: str | None) -> Path | None:
    from pathlib import Path

    name = given or os.environ.get("MAGNETAR_CONFIG")
    return Path(name) if name else None


def say(problem: str) -> None:
    """One thing that is wrong, on stderr."""
    click.echo(f"magnetar: {problem}", err=True)


@main.command(
    epilog="""\b
    Examples:
      magnetar serve
      magnetar serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data /tmp/try
      magnetar serve --set num.partitions=4 --set log.retention.hours=24
      magnetar serve --config magnetar.toml --durability fsync
      magnetar serve --listen 0.0.0.0:9092 --insecure --set advertised.listeners=kafka.example:9092
      MAGNETAR_NUM_PARTITIONS=4 magnetar serve

    Flags win over variables, variables over the file. "magnetar config" lists every setting with what it
    does; "magnetar config --defaults" writes a file to start from.
    """
)
@settings_options
def serve(**flags: Any) -> None:
    """Start a gateway; Ctrl-C or SIGTERM finishes what is in flight and stops it.

    Kafka clients connect to 127.0.0.1:9092, HTTP is on 127.0.0.1:8080, data is kept in ./data.
    """
    settings = load(**flags)

    import logging

    from gateway import logs

    logs.setup(settings.text("log.level"), settings.text("log.format"))
    try:
        import uvloop

        from gateway import server
        from gateway.errors import StartError

        try:
            uvloop.run(server.run(settings, announce))
        except StartError as error:
            say(str(error))
            sys.exit(STARTED_BADLY)
        except OSError as error:
            # the system said no where nobody expected it; --log-level debug shows where
            logging.getLogger("magnetar").debug("serve ended", exc_info=error)
            say(f"the system refused: {error}.")
            sys.exit(STARTED_BADLY)
    except KeyboardInterrupt:
        # a Ctrl-C before the server listens for it
        sys.exit(130)


def announce(line: str) -> None:
    """A line for the person who started the gateway; whoever starts it from a program reads it too."""
    try:
        click.echo(line)
        sys.stdout.flush()
    except OSError:
        # nobody reads any more: no reason to stop serving
        pass


@main.command(
    epilog="""\b
    Examples:
      magnetar config
      magnetar config --set num.partitions=4 --changed
      magnetar config --format toml --changed > magnetar.toml
      magnetar config --defaults > magnetar.toml
      magnetar config num.partitions log.retention.ms
    """
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--defaults", is_flag=True, help="Write an example file: every setting with its default, as comments."
)
@click.option("--changed", is_flag=True, help="Leave out what has its default.")
@click.option("--format", "form", type=click.Choice(["table", "toml"]), default="table", show_default=True)
@settings_options
def config(names: tuple[str, ...], defaults: bool, changed: bool, form: str, **flags: Any) -> None:
    """Show the settings in force and where each comes from; with NAMEs, also what they do."""
    from gateway.cli import show

    if defaults:
        click.echo(show.example(), nl=False)
        return
    settings = load(**flags)
    unknown = [name for name in names if name not in SETTINGS]
    if unknown:
        from gateway.config.sources import unknown as unknown_name

        for name in unknown:
            say(unknown_name(name))
        sys.exit(USED_BADLY)
    rows = [
        name
        for name in SETTINGS
        if (not names or name in names) and not (changed and settings.origin(name) == "default")
    ]
    if form == "toml":
        click.echo(show.toml(settings, rows), nl=False)
    elif names:
        click.echo(show.explained(settings, rows), nl=False)
    else:
        click.echo(show.table(settings, rows), nl=False)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"magnetar {VERSION}")


if __name__ == "__main__":
    main(prog_name="magnetar")
