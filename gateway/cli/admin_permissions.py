"""`magnetar-admin namespaces|topics`, the verbs of permissions: which role may do what; and all ACLs of a namespace."""

from __future__ import annotations

import click

from gateway.cli.admin_client import Misused, namespace_path, segment, topic_path
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_output import columns
from gateway.cli.admin_tenancy import namespace_argument
from gateway.cli.admin_topics import topic_argument

topic_verbs = click.Group("permissions")
"""What `topics` has of them."""
namespace_verbs = click.Group("permissions")
"""What `namespaces` has of them."""

COUNTS = "It counts where the gateway asks its clients for rights: see its setting authorization."

_ACTIONS = "produce, consume, functions, sources, sinks, packages; with commas."


def _list(text: str, what: str) -> list[str]:
    """`a,b` as a list. Raises Misused for an empty one."""
    found = [each.strip() for each in text.split(",") if each.strip()]
    if not found:
        raise Misused(f"Say at least one {what}.")
    return found


def _named_role(context: click.Context, option: click.Parameter, role: str) -> str:
    """What `--role` says. Raises Misused for nothing."""
    if not role:
        raise Misused("--role is empty: say who, by the name of a user, such as ada.")
    return role


_role = click.option("--role", required=True, callback=_named_role, help="Who.")
_role_short = click.option("-r", "--role", required=True, callback=_named_role, help="Who.")


# -- namespaces


@namespace_verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces permissions shop/eu")
@namespace_argument
@common
@pass_options
def permissions(options: Options, namespace: str) -> None:
    """By role, what it may do in all topics of NAMESPACE."""
    options.show_map(options.client().get(f"namespaces/{namespace_path(namespace)}/permissions"))


@namespace_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin namespaces grant-permission shop/eu --role ada --actions produce,consume"
    f"\n\n{COUNTS}"
)
@namespace_argument
@_role
@click.option("--actions", required=True, metavar="LIST", help=_ACTIONS)
@common
@pass_options
def grant_permission(options: Options, namespace: str, role: str, actions: str) -> None:
    """Say what a role may do in all topics of NAMESPACE, instead of what it might before."""
    said = _list(actions, "action")
    options.client().post(f"namespaces/{namespace_path(namespace)}/permissions/{segment(role)}", said)
    options.told(
        f"{role} may {', '.join(said)} in {namespace}. {COUNTS}",
        action="granted", namespace=namespace, role=role, actions=said,
    )  # fmt: skip


@namespace_verbs.command(
    epilog=f"\b\nExample:\n  magnetar-admin namespaces revoke-permission shop/eu --role ada\n\n{COUNTS}"
)
@namespace_argument
@_role
@common
@pass_options
def revoke_permission(options: Options, namespace: str, role: str) -> None:
    """Take back what a role may do in all topics of NAMESPACE."""
    options.client().delete(f"namespaces/{namespace_path(namespace)}/permissions/{segment(role)}")
    options.told(
        f"{namespace} allows {role} nothing. {COUNTS}", action="revoked", namespace=namespace, role=role
    )


@namespace_verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces acls shop/eu")
@namespace_argument
@common
@pass_options
def acls(options: Options, namespace: str) -> None:
    """All ACLs of NAMESPACE: what permissions show, and what they have no words for. Kafka's kafka-acls makes and
    removes them.
    """
    found = options.client().get(f"magnetar/acls/{namespace_path(namespace)}")
    if options.output == "json":
        options.show(found)
        return
    lines = [
        [row["permission"], row["principal"], row["host"], row["operation"], row["resource"], _named(row)]
        for row in found
    ]
    click.echo(columns(["permission", "principal", "host", "operation", "resource", "name"], lines))


def _named(row: dict[str, str]) -> str:
    return f"{row['name']}... (prefix)" if row["pattern"] == "PREFIXED" else row["name"]


