"""Flags that give settings, and how a command says that something is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.config import Settings, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])

STARTED_BADLY = 1
"""Exit code when the settings are fine but the gateway cannot start, or a check found damage."""
USED_BADLY = 2
"""Exit code for wrong flags and settings; click uses the same."""


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
                help="Allow addresses that other machines can reach without TLS, or without saying who they are.",
            ),
            click.option(
                "--tls-cert", metavar="FILE", help="Certificate of SSL and SASL_SSL listeners, in PEM."
            ),
            click.option("--tls-key", metavar="FILE", help="Its private key, in PEM."),
            click.option(
                "--tls-ca",
                metavar="FILE",
                help="CAs of clients that are known by their certificates, in PEM.",
            ),
            click.option(
                "--users-file",
                metavar="FILE",
                help="name:password a line: users to make while there are none, for the first start.",
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
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_ca: str | None = None,
    users_file: str | None = None,
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
        "ssl.certificate.location": tls_cert,
        "ssl.key.location": tls_key,
        "ssl.ca.location": tls_ca,
        "users.file": users_file,
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
