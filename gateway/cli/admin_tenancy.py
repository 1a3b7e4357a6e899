"""`magnetar-admin tenants` and `magnetar-admin namespaces`: the places that topics are in."""

from __future__ import annotations

import click

from gateway.cli.admin_client import namespace_path, pair, pairs, segment, tenant_path
from gateway.cli.admin_options import HELP, Noun, Options, common, pass_options

tenant_argument = click.argument("tenant")
namespace_argument = click.argument("namespace")


def _list(text: str | None) -> list[str] | None:
    """`a,b` as a list; None where nothing is said."""
    return None if text is None else [each.strip() for each in text.split(",") if each.strip()]


# -- tenants


@click.group(cls=Noun, context_settings=HELP)
def tenants() -> None:
    """Tenants: what namespaces belong to."""


@tenants.command("list", epilog="\b\nExample:\n  magnetar-admin tenants list")
@common
@pass_options
def list_tenants(options: Options) -> None:
    """Names of the tenants."""
    options.show(options.client().get("tenants"), "tenant")


@tenants.command("get", epilog="\b\nExample:\n  magnetar-admin tenants get shop")
@tenant_argument
@common
@pass_options
def get_tenant(options: Options, tenant: str) -> None:
    """The roles that may administer TENANT, and the clusters it may use."""
    options.show(options.client().get(f"tenants/{tenant_path(tenant)}"))


_roles = click.option(
    "-r", "--admin-roles", metavar="LIST", help="Users that may do everything in it, with commas."
)
_clusters = click.option(
    "-c", "--allowed-clusters", metavar="LIST", help="Clusters, with commas; all of them."
)


@tenants.command("create", epilog="\b\nExample:\n  magnetar-admin tenants create shop")
@tenant_argument
@_roles
@_clusters
@common
@pass_options
def create_tenant(
    options: Options, tenant: str, admin_roles: str | None, allowed_clusters: str | None
) -> None:
    """Make TENANT. Its name has letters, digits, '_' and '-'."""
    body = {"adminRoles": _list(admin_roles), "allowedClusters": _list(allowed_clusters)}
    options.client().put(f"tenants/{tenant_path(tenant)}", body)
    options.told(f"Created tenant {tenant}.", action="created", tenant=tenant)


@tenants.command("update", epilog="\b\nExample:\n  magnetar-admin tenants update shop --admin-roles ada,bob")
@tenant_argument
@_roles
@_clusters
@common
@pass_options
def update_tenant(
    options: Options, tenant: str, admin_roles: str | None, allowed_clusters: str | None
) -> None:
    """Change TENANT. What is not said stays."""
    body = {"adminRoles": _list(admin_roles), "allowedClusters": _list(allowed_clusters)}
    options.client().post(f"tenants/{tenant_path(tenant)}", body)
    options.told(f"Updated tenant {tenant}.", action="updated", tenant=tenant)


@tenants.command(
    "delete",
    epilog="\b\nExample:\n  magnetar-admin tenants delete shop\n\nWith --force stop its clients before, as --help of "
    "`namespaces delete` says.",
)
@tenant_argument
@click.option("-f", "--force", is_flag=True, help="With its namespaces, and with all of their topics.")
@common
@pass_options
def delete_tenant(options: Options, tenant: str, force: bool) -> None:
    """Delete TENANT, which has no namespaces any more."""
    options.client().delete(f"tenants/{tenant_path(tenant)}", force=force)
    options.told(f"Deleted tenant {tenant}.", action="deleted", tenant=tenant)


# -- namespaces


@click.group(cls=Noun, context_settings=HELP)
def namespaces() -> None:
    """Namespaces: what topics are in. Kafka clients call topics of public/default by their bare names, and those of
    others tenant.namespace.topic.
    """


@namespaces.command("list", epilog="\b\nExample:\n  magnetar-admin namespaces list shop")
@click.argument("tenant", default="public")
@common
@pass_options
def list_namespaces(options: Options, tenant: str) -> None:
    """Namespaces of TENANT (public)."""
    options.show(options.client().get(f"namespaces/{tenant_path(tenant)}"), "namespace")


@namespaces.command("topics", epilog="\b\nExample:\n  magnetar-admin namespaces topics shop/eu")
@click.argument("namespace", default="public/default")
@click.option(
    "-m", "--mode", type=click.Choice(["PERSISTENT", "NON_PERSISTENT", "ALL"]), help="Only this domain."
)
@click.option("-ist", "--include-system-topic", is_flag=True, help="List the gateway's own topics, too.")
@common
@pass_options
def namespace_topics(options: Options, namespace: str, mode: str | None, include_system_topic: bool) -> None:
    """List topics of NAMESPACE (public/default), partitions one by one."""
    query: dict[str, str | bool] = {"includeSystemTopic": include_system_topic}
    if mode:
        query["mode"] = mode
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/topics", **query), "topic")


@namespaces.command("create", epilog="\b\nExample:\n  magnetar-admin namespaces create shop/eu")
@namespace_argument
@click.option("-c", "--clusters", metavar="LIST", help="Clusters it is on, with commas; all of them.")
@click.option("-b", "--bundles", type=int, help="Taken and ignored: one bundle holds all.")
@common
@pass_options
def create_namespace(options: Options, namespace: str, clusters: str | None, bundles: int | None) -> None:
    """Make NAMESPACE, written tenant/namespace; its tenant is there."""
    body = None if clusters is None else {"replication_clusters": _list(clusters)}
    options.client().put(f"namespaces/{namespace_path(namespace)}", body)
    dotted = namespace.replace("/", ".")
    options.told(
        f"Created namespace {namespace}. Kafka clients call its topics {dotted}.<topic>.",
        action="created",
        namespace=namespace,
    )


