"""How `magnetar-admin` says who it is: a token, a name and a password, a certificate; and whom it trusts.

Secrets come from files, from standard input or from the environment. `--token` is there for who has nothing else:
others on the machine can read it in the list of processes.
"""

from __future__ import annotations

import base64
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from gateway.cli.admin_client import AdminError, Misused

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Login:
    """What the flags say. Nothing is read before it is needed, and each thing once."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_stdin: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def authorization(self) -> str | None:
        """The header of that name; None where nothing is to be said. Raises AdminError."""
        if self.token_file is not None:
            # a token may be of the environment
            self.token, self.token_file = _read(self.token_file), None
        if self.token:
            if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
                raise Misused(
                    "The token is no token: it may have letters, digits, '-', '_', '.', '=', '+' and '/'."
                )
            return f"Bearer {self.token}"
        if self.user is None:
            return None
        if ":" in self.user:
            raise Misused("A user's name has no colon.")
        if self.password is None:
            self.password = self._asked()
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def _asked(self) -> str:
        """The password, from standard input or from who sits there. Raises AdminError."""
        if self.password_stdin:
            line = sys.stdin.readline()
            if not line:
                raise Misused("--password-stdin reads the password from standard input, and nothing came.")
            return line.rstrip("\r\n")
        if sys.stdin.isatty():
            return str(click.prompt(f"Password of {self.user}", hide_input=True, err=True))
        raise Misused("A user has a password: give it by --password-stdin, or in MAGNETAR_ADMIN_PASSWORD.")

    def context(self) -> ssl.SSLContext:
        """For https. Raises AdminError."""
        try:
            made = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise Misused(
                f"--tls-ca {self.ca} cannot be read ({_why(error)}): it takes certificates in PEM."
            ) from None
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is None and self.key is not None:
            raise Misused("--tls-key goes with --tls-cert.")
        if self.certificate is not None:
            try:
                made.load_cert_chain(self.certificate, self.key, password=_no_password)
            except (OSError, ssl.SSLError, ValueError) as error:
                raise Misused(
                    f"--tls-cert {self.certificate} cannot be used ({_why(error)}): it takes a certificate in PEM, and "
                    "--tls-key its key, without a password."
                ) from None
        return made

    def hint(self, status: int, reason: str) -> str:
        """What to do about an answer with 401 or 403, which says `reason`."""
        if status == 401:
            if self.token is not None:
                return " Is the token the right one, and has it not ended? `magnetar tokens show` tells."
            if self.user is not None:
                return f" Is the password that of {self.user}?"
            return (
                " Say who you are with --token-file FILE, or with --user NAME and --password-stdin; also from "
                "MAGNETAR_ADMIN_TOKEN, or MAGNETAR_ADMIN_USER and MAGNETAR_ADMIN_PASSWORD."
            )
        if status != 403 or (self.token is None and self.user is None and self.certificate is None):
            return ""
        if "the right to" in reason:
            return " An admin of the tenant gives it (namespaces grant-permission, topics grant-permission)."
        return " If you are somebody who may, say so (--user, --token-file)."


def login_options(command: F) -> F:
    """The flags."""
    for option in reversed(
        [
            click.option(
                "--token", envvar="MAGNETAR_ADMIN_TOKEN", metavar="TOKEN",
                help="Who you are, by a token; also from MAGNETAR_ADMIN_TOKEN. A file is better: flags can be read.",
            ),
            click.option("--token-file", metavar="FILE", help="The same from a file."),
            click.option(
                "--user", envvar="MAGNETAR_ADMIN_USER", metavar="NAME",
                help="Who you are, by name and password; also from MAGNETAR_ADMIN_USER. The password is asked for, or "
                "comes from MAGNETAR_ADMIN_PASSWORD.",
            ),
            click.option(
                "--password-stdin", is_flag=True, help="Read the password from the first line of standard input."
            ),
            click.option(
                "--tls-ca", metavar="FILE",
                help="The CAs in PEM that the gateway's certificate may come from; without it those of this machine.",
            ),
            click.option("--tls-cert", metavar="FILE", help="Who you are, by a certificate in PEM."),
            click.option("--tls-key", metavar="FILE", help="The key of that certificate, if it is in another file."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def login_of(
    variables: dict[str, str],
    token: str | None,
    token_file: str | None,
    user: str | None,
    password_stdin: bool,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> Login:
    """From the flags and the environment. Raises AdminError."""
    if token is not None and user is not None:
        token, user = _one_of(token, user)
    if password_stdin and user is None:
        raise Misused("--password-stdin is the password of --user.")
    password = None if password_stdin else variables.get("MAGNETAR_ADMIN_PASSWORD")
    return Login(token, token_file, user, password, password_stdin, tls_ca, tls_cert, tls_key)


def _one_of(token: str, user: str) -> tuple[str | None, str | None]:
    """What was said by a flag, if the other comes from the environment. Raises Misused where both are said alike."""
    context = click.get_current_context(silent=True)
    token_by, user_by = (
        context is not None and context.get_parameter_source(each) is ParameterSource.ENVIRONMENT
        for each in ("token", "user")
    )
    if token_by and user_by:
        raise Misused("MAGNETAR_ADMIN_TOKEN and MAGNETAR_ADMIN_USER both say who you are: unset one of them.")
    if not token_by and not user_by:
        raise Misused("--token and --user both say who you are: leave one out.")
    return (None, user) if token_by else (token, None)


def _read(name: str) -> str:
    """The token in a file. Raises AdminError."""
    try:
        found = Path(name.removeprefix("file://")).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AdminError(f"--token-file {name} cannot be read ({_why(error)}).") from None
    if not found:
        raise AdminError(f"--token-file {name} is empty.")
    return found


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise ValueError("it is locked with a password")