@namespace_verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces subscription-permission shop/eu")
@namespace_argument
@common
@pass_options
def subscription_permission(options: Options, namespace: str) -> None:
    """By subscription, the roles that may use it in NAMESPACE."""
    path = f"namespaces/{namespace_path(namespace)}/permissions/subscription"
    options.show_map(options.client().get(path))


@namespace_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin namespaces grant-subscription-permission shop/eu -s billing -rs ada,bob"
    f"\n\n{COUNTS}"
)
@namespace_argument
@click.option("-s", "--subscription", required=True, metavar="NAME", help="The subscription: a group id.")
@click.option("-rs", "--roles", required=True, metavar="LIST", help="Who, with commas; nobody else.")
@common
@pass_options
def grant_subscription_permission(options: Options, namespace: str, subscription: str, roles: str) -> None:
    """Say which roles may use a subscription in NAMESPACE."""
    said = _list(roles, "role")
    path = f"namespaces/{namespace_path(namespace)}/permissions/subscription/{segment(subscription)}"
    options.client().post(path, said)
    options.told(
        f"{', '.join(said)} may use {subscription} in {namespace}. {COUNTS}",
        action="granted", namespace=namespace, subscription=subscription, roles=said,
    )  # fmt: skip


@namespace_verbs.command(
    epilog="\b\nExample:\n  magnetar-admin namespaces revoke-subscription-permission shop/eu -s billing -r ada"
    f"\n\n{COUNTS}"
)
@namespace_argument
@click.option("-s", "--subscription", required=True, metavar="NAME", help="The subscription: a group id.")
@_role_short
@common
@pass_options
def revoke_subscription_permission(options: Options, namespace: str, subscription: str, role: str) -> None:
    """Take a subscription in NAMESPACE from a role. When no role is left, all may use it."""
    path = f"namespaces/{namespace_path(namespace)}/permissions/{segment(subscription)}/{segment(role)}"
    options.client().delete(path)
    options.told(
        f"{subscription} in {namespace} is not for {role}. {COUNTS}",
        action="revoked", namespace=namespace, subscription=subscription, role=role,
    )  # fmt: skip


# -- topics


@topic_verbs.command("permissions", epilog="\b\nExample:\n  magnetar-admin topics permissions orders")
@topic_argument
@common
@pass_options
def of_topic(options: Options, topic: str) -> None:
    """By role, what it may do with TOPIC: what its namespace allows, and what the topic adds."""
    options.show_map(options.client().get(f"{topic_path(topic)}/permissions"))


@topic_verbs.command(
    "grant-permission",
    epilog=f"\b\nExample:\n  magnetar-admin topics grant-permission orders -r ada -a produce\n\n{COUNTS}",
)
@topic_argument
@_role_short
@click.option("-a", "--actions", required=True, metavar="LIST", help=_ACTIONS)
@common
@pass_options
def grant_on_topic(options: Options, topic: str, role: str, actions: str) -> None:
    """Say what a role may do with TOPIC beyond what its namespace allows."""
    said = _list(actions, "action")
    options.client().post(f"{topic_path(topic)}/permissions/{segment(role)}", said)
    options.told(
        f"{role} may {', '.join(said)} on {topic}. {COUNTS}",
        action="granted", topic=topic, role=role, actions=said,
    )  # fmt: skip


@topic_verbs.command(
    "revoke-permission",
    epilog=f"\b\nExample:\n  magnetar-admin topics revoke-permission orders -r ada\n\n{COUNTS}",
)
@topic_argument
@_role_short
@common
@pass_options
def revoke_on_topic(options: Options, topic: str, role: str) -> None:
    """Take back what TOPIC itself allows a role."""
    options.client().delete(f"{topic_path(topic)}/permissions/{segment(role)}")
    options.told(f"{topic} itself allows {role} nothing. {COUNTS}", action="revoked", topic=topic, role=role)


def add_to(topics: click.Group, namespaces: click.Group) -> None:
    """Both have their verbs."""
    for name, command in topic_verbs.commands.items():
        topics.add_command(command, name)
    for name, command in namespace_verbs.commands.items():
        namespaces.add_command(command, name)