_GO_ON = (
    "With --force stop its clients before: one that goes on to publish to shop.eu.fruit has a topic of that name made "
    "in public/default (auto.create.topics.enable), and while that is there the namespace cannot be made again."
)


@namespaces.command("delete", epilog=f"\b\nExample:\n  magnetar-admin namespaces delete shop/eu\n\n{_GO_ON}")
@namespace_argument
@click.option("-f", "--force", is_flag=True, help="With all of its topics, also while clients are connected.")
@common
@pass_options
def delete_namespace(options: Options, namespace: str, force: bool) -> None:
    """Delete NAMESPACE, which has no topics any more."""
    options.client().delete(f"namespaces/{namespace_path(namespace)}", force=force)
    options.told(f"Deleted namespace {namespace}.", action="deleted", namespace=namespace)


@namespaces.command("policies", epilog="\b\nExample:\n  magnetar-admin namespaces policies shop/eu")
@namespace_argument
@common
@pass_options
def policies(options: Options, namespace: str) -> None:
    """Everything that is set for NAMESPACE."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}"))


@namespaces.command("bundles", epilog="\b\nExample:\n  magnetar-admin namespaces bundles shop/eu")
@namespace_argument
@common
@pass_options
def bundles(options: Options, namespace: str) -> None:
    """The bundles of NAMESPACE: always one, which holds all."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/bundles"))


@namespaces.command("get-clusters", epilog="\b\nExample:\n  magnetar-admin namespaces get-clusters shop/eu")
@namespace_argument
@common
@pass_options
def get_clusters(options: Options, namespace: str) -> None:
    """The clusters that NAMESPACE is on."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/replication"), "cluster")


@namespaces.command(
    "set-clusters", epilog="\b\nExample:\n  magnetar-admin namespaces set-clusters shop/eu -c standalone"
)
@namespace_argument
@click.option("-c", "--clusters", metavar="LIST", required=True, help="Clusters, with commas.")
@common
@pass_options
def set_clusters(options: Options, namespace: str, clusters: str) -> None:
    """Say which clusters NAMESPACE is on. There is one, so nothing is copied anywhere."""
    options.client().post(f"namespaces/{namespace_path(namespace)}/replication", _list(clusters))
    options.told(
        f"{namespace} is on {clusters}.", action="set", namespace=namespace, clusters=_list(clusters)
    )


@namespaces.command(
    "get-properties", epilog="\b\nExample:\n  magnetar-admin namespaces get-properties shop/eu"
)
@namespace_argument
@common
@pass_options
def get_properties(options: Options, namespace: str) -> None:
    """What somebody has kept with NAMESPACE."""
    options.show_map(options.client().get(f"namespaces/{namespace_path(namespace)}/properties"))


@namespaces.command(
    "set-properties",
    epilog="\b\nExample:\n  magnetar-admin namespaces set-properties shop/eu -p team=checkout",
)
@namespace_argument
@click.option(
    "-p", "--properties", multiple=True, required=True, metavar="KEY=VALUE", help="One; repeatable."
)
@common
@pass_options
def set_properties(options: Options, namespace: str, properties: tuple[str, ...]) -> None:
    """Keep properties with NAMESPACE, beside those there are."""
    said = pairs(tuple(each for given in properties for each in given.split(",")))
    options.client().put(f"namespaces/{namespace_path(namespace)}/properties", said)
    options.told(
        f"Kept with {namespace}: {', '.join(said)}.", action="set", namespace=namespace, properties=said
    )


@namespaces.command(
    "clear-properties", epilog="\b\nExample:\n  magnetar-admin namespaces clear-properties shop/eu"
)
@namespace_argument
@common
@pass_options
def clear_properties(options: Options, namespace: str) -> None:
    """Keep nothing with NAMESPACE any more."""
    options.client().delete(f"namespaces/{namespace_path(namespace)}/properties")
    options.told(f"Nothing is kept with {namespace}.", action="cleared", namespace=namespace)


_key = click.option("-k", "--key", required=True, help="The property's name.")


@namespaces.command(
    "get-property", epilog="\b\nExample:\n  magnetar-admin namespaces get-property shop/eu -k team"
)
@namespace_argument
@_key
@common
@pass_options
def get_property(options: Options, namespace: str, key: str) -> None:
    """One property of NAMESPACE."""
    options.show(options.client().get(f"namespaces/{namespace_path(namespace)}/property/{segment(key)}"))


@namespaces.command(
    "set-property",
    epilog="\b\nExample:\n  magnetar-admin namespaces set-property shop/eu -k team -v checkout",
)
@namespace_argument
@_key
@click.option("-v", "--value", required=True, help="Its value.")
@common
@pass_options
def set_property(options: Options, namespace: str, key: str, value: str) -> None:
    """Keep one property with NAMESPACE."""
    pair(f"{key}={value}", "property")
    path = f"namespaces/{namespace_path(namespace)}/property/{segment(key)}/{segment(value)}"
    options.client().put(path)
    options.told(f"Kept with {namespace}: {key}.", action="set", namespace=namespace, properties={key: value})


@namespaces.command(
    "remove-property", epilog="\b\nExample:\n  magnetar-admin namespaces remove-property shop/eu -k team"
)
@namespace_argument
@_key
@common
@pass_options
def remove_property(options: Options, namespace: str, key: str) -> None:
    """Keep a property with NAMESPACE no longer, and tell what it was."""
    was = options.client().delete(f"namespaces/{namespace_path(namespace)}/property/{segment(key)}")
    options.show(was)
