"""`magnetar users`: the users of a gateway that is stopped, so that there is a first one. `magnetar-admin users` and
Kafka's kafka-configs do the same with one that runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.cli.options import STARTED_BADLY, load, say
from gateway.cli.passwords import ask, stdin_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.broker.users import Users
    from store.api import Store, Write

F = TypeVar("F", bound=Callable[..., Any])

RUNNING = (
    "a gateway runs on {folder}: use `magnetar-admin users` with it, or `kafka-configs.sh --entity-type users`, or "
    "stop it before."
)


@click.group()
def users() -> None:
    """Users of a gateway that is stopped. With one that runs use magnetar-admin users, or kafka-configs.sh.

    A password is kept as SCRAM verifiers, so nobody can read it again.
    """


def _place(command: F) -> F:
    """Where the store is."""
    command = click.option(
        "--config", "file", metavar="FILE", help="TOML file with settings. [env: MAGNETAR_CONFIG]"
    )(command)
    return click.option("--data", metavar="DIR", help="The data folder. [default: data]")(command)


_name = click.argument("name")
_home = click.option(
    "--home", metavar="TENANT/NAMESPACE", help="The namespace whose topics have bare names for this user."
)
_iterations = click.option(
    "--iterations",
    type=click.IntRange(4096, 16_384),
    default=4096,
    show_default=True,
    help="How much work a login is.",
)


@users.command(
    epilog="""\b
    Examples:
      magnetar users create ada
      magnetar users create ada --home shop/eu
      magnetar users create ada --password-stdin --data /var/lib/magnetar < password
    """
)
@_name
@_home
@stdin_option
@_iterations
@_place
def create(
    name: str, home: str | None, password_stdin: bool, iterations: int, data: str | None, file: str | None
) -> None:
    """Make the user NAME; its principal is User:NAME. The password is asked for twice."""
    from gateway.auth.credentials import UserError, check_home, check_name
    from gateway.broker.users import row_of, verifiers_of

    try:
        # before somebody types a password
        check_name(name)
        if home is not None:
            check_home(home)
        row = row_of(verifiers_of(ask(name, password_stdin), iterations), home)
    except UserError as error:
        raise click.UsageError(str(error)) from None
    _run(_folder(data, file), lambda users: users.create(name, row))
    click.echo(f"Created user {name}.")
    _about(home)


@users.command("list", epilog="\b\nExample:\n  magnetar users list")
@_place
def list_users(data: str | None, file: str | None) -> None:
    """Names of the users."""

    async def listed(users: Users) -> None:
        for name in users.names():
            click.echo(name)

    _run(_made_before(data, file), listed)


@users.command(epilog="\b\nExample:\n  magnetar users show ada")
@_name
@_place
def show(name: str, data: str | None, file: str | None) -> None:
    """What is kept of the user NAME; nothing of its password."""
    from gateway.broker.users import NoUserError

    async def shown(users: Users) -> None:
        row = users.get(name)
        if row is None:
            raise NoUserError(name)
        click.echo(f"principal    User:{name}")
        click.echo(f"home         {row.home or 'none (tenancy.unbound says where it is)'}")
        for each in sorted(row.verifiers.values()):
            click.echo(f"credential   {each.mechanism}, {each.iterations} iterations")
        if not row.verifiers:
            click.echo("credential   none: nobody can log in as this user")

    _run(_made_before(data, file), shown)


@users.command(epilog="\b\nExample:\n  magnetar users passwd ada")
@_name
@stdin_option
@_iterations
@_place
def passwd(name: str, password_stdin: bool, iterations: int, data: str | None, file: str | None) -> None:
    """Give the user NAME another password."""
    import msgspec

    from gateway.auth.credentials import UserError
    from gateway.broker.users import verifiers_of

    # before somebody types a password
    folder = _made_before(data, file)
    try:
        found = verifiers_of(ask(name, password_stdin), iterations)
    except UserError as error:
        raise click.UsageError(str(error)) from None
    _run(folder, lambda users: users.alter(name, lambda row: msgspec.structs.replace(row, verifiers=found)))
    click.echo(f"The password of {name} is another now.")


@users.command(epilog="\b\nExample:\n  magnetar users delete ada")
@_name
@_place
def delete(name: str, data: str | None, file: str | None) -> None:
    """Delete the user NAME. What it may do stays, for a user of that name."""
    _run(_made_before(data, file), lambda users: users.delete(name))
    click.echo(f"Deleted user {name}.")


@users.command(
    "set-home", epilog="\b\nExamples:\n  magnetar users set-home ada shop/eu\n  magnetar users set-home ada"
)
@_name
@click.argument("home", required=False)
@_place
def set_home(name: str, home: str | None, data: str | None, file: str | None) -> None:
    """Bind the user NAME to the namespace HOME; without HOME to none."""
    import msgspec

    from gateway.auth.credentials import UserError, check_home

    try:
        found = check_home(home) if home is not None else None
    except UserError as error:
        raise click.UsageError(str(error)) from None
    _run(
        _made_before(data, file),
        lambda users: users.alter(name, lambda row: msgspec.structs.replace(row, home=found)),
    )
    click.echo(f"{name} is at home in {found}." if found else f"{name} is at home nowhere.")
    _about(found)


def _about(home: str | None) -> None:
    if home is not None:
        click.echo(f"The namespace {home} must be there: magnetar-admin namespaces create {home}.", err=True)


def _folder(data: str | None, file: str | None) -> Path:
    """Where the store is, or will be."""
    return Path(load(data=data, file=file).text("data")).absolute()


def _made_before(data: str | None, file: str | None) -> Path:
    """Where a store is. Says that there is none and exits with 1."""
    from store.rocksdb.layout import DATABASE

    folder = _folder(data, file)
    if not (folder / DATABASE).is_dir():
        say(
            f"{folder} is no data folder of a gateway: name one with --data. `magnetar users create` may make one."
        )
        sys.exit(STARTED_BADLY)
    return folder


def _run(folder: Path, verb: Callable[[Users], Awaitable[None]]) -> None:
    """Do something with the users of a store. Says what is wrong and exits with 1."""
    from gateway.auth.credentials import UserError
    from gateway.broker.users import NoUserError, UserThereError
    from store.api import Locked, StoreError

    try:
        asyncio.run(_with_store(folder, verb))
        return
    except Locked:
        say(RUNNING.format(folder=folder))
    except (UserError, NoUserError, UserThereError, StoreError, OSError) as error:
        say(str(error))
    sys.exit(STARTED_BADLY)


async def _with_store(folder: Path, verb: Callable[[Users], Awaitable[None]]) -> None:
    from gateway.broker.clipping import clip
    from gateway.broker.users import Users
    from store import rocksdb
    from store.api import Durability

    store: Store = await rocksdb.open(folder, clip=clip)

    async def commit(writes: Sequence[Write], done: Callable[[], None], again: Callable[[], None]) -> None:
        # whatever goes wrong, nothing is asked of these users any more
        await store.write(writes, Durability.FSYNC)
        done()

    try:
        users = Users(store, commit)
        await verb(users)
        users.close()
    finally:
        await store.close()
