"""What every verb of `magnetar-admin` shares: the common flags, how answers are shown, how failures are told."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import click

from gateway.cli.admin_client import AdminError, Client, Misused
from gateway.cli.admin_login import Login
from gateway.cli.admin_output import FORMS, plain_map, render
from gateway.cli.interruptible import Interruptible
from gateway.cli.terminal import guarded
from gateway.not_served import sentence

DEFAULT_URL = "http://127.0.0.1:8080"
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Options:
    """What the flags in front of the noun (or behind the verb) say."""

    url: str = DEFAULT_URL
    # by a flag or the environment
    url_is_named: bool = False
    output: str = "text"
    timeout: float = 60.0
    login: Login = field(default_factory=Login)
    # what all clients of Kafka's protocol are made with
    client_config: dict[str, str] = field(default_factory=dict, repr=False)

    def client(self) -> Client:
        return Client(self.url, self.timeout, self.login)

    def show(self, value: Any, title: str = "value") -> None:
        """Print an answer in the form that was asked for."""
        if isinstance(value, list) and not value and self.output == "text":
            return
        click.echo(render(value, self.output, title))

    def told(self, sentence: str, **facts: Any) -> None:
        """Say what a write has done: a sentence for people, an object with the same facts for programs."""
        click.echo(sentence if self.output == "text" else render(facts, self.output))

    def show_map(self, value: dict[str, Any]) -> None:
        click.echo(plain_map(value) if self.output == "text" else render(value, self.output))


def counted(number: int, what: str = "message") -> str:
    """`1 message`, `1,234 messages`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def common(command: F) -> F:
    """Let the flags that every command shares stand behind the verb as well, where people write them."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            options = context.find_root().ensure_object(Options)
            setattr(options, str(parameter.name), value)
            options.url_is_named = options.url_is_named or parameter.name == "url"

    command = click.option(
        "--output",
        type=click.Choice(FORMS),
        callback=keep,
        expose_value=False,
        help="How to print the answer.",
    )(command)
    return click.option(
        "--admin-url",
        "url",
        callback=keep,
        expose_value=False,
        help="The gateway's admin address.",
        metavar="URL",
    )(command)


def _refuse(noun: str, verb: str = "") -> None:
    """Raises AdminError for what is known not to be served."""
    why = sentence(noun, verb)
    if why is not None:
        raise AdminError(why)


class Noun(click.Group):
    """A noun with verbs. Those that pulsar-admin has and nobody serves are refused with the reason."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in self.commands:
            _refuse(self.name or "", args[0])
        return super().resolve_command(ctx, args)


class Verbs(Interruptible):
    """All nouns. Verbs take the common flags. A failed call is told on stderr with exit code 1, a wrong use with 2."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in self.commands:
            _refuse(*[each for each in args[:2] if not each.startswith("-")])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with guarded():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AdminError as error:
            # pulsar-admin's form: the status, an empty line, and the reason by name for scripts to find
            said = f"{_status(error.status)}\n\nReason: {error.reason}" if error.status else error.reason
            click.echo(said, err=True)
            # as click does by itself
            ctx.exit(2 if isinstance(error, Misused) else 1)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # only standard output is written here; what is left of it would fail again at the exit
            click.echo(f"The output cannot be written: {error.strerror}.", err=True)
            sys.stdout = None
            ctx.exit(1)


def _status(number: int) -> str:
    """`HTTP 404 Not Found`."""
    try:
        return f"HTTP {number} {HTTPStatus(number).phrase}"
    except ValueError:
        return f"HTTP {number}"


pass_options = click.make_pass_decorator(Options)
