"""`magnetar-admin namespaces`, the verbs of what is kept and has no effect on one node without users."""

from __future__ import annotations

import click

from gateway.cli.admin_client import namespace_path, segment
from gateway.cli.admin_options import Options, common, pass_options
from gateway.cli.admin_permissions import COUNTS
from gateway.cli.admin_tenancy import namespace_argument, namespace_topics

verbs = click.Group("kept")

_ALONE = "It is kept, and has no effect while one gateway serves all namespaces."


@verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces get-allowed-clusters shop/eu")
@namespace_argument
@common
@pass_options
def get_allowed_clusters(options: Options, namespace: str) -> None:
    """The clusters that NAMESPACE may be on; nothing said is all of them."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/allowedClusters"), "cluster")


@verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces set-allowed-clusters shop/eu -c standalone")
@namespace_argument
@click.option("-c", "--clusters", required=True, metavar="LIST", help="Clusters, with commas.")
@common
@pass_options
def set_allowed_clusters(options: Options, namespace: str, clusters: str) -> None:
    """Say which clusters NAMESPACE may be on. There is one, so nothing changes."""
    said = [each.strip() for each in clusters.split(",") if each.strip()]
    options.client().post(f"namespaces/{namespace_path(namespace)}/allowedClusters", said)
    options.told(
        f"{namespace} may be on {', '.join(said)}. There is one cluster, so nothing changes.",
        action="set", namespace=namespace, clusters=said,
    )  # fmt: skip


@verbs.command(epilog="\b\nExample:\n  magnetar-admin namespaces get-subscription-auth-mode shop/eu")
@namespace_argument
@common
@pass_options
def get_subscription_auth_mode(options: Options, namespace: str) -> None:
    """Whether subscriptions in NAMESPACE must begin with the role that uses them. Nothing checks it yet."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/subscriptionAuthMode"), "mode")


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin namespaces set-subscription-auth-mode shop/eu -m Prefix"
    f"\n\n{COUNTS}"
)
@namespace_argument
@click.option(
    "-m", "--subscription-auth-mode", "mode", type=click.Choice(["None", "Prefix"]), required=True,
    help="Prefix: a subscription's name begins with the role that uses it.",
)  # fmt: skip
@common
@pass_options
def set_subscription_auth_mode(options: Options, namespace: str, mode: str) -> None:
    """Say whether subscriptions in NAMESPACE must begin with the role that uses them."""
    options.client().post(f"namespaces/{namespace_path(namespace)}/subscriptionAuthMode", mode)
    options.told(
        f"The mode of subscriptions in {namespace} is {mode}. {COUNTS}",
        action="set", namespace=namespace, mode=mode,
    )  # fmt: skip


@verbs.command(
    "get-anti-affinity-group",
    epilog="\b\nExample:\n  magnetar-admin namespaces get-anti-affinity-group shop/eu",
)
@namespace_argument
@common
@pass_options
def get_anti_affinity_group(options: Options, namespace: str) -> None:
    """The anti-affinity group of NAMESPACE; null where it has none."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/antiAffinity"), "group")


@verbs.command(
    "set-anti-affinity-group",
    epilog=f"\b\nExample:\n  magnetar-admin namespaces set-anti-affinity-group shop/eu -g halls\n\n{_ALONE}",
)
@namespace_argument
@click.option("-g", "--group", required=True, help="Its namespaces are to be on different brokers.")
@common
@pass_options
def set_anti_affinity_group(options: Options, namespace: str, group: str) -> None:
    """Put NAMESPACE into a group of namespaces that are to be on different brokers."""
    options.client().post(f"namespaces/{namespace_path(namespace)}/antiAffinity", group)
    options.told(
        f"{namespace} is in the anti-affinity group {group}. {_ALONE}",
        action="set", namespace=namespace, group=group,
    )  # fmt: skip


@verbs.command(
    "delete-anti-affinity-group",
    epilog="\b\nExample:\n  magnetar-admin namespaces delete-anti-affinity-group shop/eu",
)
@namespace_argument
@common
@pass_options
def delete_anti_affinity_group(options: Options, namespace: str) -> None:
    """Take NAMESPACE out of its anti-affinity group."""
    options.client().delete(f"namespaces/{namespace_path(namespace)}/antiAffinity")
    options.told(f"{namespace} is in no anti-affinity group.", action="removed", namespace=namespace)


@verbs.command(
    epilog="\b\nExample:\n  magnetar-admin namespaces get-anti-affinity-namespaces -p shop -c standalone -g halls"
)
@click.option("-p", "--tenant", help="Only namespaces of this tenant.")
@click.option("-c", "--cluster", required=True, help="The cluster: standalone.")
@click.option("-g", "--group", required=True, help="The group.")
@common
@pass_options
def get_anti_affinity_namespaces(options: Options, tenant: str | None, cluster: str, group: str) -> None:
    """The namespaces of an anti-affinity group."""
    query: dict[str, str | bool] = {"property": tenant} if tenant else {}
    path = f"namespaces/{segment(cluster)}/antiAffinity/{segment(group)}"
    options.show(options.client().get(path, **query), "namespace")


def add_to(namespaces: click.Group) -> None:
    """Give `namespaces` these verbs, and the old name of `topics`, which pulsar-admin still takes."""
    for name, command in verbs.commands.items():
        namespaces.add_command(command, name)
    old = click.Command(
        "destinations",
        params=namespace_topics.params,
        callback=namespace_topics.callback,
        help="The old name of topics.",
        hidden=True,
    )
    namespaces.add_command(old)
