"""`magnetar`: start a gateway, show its settings, check its store.

What a command needs is imported inside it, so that `magnetar --help` and the start of a gateway cost little.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from gateway.cli.interruptible import INTERRUPTED, Interruptible
from gateway.cli.options import STARTED_BADLY, USED_BADLY, load, say, settings_options
from gateway.version import VERSION

GROUPS = ("store", "tls", "tokens", "users")


class Commands(Interruptible):
    """The group, with its groups brought in when they are asked for: each is called like its module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *GROUPS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in GROUPS:
            found: click.Command = getattr(import_module(f"gateway.cli.{cmd_name}"), cmd_name)
            return found
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="magnetar %(version)s")
def main() -> None:
    """Magnetar: a gateway for Kafka clients, with Pulsar's messaging semantics.

    \b
    Start one:                     magnetar serve
    See what can be set:           magnetar config
    Check a stopped one's store:   magnetar store verify
    Make its first user:           magnetar users create ada
    Make certificates for TLS:     magnetar tls self-signed tls
    """


@main.command(
    epilog="""\b
    Examples:
      magnetar serve
      magnetar serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data /tmp/try
      magnetar serve --set num.partitions=4 --set log.retention.hours=24
      magnetar serve --config magnetar.toml --durability fsync
      magnetar serve --listen 0.0.0.0:9092 --insecure --set advertised.listeners=kafka.example:9092
      magnetar serve --listen SSL://127.0.0.1:9092 --tls-cert tls/server.pem --tls-key tls/server-key.pem
      magnetar serve --listen 127.0.0.1:9092,SHOP://127.0.0.1:9094 --set listener.name.shop.pulsar.namespace=shop/eu
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
    import os

    from gateway import logs

    logs.setup(settings.text("log.level"), settings.text("log.format"))
    # numpy comes with the first Key_Shared subscription; its linear algebra, with a thread a core, is not needed
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
        sys.exit(INTERRUPTED)


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
@click.option(
    "--format", "form", type=click.Choice(["table", "toml"]), default="table", show_default=True,
    help="A table for people, or a file that serve --config takes.",
)  # fmt: skip
@settings_options
def config(names: tuple[str, ...], defaults: bool, changed: bool, form: str, **flags: Any) -> None:
    """Show the settings in force and where each comes from; with NAMEs, also what they do."""
    from gateway.cli import show

    if defaults:
        click.echo(show.example(), nl=False)
        return
    settings = load(**flags)
    from gateway.config.sources import row_of
    from gateway.config.sources import unknown as unknown_name

    unknown = [name for name in names if row_of(name) is None]
    if unknown:
        for name in unknown:
            say(unknown_name(name))
        sys.exit(USED_BADLY)
    rows = [
        name
        for name in dict.fromkeys([*settings.names, *names])
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
