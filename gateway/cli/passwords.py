"""How commands ask for a password: twice on a terminal, or a line from standard input for programs."""

from __future__ import annotations

import getpass
import sys
import warnings

import click

stdin_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, one line, and do not ask."
)


def ask(name: str, password_stdin: bool) -> str:
    """The password that somebody says for a user; never empty. Exits with 2 where there is none."""
    if not password_stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            try:
                said: str = click.prompt(
                    f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
                )
            except getpass.GetPassWarning:
                # without a terminal it would be read where it shows
                raise click.UsageError(
                    "There is no terminal to ask for a password at: --password-stdin reads it from standard input."
                ) from None
        return said
    line = sys.stdin.readline()
    password = line.removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.UsageError("There is no password on standard input.")
    return password
