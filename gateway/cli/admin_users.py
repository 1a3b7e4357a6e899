"""`magnetar-admin users`: who may log in at a gateway that runs."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_client import Misused, segment
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.passwords import ask, stdin_option

_name = click.argument("name")
_iterations = click.option(
    "--iterations", type=int, metavar="N", help="How much work a login is: 4096, as without this, to 16384."
)


@click.group(cls=Noun, context_settings=HELP)
def users() -> None:
    """Users: who may log in, with a password. pulsar-admin has no such noun; kafka-configs.sh shows them, too."""


@users.command("list", epilog="\b\nExample:\n  magnetar-admin users list")
@common
@pass_options
def list_users(options: Options) -> None:
    """Names of the users; with --output json or table more of each."""
    found: list[dict[str, Any]] = options.client().get("magnetar/users")
    if options.output == "text":
        options.show([each["name"] for each in found], "user")
    elif options.output == "table":
        options.show([_row(each) for each in found])
    else:
        options.show(found)


def _row(user: dict[str, Any]) -> dict[str, Any]:
    return {"name": user["name"], "home": user["home"] or "", "credentials": ", ".join(user["credentials"])}


@users.command(epilog="\b\nExample:\n  magnetar-admin users show ada")
@_name
@common
@pass_options
def show(options: Options, name: str) -> None:
    """What is kept of the user NAME; nothing of its password."""
    options.show(options.client().get(_path(name)))


@users.command(
    epilog="""\b
Examples:
  magnetar-admin users create ada
  magnetar-admin users create ada --home shop/eu
  magnetar-admin users create ada --password-stdin < password"""
)
@_name
@click.option(
    "--home", metavar="TENANT/NAMESPACE", help="The namespace whose topics have bare names for this user."
)
@click.option("--no-password", is_flag=True, help="Nobody can log in as this user until it has one.")
@stdin_option
@_iterations
@common
@pass_options
def create(
    options: Options,
    name: str,
    home: str | None,
    no_password: bool,
    password_stdin: bool,
    iterations: int | None,
) -> None:
    """Make the user NAME; its principal is User:NAME. The password is asked for twice."""
    body = {} if home is None else {"home": home}
    path = _path(name)
    if not no_password:
        body |= _password(name, password_stdin, iterations)
    options.client().put(path, body)
    options.told(f"Created user {name}.", action="created", user=name)


@users.command(epilog="\b\nExample:\n  magnetar-admin users passwd ada")
@_name
@stdin_option
@_iterations
@common
@pass_options
def passwd(options: Options, name: str, password_stdin: bool, iterations: int | None) -> None:
    """Give the user NAME another password. Its connections end."""
    path = _path(name)
    options.client().post(f"{path}/password", _password(name, password_stdin, iterations))
    options.told(f"The password of {name} is another now.", action="set", user=name)


@users.command(
    "set-home",
    epilog="\b\nExamples:\n  magnetar-admin users set-home ada shop/eu\n  magnetar-admin users set-home ada",
)
@_name
@click.argument("home", required=False)
@common
@pass_options
def set_home(options: Options, name: str, home: str | None) -> None:
    """Bind the user NAME to the namespace HOME; without HOME to none. Its connections end."""
    options.client().post(f"{_path(name)}/home", {"home": home})
    said = f"{name} is at home in {home}." if home else f"{name} is at home nowhere."
    options.told(said, action="set", user=name, home=home)


@users.command(epilog="\b\nExample:\n  magnetar-admin users delete ada")
@_name
@common
@pass_options
def delete(options: Options, name: str) -> None:
    """Delete the user NAME; its connections end. What it may do stays, for a user of that name."""
    options.client().delete(_path(name))
    options.told(f"Deleted user {name}.", action="deleted", user=name)


def _path(name: str) -> str:
    if not name:
        raise Misused("A user has a name.")
    return f"magnetar/users/{segment(name)}"


def _password(name: str, password_stdin: bool, iterations: int | None) -> dict[str, Any]:
    said: dict[str, Any] = {"password": ask(name, password_stdin)}
    return said if iterations is None else {**said, "iterations": iterations}
