"""The image's health check: asks the gateway that runs in this container, wherever it was told to listen.

Its command line and variables say where, so the check follows `--admin`, `--set`, `--config` and
`MAGNETAR_ADMIN_LISTEN`.
Exit code 0: it is ready. 1: it is not; one line says why.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.cli.main import serve
from gateway.cli.options import load
from gateway.config import Settings
from gateway.config.listeners import Address

TIMEOUT = 4.0
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def command_lines(processes: Path) -> Iterator[list[str]]:
    """Of all processes, the first one first; in a container that is the gateway, or an init with it behind."""
    folders = sorted(
        (entry for entry in processes.iterdir() if entry.name.isdigit()), key=lambda entry: int(entry.name)
    )
    for folder in folders:
        try:
            yield (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue


def serving(lines: Iterator[list[str]]) -> list[str] | None:
    """What `magnetar serve` was given."""
    for words in lines:
        for program, verb in itertools.pairwise(words):
            if Path(program).name == "magnetar" and verb == "serve":
                return words[words.index(verb, words.index(program)) + 1 :]
    return None


def settings_of(arguments: Sequence[str]) -> Settings:
    """The settings in force, as `magnetar serve` makes them out; this process has the same variables."""
    return load(**serve.make_context("serve", list(arguments)).params)


def ask(settings: Settings) -> None:
    """Raises OSError when it is not ready. Without an admin address: when nobody takes a Kafka client's connection."""
    if settings.admin is None:
        listener = settings.listeners[0]
        socket.create_connection(
            (EVERYWHERE.get(listener.host, listener.host), listener.port), TIMEOUT
        ).close()
        return
    host = EVERYWHERE.get(settings.admin.host, settings.admin.host)
    scheme, context = "http", None
    if settings.admin_tls:
        # it is this container's own, by an address that need not stand in its certificate; nothing secret is said
        scheme, context = "https", ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    url = f"{scheme}://{Address(host, settings.admin.port)}/health/ready"
    try:
        urllib.request.urlopen(url, timeout=TIMEOUT, context=context).close()
    except OSError as error:
        raise OSError(f"{url}: {error}") from None


def main(processes: Path = Path("/proc")) -> int:
    """The exit code."""
    arguments = serving(command_lines(processes))
    if arguments is None:
        print("no magnetar serve runs here")
        return 1
    try:
        ask(settings_of(arguments))
    except OSError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
