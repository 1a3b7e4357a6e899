"""`magnetar-admin resourcegroups`, and which group a namespace is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.cli.admin_client import namespace_path, segment
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options
from gateway.cli.admin_tenancy import namespace_argument

F = TypeVar("F", bound=Callable[..., Any])

_group = click.argument("group")
_RATES = (
    (("-mp", "--msg-publish-rate"), "publishRateInMsgs", "Messages that may be published in a second."),
    (("-bp", "--byte-publish-rate"), "publishRateInBytes", "Bytes that may be published in a second."),
    (("-md", "--msg-dispatch-rate"), "dispatchRateInMsgs", "Messages that may be read in a second."),
    (("-bd", "--byte-dispatch-rate"), "dispatchRateInBytes", "Bytes that may be read in a second."),
)


def _rates(command: F) -> F:
    for flags, name, help_text in reversed(_RATES):
        said = f"{help_text} -1 and 0 are no limit."
        command = click.option(*flags, name, type=int, metavar="NUMBER", help=said)(command)
    return command


@click.group(cls=Noun, context_settings=HELP)
def resourcegroups() -> None:
    """Resource groups: rates that the topics of several namespaces have together."""


@resourcegroups.command("list", epilog="\b\nExample:\n  magnetar-admin resourcegroups list")
@common
@pass_options
def list_groups(options: Options) -> None:
    """Names of the groups."""
    options.show(options.client().get("resourcegroups"), "group")


@resourcegroups.command("get", epilog="\b\nExample:\n  magnetar-admin resourcegroups get small")
@_group
@common
@pass_options
def get_group(options: Options, group: str) -> None:
    """The rates of GROUP that are set."""
    options.show(options.client().get(f"resourcegroups/{segment(group)}"))


@resourcegroups.command(epilog="\b\nExample:\n  magnetar-admin resourcegroups stats small")
@_group
@common
@pass_options
def stats(options: Options, group: str) -> None:
    """What the namespaces in GROUP have published and read since the gateway started."""
    options.show(options.client().get(f"magnetar/resourcegroups/{segment(group)}/stats"))


def _put(options: Options, group: str, rates: dict[str, int | None]) -> None:
    body = {name: rate for name, rate in rates.items() if rate is not None}
    options.client().put(f"resourcegroups/{segment(group)}", body)


@resourcegroups.command(
    epilog="\b\nExample:\n  magnetar-admin resourcegroups create small --byte-publish-rate 1048576"
)
@_group
@_rates
@common
@pass_options
def create(options: Options, /, group: str, **rates: int | None) -> None:
    """Make GROUP. A rate that is not said is no limit."""
    _put(options, group, rates)
    options.told(f"Created resource group {group}.", action="created", group=group)


@resourcegroups.command(
    epilog="\b\nExample:\n  magnetar-admin resourcegroups update small --byte-publish-rate 4194304"
)
@_group
@_rates
@common
@pass_options
def update(options: Options, /, group: str, **rates: int | None) -> None:
    """Change GROUP. A rate that is not said stays."""
    _put(options, group, rates)
    options.told(f"Updated resource group {group}.", action="updated", group=group)


@resourcegroups.command(epilog="\b\nExample:\n  magnetar-admin resourcegroups delete small")
@_group
@common
@pass_options
def delete(options: Options, group: str) -> None:
    """Delete GROUP, which no namespace is in any more."""
    options.client().delete(f"resourcegroups/{segment(group)}")
    options.told(f"Deleted resource group {group}.", action="deleted", group=group)


of_namespaces = click.Group("of-namespaces")


def _path(namespace: str) -> str:
    return f"namespaces/{namespace_path(namespace)}/resourcegroup"


@of_namespaces.command(
    "get-resource-group", epilog="\b\nExample:\n  magnetar-admin namespaces get-resource-group shop/eu"
)
@namespace_argument
@common
@pass_options
def get_resource_group(options: Options, namespace: str) -> None:
    """The resource group that NAMESPACE is in; null where it is in none."""
    options.show(options.client().get(_path(namespace)), "group")


@of_namespaces.command(
    "set-resource-group",
    epilog="\b\nExample:\n  magnetar-admin namespaces set-resource-group shop/eu -rgn small\n\n`resourcegroups create` "
    "makes one.",
)
@namespace_argument
@click.option("-rgn", "--resource-group-name", "group", required=True, help="The group, which is there.")
@common
@pass_options
def set_resource_group(options: Options, namespace: str, group: str) -> None:
    """Put NAMESPACE into a resource group, whose rates it has together with others."""
    options.client().post(f"{_path(namespace)}/{segment(group)}", None)
    options.told(f"{namespace} is in resource group {group}.", action="set", namespace=namespace, group=group)


@of_namespaces.command(
    "remove-resource-group", epilog="\b\nExample:\n  magnetar-admin namespaces remove-resource-group shop/eu"
)
@namespace_argument
@common
@pass_options
def remove_resource_group(options: Options, namespace: str) -> None:
    """Take NAMESPACE out of its resource group."""
    options.client().delete(_path(namespace))
    options.told(f"{namespace} is in no resource group.", action="removed", namespace=namespace)


def add_to(namespaces: click.Group) -> None:
    """Give `namespaces` its verbs of these."""
    for name, command in of_namespaces.commands.items():
        namespaces.add_command(command, name)
